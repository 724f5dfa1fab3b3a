"""Bodies that are made while they are sent: events of a watched page, of a search, bytes of a
download. Handlers run in threads; the loop takes what they have made.

A client that reads slowly holds up the work behind its stream, and nothing else.
"""

import threading
from collections.abc import Callable, Iterator

import trio

from raftka.http.messages import BodyFailed
from raftka.limits import Limit

HEARTBEAT = b":\n\n"


class Handoff:
    """A body between the loop, which takes it, and a thread or a task, which makes it."""

    def __init__(self, stopped: Callable[[], None], limit: Limit) -> None:
        """`stopped`: called on the loop's thread when no more is taken. `limit`: of the bytes that
        the client has not taken.
        """
        self._limit = limit
        self._token = trio.lowlevel.current_trio_token()
        self._changed = threading.Condition()
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._end: Exception | None = None  # EOFError: the body is whole
        self._ready: Callable[[], None] | None = None
        self._stopped = stopped
        self.is_gone = False  # no more is taken
        # for tasks of the loop
        self.gone = trio.Event()
        self.taken = trio.Event()  # all that was put has left, or is gone

    # the maker's side, in any thread

    def put(self, piece: bytes) -> bool:
        """Wait until there is room for a piece. Return False when no more is taken. Blocks."""
        with self._changed:
            while self._held_bytes >= self._limit.value and not self.is_gone:
                self._changed.wait()
            return self._put(piece)

    def put_now(self, piece: bytes) -> None:
        """Put a piece on the loop's thread, without a wait: `taken` says when it has been taken."""
        with self._changed:
            if not self.is_gone:  # then `taken` is set, and stays so
                self.taken = trio.Event()
                self._put(piece)

    def _put(self, piece: bytes) -> bool:
        if not self.is_gone and piece:
            was_empty = not self._pieces
            self._pieces.append(piece)
            self._held_bytes += len(piece)
            if was_empty:
                self._tell()
        return not self.is_gone

    def end(self, error: Exception | None = None) -> None:
        """The body is whole; with an error it is cut, so that the client notices."""
        with self._changed:
            if self._end is None:
                self._end = EOFError() if error is None else error
                self._tell()

    def abandon(self) -> None:
        """Let the maker go on, and end."""
        with self._changed:
            self.is_gone = True
            self._pieces, self._held_bytes = [], 0
            self._changed.notify_all()

    def _tell(self) -> None:
        try:
            self._token.run_sync_soon(self._on_change)
        except trio.RunFinishedError:
            self.is_gone = True

    # the loop's side

    def _on_change(self) -> None:
        if self._ready is not None:
            self._ready()

    def start(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        ready()

    def take(self) -> bytes | None:
        with self._changed:
            pieces, self._pieces = self._pieces, []
            self._held_bytes = 0
            end = self._end
            self._changed.notify_all()
        if pieces:
            if end is not None and self._ready is not None:
                self._token.run_sync_soon(self._on_change)  # the end is told by itself
            return b"".join(pieces)
        self.taken.set()
        if end is None:
            return b""
        if isinstance(end, EOFError):
            return None
        raise BodyFailed(str(end))

    def stop(self) -> None:
        self.abandon()
        self.gone.set()
        self.taken.set()
        self._stopped()


def event(name: str, data: bytes) -> bytes:
    """Return one event; `data` is JSON without line ends. `name`: empty for a message."""
    head = f"event: {name}\n" if name else ""
    return b"%bdata: %b\n\n" % (head.encode(), data)


def pump(pieces: Iterator[bytes], handoff: Handoff, failed: Callable[[Exception], object]) -> None:
    """Hand over a body piece by piece until it is whole, or no more is taken; close `pieces`.
    `failed`: called with the error that ended it early. Blocks.
    """
    try:
        for piece in pieces:
            if not handoff.put(piece):
                break
    except Exception as error:
        failed(error)
        handoff.end(error)
    finally:
        close_all(pieces)
        handoff.end()


def close_all(iterator: Iterator[object]) -> None:
    """Close a generator; other iterators have nothing to close."""
    close = getattr(iterator, "close", None)
    if close is not None:
        close()
