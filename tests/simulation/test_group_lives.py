"""Groups of both protocols at work while coordinators are struck: commits hold, no partition has two owners, and all goes on."""

import json

import pytest
from click.testing import CliRunner

from raftka.chaos.simulated.at_work import WORKS, one
from raftka.chaos.verdict import Outcome
from raftka.chaos.zoo.catalogue import planted
from raftka.cli.chaos import WORK_NAMES, chaos


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("work", WORKS)
def test_those_at_work_survive(work: str, seed: int) -> None:
    life = one(seed, work)

    assert life.violations == ()
    assert life.outcome is Outcome.VALID


def test_a_life_at_work_is_the_same_each_time() -> None:
    assert len({one(7, "consumer-groups").trace_hash for _ in range(2)}) == 1


def test_they_are_run_and_replayed_by_the_command() -> None:
    assert tuple(WORKS) == WORK_NAMES
    run = CliRunner().invoke(chaos, ["sim", "--work", "groups", "--seeds", "3-4", "-o", "json"])
    assert run.exit_code == 0, run.output
    assert (json.loads(run.output)["plan"], json.loads(run.output)["valid"]) == ("groups", 2)

    with planted("commits_of_any_member_epoch"):
        told = CliRunner().invoke(chaos, ["replay", "0", "--work", "consumer-groups"])

    assert told.exit_code == 1
    assert "VIOLATED  zombie: " in told.output
