"""Nemeses on a cluster of real processes: each bites, and is undone. What a node forgets to flush a
power loss finds out.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from raftka.chaos.history import OK, PRODUCE, load
from raftka.chaos.live.clients import wire
from raftka.chaos.live.clients.clients import LIBRARIES
from raftka.chaos.live.nemeses.mix import BEYOND, MIX, chosen
from raftka.chaos.live.nemeses.nemesis import named
from raftka.chaos.live.plan import plan, ports_needed
from raftka.chaos.live.run import TOPIC, Options, live
from raftka.chaos.live.stage import Stage
from raftka.chaos.verdict import Outcome
from raftka.cluster.ask import ask
from raftka.wire.messages.topics import CREATE_TOPICS

SOON_S = 20.0
LOST = {"unseen", "lost-write", "duplicate", "inconsistent-offsets"}

# One of each family; a round of `./run soak` tells of all of them how often they bit.
FAMILIES = (
    *(
        "pause-one",
        "partition",
        "one-way",
        "slow-links",
        "slow-disk",
        "clock-skew",
        "topics",
        "elections",
        "kill-leader",
        "full-disk",
    ),
    *("cpu-throttle", "membership", "failing-flush", "power-loss-one"),
)
ASIDE = {
    "cpu-throttle",
    "slow-disk",
    "full-disk",
    "failing-flush",
    "power-loss-one",
    "power-loss-all",
    "clock-skew",
}  # need a cgroup, or a C compiler


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, 3) as found:
        request = CREATE_TOPICS.request
        row = request.topics(name=TOPIC, num_partitions=3, replication_factor=3)
        found.ask_anybody(CREATE_TOPICS, request(topics=[row], timeout_ms=5000))
        found.until_whole([TOPIC])
        yield found
        pids = [node.pid for node in found.nodes.values() if node.alive]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def make_it_work(stage: Stage) -> None:
    """Whatever the metadata log has to hold: every node writes and flushes it. And questions for
    each.
    """
    request = CREATE_TOPICS.request
    row = request.topics(
        name=f"written-{random.randrange(10**9)}", num_partitions=1, replication_factor=1
    )
    stage.ask_anybody(CREATE_TOPICS, request(topics=[row], timeout_ms=500))
    for address in map(stage.address, stage.alive):
        with suppress(OSError):
            for _ in range(20):
                ask(address)


def test_nemeses_bite_and_are_undone(stage: Stage) -> None:
    bit, missing = [], []
    for nemesis in chosen(FAMILIES):
        if nemesis.missing(stage):
            missing.append(nemesis.name)
            continue

        def bites() -> bool:
            if "disk" in nemesis.name or "flush" in nemesis.name or "cpu" in nemesis.name:  # noqa: B023
                make_it_work(stage)
            return nemesis.bitten(stage)  # noqa: B023

        for seed in range(7, 11):  # two nodes that lead nothing have nothing to say to each other
            nemesis.begin(stage, TOPIC, random.Random(seed))
            bitten = stage.wait_for(bites, SOON_S)
            nemesis.end(stage)
            if bitten:
                bit.append(nemesis.name)
                break
    stage.heal()
    stage.until_whole([TOPIC])

    assert [each for each in FAMILIES if each not in bit] == missing
    assert set(missing) <= ASIDE
    assert not stage.died


def test_a_node_started_on_a_failing_disk_may_end_again(stage: Stage) -> None:
    """A rolling restart had come to a node whose disk still failed, and its end was called an
    anomaly (seed 532 with five nodes).
    """
    [failing] = chosen(["failing-flush"])
    if missing := failing.missing(stage):
        pytest.skip(missing)
    failing.begin(stage, TOPIC, random.Random(1))
    [victim] = stage.expected

    def ended() -> bool:
        make_it_work(stage)
        stage.watch()
        return not stage.nodes[victim].alive

    assert stage.wait_for(ended, SOON_S)
    stage.start(victim)
    assert stage.wait_for(ended, SOON_S)
    assert not stage.died
    failing.end(stage)
    assert stage.wait_for(lambda: stage.ready(victim), SOON_S)
    assert victim not in stage.expected
    assert not stage.died


def test_an_acknowledgement_before_the_flush_is_found_by_a_power_loss(tmp_path: Path) -> None:
    options = Options(
        0.1,
        nemesis=("power-loss-all",),
        seed=1,
        per_s=50,
        partitions=2,
        clients=(wire.NAME,),
        module="tests.chaos.live.planted_node",
    )

    run = live(options, tmp_path)

    if run.missing and any("power-loss-all" in each for each in run.missing):
        pytest.skip(run.missing[0])
    assert run.figures["bit"] == {"power-loss-all": run.figures["faults"]["power-loss-all"]}
    assert run.verdict.outcome is Outcome.VIOLATED
    assert run.verdict.kinds & LOST
    # of three controllers, each partition at least once
    assert run.figures["metadata_seen"] >= 3 * 2


@pytest.mark.parametrize(
    ("module", "found"), [("raftka.cli", set()), ("tests.chaos.live.dirty_node", {"dirty-read"})]
)
def test_a_reader_that_is_not_told_what_was_aborted_is_found(
    tmp_path: Path, module: str, found: set[str]
) -> None:
    options = Options(
        0.15,
        nemesis=("kill-leader",),
        seed=2,
        per_s=50,
        partitions=2,
        clients=("kafka-python",),
        module=module,
    )

    run = live(options, tmp_path)

    assert run.figures["transactions"]["kafka-python"]["aborted"] > 0
    assert run.verdict.kinds == found, run.verdict.anomalies


def test_the_proxy_knows_all_nodes_of_a_secured_cluster(tmp_path: Path) -> None:
    with Stage(tmp_path, 3, secure=True) as stage:
        request = CREATE_TOPICS.request
        row = request.topics(name=TOPIC, num_partitions=3, replication_factor=3)
        stage.ask_anybody(CREATE_TOPICS, request(topics=[row], timeout_ms=5000))
        stage.until_whole([TOPIC])

        assert {source for source, _ in stage.proxy.passed()} == {1, 2, 3}
        with pytest.raises(OSError):  # noqa: PT011  # as somebody without TLS
            ask(stage.address(1))


def test_a_secured_round(tmp_path: Path) -> None:
    options = Options(
        0.1,
        nemesis=("partition",),
        seed=3,
        partitions=2,
        clients=(wire.NAME, *LIBRARIES),
        secure=True,
    )

    run = live(options, tmp_path)

    assert run.verdict.outcome is Outcome.VALID, run.verdict
    assert run.figures["troubles"] == []
    assert all(run.figures["transactions"][client]["committed"] > 0 for client in LIBRARIES)
    assert "chaos live --secure " in run.options.command
    with (tmp_path / "history.jsonl").open(encoding="utf-8") as lines:
        history = load(lines)
    senders = {
        each.producer.rpartition("-")[0]
        for each in history.operations
        if each.verb == PRODUCE and each.outcome == OK
    }
    assert senders >= set(LIBRARIES)


def test_every_nemesis_has_a_name_of_its_own() -> None:
    assert len(set(MIX) | set(BEYOND)) == len(MIX) + len(BEYOND)
    assert [each.name for each in chosen(["mix", "lying-disks"])] == [*MIX, "lying-disks"]
    with pytest.raises(KeyError):
        chosen(["no-such"])
    assert (named([1]), named([1, 2]), named([])) == ("node 1", "nodes 1, 2", "nobody")


@pytest.mark.parametrize("nodes", [3, 4, 5])
def test_nodes_reach_each_other_through_the_proxy_alone(tmp_path: Path, nodes: int) -> None:
    ports = list(range(10_000, 10_000 + ports_needed(nodes)))
    made = plan(tmp_path, nodes, ports, {})
    behind = {route.port: route for route in made.routes}

    assert len(made.nodes) == nodes + 1
    assert made.spare not in made.voters
    for node in made.nodes:
        voters = dict(
            pair.split("@") for pair in node.properties["controller.quorum.voters"].split(",")
        )
        assert {int(voter) for voter in voters} == set(made.voters)
        for voter, address in voters.items():
            port = int(address.rpartition(":")[2])
            if int(voter) != node.node_id:
                assert (behind[port].source, behind[port].target) == (node.node_id, int(voter))
            else:
                assert port == node.controller_port
        inner = int(
            node.properties["advertised.listeners"].partition("NODES://")[2].rpartition(":")[2]
        )
        assert behind[inner].target == node.node_id
