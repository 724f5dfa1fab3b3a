"""Sends buffers and pieces of files through a socket that does not wait. Knows no connection."""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable, Sequence

from raftka.runtime.interfaces import Buffer, File, FileSpan, unpin
from raftka.runtime.real.files import RealFile

BUFFERS = 1000  # of one sendmsg; the kernel takes 1,024
# A larger piece of a file goes by sendfile. To read a smaller one and to send it with what is
# around it costs less (64 KB on loopback: 13 us instead of 22), because sendfile hands 16 pages at
# a time to the socket, and these leave by themselves.
READ_BYTES = 128 * 1024
# the same for what the kernel did not take at once: for a slow client nothing is read again and
# again
REST_BYTES = 8 * 1024

Unsent = deque[Buffer | FileSpan]


class Sender:
    """Reads pieces of files into one buffer, which all connections share: none of them stays in
    memory for a slow client.
    """

    def __init__(self) -> None:
        self._room = memoryview(bytearray(READ_BYTES))

    def send_new(
        self, sock: socket.socket, out: Sequence[Buffer | FileSpan], unsent: Unsent
    ) -> None:
        """Send new output, whose pieces of files are pinned. Nearly always the kernel takes all of
        it at once; the rest goes to `unsent`.

        Raises OSError.
        """
        sent = 0
        try:
            buffers, size, flags = self._gathered(out, READ_BYTES)
            if buffers:
                sent = sock.sendmsg(buffers, (), flags)
        except BlockingIOError:
            pass
        except OSError:
            unpin(out)
            raise
        if sent == size and len(buffers) == len(out):
            unpin(out)
            return
        unsent.extend(out)
        _drop(unsent, sent)
        if sent == size:
            self.send(sock, unsent)

    def send(self, sock: socket.socket, unsent: Unsent, read_bytes: int = READ_BYTES) -> bool:
        """Send from the front and return whether the kernel took it all: the rest stays in
        `unsent`. Unpins each file that has left.

        `read_bytes`: the largest piece of a file that is read. Raises OSError.
        """
        try:
            while unsent:
                first = unsent[0]
                if isinstance(first, FileSpan) and first.size > read_bytes:
                    sent = _send_file(sock, first)
                else:
                    buffers, _, flags = self._gathered(unsent, read_bytes)
                    sent = sock.sendmsg(buffers, (), flags)
                _drop(unsent, sent)
        except BlockingIOError:
            return False
        return True

    def _gathered(
        self, items: Iterable[Buffer | FileSpan], read_bytes: int
    ) -> tuple[list[Buffer], int, int]:
        """Return the buffers from the front that one sendmsg takes, up to a piece of a file that is
        too large, their bytes, and its flags.
        """
        buffers: list[Buffer] = []
        used = size = 0
        for item in items:
            if item.__class__ is FileSpan:  # isinstance would be a call for each
                end = used + item.size
                if item.size > read_bytes or end > READ_BYTES:
                    return buffers, size, socket.MSG_MORE
                view = self._room[used:end]
                item.file.read_into(view, item.position)  # type: ignore[attr-defined]  # a RealFile
                size += end - used
                buffers.append(view)
                used = end
            else:
                size += len(item)  # type: ignore[arg-type]
                buffers.append(item)  # type: ignore[arg-type]
            if len(buffers) == BUFFERS:
                break
        return buffers, size, 0


def _real(file: File) -> RealFile:
    assert isinstance(file, RealFile)
    return file


def _send_file(sock: socket.socket, span: FileSpan) -> int:
    file = _real(span.file)
    file.was_lent = True
    sent = os.sendfile(sock.fileno(), file.fd, span.position, span.size)
    if sent == 0:
        raise OSError(errno.EIO, "file shorter than promised")
    return sent


def _drop(unsent: Unsent, sent: int) -> None:
    """So many bytes from the front have left."""
    while unsent:
        item = unsent[0]
        size = item.size if isinstance(item, FileSpan) else len(item)
        if sent < size:
            unsent[0] = (
                FileSpan(item.file, item.position + sent, size - sent)
                if isinstance(item, FileSpan)
                else memoryview(item)[sent:]
            )
            return
        if isinstance(item, FileSpan):
            item.file.unpin()
        sent -= size
        unsent.popleft()
