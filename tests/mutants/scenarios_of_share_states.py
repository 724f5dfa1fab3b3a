"""Scripts and tests of share coordinators that a planted bug changes: see directed.py."""

from raftka.runtime.simulated.world import World
from tests.broker.test_share_persister import test_a_lost_request_is_repeated_before_the_next_write
from tests.broker.test_share_state import (
    test_a_snapshot_that_is_not_committed_replaces_none,
    test_the_log_is_pruned_when_all_that_it_rests_on_is_committed,
)
from tests.kit.broker.share_persister import PersisterScene
from tests.mutants.directed import finds
from tests.scenario import scripts


def _plays_as_written(name: str) -> None:
    """Play that script of the share coordinator."""
    (script,) = [
        each for each in scripts() if (each.folder, each.path.stem) == ("share_states", name)
    ]
    assert script.play() == script.path.read_text(), f"script {name} comes out otherwise"


@finds
def older_leaders_of_a_share_partition_go_on() -> None:
    _plays_as_written("fencing")


@finds
def writes_to_an_older_state_count() -> None:
    _plays_as_written("fencing")


@finds
def a_new_leader_fences_no_older_one() -> None:
    _plays_as_written("fencing")


@finds
def the_last_write_of_a_record_wins() -> None:
    _plays_as_written("write")


@finds
def the_start_of_a_share_partition_goes_back() -> None:
    _plays_as_written("write")


@finds
def updates_of_an_earlier_snapshot_count() -> None:
    _plays_as_written("snapshots")


@finds
def states_outlive_their_topic() -> None:
    _plays_as_written("ends")


@finds
def a_young_state_never_becomes_cold() -> None:
    _plays_as_written("snapshots")


@finds
def a_replaced_share_coordinator_answers() -> None:
    _plays_as_written("snapshots")


@finds
def the_log_is_pruned_up_to_its_end() -> None:
    test_the_log_is_pruned_when_all_that_it_rests_on_is_committed()


@finds
def the_log_is_pruned_before_the_commit() -> None:
    test_a_snapshot_that_is_not_committed_replaces_none()


@finds
def a_repeated_write_comes_behind_the_next() -> None:
    with World(1) as world:
        test_a_lost_request_is_repeated_before_the_next_write(PersisterScene(world))


@finds
def a_lost_write_is_given_up() -> None:
    with World(1) as world:
        test_a_lost_request_is_repeated_before_the_next_write(PersisterScene(world))
