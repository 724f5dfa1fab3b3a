"""Nodes of two releases in one simulated cluster: the present one and the one before it."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from raftka.broker.node import Node
from raftka.chaos.runner import options_of
from raftka.chaos.simulated import upgrade
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.releases import PRESENT, SHARED, Release, raised_levels
from raftka.chaos.simulated.swarm import Settings
from raftka.chaos.simulated.upgrade import Kind, Step, draw_path
from raftka.chaos.simulation import Run, simulate
from raftka.chaos.verdict import Outcome
from raftka.cli.commands import root
from raftka.runtime.simulated.world import World
from raftka.versions import KRAFT_VERSION, LEVELS
from tests.kit.versions.earlier import earlier_release, wheel


@pytest.fixture(scope="module")
def earlier() -> Release:
    return earlier_release()


def modules_of(release: Release) -> Iterator[tuple[str, ModuleType]]:
    package = release.node.__module__.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package and module not in SHARED.values():
            yield name, module


def home_of(value: Any) -> str:
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def test_the_earlier_release_knows_lower_levels(earlier: Release) -> None:
    assert earlier.level < PRESENT.level == LEVELS[-1].number
    assert KRAFT_VERSION not in raised_levels(earlier)


def test_releases_share_the_interfaces_of_the_runtime_alone(earlier: Release) -> None:
    shared = {module.__name__ for module in SHARED.values()}

    strangers = {
        f"{name}.{attribute} is of {home_of(value)}"
        for name, module in modules_of(earlier)
        for attribute, value in vars(module).items()
        if home_of(value).partition(".")[0] == "raftka" and home_of(value) not in shared
    }

    assert strangers == set()
    assert not issubclass(earlier.node, Node)  # type: ignore[arg-type]


@pytest.mark.parametrize(("plan", "seed"), [("rolling", 4), ("rolling", 9), ("upgrade", 3)])
def test_nothing_is_lost_while_releases_are_mixed(plan: str, seed: int) -> None:
    run = simulate(seed, options_of(plan, wheel()))

    assert run.outcome is Outcome.VALID, run.violations
    assert plan == "upgrade" or run.longest_write_s <= run.plan.longest_write_s


def test_a_life_with_two_releases_is_the_same_each_time() -> None:
    options = replace(options_of("upgrade", wheel()), until_s=6.0)

    assert simulate(1, options).trace_hash == simulate(1, options).trace_hash


def walk(patch: pytest.MonkeyPatch, *steps: Step) -> Run:
    """A life without faults, in which the operator goes that way."""
    patch.setattr(upgrade, "draw_path", lambda chance, nodes: list(steps))
    settings = Settings(partitions=1, pause_s=0.05, seconds=10.0)
    return simulate(1, replace(options_of("rolling", wheel()), settings=settings))


def up(*node_ids: int) -> list[Step]:
    return [Step(Kind.TO_PRESENT, node_id) for node_id in node_ids]


def test_an_earlier_node_does_not_take_raised_data(monkeypatch: pytest.MonkeyPatch) -> None:
    run = walk(monkeypatch, *up(3, 1, 2), Step(Kind.RAISE), Step(Kind.TRY_EARLIER, 2))

    assert run.violations == []
    (refused,) = [line for line in run.log if "start_failed" in line]
    assert f"raftka.version {PRESENT.level}, and this release knows it up to" in refused
    assert "node=2" in refused


def test_levels_are_not_raised_while_a_node_has_the_earlier_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = walk(monkeypatch, *up(3, 1), Step(Kind.RAISE_EARLY), *up(2))

    assert run.violations == []


def test_all_nodes_may_go_back_before_levels_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    back = [Step(Kind.TO_EARLIER, node_id) for node_id in (1, 2, 3)]

    run = walk(monkeypatch, *up(1, 2, 3), *back, *up(2, 3, 1), Step(Kind.RAISE))

    assert run.violations == []


@pytest.mark.parametrize("seed", range(100))
def test_a_path_ends_at_the_present_release_and_never_goes_back_from_raised_levels(
    seed: int,
) -> None:
    nodes, raised = dict.fromkeys((1, 2, 3, 4), Kind.TO_EARLIER), False
    for step in draw_path(Random(seed), sorted(nodes)):
        if step.kind is Kind.RAISE:
            raised = True
            assert set(nodes.values()) == {Kind.TO_PRESENT}
        elif step.kind is Kind.TO_EARLIER:
            assert not raised
            assert nodes[step.node_id] is Kind.TO_PRESENT
            nodes[step.node_id] = step.kind
        elif step.kind is Kind.TO_PRESENT:
            assert nodes[step.node_id] is Kind.TO_EARLIER
            nodes[step.node_id] = step.kind

    assert set(nodes.values()) == {Kind.TO_PRESENT}


def test_judges_look_inside_nodes_of_their_own_release_only(earlier: Release) -> None:
    with World(1) as world:
        cluster = Cluster(world, release=earlier)
        cluster.wait_ready()
        cluster.stop(2)
        cluster.releases[2] = PRESENT
        cluster.start(2)
        cluster.wait_ready()

        assert sorted(cluster.living) == [1, 2, 3]
        assert sorted(cluster.judged) == [2]


def test_a_plan_of_upgrades_needs_a_wheel_and_no_other_plan_takes_one(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"")
    for words in (
        ["sim", "--plan", "upgrade"],
        ["replay", "1", "--upgrade-from", str(tmp_path / "a.whl")],
        ["live", "--nemesis", "upgrade"],
    ):
        told = CliRunner().invoke(root, ["chaos", *words])
        assert told.exit_code == 2
        assert "--upgrade-from WHEEL" in told.output
