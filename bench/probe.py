"""The time for which a fault is felt: from the moment it is done to the next acknowledged record,
by a client without any back-off of its own.

It asks the brokers that are left who leads, and produces there with acks=all. So the figure is the
cluster's, not some client's.
"""

import time
from collections.abc import Sequence

from bench.load import BenchFailed
from raftka.cluster.ask import ask_any, call
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

VERSION = 9  # the newest with the topic's name in it that every Kafka of these years speaks
PAUSE_SECONDS = 0.005
ASK_SECONDS = 0.25
ACKNOWLEDGE_SECONDS = 15.0
GIVE_UP_SECONDS = 60.0


def produce(
    address: tuple[str, int],
    topic: str,
    partitions: Sequence[int],
    timeout: float = ACKNOWLEDGE_SECONDS,
) -> Code:
    """One record to each; the first error code that is none. Raises OSError."""
    batch = bytes(build_batch([(None, b"probe", [], int(time.time() * 1000))]))
    rows = [PRODUCE.request.topic_data.partition_data(index=p, records=batch) for p in partitions]
    topics = [PRODUCE.request.topic_data(name=topic, partition_data=rows)]
    request = PRODUCE.request(
        transactional_id=None, acks=-1, timeout_ms=int(timeout * 1000), topic_data=topics
    )
    reply = call(address, PRODUCE, request, timeout=timeout, version=VERSION)
    codes = [p.error_code for t in reply.responses for p in t.partition_responses]
    return Code(next((code for code in codes if code), 0))


def until_acknowledged(
    addresses: Sequence[tuple[str, int]],
    topic: str,
    partition: int = 0,
    not_from: int = 0,
    since: float | None = None,
) -> float:
    """Seconds from `since` (now) to an acknowledgement; `not_from` is the broker that has just been
    hit.
    """
    began = time.monotonic() if since is None else since
    while time.monotonic() - began < GIVE_UP_SECONDS:
        try:
            view = ask_any(addresses, [topic], ASK_SECONDS)
            known = view.of(topic)
            if (
                known
                and known[partition].leader not in {-1, not_from}
                and known[partition].leader in view.brokers
            ):
                address = view.leader_address(topic, partition)
                if produce(address, topic, [partition]) == Code.NONE:
                    return time.monotonic() - began
        except OSError:
            pass
        time.sleep(PAUSE_SECONDS)
    raise BenchFailed(f"no acknowledgement within {GIVE_UP_SECONDS:g} s")
