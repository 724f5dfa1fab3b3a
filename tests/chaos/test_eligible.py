"""Lives whose brokers do not flush what they acknowledge: the last member of an ISR loses it, and
eligible leader replicas (KIP-966) keep it.
"""

import pytest

from raftka.chaos.simulated.swarm import PLANS
from raftka.chaos.simulation import Options, simulate
from raftka.cli.chaos.commands import PLAN_NAMES
from raftka.versions import ELR_VERSION, FORMED_WITH

SEED = 3
OPTIONS = Options(PLANS["eligible"])


def test_the_last_member_of_an_isr_may_lose_what_it_has_not_flushed() -> None:
    run = simulate(SEED, OPTIONS)

    assert run.violations == []
    assert any("the last of the ISR" in happened for happened in run.happened)


def test_without_eligible_replicas_acknowledged_records_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FORMED_WITH, ELR_VERSION, 0)

    assert simulate(SEED, OPTIONS).violations


def test_the_command_line_names_every_plan() -> None:
    assert tuple(PLANS) == PLAN_NAMES
