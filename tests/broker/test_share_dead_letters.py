"""Dead letters of share groups (KIP-1191), in the simulation; the rules are Kafka 4.4's."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.metadata.image import BROKER, TOPIC
from raftka.share.state import StateBatch
from raftka.wire.errors import Code, KafkaError
from raftka.wire.records import iterate, records_of
from tests.broker.stage import Stage
from tests.kit.broker.share import (
    Place,
    ShareMember,
    Writes,
    configure,
    fill,
    initialise,
    move,
    persisted,
    set_up,
    shares,
)

ACCEPT, RELEASE, REJECT = 1, 2, 3
SHORT: dict[str, Any] = {"group_share_min_record_lock_duration_ms": "1000"}
TAKES = {"errors_deadletterqueue_group_enable": "true"}
LETTERS, LOST = "raftka_share_dead_letters_total", "raftka_share_dead_letters_lost_total"
HEADERS = ("topic", "partition", "offset", "group", "delivery.count", "message")
REJECTED = "Offset rejected by client."
UNDELIVERABLE = "Offset delivery count exceeded the threshold."


@pytest.fixture
def stage() -> Iterator[Stage]:
    with shares(), Stage(**SHORT) as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def place(stage: Stage) -> Place:
    """Ten records for group g, which has a dead-letter topic of two partitions."""
    stage.create("dlq.g", 2, configs=TAKES)
    place = set_up(stage)
    configure(stage, "g", errors_deadletterqueue_topic_name="dlq.g")
    return place


def letters(stage: Stage, topic: str, partition: int = 0) -> list[Any]:
    """Return the records of the topic that are committed."""
    replica = stage.partition(topic, partition)
    spans, _ = replica.log.read(0, 1 << 20, replica.high_watermark)
    return [
        record
        for span in spans
        for _, batch in iterate(memoryview(span.file.read(span.position, span.size)))
        for record in records_of(batch)
    ]


def told(record: Any) -> tuple[str, ...]:
    """Return the texts of a letter's headers, which come in Kafka's order."""
    assert [name for name, _ in record.headers] == [f"__dlq.errors.{name}" for name in HEADERS]
    return tuple(value.decode() for _, value in record.headers)


def archived(stage: Stage, place: Place, up_to: int) -> bool:
    """Return whether all records before that offset are complete."""
    leader = stage.partition("t").leader
    assert leader is not None
    state = persisted(stage, "g", place, leader.leader_epoch)
    return state.start >= up_to or all(
        any(low <= offset <= high and number in (2, 4) for low, high, number, _ in state.batches)
        for offset in range(max(state.start, 0), up_to)
    )


def test_rejected_records_become_letters_without_key_and_value(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    assert member.acquire(place) == [(0, 9, 1)]
    assert member.done(place, 0, 1, REJECT) is Code.NONE
    assert persisted(stage, "g", place).batches == (StateBatch(0, 1, 3, 1),)  # at once
    stage.wait(lambda: len(letters(stage, "dlq.g")) == 2)
    first, second = letters(stage, "dlq.g")
    assert told(first) == ("t", "0", "0", "g", "1", REJECTED)
    assert told(second) == ("t", "0", "1", "g", "1", REJECTED)
    assert [(each.key, each.value) for each in (first, second)] == [(None, None)] * 2
    stage.wait(lambda: archived(stage, place, 2))
    assert stage.counted(LETTERS) == 2
    assert stage.counted(LOST) == 0


def test_records_at_the_limit_of_deliveries_become_letters(stage: Stage, place: Place) -> None:
    configure(stage, "g", share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
    member = ShareMember(stage, "g")
    assert member.acquire(place) == [(0, 9, 1)]
    assert member.done(place, 0, 9, RELEASE) is Code.NONE
    assert member.acquire(place)[0][2] == 2
    stage.wait(lambda: bool(letters(stage, "dlq.g")))  # the lock has ended
    assert told(letters(stage, "dlq.g")[0])[4:] == ("2", UNDELIVERABLE)


def test_records_at_the_limit_become_letters_although_a_write_fails(
    stage: Stage, place: Place
) -> None:
    configure(stage, "g", share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
    member = ShareMember(stage, "g")
    member.acquire(place)
    member.done(place, 0, 9, RELEASE)
    member.acquire(place)
    writes = Writes(stage)
    for _ in range(2):
        stage.wait(lambda: bool(writes.held))
        assert writes.batches.pop() == [StateBatch(0, 9, 3, 2)]
        writes.end(KafkaError(Code.COORDINATOR_NOT_AVAILABLE, "no"))
    assert letters(stage, "dlq.g") == []
    stage.wait(lambda: bool(writes.held))
    writes.end(None)
    stage.wait(lambda: len(letters(stage, "dlq.g")) == 10)


def test_letters_have_key_and_value_where_the_group_wants_it(stage: Stage, place: Place) -> None:
    configure(stage, "g", errors_deadletterqueue_copy_record_enable="true")
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 3, 5, REJECT) is Code.NONE
    stage.wait(lambda: len(letters(stage, "dlq.g")) == 3)
    assert [each.value for each in letters(stage, "dlq.g")] == [b"v3", b"v4", b"v5"]


def test_a_partition_has_its_letters_in_one_place(stage: Stage) -> None:
    stage.create("dlq.g", 2, configs=TAKES)
    topic_id = stage.create("wide", partitions=4)
    configure(
        stage,
        "g",
        share_auto_offset_reset="earliest",
        errors_deadletterqueue_topic_name="dlq.g",
    )
    fill(stage, "wide", 1, partition=3)
    initialise(stage, "g", (topic_id, 3))
    member = ShareMember(stage, "g")
    member.acquire((topic_id, 3))
    assert member.done((topic_id, 3), 0, 0, REJECT) is Code.NONE
    stage.wait(lambda: len(letters(stage, "dlq.g", 1)) == 1)
    assert told(letters(stage, "dlq.g", 1)[0])[:3] == ("wide", "3", "0")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dlq.absent", "there is no topic dlq.absent"),
        ("other", "other does not begin with dlq."),
        ("dlq.plain", "dlq.plain does not have errors.deadletterqueue.group.enable=true"),
        ("dlq.bad/name", "there is no topic"),
    ],
)
def test_records_without_a_place_are_archived_and_told(
    stage: Stage, place: Place, name: str, why: str
) -> None:
    stage.create("dlq.plain")
    stage.create("other", configs=TAKES)
    configure(stage, "g", errors_deadletterqueue_topic_name=name)
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 9, REJECT) is Code.NONE
    stage.wait(lambda: archived(stage, place, 10))
    assert stage.counted(LOST) == 10
    assert stage.counted(LETTERS) == 0
    (told_of,) = stage.events("share_dead_letters_lost")
    assert why in told_of["error"]


def test_the_topic_is_created_where_that_is_allowed(stage: Stage, place: Place) -> None:
    stage.set(BROKER, "", errors_deadletterqueue_auto_create_topics_enable="true")
    configure(stage, "g", errors_deadletterqueue_topic_name="dlq.new")
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 0, REJECT) is Code.NONE
    stage.wait(lambda: stage.nodes[1].image.topic_named("dlq.new") is not None)
    assert stage.nodes[1].image.config(TOPIC, "dlq.new") == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }
    stage.wait(lambda: len(letters(stage, "dlq.new")) == 1)


def test_the_prefix_may_change_at_run_time(stage: Stage, place: Place) -> None:
    stage.set(BROKER, "", errors_deadletterqueue_topic_name_prefix="zz.")
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 0, REJECT) is Code.NONE
    stage.wait(lambda: stage.counted(LOST) == 1)
    stage.set(BROKER, "", errors_deadletterqueue_topic_name_prefix="")
    assert member.done(place, 1, 1, REJECT) is Code.NONE
    stage.wait(lambda: len(letters(stage, "dlq.g")) == 1)


def test_without_a_topic_rejected_records_are_archived_at_once(stage: Stage, place: Place) -> None:
    configure(stage, "g", errors_deadletterqueue_topic_name="")
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 1, REJECT) is Code.NONE
    assert persisted(stage, "g", place).batches == (StateBatch(0, 1, 4, 1),)
    assert stage.counted(LOST) == 0


def test_a_record_is_archived_when_its_letter_is_written(stage: Stage) -> None:
    stage.create("dlq.g", configs=TAKES)
    place = set_up(stage)
    configure(stage, "g", errors_deadletterqueue_topic_name="dlq.g")
    held: list[Callable[[], None]] = []
    letters_of = stage.nodes[1].share_leader._dead_letters
    assert letters_of is not None
    letters_of.send = lambda key, records, done: held.append(done)  # type: ignore[method-assign]
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 0, REJECT) is Code.NONE
    stage.world.run(stage.world.now + 5)
    assert persisted(stage, "g", place).batches == (StateBatch(0, 0, 3, 1),)
    held.pop()()
    stage.wait(lambda: archived(stage, place, 1))


def test_a_new_leader_sends_letters_that_may_not_have_been_written() -> None:
    with shares(), Stage(3, **SHORT) as stage:
        stage.create("dlq.g", configs=TAKES)
        place = set_up(stage, replicas=1)
        configure(stage, "g", errors_deadletterqueue_topic_name="dlq.g")
        before = stage.leader("t", 0)
        member = ShareMember(stage, "g", node_id=before)
        member.acquire(place)
        share_leader = stage.nodes[before].share_leader
        share_leader._dead_letters.send = lambda *_: None  # type: ignore[union-attr, method-assign]
        assert member.done(place, 0, 4, REJECT) is Code.NONE
        after = next(node_id for node_id in stage.nodes if node_id != before)
        move(stage, after)
        other = ShareMember(stage, "g", "B" * 22, node_id=after)
        assert other.acquire(place)[0][0] == 5
        stage.wait(lambda: len(letters(stage, "dlq.g")) == 5)
        stage.wait(lambda: archived(stage, place, 5))
