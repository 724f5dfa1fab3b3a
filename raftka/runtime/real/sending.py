"""Sends buffers and pieces of files through a socket that does not wait. Knows no connection."""

import errno
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from raftka.runtime.interfaces import Buffer, File, FileSpan, unpin
from raftka.runtime.real.files import RealFile

BUFFERS = 1000  # of one sendmsg; the kernel takes 1,024
# A larger piece of a file goes by sendfile. To read a smaller one and to send it with what is
# around it costs less (64 KB on loopback: 13 us instead of 22), because sendfile hands 16 pages at
# a time to the socket, and these leave by themselves.
READ_BYTES = 128 * 1024
# The same limit for output that the kernel did not take at once: it is read again at each try, so
# for a slow client only small pieces are read.
REST_BYTES = 8 * 1024

MORE = getattr(socket, "MSG_MORE", 0)

Unsent = deque[Buffer | FileSpan]
# sends from a file: descriptors of socket and file, position and size in bytes
SendFile = Callable[[int, int, int, int], int]


class Sender:
    """Reads pieces of files into one buffer, which all connections share: none of them stays in
    memory for a slow client.
    """

    def __init__(self, send_file: SendFile | None) -> None:
        """`send_file`: for pieces that are too large to be read in one go."""
        self._room = memoryview(bytearray(READ_BYTES))
        self._send_file = send_file

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
                    sent = self._send_piece(sock, first)
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
                    return buffers, size, MORE
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

    def _send_piece(self, sock: socket.socket, span: FileSpan) -> int:
        file = _real(span.file)
        if self._send_file is None:
            view = self._room[: span.size]
            file.read_into(view, span.position)
            return sock.send(view)
        file.was_lent = True
        sent = self._send_file(sock.fileno(), file.fd, span.position, span.size)
        if sent == 0:
            raise OSError(errno.EIO, "file shorter than promised")
        return sent


def _real(file: File) -> RealFile:
    assert isinstance(file, RealFile)
    return file


def _drop(unsent: Unsent, sent: int) -> None:
    """Remove `sent` bytes from the front; unpin files that have left."""
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
