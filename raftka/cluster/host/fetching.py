"""Get a page of a broker of this host: one GET on a connection of its own to 127.0.0.1. Knows no
page's content.
"""

from typing import NamedTuple

import trio

from raftka.cluster.host.plan import LOOPBACK
from raftka.limits import HOST_PAGE_BYTES, HOST_PAGE_SECONDS, LimitExceeded

PIECE_BYTES = 256 * 1024
END = b"\r\n\r\n"


class NoPage(Exception):
    """The text says why."""


class Answer(NamedTuple):
    status: int
    body: bytes


async def get(port: int, path: str, token: str) -> Answer:
    """Raises NoPage, and LimitExceeded for a page that is too long or takes too long."""
    try:
        with trio.fail_after(HOST_PAGE_SECONDS.value):
            return await _get(port, path, token)
    except trio.TooSlowError:
        raise LimitExceeded(HOST_PAGE_SECONDS, HOST_PAGE_SECONDS.value) from None
    except (OSError, trio.BrokenResourceError) as error:
        raise NoPage(str(error)) from None


async def _get(port: int, path: str, token: str) -> Answer:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Bearer {token}\r\n"
        "Connection: close\r\n\r\n"
    )
    come = bytearray()
    async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
        await stream.send_all(request.encode())
        while piece := await stream.receive_some(PIECE_BYTES):
            come += piece
            if len(come) > HOST_PAGE_BYTES.value:
                raise LimitExceeded(HOST_PAGE_BYTES, len(come))
    head, end, body = bytes(come).partition(END)
    status = head.split(b" ", 2)[1:2]
    sizes = [
        line.partition(b":")[2].strip()
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    if not end or not status or not status[0].isdigit() or sizes != [str(len(body)).encode()]:
        raise NoPage("the answer is not whole")
    return Answer(int(status[0]), body)
