"""Places where backups lie: a folder, or an object store. Knows no manifest.

Paths in a place are relative, with '/'. A file is there whole or not at all.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from raftka.backup.errors import BackupError
from raftka.runtime.interfaces import Files

if TYPE_CHECKING:
    from obstore.store import ObjectStore

GONE = ".gone"  # of a name that the runtime's files are removing
PART = ".part"  # of a name: the file is not whole
SCHEMES = ("s3://", "gs://", "az://", "abfs://")


class Place(Protocol):
    where: str  # for people

    def names(self, folder: str) -> list[str]:
        """Return the paths of the files in the folder, sorted; none: it is not there."""

    def exists(self, path: str) -> bool: ...

    def read(self, path: str, position: int, size: int) -> bytes:
        """Return a part of a file; it is shorter at the end. Raises OSError."""

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        """Make or replace a file, whole and durable. Raises OSError."""

    def link(self, source: str, path: str) -> bool:
        """Give a file of this machine a name here, as it is. False: that is not possible. Durable
        after `settle`.
        """

    def settle(self, paths: Sequence[str]) -> None:
        """Make these files durable. Raises OSError."""

    def remove(self, path: str) -> None: ...


class Folder:
    """A place on a file system."""

    def __init__(self, files: Files, root: str) -> None:
        self.where = self._root = root.rstrip("/") or "/"
        self._files = files

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    def names(self, folder: str) -> list[str]:
        files, full = self._files, self._full(folder)
        if not files.exists(full):
            return []
        return [f"{folder}/{name}" for name in files.list(full) if not name.endswith(GONE)]

    def exists(self, path: str) -> bool:
        return self._files.exists(self._full(path))

    def read(self, path: str, position: int, size: int) -> bytes:
        file = self._files.open(self._full(path))
        try:
            return file.read(position, size)
        finally:
            file.close()

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        files, full = self._files, self._full(path)
        directory = full.rpartition("/")[0]
        files.make_directory(directory)
        file = files.open(full + PART, create=True)
        try:
            file.truncate(0)
            for part in parts:
                file.append([part])
            file.sync()
        finally:
            file.close()
        files.rename(full + PART, full)
        files.sync_directory(directory)

    def link(self, source: str, path: str) -> bool:
        files, full = self._files, self._full(path)
        files.make_directory(full.rpartition("/")[0])
        try:
            files.link(source, full)
        except FileExistsError:
            return True  # an earlier backup was broken off, and has just this file
        except OSError:
            return False  # another machine's, another file system's, or one without links
        return True

    def settle(self, paths: Sequence[str]) -> None:
        full = [self._full(path) for path in paths]
        for each in (*full, *dict.fromkeys(path.rpartition("/")[0] for path in full)):
            self._files.sync_directory(each)

    def remove(self, path: str) -> None:
        self._files.remove(self._full(path))


class Bucket:
    """A place in an object store: a name is there when the object is whole."""

    def __init__(self, store: "ObjectStore", url: str) -> None:
        self.where = url
        self._store = store

    def names(self, folder: str) -> list[str]:
        return sorted(
            each["path"] for batch in self._store.list(prefix=f"{folder}/") for each in batch
        )

    def exists(self, path: str) -> bool:
        try:
            self._store.head(path)
        except FileNotFoundError:
            return False
        return True

    def read(self, path: str, position: int, size: int) -> bytes:
        if not size:
            return b""
        left = int(self._store.head(path)["size"]) - position
        if left <= 0:
            return b""
        return bytes(self._store.get_range(path, start=position, length=min(size, left)))

    def write(self, path: str, parts: Iterable[bytes]) -> None:
        self._store.put(path, iter(parts))

    def link(self, source: str, path: str) -> bool:
        return False

    def settle(self, paths: Sequence[str]) -> None:
        """Objects are durable when they are written."""

    def remove(self, path: str) -> None:
        self._store.delete(path)


def open_place(where: str, files: Files) -> Place:
    """Return the place: a folder's path, or the URL of a bucket with a path in it. Credentials are
    those of the environment (AWS_ACCESS_KEY_ID and so on). Raises BackupError.
    """
    if "://" not in where:
        return Folder(files, where)
    if not where.startswith(SCHEMES):
        raise BackupError(f"{where}: a place is a folder, or a URL with {', '.join(SCHEMES)}")
    try:
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise BackupError(
            "an object store needs the Python package obstore: pip install 'raftka[backup]'"
        ) from None
    return Bucket(from_url(where), where)
