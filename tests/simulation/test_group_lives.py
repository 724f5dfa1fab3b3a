"""Groups of both protocols at work while coordinators are struck: commits hold, no partition has
two owners, and all goes on.
"""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from raftka.broker.coordinators import partition
from raftka.broker.work.long_work import LongWork
from raftka.chaos.runner import run_one
from raftka.chaos.simulated.clients.groups import Claims, Story
from raftka.chaos.simulated.workloads.at_work import WORKS
from raftka.chaos.verdict import Outcome
from raftka.cli.chaos.commands import chaos
from raftka.coordinator import machine
from tests.mutants.catalogue import mutated


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("work", WORKS)
def test_those_at_work_survive(work: str, seed: int) -> None:
    life = run_one(seed, work)

    assert life.violations == ()
    assert life.outcome is Outcome.VALID


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("work", ["groups", "consumer-groups"])
def test_groups_survive_decisions_that_take_many_turns(
    work: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever can go on in a later turn does, with 2 ms between two steps."""
    begun = [0]
    run_at_once = LongWork.run

    def run(
        self: LongWork,
        name: str,
        steps: Any,
        done: Any,
        wanted: Any = lambda: True,
        failed: Any = None,
        spent: Any = None,
    ) -> None:
        if not name.startswith("the coordinator of "):
            run_at_once(self, name, steps, done, wanted, failed, spent)
            return

        def step() -> None:
            if not wanted():
                steps.close()
                return
            try:
                next(steps)
            except StopIteration:
                done(None)
            else:
                self._clock.call_at(self._clock.now() + 0.002, step)

        begun[0] += 1
        step()

    monkeypatch.setattr(LongWork, "run", run)
    monkeypatch.setattr(machine, "FEW", 0)
    monkeypatch.setattr(partition, "AT_ONCE", -1)

    life = run_one(seed, work)

    assert life.violations == ()
    assert life.outcome is Outcome.VALID
    assert begun[0] > 100


KEPT = {
    (
        "groups",
        90075,
    ): (
        "two joined as one instance at once, and the answers came the other way round: the "
        "harness took the last for a zombie"
    )
}


@pytest.mark.parametrize(("work", "seed"), KEPT)
def test_a_seed_that_was_violated_is_not_any_more(work: str, seed: int) -> None:
    assert run_one(seed, work).outcome is Outcome.VALID


def test_overlapping_requests_have_no_known_order() -> None:
    claims = Claims()
    claims.given("the one", "later", asked_at=3.0)
    claims.given("the one", "earlier, answered last", asked_at=1.0)

    assert claims.since("the one", answered_at=2.0) == "later"
    assert (
        claims.since("the one", answered_at=3.0) == claims.since("another", answered_at=0.0) == ""
    )


def test_generations_of_a_group_begin_anew_when_it_was_removed_and_only_then() -> None:
    story = Story()
    removals = [0]
    story.removals = lambda group: removals[0]
    story.given("g", 3, 0, "a")
    story.given("h", 3, 0, "a")
    removals[0] = 1
    story.given("g", 3, 0, "b")
    assert story.wrong == []
    story.given("g", 3, 0, "a")
    assert len(story.wrong) == 1, "one removal excuses one beginning"
    removals[0] = 0
    story.given("h", 3, 0, "b")
    assert len(story.wrong) == 2


def test_a_life_at_work_is_the_same_each_time() -> None:
    assert len({run_one(7, "consumer-groups").trace_hash for _ in range(2)}) == 1


def test_the_command_runs_and_replays_lives_of_groups() -> None:
    known = [
        "groups",
        "consumer-groups",
        "streams",
        "share",
        "delayed",
        "compaction",
        "archive",
        "left-alone",
        "transactions",
        "bursts",
        "security",
        "sessions",
    ]
    assert list(WORKS) == known, "the last one is the bridge's, by its entry point"
    unknown = CliRunner().invoke(chaos, ["sim", "--work", "nothing"])
    assert unknown.exit_code == 2
    assert f"there are {', '.join(known)}" in unknown.output
    run = CliRunner().invoke(chaos, ["sim", "--work", "groups", "--seeds", "3-4", "-o", "json"])
    assert run.exit_code == 0, run.output
    assert (json.loads(run.output)["plan"], json.loads(run.output)["valid"]) == ("groups", 2)

    with mutated("commits_of_any_member_epoch"):
        told = CliRunner().invoke(chaos, ["replay", "2", "--work", "consumer-groups"])

    assert told.exit_code == 1
    assert "VIOLATED  zombie: " in told.output
    assert "the last of node 1:" in told.output


def test_a_life_at_work_is_stopped_and_shows_its_steps() -> None:
    stopped = CliRunner().invoke(
        chaos, ["replay", "5", "--work", "groups", "--until", "1", "--trace"]
    )

    assert stopped.exit_code == 0
    assert "stopped at 1.000 s" in stopped.output
    assert len(stopped.output.splitlines()) > 1000


@pytest.mark.parametrize(
    ("words", "lacking"),
    [
        (
            ["replay", "1", "--work", "groups", "--skip", "1", "--out", "x"],
            "lives at work have no --skip, --out",
        ),
        (
            ["replay", "1", "--small", "--trace", "--until", "1"],
            "small lives have no --trace, --until",
        ),
        (["sim", "--work", "groups", "--plan", "three"], "lives at work have no --plan"),
        (["sim", "--small", "--work", "groups"], "small lives have no --work"),
    ],
)
def test_a_life_refuses_unknown_options(words: list[str], lacking: str) -> None:
    told = CliRunner().invoke(chaos, words)

    assert told.exit_code == 2
    assert lacking in told.output
