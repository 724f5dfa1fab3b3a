"""Records that their schemas refuse, where another topic takes them: nothing is lost, offsets and
sequences stay whole, and no right is lent.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.metadata.image import TOPIC
from raftka.security import acls
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE, PartitionProduceResponse
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.records import Record, iterate, records_of
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.rights import create_acls, pat, topic_acl
from tests.broker.schema_registry import framed
from tests.broker.stage import Stage
from tests.kit.broker.schema_validation import BAD, GOOD, ON, TIME_MS, TO_DEAD, Scene, guarded


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.stage:
        scene.create(**TO_DEAD)
        scene.stage.create("dead")
        scene.registry.register(7, "t-value")
        yield scene
        assert not scene.stage.world.failures


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


@pytest.mark.parametrize("compression", [0, 4])
@pytest.mark.parametrize("codec", ["producer", "gzip"])
def test_bad_records_become_letters_and_the_others_keep_their_offsets(
    scene: Scene, compression: int, codec: str
) -> None:
    scene.stage.set(TOPIC, "t", compression_type=codec)
    answer = scene.send(GOOD, BAD, GOOD, framed(8), GOOD, compression=compression)
    assert (answer.error_code, answer.base_offset, list(answer.record_errors)) == (0, 0, [])
    assert scene.send(GOOD).base_offset == 5
    assert [(record.offset, record.value) for record in scene.stored()] == [
        (0, GOOD),
        (2, GOOD),
        (4, GOOD),
        (5, GOOD),
    ]
    letters = scene.stored("dead")
    assert values(letters) == [BAD, framed(8)]
    assert [(name, value.decode()) for name, value in letters[1].headers if value is not None] == [
        ("raftka.dead.letter.topic", "t"),
        ("raftka.dead.letter.partition", "0"),
        ("raftka.dead.letter.timestamp", str(TIME_MS)),
        (
            "raftka.dead.letter.reason",
            "schema 8 of the value is not registered under subject t-value",
        ),
    ]
    assert letters[0].timestamp == TIME_MS
    assert scene.stage.counted("raftka_schema_dead_letters_total") == 2


def test_batch_of_bad_records_alone_leaves_its_offsets_empty(scene: Scene) -> None:
    assert scene.send(BAD, BAD).base_offset == 0
    assert scene.send(GOOD).base_offset == 2
    assert [(record.offset, record.value) for record in scene.stored()] == [(2, GOOD)]
    assert values(scene.stored("dead")) == [BAD, BAD]


def test_sequences_of_a_producer_stay_whole(scene: Scene) -> None:
    """A batch whose records went away counts with all of them; sent again it is a duplicate, and
    its letters may be there twice.
    """
    wire = scene.stage.wire()
    producer = wire.ask(INIT_PRODUCER_ID, INIT_PRODUCER_ID.request(transaction_timeout_ms=1000))

    def send(sequence: int, *sent: bytes) -> PartitionProduceResponse:
        fields: dict[str, Any] = {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "base_sequence": sequence,
        }
        return scene.send(*sent, wire=wire, **fields)

    assert send(0, GOOD, BAD, BAD).base_offset == 0
    assert send(3, BAD).base_offset == 3
    assert send(4, GOOD).base_offset == 4
    assert send(3, BAD).base_offset == 3
    assert send(0, GOOD, BAD, BAD).base_offset == 0
    assert send(6, GOOD).error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [record.offset for record in scene.stored()] == [0, 4]
    assert values(scene.stored("dead")) == [BAD] * 6


def test_producer_state_is_the_same_after_a_start(scene: Scene) -> None:
    fields: dict[str, Any] = {"producer_id": 1000, "producer_epoch": 0}
    assert scene.send(GOOD, BAD, BAD, base_sequence=0, **fields).error_code == 0
    scene.stage.kill(1, power_loss=True)
    scene.stage.start(1)
    scene.stage.wait(lambda: scene.stage.nodes[1].ready.is_set() and scene.stage.leader("t") == 1)
    assert scene.send(GOOD, base_sequence=3, **fields).base_offset == 3
    assert [record.offset for record in scene.stored()] == [0, 3]


def test_followers_have_the_holes_and_letters_find_another_broker() -> None:
    scene = Scene(3)
    with scene.stage as stage:
        scene.registry.register(7, "t-value")
        scene.create(**TO_DEAD)
        stage.create("dead", 1)
        leader = stage.leader("t")
        if stage.leader("dead") == leader:
            stage.delete("dead")
            stage.wait(
                lambda: all(node.image.topic_named("dead") is None for node in stage.nodes.values())
            )
            stage.create("dead", 1)
        assert stage.leader("dead") != leader
        wire = stage.wire(leader)
        assert (
            produced(wire.ask(PRODUCE, produce("t", batch(BAD, GOOD, BAD, GOOD)))).base_offset == 0
        )
        assert values(stored(stage, "dead")) == [BAD, BAD]
        stage.wait(
            lambda: all(stage.partition("t", 0, node).log.end_offset == 4 for node in stage.nodes)
        )
        stage.kill(leader)
        stage.wait(lambda: stage.leader("t") not in (leader, -1))
        assert [record.offset for record in stored(stage, "t")] == [1, 3]
        assert not stage.world.failures


def stored(stage: Stage, topic: str) -> list[Record]:
    records = fetched(
        stage.wire(stage.leader(topic)).ask(FETCH, fetch(topic, 0, 0, max_bytes=1 << 20))
    ).records
    return [
        record for _, each in iterate(memoryview(records or b"")) for record in records_of(each)
    ]


def test_many_letters_go_in_several_batches(scene: Scene) -> None:
    scene.stage.set(TOPIC, "dead", max_message_bytes="2000")
    sent = [b"%06d" % at for at in range(2_000)]
    assert scene.send(*sent).error_code == 0
    assert scene.stage.partition("dead").log.end_offset == 2_000
    assert values(scene.stored("dead")) == sent


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no such topic": ({}, "and there is no dead letter topic"),
    "validation of its own": (ON, "has schema validation itself"),
    "a letter that is too large": (
        {"max_message_bytes": "10"},
        "too large for the dead letter topic",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_batch_is_refused_as_a_whole_where_no_letter_can_be_written(case: str) -> None:
    configs, reason = REFUSED[case]
    scene = Scene()
    with scene.stage:
        scene.create(**TO_DEAD)
        if configs:
            scene.stage.create("dead", configs=configs)
        scene.registry.register(7, "t-value")
        answer = scene.send(GOOD, BAD)
        assert Code(answer.error_code) is Code.INVALID_RECORD
        ((place, text),) = [
            (each.batch_index, each.batch_index_error_message) for each in answer.record_errors
        ]
        assert place == 1
        assert reason in str(text)
        assert scene.stored() == []


def test_letters_go_to_no_internal_topic(scene: Scene) -> None:
    scene.stage.create("__consumer_offsets")
    settings: dict[str, Any] = dict.fromkeys(TO_DEAD, "__consumer_offsets")
    scene.stage.set(TOPIC, "t", **settings)
    assert scene.send(BAD).error_code == Code.INVALID_RECORD
    assert scene.stage.partition("__consumer_offsets").log.end_offset == 0


def test_batch_of_a_transaction_is_refused_as_a_whole(scene: Scene) -> None:
    wire = scene.stage.wire()
    find = FIND_COORDINATOR.request(key_type=1, coordinator_keys=["x"])
    scene.stage.wait(lambda: wire.ask(FIND_COORDINATOR, find).coordinators[0].error_code == 0)
    producer = wire.ask(
        INIT_PRODUCER_ID,
        INIT_PRODUCER_ID.request(transactional_id="x", transaction_timeout_ms=1000),
    )
    records = batch(
        GOOD,
        BAD,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    answer = produced(wire.ask(PRODUCE, produce("t", records, transactional_id="x"), 12))
    assert Code(answer.error_code) is Code.INVALID_RECORD
    assert "a batch of a transaction is refused as a whole" in str(
        answer.record_errors[0].batch_index_error_message
    )
    assert scene.stored() == scene.stored("dead") == []


def test_client_that_may_not_write_letters_sends_none() -> None:
    """A topic's settings do not lend the broker's own rights."""
    with guarded() as (scene, stage):
        refused = produced(pat(stage).ask(PRODUCE, produce("t", batch(GOOD, BAD))))
        assert Code(refused.error_code) is Code.INVALID_RECORD
        assert "may not write to the dead letter topic" in str(
            refused.record_errors[0].batch_index_error_message
        )
        assert create_acls(stage, topic_acl(acls.WRITE, name="dead")) == [0]
        assert produced(pat(stage).ask(PRODUCE, produce("t", batch(GOOD, BAD)))).error_code == 0
        assert values(scene.stored("dead")) == [BAD]


def test_letters_that_cannot_be_written_now_refuse_the_batch_for_now() -> None:
    scene = Scene(3)
    with scene.stage as stage:
        scene.registry.register(7, "t-value")
        scene.create(**TO_DEAD)
        stage.create("dead", 1, 1)
        keeper = stage.leader("dead")
        stage.wait(lambda: stage.leader("t") > 0)
        stage.kill(keeper)
        stage.wait(lambda: stage.leader("dead") == -1 and stage.leader("t") not in (keeper, -1))
        wire = stage.wire(stage.leader("t"))
        answer = produced(wire.ask(PRODUCE, produce("t", batch(GOOD, BAD))))
        assert Code(answer.error_code) is Code.NOT_ENOUGH_REPLICAS
        assert "dead letter topic dead (LEADER_NOT_AVAILABLE)" in str(answer.error_message)
        assert stage.partition("t").log.end_offset == 0
        stage.start(keeper)
        stage.wait(lambda: stage.leader("dead") == keeper)
        stage.wait(
            lambda: produced(wire.ask(PRODUCE, produce("t", batch(GOOD, BAD)))).error_code == 0
        )
