"""Fetch from the nearest replica (KIP-392): to whom a consumer that tells its rack is sent, and
what a follower serves it.
"""

from collections.abc import Iterator
from typing import Any, Self

import pytest

from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, PartitionData
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import Stage
from tests.kit.broker.fetching import VALUES, filled, values

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LONG_MS = 20_000


class Racks(Stage):
    """Node i stands in rack `r<i>`."""

    def __enter__(self) -> Self:
        return self

    def properties(self, node_id: int) -> dict[str, str]:
        return {**super().properties(node_id), "broker.rack": f"r{node_id}"}

    def read(self, node_id: int, rack: str, offset: int = 0, **fields: Any) -> PartitionData:
        return fetched(self.wire(node_id).ask(FETCH, fetch("t", offset, rack_id=rack, **fields)))

    @property
    def follower(self) -> int:
        return next(i for i in self.nodes if i != self.leader("t"))

    def cut_off(self, node_id: int) -> None:
        """From the leader alone."""
        self.world.network.cut(f"n{self.leader('t')}", f"n{node_id}", one_way=False)

    def in_step(self) -> None:
        self.wait(
            lambda: all(
                node.replicas.partitions["t", 0].high_watermark == 6 for node in self.nodes.values()
            )
        )


@pytest.fixture
def stage() -> Iterator[Racks]:
    with Racks(
        3,
        replica_selector_class=SELECTOR,
        replica_lag_time_max_ms="60000",
        broker_session_timeout_ms="60000",
    ) as stage:
        filled(stage)
        stage.in_step()
        yield stage


def test_the_leader_sends_its_consumers_to_their_racks(stage: Racks) -> None:
    leader, follower, begin = stage.leader("t"), stage.follower, stage.world.now

    row = stage.read(leader, f"r{follower}", 6, max_wait_ms=LONG_MS, min_bytes=1)

    assert (
        row.error_code,
        row.preferred_read_replica,
        row.high_watermark,
        bytes(row.records or b""),
    ) == (0, follower, 6, b"")
    assert stage.world.now < begin + 0.1
    assert stage.read(leader, f"r{follower}").preferred_read_replica == follower
    assert values(stage.read(follower, f"r{follower}")) == VALUES


@pytest.mark.parametrize("rack", ["", "r9", "its own"])
def test_who_is_nowhere_near_a_follower_is_served_by_the_leader(stage: Racks, rack: str) -> None:
    leader = stage.leader("t")

    row = stage.read(leader, f"r{leader}" if rack == "its own" else rack)

    assert (row.preferred_read_replica, values(row)) == (-1, VALUES)


def test_nobody_is_sent_to_a_follower_that_has_not_got_the_offset_or_is_not_in_sync(
    stage: Racks,
) -> None:
    leader, follower = stage.leader("t"), stage.follower
    stage.cut_off(follower)
    assert (
        produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"new"), acks=1))).error_code
        == 0
    )

    assert stage.read(leader, f"r{follower}", 6).preferred_read_replica == follower
    assert stage.read(leader, f"r{follower}", 7).preferred_read_replica == -1
    stage.partition("t", node_id=leader).leader.isr = tuple(i for i in stage.nodes if i != follower)  # type: ignore[union-attr]
    assert stage.read(leader, f"r{follower}", 6).preferred_read_replica == -1


def test_of_two_in_a_rack_the_one_that_has_more_is_chosen() -> None:
    class Two(Racks):
        def properties(self, node_id: int) -> dict[str, str]:
            return {**super().properties(node_id), "broker.rack": "far"}

    with Two(
        3,
        replica_selector_class=SELECTOR,
        replica_lag_time_max_ms="60000",
        broker_session_timeout_ms="60000",
    ) as stage:
        filled(stage)
        stage.in_step()
        leader = stage.leader("t")
        assert stage.read(leader, "far").preferred_read_replica == -1, (
            "the leader is in that rack too"
        )
        image = stage.nodes[leader].image
        for node_id, broker in image.brokers.items():
            image.brokers[node_id] = broker._replace(rack="here" if node_id == leader else "far")  # type: ignore[index]
        behind, ahead = (i for i in stage.nodes if i != leader)
        stage.cut_off(behind)
        stage.wire(leader).ask(PRODUCE, produce("t", batch(b"new"), acks=1))
        stage.wait(lambda: stage.partition("t", node_id=leader).leader.follower_offset(ahead) == 7)  # type: ignore[union-attr]

        assert stage.read(leader, "far", 6).preferred_read_replica == ahead


def test_without_the_selector_nobody_is_sent_anywhere() -> None:
    with Racks(3) as stage:
        filled(stage)
        stage.in_step()

        row = stage.read(stage.leader("t"), f"r{stage.follower}")
        assert (row.preferred_read_replica, values(row)) == (-1, VALUES)
        assert values(stage.read(stage.follower, f"r{stage.follower}")) == VALUES, (
            "who names its rack is served by a follower all the same, as in Kafka"
        )


# what a follower serves


def test_a_follower_serves_who_names_a_rack_and_nobody_else(stage: Racks) -> None:
    follower = stage.follower

    assert values(stage.read(follower, "r9")) == VALUES
    assert stage.read(follower, "").error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_a_follower_shows_what_it_knows_to_be_committed(stage: Racks) -> None:
    leader, follower = stage.leader("t"), stage.follower
    stage.world.network.cut(
        f"n{leader}",
        f"n{next(i for i in stage.nodes if i not in (leader, follower))}",
        one_way=False,
    )
    assert (
        produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"new"), acks=1))).error_code
        == 0
    )
    stage.wait(lambda: stage.partition("t", node_id=follower).log.end_offset == 7)

    assert values(stage.read(follower, "r")) == VALUES
    row = stage.read(follower, "r", 6)
    assert (row.error_code, row.high_watermark, bytes(row.records or b"")) == (0, 6, b"")
    assert (stage.read(follower, "r", 7).error_code, stage.read(follower, "r", 8).error_code) == (
        0,
        Code.OFFSET_OUT_OF_RANGE,
    )


@pytest.mark.parametrize(("epoch", "code"), [(0, Code.NONE), (1, Code.UNKNOWN_LEADER_EPOCH)])
def test_a_follower_checks_leader_epochs_too(stage: Racks, epoch: int, code: Code) -> None:
    assert stage.read(stage.follower, "r", current_leader_epoch=epoch).error_code == code


def test_what_is_committed_is_at_the_followers_at_once(stage: Racks) -> None:
    """Else it would come with the next record, or half a second later."""
    leader, follower = stage.leader("t"), stage.follower
    reader = stage.wire(follower)
    stage.world.run(stage.world.now + 1.0)
    for number in range(3):
        reader.request(FETCH, fetch("t", 6 + number, rack_id="r", max_wait_ms=LONG_MS, min_bytes=1))
        stage.wait(lambda: stage.nodes[follower].metrics.parked_fetches == 1)
        begin = stage.world.now

        assert (
            produced(
                stage.wire(leader).ask(PRODUCE, produce("t", batch(b"%d" % number)))
            ).error_code
            == 0
        )

        assert values(fetched(reader.answer(FETCH))) == [b"%d" % number]
        assert stage.world.now < begin + 0.05


def test_who_waits_at_a_follower_goes_on_there_when_it_becomes_the_leader(stage: Racks) -> None:
    leader, follower = stage.leader("t"), stage.follower
    reader = stage.wire(follower)
    reader.request(FETCH, fetch("t", 6, rack_id="r", max_wait_ms=LONG_MS, min_bytes=1))
    stage.wait(lambda: stage.nodes[follower].metrics.parked_fetches == 1)
    stage.kill(leader)
    stage.wait(lambda: stage.leader("t") not in (leader, -1))
    produced(stage.wire(stage.leader("t")).ask(PRODUCE, produce("t", batch(b"new"), acks=1)))

    row = fetched(reader.answer(FETCH))
    assert row.error_code == 0
    assert values(row) in ([b"new"], [])
