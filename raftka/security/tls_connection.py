"""TLS on one connection, sans-IO: a `Connection` towards the network, and the `Transport` of the
connection that it protects. Knows no Kafka.

What comes is decrypted straight to where the inner connection wants it; what leaves is encrypted a
piece at a time, as the network takes it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto
from ssl import MemoryBIO, SSLContext, SSLError, SSLWantReadError, SSLZeroReturnError
from typing import NamedTuple

from raftka.limits import LOGIN_BYTES
from raftka.runtime.interfaces import Buffer, Connection, FileSpan, Transport, unpin

HANDSHAKE_BYTES = 16 * 1024  # read at once before the handshake is over
FEED_BYTES = 64 * 1024  # that OpenSSL holds encrypted
PIECE_BYTES = 64 * 1024  # encrypted in one go: fewer calls, and OpenSSL's buffer stays small
TURN_BYTES = 256 * 1024  # encrypted of one connection in a turn, before others have theirs

Later = Callable[[Callable[[], None]], object]  # run it in a turn of its own


def at_once(action: Callable[[], None]) -> None:
    """For a connection that has no turns."""
    action()


class Side(NamedTuple):
    """The differences between the two ends of a connection."""

    hostname: str | None  # of the server, that a client asks for; None: this is the server
    # the handshake is over. Raises RefusedByName
    established: Callable[["TlsConnection"], None] = lambda tls: None
    failed: Callable[["TlsConnection", str], None] = lambda tls, reason: None
    step: Later = at_once  # runs a step of a handshake: a millisecond of CPU


class RefusedByName(Exception):
    """The peer's certificate is valid, and names nobody who may come in."""


class Incoming(Enum):
    """The bytes that the other side sends."""

    OPEN = auto()
    GOODBYE = auto()  # TLS's close_notify has come; records before it are not all decrypted
    ENDED = auto()  # the inner connection knows that no more will come


OPEN, GOODBYE, ENDED = Incoming


class TlsConnection:
    __slots__ = (
        "_closing",
        "_come",
        "_established",
        "_in",
        "_incoming",
        "_later",
        "_out",
        "_over",
        "_plain",
        "_side",
        "_stepping",
        "_tls",
        "_transport",
        "inner",
        "peer",
    )

    def __init__(self, inner: Connection, context: SSLContext, side: Side, later: Later) -> None:
        self.inner = inner
        self.peer = ""
        self._side = side
        self._later = later
        self._in, self._out = MemoryBIO(), MemoryBIO()
        self._tls = context.wrap_bio(
            self._in, self._out, server_side=side.hostname is None, server_hostname=side.hostname
        )
        self._transport: Transport | None = None
        # taken from the inner connection, not encrypted yet
        self._plain: deque[Buffer | FileSpan] = deque()
        self._come = 0  # bytes, during the handshake
        self._established = False
        self._stepping = False  # a step of the handshake will run
        self._incoming = OPEN
        self._over = False  # the handshake or a record was wrong, or all has been sent
        self._closing: str | None = None

    @property
    def certificate(self) -> bytes | None:
        """The peer's, as DER, when it has shown one that is valid."""
        return self._tls.getpeercert(binary_form=True) if self._established else None

    # the network's side

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        self.peer = transport.peer
        self.inner.opened(self)
        if self._side.hostname is not None:
            self._shake()

    def room(self) -> memoryview | None:
        """A small one during the handshake: what comes behind it waits in the kernel. Later a place
        of the network's.
        """
        return None if self._established else memoryview(bytearray(HANDSHAKE_BYTES))

    def receive(self, view: memoryview) -> None:
        if self._over:
            return
        if not view:
            if self._established:
                self._end()
            elif self._transport is not None:
                self._transport.close(
                    "the other side has closed the connection during the TLS handshake"
                )
            return
        if not self._established:
            self._come += len(view)
            self._in.write(view)
            self._shake_soon()
            return
        for at in range(0, len(view), FEED_BYTES):
            self._in.write(view[at : at + FEED_BYTES])
            self._decrypt()

    def take_output(self) -> Sequence[Buffer | FileSpan]:
        encrypted = [self._out.read()] if self._out.pending else []
        if not self._established or self._over:
            return encrypted
        plain = self._plain
        if not plain:
            self._take_inner()
        left = TURN_BYTES
        try:
            while plain and left > 0:
                piece = self._next_piece()
                self._tls.write(piece)
                encrypted.append(self._out.read())
                left -= len(piece)
        except SSLError as error:
            self._fail(_reason(error))
            return encrypted
        except (OSError, ValueError) as error:  # its disk has failed, or the file is gone
            self._fail(f"what was to be sent cannot be read: {error}")
            return encrypted
        if not plain and self._closing is not None:
            self._take_inner()  # what it has said since, before it closed
        if plain:
            self._later(self.wake)
        elif self._closing is not None and self._transport is not None:
            encrypted.append(self._goodbye())
            self._over = True
            self._transport.close(self._closing)
        return encrypted

    def closed(self, reason: str) -> None:
        self._over = True
        self._transport = None
        unpin(self._plain)
        self._plain.clear()
        self.inner.closed(reason)

    # the inner connection's side

    def wake(self) -> None:
        if self._transport is not None:
            self._transport.wake()

    def close(self, reason: str) -> None:
        if self._transport is None or self._closing is not None:
            return
        self._closing = reason
        if self._established and not self._over:
            self._transport.wake()
        else:
            self._transport.close(reason)

    def drop(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.drop(reason)

    def hold_reading(self, held: bool) -> None:
        if self._transport is not None:
            self._transport.hold_reading(held)

    def own_host(self) -> str:
        return "" if self._transport is None else self._transport.own_host()

    def left(self) -> bool:
        return self._transport is None or self._transport.left()

    # the handshake

    def _shake_soon(self) -> None:
        if not self._stepping:
            self._stepping = True
            self.hold_reading(True)
            self._side.step(self._shake)

    def _shake(self) -> None:
        """Go on with the handshake, as far as what has come allows."""
        stepping, self._stepping = self._stepping, False
        if self._transport is None or self._over:
            return
        if stepping:
            self._transport.hold_reading(False)
        try:
            self._tls.do_handshake()
        except SSLWantReadError:
            if self._come > LOGIN_BYTES.value:
                self._fail("more bytes than a TLS handshake has")
            else:
                self._transport.wake()
            return
        except SSLError as error:
            self._fail(_reason(error))
            return
        self._established = True
        try:
            self._side.established(self)
        except RefusedByName as error:
            self._fail(str(error))
            return
        except (ValueError, LookupError):
            self._fail("what the certificate says cannot be read")
            return
        self._transport.wake()
        self._decrypt()

    def _fail(self, reason: str) -> None:
        """End with an error; OpenSSL's alert leaves first."""
        self._over = True
        self._side.failed(self, reason)
        if self._transport is not None:
            self._transport.wake()
            self._transport.close(f"TLS: {reason}")

    def _end(self) -> None:
        """The other side sends no more: it has said so, or closed its side; some clients wait until
        we have said so too.
        """
        if self._incoming is not ENDED and not self._over:
            self._incoming = ENDED
            self.inner.receive(memoryview(b""))

    # bytes

    def _decrypt(self) -> None:
        """Hand over what is whole: as many records at once as the inner connection has room for."""
        more = True
        while more and not self._over:
            room = self.inner.room()
            if room is None:
                if not (pending := self._in.pending + self._tls.pending()):
                    break
                room = memoryview(bytearray(pending))
            filled, more = self._fill(room)
            if filled:
                self.inner.receive(room[:filled])
        if self._incoming is GOODBYE:
            self._end()
        if self._out.pending:
            self.wake()

    def _fill(self, room: memoryview) -> tuple[int, bool]:
        """Bytes put there, and whether there may be more."""
        filled, size = 0, len(room)
        try:
            while filled < size:
                # typeshed knows one form only
                count: int = self._tls.read(size - filled, room[filled:])  # type: ignore[assignment]
                if not count:
                    if self._incoming is OPEN:
                        self._incoming = GOODBYE
                    return filled, False
                filled += count
        except SSLWantReadError:
            return filled, False
        except SSLZeroReturnError:
            if self._incoming is OPEN:
                self._incoming = GOODBYE
            return filled, False
        except SSLError as error:
            self._fail(_reason(error))
            return 0, False
        return filled, True

    def _take_inner(self) -> None:
        self._plain.extend(self.inner.take_output())

    def _next_piece(self) -> Buffer:
        """From the front: a part of a file or of a long buffer, or short buffers as one. Raises
        OSError, ValueError.
        """
        plain = self._plain
        first = plain.popleft()
        if isinstance(first, FileSpan):
            return self._read(first)
        if len(first) > PIECE_BYTES:
            view = memoryview(first)
            plain.appendleft(view[PIECE_BYTES:])
            return view[:PIECE_BYTES]
        parts, size = [first], len(first)
        while (
            plain
            and not isinstance(following := plain[0], FileSpan)
            and size + len(following) <= PIECE_BYTES
        ):
            plain.popleft()
            parts.append(following)
            size += len(following)
        return b"".join(parts) if len(parts) > 1 else first

    def _read(self, span: FileSpan) -> bytes:
        size = min(span.size, PIECE_BYTES)
        left = span.size - size
        if left:
            self._plain.appendleft(FileSpan(span.file, span.position + size, left))
        try:
            data = span.file.read(span.position, size)
        finally:
            if not left:
                span.file.unpin()
        if len(data) < size:
            raise OSError("file shorter than promised")
        return data

    def _goodbye(self) -> bytes:
        """Tell the other side that nothing was cut off."""
        try:
            self._tls.unwrap()
        except (SSLError, OSError):  # it has not said so yet, and need not
            pass
        return self._out.read()


def _reason(error: SSLError) -> str:
    """As OpenSSL names it; what the peer has sent is not in it."""
    told = getattr(error, "verify_message", "")
    reason = (error.reason or "the connection failed").replace("_", " ").lower()
    return f"{reason}: {told}" if told else reason
