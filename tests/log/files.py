"""Files in memory with a power switch: what was not flushed may be lost or torn when it is turned
off. For tests of the log alone.

Contents become durable by sync, flush, and replace; names by sync_directory, make_directory and
replace. `power_loss` gives the disk as it may be found afterwards: of an unsynced file any mix of
old and new that a page cache could have written, of unsynced changes of names any that do not
depend on one that is lost. `power_off_at` is the file call at which the power goes.
"""

import errno
from collections.abc import Callable, Sequence
from random import Random

from raftka.runtime import reused
from raftka.runtime.interfaces import Buffer, File

PAGE = 64  # bytes that reach the disk together: small, so that tests see many kinds of tears


class PowerLoss(BaseException):
    """Nothing runs any more."""


class Inode:
    def __init__(self) -> None:
        self.data = bytearray()
        self.modified_ms = 0
        self.durable = bytearray()
        self.shortest = 0  # bytes, since the last sync: a cut may come to the disk by itself
        self.reserved = 0  # bytes, until it is truncated


class MemoryFile:
    is_shared = False

    def __init__(
        self, path: str, inode: Inode, files: "MemoryFiles", *, over: bool = False
    ) -> None:
        self.path = path
        self.inode = inode
        self.files = files
        self.closed = False
        self.end = 0 if over else None  # while old bytes may follow

    def append(self, buffers: Sequence[Buffer]) -> None:
        assert not self.closed
        self.files.call()
        self.files.appends += 1
        self.inode.modified_ms = self.files.wall_ms
        data = b"".join(buffers)
        if self.end is not None:
            begin, self.end = self.end, self.end + len(data)
            data += reused.zeros_behind(self.end, len(self.inode.data))
            self.inode.data[begin : begin + len(data)] = data
            return
        room = self.files.room
        if room is not None and len(data) > room:
            self.inode.data += data[:room]
            raise OSError(errno.ENOSPC, "no space left", self.path)
        self.files.room = None if room is None else room - len(data)
        self.inode.data += data

    def read(self, position: int, size: int) -> bytes:
        assert not self.closed
        self.files.reads += 1
        return bytes(self.inode.data[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        self.files.call()
        self.inode.modified_ms = self.files.wall_ms
        self.inode.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self.files.call()
        self.end = None
        self.inode.modified_ms = self.files.wall_ms
        self.inode.shortest = min(self.inode.shortest, size)
        del self.inode.data[size:]
        self.inode.data += bytes(size - len(self.inode.data))

        self.inode.reserved = 0

    def reserve(self, size: int) -> None:
        self.inode.reserved = size

    def size(self) -> int:
        return len(self.inode.data) if self.end is None else self.end

    def modified_ms(self) -> int:
        return self.inode.modified_ms

    def set_modified(self, wall_ms: int) -> None:
        self.inode.modified_ms = wall_ms

    def sync(self) -> None:
        assert not self.closed
        self.files.call()
        self.inode.durable = bytearray(self.inode.data)
        self.inode.shortest = len(self.inode.data)

    def close(self) -> None:
        self.closed = True

    @property
    def is_linked(self) -> bool:
        return sum(each is self.inode for each in self.files.names.values()) > 1

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


class MemoryFiles:
    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.directories: set[str] = set()
        self.room: int | None = None  # bytes until the disk is full
        self.appends = 0
        self.reads = 0
        self.wall_ms = 1_700_000_000_000  # of whatever is written
        self.locked: set[str] = set()
        # of names, that may be lost: what stands under them after each
        self.changes: list[dict[str, Inode | None]] = []
        self.calls = 0  # that change something
        self.power_off_at: int | None = None

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.power_off_at:
            raise PowerLoss

    def change(self, names: dict[str, Inode | None]) -> None:
        self.call()
        self.changes.append(names)
        for name, inode in names.items():
            if inode is None:
                self.names.pop(name, None)
            else:
                self.names[name] = inode

    def open(self, path: str, *, create: bool = False, over: bool = False) -> MemoryFile:
        if path not in self.names:
            if not create or self.room == 0:
                raise OSError(errno.ENOSPC if create else errno.ENOENT, "cannot open", path)
            self.change({path: Inode()})
        return MemoryFile(path, self.names[path], self, over=over)

    def exists(self, path: str) -> bool:
        return path in self.names or path in self.directories

    def list(self, path: str) -> Sequence[str]:
        if path not in self.directories:
            raise FileNotFoundError(path)
        return sorted(
            {
                name[len(path) + 1 :].split("/")[0]
                for name in [*self.names, *self.directories]
                if name.startswith(path + "/")
            }
        )

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        """Directories are durable here either way: the log believes one only for what is in it."""
        parts = path.split("/")
        self.directories.update("/".join(parts[: i + 1]) for i in range(len(parts)))

    def read(self, path: str) -> bytes:
        if path not in self.names:
            raise FileNotFoundError(path)
        return bytes(self.names[path].data)

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 40 if self.room is None else self.room

    def replace(self, path: str, data: Buffer) -> None:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "no space left", path)
        self.call()
        inode = Inode()
        inode.data += data
        inode.durable += data
        inode.shortest = len(data)
        self.names[path] = self.durable_names[path] = inode
        for names in self.changes:
            names.pop(path, None)

    def link(self, old: str, new: str) -> None:
        self.call()
        self.change({new: self.names[old]})

    def rename(self, old: str, new: str) -> None:
        if old in self.names:
            self.change({old: None, new: self.names[old]})
            return
        # a directory's rename: durable here, the log does not depend on it
        for table in (self.names, self.durable_names):
            for name in [name for name in table if name == old or name.startswith(old + "/")]:
                table[new + name[len(old) :]] = table.pop(name)
        self.directories = {
            new + name[len(old) :] if name == old or name.startswith(old + "/") else name
            for name in self.directories
        }

    def sync_directory(self, path: str) -> None:
        self.call()
        if path in self.names:
            self.open(path).sync()
        for table, other in (self.names, self.durable_names), (self.durable_names, self.names):
            for name in [name for name in table if name.rpartition("/")[0] == path]:
                if table is self.names:
                    other[name] = table[name]
                elif name not in other:
                    del table[name]
        self.changes = [
            names
            for names in self.changes
            if not any(name.rpartition("/")[0] == path for name in names)
        ]

    def remove(self, path: str) -> None:
        self.change(
            {name: None for name in self.names if name == path or name.startswith(path + "/")}
        )
        self.directories = {
            name for name in self.directories if name != path and not name.startswith(path + "/")
        }

    def discard(self, file: File) -> None:
        file.close()

    def lock(self, path: str) -> Callable[[], None]:
        if path in self.locked:
            raise BlockingIOError(path)
        self.locked.add(path)
        return lambda: self.locked.discard(path)

    def flush(self, files: Sequence[File | str], done: Callable[[OSError | None], None]) -> None:
        for file in files:
            if isinstance(file, str):
                self.sync_directory(file)
            else:
                file.sync()
        done(None)

    def power_loss(self, random: Random) -> "MemoryFiles":
        after = MemoryFiles()
        after.directories = set(self.directories)
        for name, inode in self._names_left(random).items():
            found = Inode()
            found.data = torn(inode, random)
            found.durable = bytearray(found.data)
            found.shortest = len(found.data)
            found.modified_ms = inode.modified_ms
            after.names[name] = after.durable_names[name] = found
        return after

    def _names_left(self, random: Random) -> dict[str, Inode]:
        left: dict[str, Inode | None] = dict(self.durable_names)
        lost: set[str] = set()
        share = random.choice([0.0, 0.2, 0.5, 1.0])
        for names in self.changes:
            if random.random() < share or lost & names.keys():
                lost |= names.keys()
            else:
                left |= names
        return {name: inode for name, inode in left.items() if inode is not None}


def torn(inode: Inode, random: Random) -> bytearray:
    """Each page old or new, the length anything between, also that of a cut; a page that never
    came and lies inside the length reads as zeros.
    """
    old, new = inode.durable, inode.data
    size = random.randint(min(len(old), len(new), inode.shortest), max(len(old), len(new)))
    out = bytearray()
    for at in range(0, size, PAGE):
        sources = [old, new] if random.random() < 0.5 else [new]
        page = random.choice(sources)[at : min(at + PAGE, size)]
        out += page + bytes(min(PAGE, size - at) - len(page))
    return out
