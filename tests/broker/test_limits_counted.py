"""Limits that deeper floors keep, each hit through a node: its counter moves there, and what is
refused is refused to that one alone.
"""

from collections.abc import Iterator

import msgpack
import pytest

from raftka.broker.controller.peer import MAGIC, Kind
from raftka.limits import (
    BROKERS,
    CONFIGURED_RESOURCES,
    GUARDS_OF_PARTITION,
    HEADERS_OF_RECORD,
    METADATA_SNAPSHOT_BYTES,
    PARTITIONS,
    PARTITIONS_OF_REQUEST,
    PRODUCERS_OF_PARTITION,
    RECORDS_OF_REQUEST,
    SETTINGS_OF_RESOURCE,
    TOPICS,
    Limit,
)
from raftka.log.producers.markers import VERSION_2
from raftka.log.producers.state import ProducerState
from raftka.metadata.commands import (
    AlterConfigs,
    AlterReassignments,
    Command,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    MorePartitions,
    Move,
    MovedTopic,
    NewTopic,
    RegisterBroker,
)
from raftka.metadata.image import BROKER
from raftka.versions import own_features
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import TRANSACTIONAL, build_batch
from tests.broker.conftest import Lower
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire

GROUP = 32  # the type of a resource that needs not be there to be configured


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(raftka_validation="records") as stage:
        stage.create("t", partitions=2)
        yield stage
        assert not stage.world.failures


def told(stage: Stage, command: Command) -> list[int]:
    """Error codes of the answer, or the one code of its refusal."""
    outcome: list[list[int]] = []
    stage.nodes[1].controller.call(
        command,
        lambda error, reply: outcome.append(
            [int(error.code)] if error is not None else [int(each.error) for each in reply]
        ),
    )
    stage.wait(lambda: bool(outcome))
    return outcome[0]


def configs(kind: int, name: str, *settings: str) -> AlterConfigs:
    return AlterConfigs(
        (ConfigResource(kind, name, tuple(ConfigChange(each, 0, "60000") for each in settings)),)
    )


@pytest.mark.parametrize(
    ("limit", "value", "command"),
    [
        (TOPICS, 1, CreateTopics((NewTopic("u", 1, 1),))),
        (PARTITIONS, 3, CreateTopics((NewTopic("u", 2, 1),))),
        (PARTITIONS, 3, CreatePartitions((MorePartitions("t", 4, None),))),
        (PARTITIONS_OF_REQUEST, 3, CreateTopics((NewTopic("u", 4, 1),))),
        (PARTITIONS_OF_REQUEST, 3, CreatePartitions((MorePartitions("t", 6, None),))),
        (
            BROKERS,
            1,
            RegisterBroker(
                7,
                bytes(16),
                bytes([7] * 16),
                None,
                (("PLAINTEXT", "n7", 9092, "PLAINTEXT"),),
                features=own_features(),
            ),
        ),
        (CONFIGURED_RESOURCES, 0, configs(GROUP, "g", "consumer.session.timeout.ms")),
        (SETTINGS_OF_RESOURCE, 1, configs(BROKER, "1", "of.a.plugin", "of.another")),
    ],
    ids=lambda value: value.name if isinstance(value, Limit) else type(value).__name__,
)
def test_what_the_controller_refuses(
    stage: Stage, lowered: Lower, limit: Limit, value: int, command: Command
) -> None:
    lowered(limit, value)

    assert told(stage, command) == [Code.POLICY_VIOLATION]
    assert stage.counted(limit.metric) == 1
    assert [line["limit"] for line in stage.events("limit_hit")] == [limit.name]


def test_moves_of_one_request(lowered: Lower) -> None:
    with Stage(nodes=2) as stage:
        stage.create("t", partitions=2, replication_factor=1)
        image = stage.nodes[1].image
        moves = tuple(
            Move(i, (3 - p.leader,))
            for i, p in enumerate(image.topics[image.topic_ids["t"]].partitions)
        )
        lowered(RECORDS_OF_REQUEST, 1)

        assert told(stage, AlterReassignments((MovedTopic("t", moves),))) == [Code.POLICY_VIOLATION]
        assert [node.image.topics for node in stage.nodes.values()] == [image.topics] * 2
        assert (
            sum(stage.counted(RECORDS_OF_REQUEST.metric, node_id) for node_id in stage.nodes) == 1
        )


def test_producers_of_a_partition(stage: Stage, lowered: Lower) -> None:
    lowered(PRODUCERS_OF_PARTITION, 10)
    wire = stage.wire()
    for producer_id in range(12):
        sent = batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        assert produced(wire.ask(PRODUCE, produce("t", sent))).error_code == 0

    assert stage.partition("t").log.producers.forgotten == 2


def test_transactions_that_are_about_to_begin(lowered: Lower) -> None:
    """Of many that asked and wrote nothing, the one that asked longest ago must ask again; one that
    asked again meanwhile need not.
    """
    lowered(GUARDS_OF_PARTITION, 3)
    state = ProducerState()
    for producer_id in (1, 2, 3, 1, 4):
        state.verified(producer_id, state.guard(producer_id, 0, 0, VERSION_2, 0), known=True)

    assert state.guards_dropped == 1
    with pytest.raises(KafkaError):
        state.admit(2, 0, 0, 1, TRANSACTIONAL)
    for producer_id in (1, 3, 4):
        assert state.admit(producer_id, 0, 0, 1, TRANSACTIONAL) is None


def test_records_that_are_too_much(stage: Stage, lowered: Lower) -> None:
    lowered(HEADERS_OF_RECORD, 3)
    headers = tuple((f"h{i}", b"") for i in range(4))
    sent = bytes(build_batch([(None, b"x", headers, 1_700_000_000_000)]))

    assert produced(stage.wire().ask(PRODUCE, produce("t", sent))).error_code
    assert stage.counted(HEADERS_OF_RECORD.metric) == 1


def test_a_snapshot_that_no_voter_takes(lowered: Lower) -> None:
    with Stage(nodes=3) as stage:
        wire = Wire(stage.world, stage.runtime, "n1", CONTROLLER_PORT)
        stage.kill(3)  # we speak in its place
        wire.send_frame(
            msgpack.packb((int(Kind.HELLO), MAGIC, stage.nodes[1].image.cluster_id, 3, False, True))
        )
        assert wire.frame() is not None
        first = {
            "type": "snapshot",
            "term": 99,
            "seq": 1,
            "index": 5,
            "of_term": 1,
            "crc": 0,
            "position": 0,
            "data": b"",
        }
        wire.send_frame(
            msgpack.packb((int(Kind.RAFT), first | {"size": METADATA_SNAPSHOT_BYTES.value + 1}))
        )

        assert wire.frame() is None
        stage.wait(lambda: stage.counted(METADATA_SNAPSHOT_BYTES.metric) == 1)
