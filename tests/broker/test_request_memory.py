"""The largest memory of a request of very many entries, by entry: its bytes, its rows, notes of
each, and the answer.

100,000 of them are admitted, and an idle node has 40 MB: with 600 bytes each the largest peak is
100 MB.
"""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_FETCH
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi
from tests.broker.stage import Stage

ENTRIES = 10_000


def fetch(count: int) -> Row:
    topic = FETCH.request.topics
    partitions = [
        topic.partitions(partition=i, fetch_offset=0, partition_max_bytes=1000)
        for i in range(count)
    ]
    return FETCH.request(
        max_bytes=1 << 20, session_epoch=-1, topics=[topic(topic="t", partitions=partitions)]
    )


def metadata(count: int) -> Row:
    names = [METADATA.request.topics(name=f"none-{i}") for i in range(count)]
    return METADATA.request(topics=names, allow_auto_topic_creation=False)


def list_offsets(count: int) -> Row:
    topic = LIST_OFFSETS.request.topics
    return LIST_OFFSETS.request(
        topics=[
            topic(
                name="t",
                partitions=[topic.partitions(partition_index=i, timestamp=1) for i in range(count)],
            )
        ]
    )


def offset_fetch(count: int) -> Row:
    return OFFSET_FETCH.request(
        groups=[OFFSET_FETCH.request.groups(group_id=f"g{i}", topics=[]) for i in range(count)]
    )


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(auto_create_topics_enable="false") as stage:
        stage.create("t")
        yield stage
        assert not stage.world.failures


@pytest.mark.parametrize(
    ("api", "version", "make", "most"),
    [
        pytest.param(FETCH, 4, fetch, 600, id="Fetch without sessions"),
        pytest.param(FETCH, 12, fetch, 600, id="Fetch"),
        pytest.param(METADATA, 12, metadata, 480, id="Metadata"),
        pytest.param(LIST_OFFSETS, 7, list_offsets, 250, id="ListOffsets"),
        pytest.param(OFFSET_FETCH, 8, offset_fetch, 600, id="OffsetFetch"),
    ],
)
def test_an_entry_takes_little_memory(
    stage: Stage, api: AnyApi, version: int, make: Callable[[int], Row], most: int
) -> None:
    wire = stage.wire()
    # from now on the message's code is compiled
    wire.send(encode_request(api, version, 1, "a", make(100)))
    wire.frame()
    data = encode_request(api, version, 2, "a", make(ENTRIES))
    tracemalloc.start()
    try:
        wire.send(data)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        frame = wire.frame()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert frame is not None
    assert len(frame) > 9 * ENTRIES
    assert (peak - before) / ENTRIES <= most
