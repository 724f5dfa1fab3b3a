"""Descriptors for connections, and one in reserve. Knows no epoll and no transport."""

import fcntl
import os
import socket

# from this descriptor on, or the middle where there are fewer: connections that are to close before
# others
CLOSED_FIRST = 4096


class Spare:
    """A descriptor in reserve: when no other is left, a waiting connection can still be refused,
    and is not reported again and again.
    """

    def __init__(self) -> None:
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def give_to(self, listener: socket.socket) -> bool:
        self.close()
        try:
            listener.accept()[0].close()
            turned_away = True
        except OSError:
            turned_away = False
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return turned_away

    def close(self) -> None:
        os.close(self._fd)


def moved(sock: socket.socket, lowest: int) -> socket.socket:
    """The same connection with a descriptor from `lowest` on: when a process dies, Linux (from 4.3)
    closes its highest descriptor first.
    """
    try:
        fd = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)
    except OSError:  # there are no more
        return sock
    with sock:
        return socket.socket(sock.family, sock.type, sock.proto, fd)
