"""A follower's fetcher: the states of its one Fetch, and answers that come too late."""

import pytest

from raftka.broker.replica import fetcher as replica_fetcher
from raftka.broker.replica.fetcher import (
    FETCHER_STATES,
    FetcherState,
    PartitionFetchState,
    ReplicaFetcher,
)
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce
from tests.broker.stage import Stage
from tests.kit.transitions import changes_of, recorded


def test_every_transition_of_a_fetcher_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Fetch waits at the leader when a second topic is made, and an answer names more partitions
    than are carried out in a turn.
    """
    monkeypatch.setattr(replica_fetcher, "OF_TURN", 5)
    with recorded(ReplicaFetcher, "state") as changes, Stage(2) as stage:
        stage.create("t", partitions=32)
        stage.create("u")
        leader, row = stage.leader("t"), produce("t", batch(b"v"))
        parts = PRODUCE.request.topic_data.partition_data
        row.topic_data[0].partition_data = [
            parts(index=index, records=batch(b"v"))
            for index in range(32)
            if stage.leader("t", index) == leader
        ]
        stage.wire(leader).ask(PRODUCE, row)

    assert changes == changes_of(FETCHER_STATES)
    assert set(FETCHER_STATES) == set(FetcherState)


def test_offsets_that_come_late_change_no_log_that_is_not_fetched_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They began the log of a deleted topic anew, so the broker took its disk for broken; it could
    as well have been that of a leader by now.
    """
    carried_out: list[PartitionFetchState] = []
    carry_out = PartitionFetchState.carry_out

    def noted(state: PartitionFetchState, effects: tuple[object, ...]) -> None:
        carried_out.append(state)
        carry_out(state, effects)

    with Stage(3) as stage:
        stage.create("t", 6)  # each broker leads two: the connection stays for the other one
        leader = stage.leader("t")
        node = stage.nodes[next(node_id for node_id in (1, 2, 3) if node_id != leader)]
        fetchers, partition = node.replicas.fetchers, node.replicas.partitions["t", 0]
        stage.wait(
            lambda: (
                leader in fetchers.by_leader and fetchers.by_leader[leader].connection is not None
            )
        )
        fetcher = fetchers.by_leader[leader]
        state = fetcher.follows[partition.topic_id, 0]
        monkeypatch.setattr(PartitionFetchState, "carry_out", noted)

        def ask_and_go() -> None:
            fetcher.ask_offsets(state, partition.leader_epoch)
            fetchers.remove(partition)
            carried_out.clear()

        node.runtime.take(lambda _: ask_and_go(), None)  # type: ignore[attr-defined]
        stage.world.run(stage.world.now + 1.0)

    assert state not in carried_out
