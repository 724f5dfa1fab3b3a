"""Scripts and random histories of share groups that a planted bug changes: see directed.py."""

from tests.coordinator.test_shares import test_what_is_initialised_is_assigned_and_nothing_else
from tests.mutants.directed import finds
from tests.scenario import scripts

SEEDS = range(40)


def _plays_as_written(name: str) -> None:
    """Play that script of share groups."""
    (script,) = [each for each in scripts() if (each.folder, each.path.stem) == ("groups", name)]
    assert script.play() == script.path.read_text(), f"script {name} comes out otherwise"


def _histories_are_sound() -> None:
    for seed in SEEDS:
        test_what_is_initialised_is_assigned_and_nothing_else(seed)


@finds
def share_partitions_without_a_state_are_assigned() -> None:
    _histories_are_sound()


@finds
def silent_share_members_stay() -> None:
    _plays_as_written("shares_epochs")


@finds
def share_members_of_any_epoch_go_on() -> None:
    _plays_as_written("shares_epochs")


@finds
def share_partitions_are_initialised_twice_with_one_epoch() -> None:
    _histories_are_sound()


@finds
def answers_to_earlier_calls_count() -> None:
    _histories_are_sound()


@finds
def offsets_of_share_groups_change_under_their_members() -> None:
    _plays_as_written("shares_offsets")


@finds
def share_groups_leave_their_state_behind() -> None:
    _plays_as_written("shares_offsets")


@finds
def calls_for_state_leave_before_their_record() -> None:
    _plays_as_written("shares_failover")
