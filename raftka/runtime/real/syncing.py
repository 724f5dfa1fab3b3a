"""Bring written bytes to the disk: fdatasync; on macOS F_FULLFSYNC, because fsync leaves them in
the disk's own cache there, which a power cut empties.
"""

import errno
import fcntl
import os

FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS has it
# of file systems without F_FULLFSYNC, such as those of a network: fsync is all they offer
NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)


def sync_data(fd: int) -> None:
    """Return when the bytes of the file, and its size, are on the disk. Raises OSError."""
    if FULL_SYNC is not None:
        _sync_fully(fd, FULL_SYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_all(fd: int) -> None:
    """Return when the file, or the names in the directory, are on the disk, with all that the file
    system notes about it. Raises OSError.
    """
    if FULL_SYNC is not None:
        _sync_fully(fd, FULL_SYNC)
    else:
        os.fsync(fd)


def sync_path(path: str) -> None:
    """The same for a file or a directory that is not open."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_all(fd)
    finally:
        os.close(fd)


def _sync_fully(fd: int, command: int) -> None:
    try:
        fcntl.fcntl(fd, command)
    except OSError as error:
        if error.errno not in NOT_OFFERED:
            raise
        os.fsync(fd)
