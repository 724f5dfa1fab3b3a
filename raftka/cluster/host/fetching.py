"""Get a page of a broker of this host, on a connection of its own to 127.0.0.1. Knows no page's
content.
"""

from urllib.parse import urlsplit

import trio

from raftka.cluster.host.plan import LOOPBACK
from raftka.http.answer_reader import HttpFailed
from raftka.http.client import Answer, Wanted, fetch
from raftka.limits import HOST_PAGE_BYTES, HOST_PAGE_SECONDS, LimitExceeded
from raftka.runtime.interfaces import Runtime


async def get_page(runtime: Runtime, port: int, path: str, token: str) -> Answer:
    """Return the answer, of any status. Raises HttpFailed, and LimitExceeded for a page that is too
    long or takes too long.
    """
    found: list[Answer | HttpFailed | LimitExceeded] = []
    came = trio.Event()

    def on_answer(result: Answer | HttpFailed | LimitExceeded) -> None:
        found.append(result)
        came.set()

    wanted = Wanted(
        urlsplit(f"http://{LOOPBACK}:{port}{path}"),
        HOST_PAGE_BYTES,
        headers=(f"Authorization: Bearer {token}",),
        statuses=None,
        needs_end=True,
    )
    fetch(runtime, wanted, HOST_PAGE_SECONDS, on_answer)
    await came.wait()
    if isinstance(found[0], Answer):
        return found[0]
    raise found[0]
