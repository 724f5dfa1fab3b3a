"""Files in memory that lose on power loss what was not flushed, and may tear the last write. Knows
no time: a flush is done when the test says so.

A file that was cut may be whole again, and have lost what came after the cut; a file that was
renamed may have its old name again.
"""

from collections.abc import Callable, Sequence
from random import Random

from raftka.runtime.interfaces import Buffer, File


class MemoryFile:
    is_shared = is_linked = False

    def __init__(self, path: str, disk: "MemoryFiles") -> None:
        self.path, self._disk = path, disk
        self.data = bytearray()
        self.durable = 0  # bytes that power loss leaves
        self.uncut: bytes | None = None  # what the platter has, since a cut that was not flushed

    def append(self, buffers: Sequence[Buffer]) -> None:
        self._disk.call(f"append {self.path}")
        for buffer in buffers:
            self.data += buffer

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.data[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        self.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self._disk.call(f"truncate {self.path}")
        if size < self.durable:
            self.uncut = self.uncut if self.uncut is not None else bytes(self.data[: self.durable])
            self.durable = size
        del self.data[size:]

    def reserve(self, size: int) -> None: ...

    def modified_ms(self) -> int:
        return 0  # its records have times

    def set_modified(self, wall_ms: int) -> None: ...

    def size(self) -> int:
        return len(self.data)

    def sync(self) -> None:
        self._disk.call(f"sync {self.path}")
        self.durable, self.uncut = len(self.data), None

    def close(self) -> None: ...

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


class MemoryFiles:
    """One node's disk. Every change is a call in `calls`; `fail_at` makes the call of that number,
    and all after it, raise.
    """

    def __init__(self) -> None:
        self.files: dict[str, MemoryFile] = {}
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self._locks: set[str] = set()
        # that were not flushed: old name, new one, and what had that before
        self._renames: list[tuple[str, str, MemoryFile | None]] = []

    def call(self, what: str) -> None:
        if self.fail_at is not None and len(self.calls) >= self.fail_at:
            raise OSError(5, "the disk is gone")
        self.calls.append(what)

    def open(self, path: str, *, create: bool = False, over: bool = False) -> MemoryFile:
        assert not over, "no retention here, whose files could be written over"
        if path not in self.files:
            if not create:
                raise FileNotFoundError(path)
            self.files[path] = MemoryFile(path, self)
        return self.files[path]

    def exists(self, path: str) -> bool:
        return path in self.files

    def list(self, path: str) -> list[str]:
        return sorted(
            name.removeprefix(path + "/") for name in self.files if name.startswith(path + "/")
        )

    def make_directory(self, path: str, *, durable: bool = True) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def read(self, path: str) -> bytes:
        return bytes(self.open(path).data)

    def replace(self, path: str, data: Buffer) -> None:
        self.call(f"replace {path}")
        self.files[path] = file = MemoryFile(path, self)
        file.data = bytearray(data)
        file.durable = len(data)
        self._renames = [each for each in self._renames if path not in each]

    def link(self, old: str, new: str) -> None:
        self.files[new] = self.files[old]

    def rename(self, old: str, new: str) -> None:
        self.call(f"rename {old}")
        self._renames.append((old, new, self.files.get(new)))
        self.files[new] = self.files.pop(old)

    def sync_directory(self, path: str) -> None:
        self.call(f"sync {path}")
        self._renames = [each for each in self._renames if each[1].rpartition("/")[0] != path]

    def remove(self, path: str) -> None:
        for name in [name for name in self.files if name == path or name.startswith(path + "/")]:
            del self.files[name]

    def lock(self, path: str) -> Callable[[], None]:
        if path in self._locks:
            raise BlockingIOError(path)
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def discard(self, file: File) -> None: ...

    def flush(self, files: Sequence[File | str], done: Callable[[OSError | None], None]) -> None:
        for file in files:
            if isinstance(file, str):
                self.sync_directory(file)
            else:
                file.sync()
        done(None)

    # what tests do to it

    def copy(self) -> "MemoryFiles":
        """As another process finds it that begins now."""
        copied = MemoryFiles()
        for path, file in self.files.items():
            copied.files[path] = other = MemoryFile(path, copied)
            other.data, other.durable = bytearray(file.data), file.durable
        return copied

    def process_died(self) -> None:
        """Drop the locks; written bytes stay."""
        self._locks.clear()

    def power_lost(self, random: Random) -> None:
        """Lose power: any part of the unflushed bytes may have reached the disk."""
        self._locks.clear()
        self._lose_renames(random)
        for file in self.files.values():
            if file.uncut is not None and random.random() < 0.5:
                file.data = bytearray(file.uncut)
                file.durable = len(file.data)
            file.uncut = None
            tail = file.data[file.durable :]
            if not tail:
                continue
            match random.randrange(4):
                case 0:
                    tail = bytearray()
                case 1:
                    tail = tail[: random.randrange(len(tail))]
                case 2:  # its length is there, a piece of its content is not
                    at = random.randrange(len(tail))
                    tail[at : at + 512] = bytes(len(tail[at : at + 512]))
            file.data[file.durable :] = tail
            file.durable = len(file.data)

    def _lose_renames(self, random: Random) -> None:
        """The last ones, as a journal of the file system has them in order."""
        kept = random.randint(0, len(self._renames)) if self._renames else 0
        while len(self._renames) > kept:
            old, new, before = self._renames.pop()
            self.files[old] = self.files.pop(new)
            if before is not None:
                self.files[new] = before
        self._renames.clear()
