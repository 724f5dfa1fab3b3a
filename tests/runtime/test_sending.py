"""Output leaves in order, whatever the kernel takes at a time, and pieces of files do not stay in
memory.
"""

import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from raftka.runtime.interfaces import Buffer, FileSpan, pin, unpin
from raftka.runtime.real.files import RealFile, RealFiles
from raftka.runtime.real.sending import READ_BYTES, REST_BYTES, Sender, SendFile, Unsent

CONTENT = bytes(i * 7 & 255 for i in range(65521)) * 10


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RealFile]:
    files = RealFiles(lambda action: None)
    file = files.open(f"{tmp_path}/log", create=True)
    file.append([CONTENT])
    yield file
    files.stop()


@pytest.fixture(params=[os.sendfile, None], ids=["sendfile", "read"])
def send_file(request: pytest.FixtureRequest) -> SendFile | None:
    found: SendFile | None = request.param
    return found


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        # so that much is not taken at once
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        yield ours, theirs


def received(sock: socket.socket) -> bytes:
    """Return the bytes that have come."""
    got = b""
    while True:
        try:
            got += sock.recv(1 << 20)
        except BlockingIOError:
            return got


def content(items: Iterable[Buffer | FileSpan]) -> bytes:
    return b"".join(
        CONTENT[item.position : item.position + item.size]
        if isinstance(item, FileSpan)
        else bytes(item)
        for item in items
    )


@pytest.mark.parametrize(
    "size", [0, 1, REST_BYTES, REST_BYTES + 1, READ_BYTES, READ_BYTES + 1, 500_000]
)
@pytest.mark.parametrize("count", [1, 3])
def test_pieces_of_files_leave_in_order(
    file: RealFile,
    pair: tuple[socket.socket, socket.socket],
    send_file: SendFile | None,
    size: int,
    count: int,
) -> None:
    out: list[Buffer | FileSpan] = []
    for number in range(count):
        out += [b"head", FileSpan(file, number * 11, size), b"", b"tail"]
    unsent: Unsent = deque()
    wanted, got = content(out), b""
    sender = Sender(send_file)
    pin(out)

    sender.send_new(pair[0], out, unsent)
    while unsent:
        assert file.pins == sum(isinstance(item, FileSpan) for item in unsent)
        # none of the file's bytes
        assert all(isinstance(item, FileSpan) or len(item) <= len(b"head") for item in unsent)
        more = received(pair[1])
        assert more
        got += more
        assert sender.send(pair[0], unsent, REST_BYTES) is (not unsent)
    got += received(pair[1])

    assert got == wanted
    assert (len(unsent), file.pins) == (0, 0)


@pytest.mark.parametrize("size", [100, READ_BYTES + 1])
def test_a_piece_that_the_file_does_not_have_is_an_error(
    file: RealFile,
    pair: tuple[socket.socket, socket.socket],
    send_file: SendFile | None,
    size: int,
) -> None:
    unsent: Unsent = deque([FileSpan(file, len(CONTENT) - 99, size)])
    sender = Sender(send_file)
    with pytest.raises(OSError, match="shorter than promised"):
        send_all(sender, unsent, pair)


def send_all(sender: Sender, unsent: Unsent, pair: tuple[socket.socket, socket.socket]) -> None:
    while not sender.send(pair[0], unsent):
        received(pair[1])


def test_what_never_leaves_is_unpinned(file: RealFile) -> None:
    items: Unsent = deque([b"head", FileSpan(file, 0, 10), FileSpan(file, 0, READ_BYTES + 1)])
    pin(items)
    assert file.pins == 2
    unpin(items)
    assert file.pins == 0
