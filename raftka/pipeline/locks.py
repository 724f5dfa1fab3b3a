"""Locks of files, which end with the process that holds them."""

import fcntl


def locked(descriptor: int) -> bool:
    """Take the lock of an open file without waiting; return whether it was free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
