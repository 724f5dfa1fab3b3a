"""The short way of OffsetCommit answers byte for byte what the long one does, and is left when
anything is different.
"""

import pytest

from raftka.broker.coordinators.commit_plan import PARTITIONS, CommitPlan
from raftka.broker.coordinators.partition import ACTIVE, LOADING
from raftka.broker.network.dispatch import LONG_FRAME_BYTES
from raftka.wire.errors import Code
from raftka.wire.messages.offsets import OFFSET_COMMIT
from tests.broker.short_ways import short_ways
from tests.broker.stage import Stage
from tests.kit.broker.committing import Committer

TOPICS = ("t", "u")


def stage_of_topics() -> Stage:
    return Stage(offsets_topic_num_partitions="1")


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_that_differ_in_their_offsets(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for open in (True, False):
        with stage_of_topics() as stage, short_ways(monkeypatch, CommitPlan, open=open) as taken:
            for topic in TOPICS:
                stage.create(topic, 2)
            client = Committer(stage, version)
            answers = [client.ask(client.row(at, 1000 + at)) for at in range(4)]
            answers.append(client.ask(client.row(7, 8, committed_metadata="m")))
            answers.append(client.ask(client.row(2**62, -(2**62), committed_metadata="m")))
            two = client.row(11, 12)
            two.topics = [*two.topics, *client.row(13, topic="u").topics]
            answers += [client.ask(two), client.ask(two)]
            answers.append(client.ask(client.row(5, 6, 7)))  # there is no third
            answers.append(client.ask(client.row(6, 7, 8)))
            before = client.committed()
            row = client.row(5, 6)
            answers += [client.ask(row), client.ask(row)]
            stage.delete("t")
            answers += [client.ask(row), client.ask(row)]
            told.append((answers, before, client.committed()))
            if open:
                # where it is named by its id, the coordinator is not asked any more
                gone = version < 10
                assert taken == [True] * 3 + [
                    False,
                    True,
                    False,
                    True,
                    False,
                    True,
                    False,
                    True,
                ] + [gone, gone]

    assert told[0] == told[1]
    before, after = told[0][1:]
    assert before == {("t", 0): (6, -1, ""), ("t", 1): (7, -1, ""), ("u", 0): (13, -1, "")}
    assert after == {("u", 0): (13, -1, "")}


def test_a_member_s_commits_are_checked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage_of_topics() as stage, short_ways(monkeypatch, CommitPlan) as taken:
        stage.create("t")
        client = Committer(stage)
        row = client.row(1)
        row.member_id, row.generation_id_or_member_epoch = "stranger", 3
        for _ in range(2):
            assert (
                client.wire.ask(OFFSET_COMMIT, row, 8).topics[0].partitions[0].error_code
                == Code.ILLEGAL_GENERATION
            )

        assert taken == [True]


def test_a_coordinator_that_has_gone_or_loads_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage_of_topics() as stage, short_ways(monkeypatch, CommitPlan) as taken:
        stage.create("t")
        client = Committer(stage)
        assert [client.commit(at) for at in range(2)] == [0, 0]
        (coordinator,) = stage.nodes[1].groups.runtime.partitions.values()
        coordinator.state = LOADING
        assert client.commit(2) == Code.COORDINATOR_LOAD_IN_PROGRESS
        coordinator.state = ACTIVE
        leader, coordinator.partition.leader = coordinator.partition.leader, None
        assert client.commit(3) == Code.NOT_COORDINATOR
        coordinator.partition.leader = leader
        assert client.commit(4) == 0

        assert taken == [True, False, False, True]
        assert client.committed() == {("t", 0): (4, -1, "")}


def test_a_long_request_has_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan keeps the request as long as the connection lives: the coordinator refuses such
    metadata, but 100 of them are megabytes.
    """
    with stage_of_topics() as stage, short_ways(monkeypatch, CommitPlan) as taken:
        stage.create("t", PARTITIONS)
        client = Committer(stage)
        for metadata, size in (
            ("m" * (LONG_FRAME_BYTES // PARTITIONS), PARTITIONS),
            ("m" * 30_000, 2),
        ):
            for _ in range(2):
                client.ask(client.row(*range(size), committed_metadata=metadata))

        assert taken == []
        assert not stage.server_side(client.node_id).plans


def test_very_many_partitions_have_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage_of_topics() as stage, short_ways(monkeypatch, CommitPlan) as taken:
        stage.create("t", PARTITIONS + 1)
        client = Committer(stage)
        for _ in range(2):
            assert client.commit(*range(PARTITIONS + 1)) == 0

        assert taken == []
        for _ in range(2):
            assert client.commit(*range(PARTITIONS)) == 0
        assert taken == [True]
