"""Simulated lives as a tool: a seed is one life in every process, single faults can be left out,
what is rare counts, commands tell the outcome.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import mean
from weakref import ref

import pytest
from click.testing import CliRunner

from raftka.chaos import history
from raftka.chaos.runner import Summary, Total, many, run_whole
from raftka.chaos.simulated.checks.probes import ONLY_WHEN, PROBES, never_seen
from raftka.chaos.simulated.faults.schedule import Kind, schedule, without
from raftka.chaos.simulated.swarm import PLANS, Plan, Settings, choose, with_length, with_more
from raftka.chaos.simulation import Options, Run, simulate
from raftka.chaos.verdict import Outcome
from raftka.cli.chaos.commands import chaos
from raftka.runtime.simulated.world import World
from tests.mutants.catalogue import mutated

ROOT = Path(__file__).parent.parent.parent
SHORT = Settings(seconds=3.0, pause_s=0.3, gap_s=(0.2, 0.6))
LINKS = Plan(
    "links",
    (
        Kind("cut", 1),
        Kind("slow_link", 1),
        Kind("loss", 1),
        Kind("reorder", 1),
        Kind("clock_jump", 1),
    ),
)
BUG, FOUND_BY = "leader_counts_what_is_written", 0  # a seed of the plan power


def told(run: Run) -> list[str]:
    return [str(each) for each in run.faults]


# one seed, one life


@pytest.mark.parametrize(
    "life",
    [("3", "--plan", "three"), ("0", "--plan", "three"), ("2", "--work", "consumer-groups")],
    ids=" ".join,
)
def test_a_seed_is_the_same_life_in_every_process(life: tuple[str, ...]) -> None:
    processes = [_replayed(life, hash_seed) for hash_seed in ("1", "2")]
    texts = [process.communicate()[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    assert texts[0] == texts[1]
    assert texts[0].splitlines()[-1].startswith("trace hash ")


def _replayed(life: tuple[str, ...], hash_seed: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "raftka.cli", "chaos", "replay", *life]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


# The newest seeds that were violated, and what was wrong then. Another code may make other lives of
# them, so older ones are lives as any other.
KEPT = {
    (
        "swarm",
        90282,
    ): (
        "a partition came back to the broker whose session had told its end before: the reader "
        "waited for it to be told again"
    ),
    (
        "swarm",
        530141,
    ): (
        "a committer that pauses for up to 16 s made no commit within 30 s: the judge took it "
        "for one that does not come through"
    ),
    (
        "swarm",
        530227,
    ): (
        "a member was given a topic that no broker which lived knew yet, and its client ended "
        "with a KeyError"
    ),
    (
        "swarm",
        530290,
    ): (
        "a cleaner took a record away while a client asked for it by time: the judge had looked "
        "before"
    ),
    (
        "swarm",
        510787,
    ): (
        "a member that committed and did not join again was removed, and its coordinator moved: "
        "the judge took it for a member"
    ),
    (
        "swarm",
        554064,
    ): (
        "a bit flipped in a time index while the broker was down, and retention deleted a "
        "segment that was eight seconds old"
    ),
    (
        "swarm",
        552367,
    ): (
        "a producer sent six batches behind one that had timed out, as no client does: the log "
        "did not know it any more"
    ),
    (
        "width",
        184027,
    ): (
        "a follower began anew in its leader's next epoch while the answer with the high "
        "watermark was under way, and never heard it"
    ),
    (
        "three",
        100198,
    ): (
        "who had known of the later leader epoch had just been started anew: the watch took the "
        "earlier leader's word for the newest"
    ),
}


@pytest.mark.parametrize(("plan", "seed"), KEPT)
def test_a_seed_that_was_violated_is_not_any_more(plan: str, seed: int) -> None:
    as_long_as_it_was = replace(PLANS[plan], lengths_s=())

    assert simulate(seed, Options(as_long_as_it_was)).outcome is Outcome.VALID


def test_settings_that_are_given_are_those_that_would_have_been_chosen() -> None:
    plan = replace(PLANS["three"], seconds=2.0)
    chosen = simulate(5, Options(plan))

    assert simulate(5, Options(plan, chosen.settings)).trace_hash == chosen.trace_hash
    assert (
        simulate(5, Options(plan, replace(chosen.settings, pause_s=0.01))).trace_hash
        != chosen.trace_hash
    )


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_chooses_clusters_that_can_be(name: str) -> None:
    for seed in range(300):
        with World(seed) as world:
            settings = with_more(
                PLANS[name], choose(PLANS[name], world.random("settings")), world.random("beside")
            )
        brokers = settings.nodes - len(settings.controllers)
        assert settings.voters <= settings.nodes
        assert brokers >= 3
        assert settings.min_isr <= settings.replication <= brokers
        assert all(each <= settings.voters for each in settings.controllers)


def test_sizes_of_the_swarm() -> None:
    chosen = []
    for seed in range(300):
        with World(seed) as world:
            chosen.append(choose(PLANS["swarm"], world.random("settings")))

    assert {each.nodes for each in chosen} == {3, 4, 5, 6, 7}
    assert {each.voters for each in chosen} == {1, 3, 5}
    assert {each.replication for each in chosen} >= {2, 3, 4, 5}


def test_short_lives_of_the_swarm_have_as_many_faults_as_long_ones() -> None:
    faults: dict[float, list[int]] = defaultdict(list)
    for seed in range(200):
        with World(seed) as world:
            settings = with_length(
                PLANS["swarm"],
                choose(PLANS["swarm"], world.random("settings")),
                world.random("length"),
            )
            faults[settings.seconds].append(
                len(
                    schedule(
                        world.random("schedule"),
                        PLANS["swarm"].kinds,
                        settings.seconds,
                        settings.gap_s,
                    )
                )
            )

    assert faults.keys() == set(PLANS["swarm"].lengths_s)
    assert all(12 <= mean(found) <= 20 for found in faults.values()), {
        length: mean(found) for length, found in faults.items()
    }


# faults by number


def test_a_schedule_is_numbered_and_loses_nothing_but_what_is_left_out() -> None:
    with World(1) as world:
        faults = schedule(world.random("schedule"), LINKS.kinds, 10.0, (0.1, 0.5))

    assert [fault.number for fault in faults] == list(range(len(faults)))
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert without(faults, {0, 2}) == (faults[1], *faults[3:])


def test_leaving_a_fault_out_does_not_disturb_the_others() -> None:
    whole = simulate(1, Options(LINKS, SHORT))
    victim = whole.faults[1].number

    less = simulate(1, Options(LINKS, SHORT, skip={victim}))

    assert len(whole.faults) >= 4
    assert told(less) == [str(each) for each in whole.faults if each.number != victim]
    assert less.trace_hash != whole.trace_hash


def test_without_its_faults_a_life_is_calm() -> None:
    run = simulate(1, Options(LINKS, SHORT, skip=range(1000)))

    assert run.faults == []
    assert run.outcome is Outcome.VALID
    assert not run.probes["leader_elected"]


# history, verdict, coverage


def test_the_checker_judges_the_clients_operations() -> None:
    run = simulate(2, Options(PLANS["three"], replace(SHORT, groups=2, noise=True, pause_s=0.02)))

    verbs = Counter(each.verb for each in run.history.operations)
    assert set(verbs) == {"produce", "poll", "assign", "list-offsets", "commit", "fetch-offset"}
    assert run.verdict is not None
    assert run.verdict.outcome is Outcome.VALID
    assert (
        sum(len(each.sends) for each in run.history.operations if each.outcome == history.OK)
        >= run.acknowledged
        > 0
    )
    again = history.load(history.dump(run.history))
    assert len(again.operations) == run.operations


def test_rare_events_are_counted_over_many_seeds() -> None:
    total = Total()
    with many(range(5), "faults", jobs=1) as found:
        for one in found:
            total.add(one)

    assert total.outcomes == {Outcome.VALID: 5}
    assert (
        {
            "isr_of_one",
            "isr_shrunk",
            "isr_expanded",
            "broker_fenced",
            "partitions_offline",
            "leader_elected",
        }
        <= total.probes.keys()
        <= PROBES.keys()
    )


def test_events_never_seen_are_listed() -> None:
    assert never_seen(Counter(PROBES.keys())) == []
    assert never_seen(Counter(PROBES.keys() - {"truncated"})) == ["truncated"]
    assert never_seen(Counter(PROBES.keys() - ONLY_WHEN.keys())) == []


def test_too_little_is_inconclusive_and_one_violation_is_enough() -> None:
    def total(*outcomes: Outcome) -> Total:
        sums = Total()
        for outcome in outcomes:
            sums.add(Summary(1, outcome, (), 0, 0, 0, 0.0, 0.0, "", Counter()))
        return sums

    assert total(Outcome.VALID, Outcome.VALID, Outcome.INCONCLUSIVE).exit_code == 0
    assert total(Outcome.VALID, Outcome.VIOLATED).exit_code == 1
    assert total(Outcome.INCONCLUSIVE).exit_code == 2


# the commands


def test_sim_keeps_and_records_its_findings(tmp_path: Path) -> None:
    out, record = tmp_path / "out", tmp_path / "runs.jsonl"
    words = [
        "sim",
        "--seeds",
        str(FOUND_BY),
        "--plan",
        "power",
        "--out",
        str(out),
        "--record",
        str(record),
    ]
    with mutated(BUG):
        result = CliRunner().invoke(chaos, words)

    assert result.exit_code == 1
    assert f"raftka chaos replay {FOUND_BY} --plan power" in result.stderr
    (line,) = map(json.loads, record.read_text().splitlines())
    assert (line["plan"], line["first"], line["last"], line["violated"], line["bad"]) == (
        "power",
        FOUND_BY,
        FOUND_BY,
        1,
        [FOUND_BY],
    )
    assert {path.name for path in out.iterdir()} >= {
        "history.jsonl",
        "faults.jsonl",
        "samples.jsonl",
        "verdict.json",
        "plan.json",
    }
    assert json.loads((out / "verdict.json").read_text())["outcome"] == "violated"
    assert history.load((out / "history.jsonl").read_text().splitlines(keepends=True)).operations


def test_a_failing_seed_opens_where_it_fails() -> None:
    with mutated(BUG):
        result = CliRunner().invoke(chaos, ["replay", str(FOUND_BY), "--plan", "power"])

    assert result.exit_code == 1
    for expected in (
        "the last of node 1:",
        "the last of node 3:",
        "FAULT",
        "VIOLATED",
        "trace hash ",
    ):
        assert expected in result.output


def test_replay_stops_at_the_given_time_and_shows_every_step() -> None:
    result = CliRunner().invoke(chaos, ["replay", "1", "--until", "0.05", "--trace"])

    assert result.exit_code == 0
    assert "stopped at 0.050 s" in result.output
    assert len(result.output.splitlines()) > 100


def test_replay_accepts_the_output_of_shrink() -> None:
    words = [
        "replay",
        "1",
        "--plan",
        "three",
        "--until",
        "0.5",
        "--skip",
        "0-3,7",
        "--set",
        "nodes=4",
    ]

    assert "nodes=4" in CliRunner().invoke(chaos, words).output
    assert CliRunner().invoke(chaos, [*words, "--set", "moon=1"]).exit_code == 1
    assert CliRunner().invoke(chaos, ["sim", "--seeds", "9-3"]).exit_code == 2


def test_many_lives_take_no_more_memory_than_a_few() -> None:
    worlds: list[ref[World]] = []
    options = Options(
        replace(PLANS["three"], seconds=2.0),
        prepare=(lambda world, cluster: worlds.append(ref(world)),),
    )
    for seed in range(3):
        run_whole(seed, options)

    assert [each() is None for each in worlds[:-1]] == [True, True]
