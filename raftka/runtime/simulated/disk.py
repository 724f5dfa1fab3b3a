"""The simulated disk of one machine: what was not flushed may be lost with the power, and every
call can fail as the real one does.

A file keeps, besides its content, how to undo each change since its last flush; a power loss undoes
some of them from the end, and may leave the first undone write half done. A directory does the same
with its names, which `sync_directory` makes durable. Knows no time but how long a flush takes.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from raftka.checksum import crc32c
from raftka.runtime import reused
from raftka.runtime.interfaces import Buffer, File
from raftka.runtime.simulated.clock import EPOCH_MS
from raftka.runtime.simulated.process import Events, Process

SYNC_S = (0.0005, 0.003)  # how long a flush takes
NAME_BYTES = 255  # the longest name of a file
SPACE_BYTES = 1 << 40
ZEROS = 0.2  # of the torn writes: the file's new size was written before its content


def failure(code: int, path: str) -> OSError:
    return OSError(code, errno.errorcode[code], path)


class Change(NamedTuple):
    """One change of a file's content, and how to undo it."""

    position: int
    size: int  # bytes written
    was: bytes  # there
    size_before: int  # of the file
    # what was there, and not on the platter, although the kernel took it for clean
    lost: tuple[tuple[int, int], ...]


class Inode:
    """A file's content, and the changes that are not on the platter."""

    __slots__ = ("changes", "content", "lost", "modified_ms", "synced", "was_linked")

    def __init__(self, content: Buffer = b"", modified_ms: int = EPOCH_MS) -> None:
        self.content = bytearray(content)
        self.modified_ms = modified_ms  # the wall clock of the last write
        self.changes: list[Change] = []
        # changes that have left the list: the mark of a flush is synced + len(changes)
        self.synced = 0
        # [from, to): their flush failed, the kernel took them for clean, no later flush writes them
        self.lost: list[tuple[int, int]] = []
        self.was_linked = False  # it has, or had, two names

    def write(self, position: int, data: Buffer) -> None:
        end = position + len(data)
        lost = self._forget_lost(position, end)
        self.changes.append(
            Change(position, len(data), bytes(self.content[position:end]), len(self.content), lost)
        )
        if position > len(self.content):
            self.content.extend(bytes(position - len(self.content)))
        self.content[position:end] = data

    def truncate(self, size: int) -> None:
        before = len(self.content)
        self.changes.append(
            Change(
                min(size, before),
                0,
                bytes(self.content[size:]),
                before,
                self._forget_lost(size, before),
            )
        )
        if size < before:
            del self.content[size:]
        else:
            self.content.extend(bytes(size - before))

    def _forget_lost(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Those bytes are dirty again, or gone; returns which of them were lost."""
        if not self.lost:
            return ()
        found = tuple([(max(a, start), min(b, end)) for a, b in self.lost if a < end and b > start])
        self.lost = [
            part
            for a, b in self.lost
            for part in ((a, min(b, start)), (max(a, end), b))
            if part[0] < part[1]
        ]
        return found

    def mark(self) -> int:
        return self.synced + len(self.changes)

    def flushed(self, mark: int) -> None:
        """The changes before `mark` are on the platter."""
        if mark > self.synced:
            del self.changes[: mark - self.synced]
            self.synced = mark

    def flush_failed(self, mark: int) -> None:
        """Linux: reported once, then the pages are clean. They can be read until the power goes,
        and are not on the platter.
        """
        done = self.changes[: max(0, mark - self.synced)]
        self.lost += [
            (change.position, change.position + change.size) for change in done if change.size
        ]
        self.flushed(mark)

    def lose_power(self, keep: int, torn: float, zeros: bool) -> None:
        """All changes but the first `keep` are undone; of the next, the share `torn` (0..1) of its
        bytes stays, or zeros in their place.
        """
        while len(self.changes) > keep:
            position, size, was, size_before, lost = self.changes.pop()
            half = (
                bytes(self.content[position : position + int(size * torn)])
                if len(self.changes) == keep
                else b""
            )
            self.content[position : position + len(was)] = was
            del self.content[size_before:]
            self.lost += lost
            if half:
                # the write had left a hole
                self.content.extend(bytes(max(0, position - len(self.content))))
                new = max(0, size_before - position)  # from there on the file had no content before
                self.content[position : position + len(half)] = (
                    half[:new] + bytes(len(half[new:])) if zeros else half
                )
                self._forget_lost(position, position + len(half))
        self.changes.clear()
        for start, end in sorted(self.lost, reverse=True):
            if end >= len(self.content):
                del self.content[start:]
            else:
                self.content[start:end] = bytes(end - start)
        self.lost.clear()


class Directory:
    """Names, and how to undo the changes to them that are not durable."""

    __slots__ = ("changes", "entries", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        # what stood under the names that were changed together
        self.changes: list[dict[str, Inode | Directory | None]] = []
        self.synced = 0  # as an Inode's

    def change(self, names: dict[str, "Inode | Directory | None"]) -> None:
        """All at once: a rename takes one name away and gives another."""
        self.changes.append({name: self.entries.get(name) for name in names})
        self._set(names)

    def mark(self) -> int:
        return self.synced + len(self.changes)

    def flushed(self, mark: int) -> None:
        """The changes before `mark` are on the platter."""
        if mark > self.synced:
            del self.changes[: mark - self.synced]
            self.synced = mark

    def flush_failed(self, mark: int) -> None:
        """After a failed flush it is unknown which names are on the disk: each may be lost with the
        power.
        """

    def _set(self, names: dict[str, "Inode | Directory | None"]) -> None:
        for name, entry in names.items():
            if entry is None:
                self.entries.pop(name, None)
            else:
                self.entries[name] = entry

    def lose_power(self, keep: int) -> None:
        while len(self.changes) > keep:
            self._set(self.changes.pop())
        self.flushed(self.mark())


def _files(directory: Directory, path: str) -> Iterator[tuple[str, bytes]]:
    for name, entry in directory.entries.items():
        if isinstance(entry, Directory):
            yield from _files(entry, f"{path}/{name}")
        else:
            yield f"{path}/{name}", bytes(entry.content)


class SimulatedDisk:
    """Outlives its node's incarnations. The faults are attributes to set and methods to call."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.root = Directory()
        self.locks: dict[str, Process] = {}
        self.losses = 0  # how often the power was lost
        self.room_bytes: int | None = None  # after so many more bytes: ENOSPC
        self.failing_syncs = 0  # so many flushes to come fail with EIO
        self.failing_under = ""  # of what is below this path
        self.syncs_before_failing = 0  # so many flushes go well first
        self.failing_writes = 0  # so many writes to come fail with EIO
        self.broken: set[str] = set()  # directories of which nothing can be read or written: EIO
        self.sync_s = SYNC_S  # between what and what a flush takes, in seconds
        # a power loss takes all that was not flushed, instead of a random part of it
        self.keeps_nothing = False
        self._random = random

    def content(self) -> dict[str, bytes]:
        """Return all files by path, as a process sees them."""
        return dict(_files(self.root, ""))

    def find(self, path: str) -> Inode | Directory | None:
        here: Inode | Directory | None = self.root
        for part in path.split("/"):
            if part and part != ".":
                here = here.entries.get(part) if isinstance(here, Directory) else None
        return here

    def parent(self, path: str) -> tuple[Directory, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        directory = self.find(head)
        if not isinstance(directory, Directory):
            raise failure(errno.ENOENT, path)
        if len(name) > NAME_BYTES:
            raise failure(errno.ENAMETOOLONG, path)
        return directory, name

    def file(self, path: str) -> Inode:
        found = self.find(path)
        if not isinstance(found, Inode):
            raise failure(errno.EISDIR if found is not None else errno.ENOENT, path)
        return found

    def directory(self, path: str) -> Directory:
        found = self.find(path)
        if not isinstance(found, Directory):
            raise failure(errno.ENOTDIR if found is not None else errno.ENOENT, path)
        return found

    def write(self, inode: Inode, position: int, data: Buffer, path: str) -> None:
        if self.failing_writes and path.startswith(self.failing_under):
            self.failing_writes -= 1
            raise failure(errno.EIO, path)
        if self.room_bytes is not None:
            growth = max(0, position + len(data) - len(inode.content))
            if growth > self.room_bytes:
                inode.write(position, memoryview(data)[: len(data) - growth + self.room_bytes])
                self.room_bytes = 0
                raise failure(errno.ENOSPC, path)
            self.room_bytes -= growth
        inode.write(position, data)

    def sync_fails(self, path: str) -> bool:
        if any(path.startswith(f"{each}/") for each in self.broken):
            return True
        if self.failing_syncs and path.startswith(self.failing_under):
            if self.syncs_before_failing:
                self.syncs_before_failing -= 1
                return False
            self.failing_syncs -= 1
            return True
        return False

    def sync_time(self) -> float:
        low, high = self.sync_s
        return low + self._random.random() * (high - low)

    def check(self, path: str) -> None:
        if self.broken and any(path == each or path.startswith(f"{each}/") for each in self.broken):
            raise failure(errno.EIO, path)

    def mend(self, path: str) -> None:
        """Make the directory usable again, without the changes that were only in memory."""
        self.broken.discard(path)
        self._lose(self.directory(path))

    def replace_directory(self, path: str) -> None:
        """Another disk is there now, with nothing on it. Nobody may have it open."""
        parent, name = self.parent(path)
        parent.entries[name] = Directory()
        self.locks = {
            lock: holder for lock, holder in self.locks.items() if not lock.startswith(f"{path}/")
        }
        self.broken.discard(path)

    def flip(self, path: str, position: int, bits: int = 1) -> None:
        """The medium forgets: bits of one byte change, flushed or not."""
        self.file(path).content[position] ^= bits

    def lose_power(self) -> None:
        """Lose all that was not flushed, from a random point on in each file and directory: the
        kernel may have written a part by itself.
        """
        self.losses += 1
        self.locks.clear()
        self._lose(self.root)

    def _lose(self, directory: Directory) -> None:
        random = self._random
        directory.lose_power(0 if self.keeps_nothing else random.randint(0, len(directory.changes)))
        for entry in directory.entries.values():
            if isinstance(entry, Directory):
                self._lose(entry)
            elif entry.changes or entry.lost:
                keep, torn = (
                    (0, 0.0)
                    if self.keeps_nothing
                    else (random.randint(0, len(entry.changes)), random.random())
                )
                entry.lose_power(keep, torn, zeros=random.random() < ZEROS)


class SimulatedFile:
    __slots__ = ("_closed", "_end", "_files", "_pins", "inode", "path", "path_hash")

    def __init__(self, files: "NodeFiles", inode: Inode, path: str, *, over: bool = False) -> None:
        self.path = path
        self.path_hash = crc32c(path.encode())
        self.inode = inode
        self._files = files
        self._closed = False
        self._pins = 0
        self._end = 0 if over else None  # while old bytes may follow

    def check_open(self) -> None:
        """Raises ValueError."""
        if self._closed and not self._pins:
            raise ValueError(f"{self.path} is closed")

    def append(self, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        if self._end is None:
            self.write(len(self.inode.content), data)
        else:
            end = self._end + len(data)
            self.write(self._end, data + reused.zeros_behind(end, len(self.inode.content)))
            self._end = end

    def read(self, position: int, size: int) -> bytes:
        self.check_open()
        self._files.node.check_alive()
        self._files.disk.check(self.path)
        return bytes(memoryview(self.inode.content)[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        self.check_open()
        files = self._files
        files.note(b"W", self.path_hash << 24 ^ position, len(data) << 32 ^ crc32c(data))
        files.disk.check(self.path)
        self.inode.modified_ms = files.node.clock.wall_ms()
        files.disk.write(self.inode, position, data, self.path)

    def truncate(self, size: int) -> None:
        self.check_open()
        self._files.note(b"U", self.path_hash, size)
        self._files.disk.check(self.path)
        self.inode.truncate(size)
        self.inode.modified_ms = self._files.node.clock.wall_ms()
        self._end = None

    def reserve(self, size: int) -> None:
        """Its disks have no blocks."""

    def size(self) -> int:
        return len(self.inode.content) if self._end is None else self._end

    def modified_ms(self) -> int:
        return self.inode.modified_ms

    def set_modified(self, wall_ms: int) -> None:
        self.inode.modified_ms = wall_ms

    def sync(self) -> None:
        self.check_open()
        files = self._files
        files.note(b"S", self.path_hash, self.inode.mark())
        files.node.busy_s += files.disk.sync_time()
        files.end_sync(self.inode, self.inode.mark(), self.path)

    def close(self) -> None:
        self._closed = True

    @property
    def is_shared(self) -> bool:
        return self._pins > 0

    @property
    def is_linked(self) -> bool:
        return self.inode.was_linked

    def pin(self) -> None:
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1


class NodeFiles:
    """The disk as one incarnation of a node sees it."""

    def __init__(self, node: Process, disk: SimulatedDisk, world: Events) -> None:
        self.node = node
        self.disk = disk
        self._world = world

    def note(self, kind: bytes, a: int, b: int) -> None:
        self.node.check_alive()
        self.node.note(kind, a, b)

    def open(self, path: str, *, create: bool = False, over: bool = False) -> SimulatedFile:
        self.note(b"O", crc32c(path.encode()), create)
        self.disk.check(path)
        if create and self.disk.find(path) is None:
            directory, name = self.disk.parent(path)
            directory.change({name: Inode(modified_ms=self.node.clock.wall_ms())})
        return SimulatedFile(self, self.disk.file(path), path, over=over)

    def exists(self, path: str) -> bool:
        self.node.check_alive()
        return self.disk.find(path) is not None

    def list(self, path: str) -> list[str]:
        self.node.check_alive()
        self.disk.check(path)
        return sorted(self.disk.directory(path).entries)

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        self.note(b"M", crc32c(path.encode()), durable)
        self.disk.check(path)
        here = self.disk.root
        for part in path.split("/"):
            if part and part != ".":
                below = here.entries.get(part)
                if below is None and not durable:
                    below = Directory()
                    here.change({part: below})
                elif below is None:
                    below = here.entries[part] = Directory()
                    # durable at once: no undo of an older change may take it away
                    for names in here.changes:
                        names.pop(part, None)
                if not isinstance(below, Directory):
                    raise failure(errno.ENOTDIR, path)
                here = below

    def read(self, path: str) -> bytes:
        self.node.check_alive()
        self.disk.check(path)
        return bytes(self.disk.file(path).content)

    def space(self, path: str) -> tuple[int, int]:
        self.node.check_alive()
        self.disk.check(path)
        return SPACE_BYTES, SPACE_BYTES if self.disk.room_bytes is None else self.disk.room_bytes

    def replace(self, path: str, data: Buffer) -> None:
        self.note(b"P", crc32c(path.encode()), crc32c(data))
        self.disk.check(path)
        directory, name = self.disk.parent(path)
        fresh = Inode(modified_ms=self.node.clock.wall_ms())
        self.disk.write(fresh, 0, data, path)
        self.node.busy_s += 2 * self.disk.sync_time()
        if self.disk.sync_fails(path):
            raise failure(errno.EIO, path)
        fresh.flushed(fresh.mark())
        directory.change({name: fresh})
        directory.flushed(directory.mark())

    def link(self, old: str, new: str) -> None:
        self.note(b"K", crc32c(old.encode()), crc32c(new.encode()))
        self.disk.check(old)
        target, name = self.disk.parent(new)
        inode = self.disk.file(old)
        inode.was_linked = True
        target.change({name: inode})

    def rename(self, old: str, new: str) -> None:
        self.note(b"N", crc32c(old.encode()), crc32c(new.encode()))
        self.disk.check(old)
        self.disk.check(new)
        source, old_name = self.disk.parent(old)
        target, new_name = self.disk.parent(new)
        if (entry := source.entries.get(old_name)) is None:
            raise failure(errno.ENOENT, old)
        if isinstance(there := target.entries.get(new_name), Directory) and there.entries:
            raise failure(errno.ENOTEMPTY, new)
        if source is target:
            source.change({old_name: None, new_name: entry})
        # two directories, two changes: after a power loss the name can be in both or in neither
        else:
            target.change({new_name: entry})
            source.change({old_name: None})

    def sync_directory(self, path: str) -> None:
        self.note(b"Y", crc32c(path.encode()), 0)
        self.node.busy_s += self.disk.sync_time()
        found = self.disk.find(path)
        if found is None:
            raise failure(errno.ENOENT, path)
        self.end_sync(found, found.mark(), path)

    def remove(self, path: str) -> None:
        self.note(b"R", crc32c(path.encode()), 0)
        self.disk.check(path)
        directory, name = self.disk.parent(path)
        if name not in directory.entries:
            raise failure(errno.ENOENT, path)
        directory.change({name: None})

    def discard(self, file: File) -> None:
        file.close()

    def lock(self, path: str) -> Callable[[], None]:
        self.note(b"L", crc32c(path.encode()), 0)
        self.disk.check(path)
        holder = self.disk.locks.get(path)
        if holder is not None and holder.alive:
            raise BlockingIOError(errno.EAGAIN, "locked by another node", path)
        self.open(path, create=True)
        self.disk.locks[path] = self.node

        def release() -> None:
            if self.disk.locks.get(path) is self.node:
                del self.disk.locks[path]

        return release

    def flush(self, files: Sequence[File | str], done: Callable[[OSError | None], None]) -> None:
        marks = [
            (what, what.mark(), path)
            for what, path in map(self._to_flush, files)
            if what is not None
        ]
        self.note(b"F", len(marks), sum(mark for _, mark, _ in marks))
        losses = self.disk.losses
        self._world.push(
            self._world.now + self.disk.sync_time(),
            lambda _a, _b: self._flushed(marks, losses, done),
        )

    def _to_flush(self, file: File | str) -> tuple[Inode | Directory | None, str]:
        if isinstance(file, str):
            return self.disk.find(file), file
        assert isinstance(file, SimulatedFile)
        file.check_open()
        return file.inode, file.path

    def _flushed(
        self,
        marks: Sequence[tuple[Inode | Directory, int, str]],
        losses: int,
        done: Callable[[OSError | None], None],
    ) -> None:
        if losses != self.disk.losses:  # the power went meanwhile
            return
        error = None
        for inode, mark, path in marks:  # also for a process that was killed: its kernel goes on
            try:
                self.end_sync(inode, mark, path)
            except OSError as failed:
                error = error or failed
        self.node.take(self._report, (error, done))

    def _report(self, result: tuple[OSError | None, Callable[[OSError | None], None]]) -> None:
        error, done = result
        self.node.note(b"D", 0, error.errno or 0 if error else 0)
        done(error)

    def end_sync(self, inode: Inode | Directory, mark: int, path: str) -> None:
        if self.disk.sync_fails(path):
            inode.flush_failed(mark)
            raise failure(errno.EIO, path)
        inode.flushed(mark)
