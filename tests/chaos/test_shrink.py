"""A failing life becomes small: few faults, plain settings, still the same failure."""

import shlex
from dataclasses import replace

import pytest
from click.testing import CliRunner

from raftka.chaos.shrink import Shrinker, way_of
from raftka.chaos.simulated.swarm import PLANS, Settings
from raftka.chaos.simulation import Options, simulate
from raftka.cli.chaos.commands import chaos
from raftka.cli.chaos.replay import numbers
from tests.mutants.catalogue import mutated


def shrunk(
    needed: set[int], faults: int = 40, settings: Settings | None = None
) -> tuple[tuple[int, ...], Settings, int]:
    """Of a failure that needs these faults, and two writers."""

    def fails(kept: frozenset[int], given: Settings) -> str:
        return "lost" if needed <= kept and given.writers >= 2 else ""

    shrinker = Shrinker(fails, range(faults), settings or Settings(writers=2), "lost", lambda: True)
    best = shrinker.run()
    return best.faults, best.settings, best.runs


@pytest.mark.parametrize("needed", [set(), {39}, {0}, {3, 30}, {1, 17, 38}], ids=str)
def test_only_the_faults_that_it_needs_are_left(needed: set[int]) -> None:
    faults, _, runs = shrunk(needed)

    assert set(faults) == needed
    assert runs < 120


def test_settings_go_back_to_the_plain_ones_where_they_do_not_matter() -> None:
    _, settings, _ = shrunk(
        {5}, settings=Settings(nodes=7, voters=5, partitions=3, writers=3, noise=True, depth=4)
    )

    assert settings == Settings(writers=3)


def test_another_failure_is_not_taken_for_it() -> None:
    def fails(kept: frozenset[int], _: Settings) -> str:
        return "lost" if {1, 2} <= kept else "twice"

    assert set(Shrinker(fails, range(8), Settings(), "lost", lambda: True).run().faults) == {1, 2}


def test_the_best_result_is_reported_when_time_is_up() -> None:
    lives: list[int] = []

    def fails(kept: frozenset[int], _: Settings) -> str:
        lives.append(len(kept))
        return "lost" if 7 in kept else ""

    best = Shrinker(fails, range(64), Settings(), "lost", lambda: len(lives) < 4).run()

    assert not best.in_time
    assert 7 in best.faults
    assert len(best.faults) < 64


def test_the_way_of_a_failure_knows_no_numbers() -> None:
    assert (
        way_of(["lost-write: t-0: a/12 at offset 7 is lost"])
        == way_of(["lost-write: t-1: b/3 is lost"])
        == "lost-write"
    )
    assert way_of(["the batch at 313 is refused"]) == way_of(["the batch at 46 is refused"])
    assert (
        way_of(['Traceback (most recent call last):\n  File "x", line 3\nAssertionError: 7'])
        == "AssertionError"
    )
    assert way_of([]) == ""


def test_a_planted_bug_is_shown_with_three_faults_or_fewer() -> None:
    plan, seed = replace(PLANS["power"], seconds=6.0, pauses_s=(0.2,)), 1
    with mutated("leader_counts_what_is_written"):
        first = simulate(seed, Options(plan))
        everything = frozenset(fault.number for fault in first.planned)

        def fails(kept: frozenset[int], settings: Settings) -> str:
            return way_of(simulate(seed, Options(plan, settings, everything - kept)).violations)

        faults = sorted({each.number for each in first.faults})
        best = Shrinker(fails, faults, first.settings, way_of(first.violations), lambda: True).run()

        assert 1 <= len(best.faults) <= 3
        assert fails(frozenset(best.faults), best.settings) == way_of(first.violations)


def test_the_command_prints_how_to_replay_the_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANS, "power", replace(PLANS["power"], seconds=4.0, pauses_s=(0.2,)))
    with mutated("leader_counts_what_is_written"):
        result = CliRunner().invoke(chaos, ["shrink", "0", "--plan", "power"])

    assert result.exit_code == 1
    again = result.stdout.splitlines()[-1]
    assert again.startswith("again: raftka chaos replay 0 --plan power")
    skip = again.partition("--skip ")[2].split()[0]
    with mutated("leader_counts_what_is_written"):
        words = shlex.split(again.partition("chaos ")[2])
        assert CliRunner().invoke(chaos, words).exit_code == 1
    assert numbers(skip)
    assert CliRunner().invoke(chaos, words).exit_code == 0
    assert CliRunner().invoke(chaos, ["shrink", "0", "--plan", "power"]).exit_code == 0
