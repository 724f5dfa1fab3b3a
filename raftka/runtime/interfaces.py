"""The interfaces through which a node uses the outside: time, randomness, network, files, threads.
Knows no Kafka and no Trio.

Everything is callbacks on one thread. A *turn* is one round of the loop: all bytes that have come
are handed to their connections, then the actions asked for by `at_turn_end` run, then output
leaves. So what many requests of one turn cause is written once and sent once.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Protocol, TypeVar

SECRETS = "secrets"  # the random stream that nobody can predict from its earlier numbers
LONG_PIECE_S = 0.1  # of a turn: what takes longer is told with its name

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None:
        """Keep the timer from running; cancelling twice, or after it ran, does nothing."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on this node's monotonic clock."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""

    def cpu_s(self) -> float:
        """Seconds of CPU time that the loop's thread has used: what other processes take of the
        machine does not count.
        """

    def call_at(self, when: float, action: Callable[[], None]) -> Timer:
        """Run `action` once, at `when` on this clock (seconds) or soon after."""

    def at_turn_end(self, action: Callable[[], None]) -> None:
        """Run `action` once, when everything that came in this turn has been handled and before
        output leaves.
        """


class Transport(Protocol):
    """The network's half of a connection."""

    peer: str  # host:port of the other side

    def own_host(self) -> str:
        """Return the address at which the other side has reached this one. Costs a syscall."""

    def wake(self) -> None:
        """There is output to take."""

    def close(self, reason: str) -> None:
        """Close after what was taken is sent; `closed(reason)` follows."""

    def drop(self, reason: str) -> None:
        """Close whatever has not left, also when `close` was called before; `closed(reason)`
        follows.
        """

    def hold_reading(self, held: bool) -> None:
        """Stop or resume taking bytes from the other side."""

    def left(self) -> bool:
        """Return whether the peer has closed, or sends no more than is on its way; to be asked
        while reading is held. Costs a syscall.
        """


class Connection(Protocol):
    """The node's half: sans-IO, the network drives it."""

    def opened(self, transport: Transport) -> None: ...

    def room(self) -> memoryview | None:
        """Return the place for the next bytes, if it matters (a large frame has begun); `receive`
        then gets a view of it. A network may ignore it.
        """

    def receive(self, view: memoryview) -> None:
        """Bytes that came. The view is writable, the callee's to change, and valid until the end of
        this turn, no longer.

        An empty view: the other side will send no more, but still takes answers; closing is up to
        the connection.
        """

    def take_output(self) -> "Sequence[Buffer | FileSpan]":
        """Everything that is ready to be sent, in order; asked for only when what was taken before
        has left.

        Pieces of files are pinned: the caller unpins each when it has left, or will not.
        """

    def closed(self, reason: str) -> None:
        """No byte comes or goes any more. Called exactly once, also when connecting failed."""


class Listener(Protocol):
    port: int

    def close(self) -> None: ...


class Network(Protocol):
    def listen(
        self, host: str, port: int, accept: Callable[[], Connection | None], *, first: bool = False
    ) -> Listener:
        """Port 0 picks a free one. `accept` may refuse by returning None. Raises OSError.

        `first`: when this process dies, the other sides of these connections are to notice before
        those of other listeners do.
        """

    def connect(self, host: str, port: int, connection: Connection) -> None:
        """`opened` or `closed` of the connection follows in a later turn, some three seconds later
        where nobody answers.
        """

    def address_towards(self, host: str, port: int) -> str | None:
        """Return this machine's address on the way to that one; None when its name is not known, or
        there is no way. Sends nothing, but may wait for the resolver: for the start of a node.
        """


class File(Protocol):
    path: str

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all at the end, in order; raises OSError, then some of it may have been written."""

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`; fewer at the end of the file."""

    def write(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Reserve room on the disk for a file of that size; it grows as before. `truncate` gives
        unused room back. Without support: nothing.
        """

    def size(self) -> int: ...

    def modified_ms(self) -> int:
        """The wall clock of the last write, in milliseconds. The time outlives the process."""

    def set_modified(self, wall_ms: int) -> None:
        """Make it that time, until the next write."""

    def sync(self) -> None:
        """fdatasync on the caller's own time: start-up and small metadata only, the data path has
        `Files.flush`.
        """

    def close(self) -> None: ...

    @property
    def is_shared(self) -> bool:
        """Return whether a client could get bytes that are written over it: a part of it is on its
        way, or a socket has its pages.
        """

    @property
    def is_linked(self) -> bool:
        """Return whether the file has, or may have, another name: it must not be written over."""

    def pin(self) -> None:
        """Keep it readable until `unpin`, also when it is closed meanwhile: a part of it is on its
        way to a client.
        """

    def unpin(self) -> None: ...


@dataclass(slots=True)
class FileSpan:
    """A piece of a file as output: a large one leaves by sendfile where the connection is plain."""

    file: File
    position: int  # bytes
    size: int  # bytes


def pin(items: "Iterable[Buffer | FileSpan]") -> None:
    """Keep the files of all pieces as they are, also when their segments are deleted meanwhile."""
    for item in items:
        if item.__class__ is FileSpan:  # isinstance would be a call for each
            item.file.pin()


def unpin(items: "Iterable[Buffer | FileSpan]") -> None:
    for item in items:
        if item.__class__ is FileSpan:
            item.file.unpin()


class Files(Protocol):
    """Paths are strings with '/'. Everything raises OSError as the real thing would."""

    def open(self, path: str, *, create: bool = False, over: bool = False) -> File:
        """For reading and writing. With `create` a missing file is made; its name is durable after
        `sync_directory`.

        `over`: the file counts as empty, and appends write over its old bytes. Each is followed by
        zeros (runtime/reused.py), and these may be followed by old bytes, which `truncate` cuts
        off. Whoever opens it after the death of this process finds them in it.
        """

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> Sequence[str]:
        """Names in the directory, sorted."""

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        """With its parents. Not `durable`: its name is so after a flush of the directory it is
        in.
        """

    def read(self, path: str) -> bytes:
        """The whole file."""

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that it is on: all of them, and those that can still be written."""

    def replace(self, path: str, data: Buffer) -> None:
        """The whole content, atomically and durably: temporary file, fsync, rename, fsync of the
        directory.
        """

    def link(self, old: str, new: str) -> None:
        """Give a file another name; durable after `sync_directory` of the name's directory."""

    def rename(self, old: str, new: str) -> None:
        """Atomic; durable after `sync_directory`."""

    def sync_directory(self, path: str) -> None:
        """The names in it; the content of a file that is not open."""

    def remove(self, path: str) -> None:
        """A file or a whole tree. The name is gone at once, the blocks are freed in the
        background.
        """

    def discard(self, file: File) -> None:
        """Close a file whose name is gone, off the loop: its blocks are freed with its last
        descriptor, which takes milliseconds.
        """

    def lock(self, path: str) -> Callable[[], None]:
        """Take the lock file, or raise BlockingIOError if another process (or node) has it; returns
        what releases it.
        """

    def flush(self, files: "Sequence[File | str]", done: Callable[[OSError | None], None]) -> None:
        """fdatasync all of them off the loop, then call `done` in a later turn, with the first
        error if there was one.

        A string is the path of a file that is not open, or of a directory: the names in it. One
        that is not there any more is passed over.
        """


class Offload(Protocol):
    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """`work` off the loop (it may touch nothing that the loop does), then `done` with its
        result or its exception.
        """

    def run_in_process(
        self,
        work: Callable[..., Iterator[T]],
        arguments: Sequence[object],
        each: Callable[[T], None],
        done: Callable[[BaseException | None], None],
        bytes_per_s: float = inf,
    ) -> Callable[[], None]:
        """Run a long computation in a process of its own: `work(files, *arguments)`, a function of
        a module, with plain values both ways.

        `each` gets what it yields, then `done` the OSError or other exception that ended it, or
        None. Reads and appends no more than `bytes_per_s`. Returns what ends it early; then neither
        is called any more.
        """


class TurnWatch(Protocol):
    """Receives the durations of the loop's turns."""

    def turn(self, took_s: float) -> None:
        """A turn was over."""

    def long(self, took_s: float, piece: object) -> None:
        """One piece of a turn took more than LONG_PIECE_S: `piece` is the connection or the action
        that was called.
        """


class Runtime(Protocol):
    """All interfaces together, one object for each node."""

    kind: str  # linux, portable or simulated

    @property
    def clock(self) -> Clock: ...
    @property
    def network(self) -> Network: ...
    @property
    def files(self) -> Files: ...
    @property
    def offload(self) -> Offload: ...
    @property
    def poison(self) -> Callable[[bytearray], None] | None:
        """In a debug run: overwrites a buffer when this turn is over, as the network does with
        received bytes. See memory.py.
        """

    def random(self, stream: str) -> Random:
        """The node's random stream of that name: the same object each time; seeded in the
        simulation. SECRETS: from the operating system.
        """

    def lend(self, data: bytes) -> AbstractContextManager[str]:
        """A path under which a library that reads files only finds `data`: in memory, for this
        process alone, until the context ends.
        """

    def watch_turns(self, watch: TurnWatch) -> None:
        """Tell `watch` of each turn. The simulation has nothing to tell: its turns take no CPU
        time.
        """

    def spawn(self, task: Callable[[], Awaitable[object]], name: str) -> None:
        """Run an async function as a Trio task of this node."""

    def fail(self, error: BaseException) -> None:
        """A core part can not go on: the node stops at once, as if killed."""
