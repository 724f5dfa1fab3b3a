"""The fetches of followers by structs: the bytes are those of the message's compiler, and what is
not plain is left to it.
"""

from random import Random
from typing import Any

import pytest

from raftka.wire.codec import size_of
from raftka.wire.frame import decode_response_header, encode_response
from raftka.wire.messages.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from raftka.wire.replica_fetch import (
    MOST,
    VERSION,
    Answered,
    Asked,
    Terms,
    Told,
    answer_frame,
    read_answer,
    read_topics,
    request_body,
    topics_begin,
)

TERMS = Terms(max_wait_ms=500, min_bytes=1, max_bytes=10 << 20, replica=2, broker_epoch=77)
Topics = dict[bytes, list[Asked]]


def some_topics(random: Random) -> Topics:
    def number() -> int:
        return random.randrange(1 << 40)

    return {
        random.randbytes(16): [
            Asked(
                at,
                random.randrange(-1, 9),
                random.randrange(1 << 40),
                random.randrange(-1, 9),
                random.randrange(1 << 40),
                random.randrange(1 << 30),
            )
            for at in range(random.choice([0, 1, 2, 130]))
        ]
        for _ in range(random.choice([0, 1, 3]))
    }


def compiled(topics: Topics) -> FetchRequest:
    request = FETCH.request
    rows = [
        request.topics(topic_id=topic_id, partitions=[_row(each) for each in asked])
        for topic_id, asked in topics.items()
    ]
    state = request.replica_state(replica_id=TERMS.replica, replica_epoch=TERMS.broker_epoch)
    return request(
        max_wait_ms=TERMS.max_wait_ms,
        min_bytes=TERMS.min_bytes,
        max_bytes=TERMS.max_bytes,
        session_id=5,
        session_epoch=6,
        topics=rows,
        replica_state=state,
    )


def _row(asked: Asked) -> FetchPartition:
    partition, epoch, offset, last, start, size = asked
    return FETCH.request.topics.partitions(
        partition=partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last,
        log_start_offset=start,
        partition_max_bytes=size,
    )


@pytest.mark.parametrize("seed", range(40))
def test_requests(seed: int) -> None:
    topics = some_topics(Random(seed))
    body = request_body(TERMS, 5, 6, topics)

    assert body == FETCH.encode_request(VERSION, compiled(topics))
    at, behind = topics_begin(memoryview(body), 0)
    flat = [(topic_id, each) for topic_id, asked in topics.items() for each in asked]
    assert read_topics(memoryview(body), at, behind) == (flat if len(flat) <= MOST else None)


@pytest.mark.parametrize(
    "change",
    [
        {
            "forgotten_topics_data": [
                FETCH.request.forgotten_topics_data(topic_id=bytes(16), partitions=(1,))
            ]
        },
        {"rack_id": "r"},
        {"cluster_id": "c"},
        {"replica_state": FETCH.request.replica_state(replica_id=3, replica_epoch=77)},
    ],
    ids=["forgets", "rack", "cluster", "another broker"],
)
def test_requests_that_differ_in_more_are_left(change: dict[str, object]) -> None:
    topics = {bytes(16): [Asked(0, 1, 2, 3, 4, 5)]}
    plain = memoryview(request_body(TERMS, 5, 6, topics))
    row = compiled(topics)
    for name, value in change.items():
        setattr(row, name, value)

    at, behind = topics_begin(plain, 0)
    assert read_topics(plain, at, behind) is not None
    assert read_topics(memoryview(FETCH.encode_request(VERSION, row)), at, behind) is None


def test_a_directory_behind_a_partition_is_left() -> None:
    row = compiled({bytes(16): [Asked(0, 1, 2, 3, 4, 5)]})
    row.topics[0].partitions[0].replica_directory_id = bytes(range(16))
    frame = memoryview(FETCH.encode_request(VERSION, row))

    assert read_topics(frame, *topics_begin(frame, 0)) is None


def some_answer(random: Random) -> FetchResponse:
    topic = FETCH.response.responses
    return FETCH.response(
        session_id=random.randrange(1 << 31),
        responses=[
            topic(
                topic_id=random.randbytes(16),
                partitions=[answered(random, at) for at in range(random.choice([0, 1, 2, 130]))],
            )
            for _ in range(random.choice([0, 1, 3]))
        ],
    )


def answered(random: Random, at: int) -> PartitionData:
    records: Any = random.choice(
        [b"", random.randbytes(random.choice([1, 126, 127, 20_000])), [b"one", b"two"]]
    )
    offsets = sorted(random.randrange(1 << 40) for _ in range(3))
    return FETCH.response.responses.partitions(
        partition_index=at,
        high_watermark=offsets[2],
        last_stable_offset=offsets[1],
        log_start_offset=offsets[0],
        records=records,
        aborted_transactions=None,
    )


def told(row: PartitionData) -> Told:
    records: Any = row.records if isinstance(row.records, list) else [row.records]
    return Told(
        row.partition_index,
        row.high_watermark,
        row.last_stable_offset,
        row.log_start_offset,
        records,
        sum(map(len, records)),
    )


@pytest.mark.parametrize("seed", range(40))
def test_answers(seed: int) -> None:
    answer = some_answer(Random(seed))
    pieces = answer_frame(
        9,
        answer.session_id,
        {topic.topic_id: [told(row) for row in topic.partitions] for topic in answer.responses},
    )
    frame = b"".join(pieces)  # type: ignore[arg-type]  # none of them lies in a file

    assert frame == b"".join(encode_response(FETCH, VERSION, 9, answer))  # type: ignore[arg-type]
    assert size_of(pieces) == len(frame)
    view = memoryview(frame)[4:]
    expected = [
        Answered(
            topic.topic_id,
            row.partition_index,
            row.high_watermark,
            row.last_stable_offset,
            row.log_start_offset,
            memoryview(
                b"".join(row.records)
                if isinstance(row.records, list)
                else bytes(row.records or b"")
            ),
        )
        for topic in answer.responses
        for row in topic.partitions
    ]
    assert read_answer(view, decode_response_header(view, FETCH, VERSION)[1]) == (
        (answer.session_id, expected) if len(expected) <= MOST else None
    )


PARTITION = FETCH.response.responses.partitions
UNUSUAL: dict[str, dict[str, object]] = {
    "error": {"error_code": 6},
    "divergence": {"diverging_epoch": PARTITION.diverging_epoch(epoch=3, end_offset=4)},
    "aborted": {"aborted_transactions": []},
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_answers_that_are_not_plain_are_left(what: str) -> None:
    row = answered(Random(0), 0)
    for name, value in UNUSUAL[what].items():
        setattr(row, name, value)
    answer = FETCH.response(
        responses=[FETCH.response.responses(topic_id=bytes(16), partitions=[row])]
    )

    assert read_answer(memoryview(FETCH.encode_response(VERSION, answer)), 0) is None


def test_an_answer_with_an_error_is_left() -> None:
    answer = FETCH.response(error_code=70)

    assert read_answer(memoryview(FETCH.encode_response(VERSION, answer)), 0) is None


@pytest.mark.parametrize("seed", range(10))
def test_bytes_that_are_cut_or_changed_are_left_or_read(seed: int) -> None:
    random = Random(seed)
    request = request_body(
        TERMS, 5, 6, {random.randbytes(16): [Asked(at, 1, 2, 3, 4, 5) for at in range(3)]}
    )
    at, behind = topics_begin(memoryview(request), 0)
    answer = FETCH.encode_response(VERSION, some_answer(random))
    for cut in range(at, len(request)):
        assert read_topics(memoryview(request[:cut]), at, behind) is None
    for cut in range(min(len(answer), 3000)):
        assert read_answer(memoryview(answer[:cut]), 0) is None
    for _ in range(2000):
        changed = bytearray(random.choice([request, answer]))
        changed[random.randrange(len(changed))] = random.randrange(256)
        read_topics(memoryview(changed), at, behind)
        read_answer(memoryview(changed), 0)
