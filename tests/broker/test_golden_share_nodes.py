"""Share groups on three nodes as recorded with Apache Kafka 4.4.0, asked again: wrong coordinators,
wrong leaders, and a leader that changes.
"""

from base64 import urlsafe_b64encode
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from raftka.metadata.commands import AlterReassignments, Move, MovedTopic
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.golden import Differences, Exchange
from tests.broker.golden_shares import ReplayShares, lines_of, subscribe
from tests.broker.stage import Stage, Wire
from tests.kit.broker.share import ShareMember, configure, shares
from tests.kit.broker.share_groups import load_groups
from tests.kit.broker.share_states import coordinated

LINES = lines_of("nodes")
EXCHANGES = [line.exchange for line in LINES]
TOPICS = {"mv": UUID("36db0efd-e5b6-4bfb-941f-a3cf57228463").bytes}
GIVEN: dict[str, Any] = {
    "offsets_topic_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
}
ASSIGNED = CREATE_TOPICS.request.topics.assignments
LATE_TIMES = CREATE_TOPICS.request.topics.configs(
    name="message.timestamp.after.max.ms", value=str(2**63 - 1)
)
NODES = {"c1": 1, "c2": 2, "c3": 3, "main": 1, "n2": 2}
COORDINATORS = {"__consumer_offsets": 2, "__share_group_state": 3}


def in_base64(topic_id: bytes) -> bytes:
    return urlsafe_b64encode(topic_id).rstrip(b"=")


class Replayed(ReplayShares):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, LINES, TOPICS)
        self.before = {532: lambda: self._lead("mv", 2), 536: self._go_on}

    def connect(self, name: str) -> Wire:
        return self.stage.wire(NODES[name])

    def make(self) -> None:
        topic = CREATE_TOPICS.request.topics(
            name="mv",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[ASSIGNED(partition_index=0, broker_ids=[1])],
            configs=[LATE_TIMES],
        )
        request = CREATE_TOPICS.request(topics=[topic])
        (created,) = self.stage.wire().ask(CREATE_TOPICS, request).topics
        ours = self.ids[TOPICS["mv"]] = bytes(created.topic_id)
        self.ids[in_base64(TOPICS["mv"])] = in_base64(ours)
        load_groups(self.stage)
        coordinated(self.stage)
        for name, leader in COORDINATORS.items():
            self._lead(name, leader)
        self.write("mv", 0)
        configure(self.stage, "g", share_auto_offset_reset="earliest")
        subscribe(self.stage, {"g": "mv"}, COORDINATORS["__consumer_offsets"])

    def _lead(self, topic: str, leader: int) -> None:
        command = AlterReassignments((MovedTopic(topic, (Move(0, (leader,)),)),))
        self.stage.nodes[1].controller.call(command, lambda error, reply: None, 5.0)

        def leads() -> bool:
            found = {
                n: node.replicas.partitions.get((topic, 0)) for n, node in self.stage.nodes.items()
            }
            return all(
                (replica is not None and replica.leader is not None) == (node_id == leader)
                for node_id, replica in found.items()
            )

        self.stage.wait(leads)

    def _go_on(self) -> None:
        """Fetch in the session, as was not recorded."""
        member = ShareMember(self.stage, "g", node_id=2)
        member.wire = self.wires["n2"]
        for member.epoch in range(2, 7):
            member.ask(max_wait_ms=0)
            assert member.answer().error_code == 0

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name == "key":
            recorded = self.with_our_ids(recorded.encode()).decode()
        if name in ("host", "port") and recorded:
            return ours in ("n1", "n2", "n3", 9092)
        return super().same(path, name, recorded, ours)


@cache
def replayed() -> dict[int, Differences]:
    with shares(), Stage(3, **GIVEN) as stage:
        replay = Replayed(stage)
        replay.make()
        return replay.run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert replayed()[exchange.n] == {}, exchange.comment
