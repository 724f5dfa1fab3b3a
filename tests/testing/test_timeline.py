"""The time line tells what the brokers of a cluster did, in bounds, and stands in the report of a
failed test alone."""

from collections.abc import Iterator

import pytest

from raftka.limits import TIMELINE_EVENTS, TIMELINE_LINES
from raftka.testing import Cluster
from raftka.testing.timeline.recorder import Registry, Timeline
from raftka.wire.messages.groups import JOIN_GROUP, LEAVE_GROUP
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from tests.testing.wire import connect, coordinator, produce

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.heal()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_events_have_times_from_the_start_and_repeated_ones_are_counted() -> None:
    clock = Clock()
    timeline = Timeline("t", clock)
    timeline.note("early")
    clock.now = 105.0
    began = clock.now
    timeline.note("one")
    for _ in range(3):
        clock.now += 0.5
        timeline.note("again", key="k")

    assert timeline.text(began).splitlines() == [
        "   +0.000 s  one",
        "   +0.500 s  again  (x3, until +1.500 s)",
    ]
    assert timeline.text().splitlines()[0] == "   +0.000 s  early"
    timeline.mark()
    timeline.note("again", key="k")
    assert timeline.text(began).splitlines()[-1] == "   +1.500 s  again"


def test_a_time_line_is_bounded_and_says_what_it_left_out() -> None:
    clock = Clock()
    timeline = Timeline("t", clock)
    for number in range(TIMELINE_EVENTS + 50):
        clock.now += 0.001
        timeline.note(f"event {number}", key=number)

    lines = timeline.text().splitlines()
    assert len(lines) == TIMELINE_LINES + 1
    assert lines[0] == f"({TIMELINE_EVENTS + 50 - TIMELINE_LINES} earlier events are not shown)"
    assert lines[-1].endswith(f"event {TIMELINE_EVENTS + 49}")
    assert len(timeline._events) == len(timeline._repeated) == TIMELINE_EVENTS


def test_clusters_of_earlier_tests_are_forgotten() -> None:
    registry, clock = Registry(), Clock()
    living, ended = Timeline("living", clock), Timeline("ended", clock)
    for timeline in (living, ended):
        registry.add(timeline)
        timeline.note("x")
    registry.end(ended)
    assert [name for name, _ in registry.texts(0.0)] == ["ended", "living"]
    registry.begin_test()
    assert [name for name, _ in registry.texts(0.0)] == ["living"]
    assert registry.texts(clock.now + 1) == []


def lines(cluster: Cluster, *words: str) -> list[str]:
    return [line for line in cluster.timeline().splitlines() if all(each in line for each in words)]


def test_leaders_isr_changes_and_dead_nodes_are_told(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader(topic)
    cluster.kill(leader)
    cluster.wait_for(lambda: cluster.leader(topic) not in (-1, leader))
    after = cluster.leader(topic)
    cluster.restart(leader)

    assert lines(cluster, f"topic '{topic}' created: 1 partitions, leaders {leader}")
    assert lines(cluster, f"node {leader}: killed by the test")
    assert lines(cluster, f"{topic}-0: leader {leader} -> {after}, epoch ", "ISR [")
    assert lines(cluster, f"node {leader}: fenced")
    assert lines(cluster, f"node {leader}: registered, broker epoch")
    # each entry of the metadata is told once, by whichever node has it first
    assert len(lines(cluster, f"topic '{topic}' created")) == 1


def test_errors_that_clients_were_sent_are_told_and_counted(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    follower = next(node for node in cluster.nodes if node != cluster.leader(topic))
    with connect(cluster, follower, "orders") as wire:
        for _ in range(3):
            wire.ask(PRODUCE, 9, produce({topic: [0]}))
        rows = METADATA.request.topics
        request = METADATA.request(topics=[rows(name="nowhere")], allow_auto_topic_creation=False)
        wire.ask(METADATA, 9, request)

    (line,) = lines(cluster, f"Produce of {topic}-0: NOT_LEADER_OR_FOLLOWER to 'orders'")
    assert f"(node {follower})  (x3, until" in line
    assert lines(cluster, "Metadata of nowhere: UNKNOWN_TOPIC_OR_PARTITION to 'orders'")


def test_faults_and_their_hits_are_told(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    leader = cluster.leader(topic)
    cluster.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=topic, nth=2)
    with connect(cluster, leader, "told") as wire:
        for _ in range(3):
            wire.ask(PRODUCE, 9, produce({topic: [0]}))

    name = "fail_next Produce NOT_LEADER_OR_FOLLOWER"
    assert lines(cluster, f"fault set: {name} of topic='{topic}', nth=2")
    assert lines(cluster, f"fault hits: {name}: Produce v9 of told, node {leader}")
    assert lines(cluster, f"Produce of {topic}-0: NOT_LEADER_OR_FOLLOWER to 'told'")


def test_rebalances_are_told_with_their_members_and_their_reason(cluster: Cluster) -> None:
    join, leave = JOIN_GROUP.request, LEAVE_GROUP.request
    with connect(cluster, coordinator(cluster, "told"), "member") as wire:
        answer = wire.ask(
            JOIN_GROUP,
            3,
            join(
                group_id="told",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                protocol_type="consumer",
                protocols=[join.protocols(name="range", metadata=b"")],
            ),
        )
        assert answer.error_code == 0
        wire.ask(LEAVE_GROUP, 1, leave(group_id="told", member_id=answer.member_id))

    (joined,) = lines(cluster, "group 'told': CompletingRebalance, generation 1, 1 members")
    assert f"joined: {answer.member_id}" in joined
    assert "(JoinGroup, node" in joined
    (left,) = lines(cluster, "group 'told': Empty, generation 2, 0 members")
    assert f"left: {answer.member_id}" in left
    assert "(LeaveGroup, node" in left


# in the report of a test


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\naddopts = -p no:randomly -p no:cacheprovider")
    return pytester


FAILING = """
    import pytest
    from raftka.testing import Cluster

    @pytest.fixture
    def broken(raftka_cluster):
        raftka_cluster.create_topic("in-a-fixture")
        raise RuntimeError

    def test_that_passes(raftka_cluster):
        raftka_cluster.create_topic("not-shown")

    def test_that_fails(raftka_cluster):
        raftka_cluster.create_topic("shown")
        raftka_cluster.fail_next("Metadata", "UNKNOWN_SERVER_ERROR")
        assert False

    def test_of_a_broken_fixture(broken):
        pass

    def test_with_a_cluster_of_its_own():
        with Cluster() as cluster:
            cluster.create_topic("of-its-own")
            assert False

    def test_without_a_cluster():
        assert False
"""


@pytest.mark.parametrize("options", [(), ("-n2",)])
def test_the_report_of_a_failed_test_has_its_time_line(
    project: pytest.Pytester, options: tuple[str, ...]
) -> None:
    project.makepyfile(FAILING)

    result = project.runpytest_subprocess(*options)

    result.assert_outcomes(passed=1, failed=3, errors=1)
    text = result.stdout.str()
    sections = text.split("raftka time line (cluster of ")[1:]
    shown = [each.partition("\n___")[0] for each in sections]
    assert len(shown) == 3
    for name in ("shown", "in-a-fixture", "of-its-own"):
        assert sum(f"topic '{name}' created: 1 partitions" in each for each in shown) == 1
    assert "not-shown" not in "".join(shown)
    assert "fault set: fail_next Metadata UNKNOWN_SERVER_ERROR" in text


def test_a_failing_run_that_uses_no_cluster_does_not_import_it(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import atexit
        import sys

        def test_it():
            unwanted = ("raftka.broker.node", "raftka.testing.timeline.recorder")
            atexit.register(lambda: print([name in sys.modules for name in unwanted]))
            assert False
    """)

    result = project.runpytest_subprocess("-p", "no:trio", "-p", "no:anyio")

    result.assert_outcomes(failed=1)
    assert "[False, False]" in result.stdout.str()
    assert "raftka time line" not in result.stdout.str()
