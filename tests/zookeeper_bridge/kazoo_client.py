"""A kazoo client that is connected."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

WAIT_S = 20.0


@contextmanager
def connected(hosts: str, timeout: float = 5.0) -> Iterator[KazooClient]:
    client = KazooClient(
        hosts,
        timeout=timeout,
        randomize_hosts=False,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1),
    )
    client.start(WAIT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()
