"""The mutants is complete, each bug of it comes and goes without a trace, and what finds a bug
today finds it tomorrow: a sample of them.

The whole hunt is `./run mutants`.
"""

import pytest

from tests.mutants.catalogue import AREAS, MUTANTS, SCENARIOS, Mutant, mutated
from tests.mutants.hunt import HUNTS, directed, hunt, hunts_of, kind_of, lived

AT_LEAST = 40
each_bug = pytest.mark.parametrize("bug", MUTANTS.values(), ids=MUTANTS)


def test_there_are_enough_of_them_in_every_area() -> None:
    assert len(MUTANTS) >= AT_LEAST
    assert {bug.area for bug in MUTANTS.values()} == set(AREAS)


@each_bug
def test_a_bug_says_what_it_breaks_and_is_hunted(bug: Mutant) -> None:
    assert len(bug.breaks.split()) >= 5
    assert bug.breaks.endswith((".", ")."))
    assert set(hunts_of(bug)) <= set(HUNTS)


@each_bug
def test_a_bug_replaces_something_and_is_gone_afterwards(bug: Mutant) -> None:
    before = [patch.owner.__dict__[patch.attribute] for patch in bug.patches]

    with mutated(bug.name):
        assert all(
            patch.owner.__dict__[patch.attribute] is not was
            for patch, was in zip(bug.patches, before, strict=True)
        )

    assert [patch.owner.__dict__[patch.attribute] for patch in bug.patches] == before


def test_it_is_gone_also_when_the_life_with_it_ends_badly() -> None:
    (bug,) = (MUTANTS["never_truncates"],)
    before = bug.patches[0].owner.__dict__[bug.patches[0].attribute]

    with pytest.raises(ZeroDivisionError), mutated(bug.name):
        raise ZeroDivisionError

    assert bug.patches[0].owner.__dict__[bug.patches[0].attribute] is before


def test_every_scenario_has_its_bug() -> None:
    assert SCENARIOS.keys() <= MUTANTS.keys()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_finds_its_bug_and_nothing_else(name: str) -> None:
    SCENARIOS[name]()

    assert directed(name).found


SAMPLE = [  # bug, hunt, seeds within which it must be found
    ("forgets_its_vote", "small quorum", 20),
    ("votes_for_everybody", "small quorum", 20),
    ("election_restriction_left_out", "small quorum", 30),
    ("log_matching_left_out", "small quorum", 20),
    ("snapshot_regress", "small quorum", 20),
    ("drops_what_it_has_already", "small quorum", 10),
    ("unclean_election_without_permission", "small replication", 30),
    ("majority_of_the_isr_is_enough", "small replication", 20),
    ("high_watermark_ahead_of_the_shrink", "small replication", 20),
    ("joins_the_isr_too_early", "small replication", 20),
    ("follower_claims_what_is_written", "small replication", 20),
    ("never_truncates", "small replication", 10),
    ("shrink_forgets_the_eligible", "small replication", 30),
    ("commits_while_others_are_eligible", "small replication", 10),
    ("leader_counts_what_is_written", "power", 5),
    ("retry_is_written_twice", "replication struck", 4),
    ("generation_is_not_fenced", "groups", 4),
    ("offsets_expire_early", "groups", 3),
    ("cleaner_keeps_the_first_value", "compaction", 4),
    ("index_one_too_far", "compaction", 4),
    ("retention_counts_from_the_first_sight", "archive", 6),
    ("largest_timestamp_is_believed", "archive", 6),
    ("fetch_ends_at_batches_without_records", "left-alone", 4),
    ("snapshot_leaves_deleted_acls", "security", 4),
    ("node_serves_before_it_has_caught_up", "security", 4),
    ("levels_are_raised_before_all_nodes_know_them", "rolling", 8),
]


@pytest.mark.parametrize(("name", "by", "seeds"), SAMPLE)
def test_chance_finds_a_bug(name: str, by: str, seeds: int) -> None:
    assert hunt(name, range(seeds), [by]).hunt == by


@pytest.mark.parametrize(
    "name", ["requests_lie_in_the_receive_buffer", "the_next_end_is_fenced_by_the_last_one"]
)
def test_bursts_of_transactions_find_what_has_a_scenario_too(name: str) -> None:
    with mutated(name):
        assert any(lived("bursts", seed) for seed in range(4))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("two_members_hold_one_record", 0),
        ("deliveries_are_not_counted", 0),
        ("locks_never_end", 1),
        ("acknowledged_before_it_is_written", 9),
        ("a_failed_write_stands", 19),
        ("a_failed_write_is_not_rolled_back", 21),
        ("released_at_the_limit_is_delivered_again", 0),
        ("expired_at_the_limit_is_delivered_again", 0),
        ("the_start_moves_over_acquired_records", 0),
        ("a_new_leader_forgets_what_is_persisted", 0),
        ("strangers_may_acknowledge", 0),
        ("a_snapshot_forgets_a_batch", 0),
        ("aborted_records_are_delivered", 1),
        ("records_are_delivered_before_their_commit", 1),
        ("letters_that_failed_count_as_written", 2),
        ("offsets_of_share_groups_change_under_their_members", 0),
    ],
)
def test_lives_of_share_groups_find_what_has_a_scenario_too(name: str, seed: int) -> None:
    """`seed`: the first one that finds it; a few more are tried, for lives change."""
    with mutated(name):
        assert any(lived("share", each) for each in range(seed, seed + 5))


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("streams_task_has_two_owners", 0),
        ("streams_zombie_commits", 0),
        ("streams_new_coordinator_forgets_sessions", 1),
    ],
)
def test_lives_of_streams_groups_find_what_has_a_scenario_too(name: str, seed: int) -> None:
    """`seed`: as above."""
    with mutated(name):
        assert any(lived("streams", each) for each in range(seed, seed + 5))


@pytest.mark.parametrize("by", HUNTS)
def test_without_a_bug_nothing_is_found(by: str) -> None:
    assert lived(by, 1) == []


@pytest.mark.parametrize(
    ("violation", "kind"),
    [
        ("Stream(producer='a'): 3 acknowledged records are lost, the first is 7", "lost write"),
        (
            "Traceback\nAssertionError: two leaders of the quorum: n1 and n2 in term 3",
            "two leaders in a term",
        ),
        ("Traceback\nAssertionError: something else", "assertion: something else"),
        ("Traceback\nValueError: 1", "ValueError"),
    ],
)
def test_a_violation_has_a_kind(violation: str, kind: str) -> None:
    assert kind_of([violation]) == kind
