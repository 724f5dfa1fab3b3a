"""Lives of replication alone: no promise is broken, a dozen in the time of one whole cluster, and
mistakes are found there too.
"""

from collections.abc import Callable
from random import Random

import pytest
from click.testing import CliRunner

from raftka.chaos.small import lives, raft_life
from raftka.chaos.small.logs import Entry, Log
from raftka.chaos.small.memory_files import MemoryFiles
from raftka.chaos.small.raft_oracle import Violation
from raftka.chaos.small.replication_life import FAULTS, UNFLUSHED_FAULTS, Life, run_seed
from raftka.chaos.verdict import Outcome
from raftka.cli.chaos.commands import chaos
from tests.mutants.catalogue import mutated

FOUND = {
    "follower_claims_what_is_written": 5,
    "joins_the_isr_too_early": 5,
    "majority_of_the_isr_is_enough": 5,
    "high_watermark_ahead_of_the_shrink": 5,
    "never_truncates": 5,
}
FOUND_IN_TRANSACTIONS = {
    "stable_is_the_high_watermark": 10,
    "stable_ahead_of_the_replicated_marker": 10,
    "stable_beyond_the_high_watermark": 10,
    "snapshot_hides_what_is_not_replicated": 50,
    "follower_passes_over_markers": 10,
    "aborted_of_the_first_segment_alone": 20,
    "search_for_aborts_stops_early": 30,
    "restart_passes_over_markers": 20,
    "snapshot_without_open_transactions": 20,
    "transactions_outlive_their_batches": 20,
    "aborts_outlive_their_markers": 100,
    "guard_is_not_demanded": 50,
    "marker_of_a_deposed_coordinator": 30,
}
TRANSACTIONAL = [seed for seed in range(300) if Life(seed).transactions is not None]


def test_no_promise_is_broken() -> None:
    lives = [run_seed(seed) for seed in range(30)]

    assert sum(len(life.oracle.acknowledged) for life in lives) > 30 * 50
    assert sum(life.oracle.truncations for life in lives) > 5
    assert {kind for life in lives for _, kind in life.faults} == {
        *FAULTS,
        *UNFLUSHED_FAULTS,
    }


def test_transactions_are_whole_and_readers_of_what_is_committed_see_just_that() -> None:
    lives = [life for life in map(run_seed, TRANSACTIONAL[:20]) if life.transactions is not None]
    judges = [life.transactions.judge for life in lives if life.transactions is not None]

    assert len(lives) == 20
    assert sum(judge.reads for judge in judges) > 20 * 20
    assert sum(len(judge.replay.aborted) for judge in judges) > 20 * 3
    assert sum(sum(judge.replay.outcomes.values()) for judge in judges) > 20 * 5
    assert sum(life.oracle.truncations for life in lives) > 5


def test_a_marker_that_looks_as_the_one_before_is_not_taken_for_it() -> None:
    """The copy of a marker was committed late, and the next transaction of the same epoch, whose
    marker was on its way, counted as ended.
    """
    assert not _fails(1704403)


@pytest.mark.parametrize(("bug", "seeds"), FOUND_IN_TRANSACTIONS.items())
def test_a_bug_that_is_planted_in_transactions_is_found(bug: str, seeds: int) -> None:
    with mutated(bug):
        assert any(_fails(seed) for seed in TRANSACTIONAL if seed < seeds)


@pytest.mark.parametrize(("bug", "seeds"), FOUND.items())
def test_a_planted_bug_is_found(bug: str, seeds: int) -> None:
    with mutated(bug):
        assert any(_fails(seed) for seed in range(seeds))


@pytest.mark.parametrize(
    ("bug", "seeds"),
    [("journal_renamed_without_a_flush", 6), ("journal_rewritten_in_its_place", 20)],
)
def test_renames_and_cuts_that_were_not_flushed_come_undone_in_the_quorum(
    bug: str, seeds: int
) -> None:
    with mutated(bug):
        assert any(_fails(seed, raft_life.run_seed) for seed in range(seeds))


def test_a_power_loss_may_undo_a_cut_and_a_rename() -> None:
    found, names = set(), set()
    for seed in range(20):
        disk = MemoryFiles()
        file = disk.open("d/a", create=True)
        file.append([b"whole"])
        file.sync()
        file.truncate(2)
        disk.open("d/new", create=True).sync()
        disk.rename("d/new", "d/b")
        disk.power_lost(Random(seed))
        found.add(disk.read("d/a"))
        names.add(tuple(disk.list("d")))
    assert found == {b"whole", b"wh"}
    assert names == {("a", "b"), ("a", "new")}


def test_a_cut_and_a_rename_that_were_flushed_stay() -> None:
    disk = MemoryFiles()
    file = disk.open("d/a", create=True)
    file.append([b"whole"])
    file.sync()
    file.truncate(2)
    file.sync()
    disk.rename("d/a", "d/b")
    disk.sync_directory("d")
    for seed in range(10):
        disk.power_lost(Random(seed))
        assert (disk.list("d"), disk.read("d/b")) == (["b"], b"wh")


def _fails(seed: int, run: Callable[[int], object] = run_seed) -> bool:
    try:
        run(seed)
    except Violation:
        return True
    return False


def test_a_leader_told_late_of_its_election_may_lack_later_commits() -> None:
    """Paused with a vote on its way, it leads an earlier term when it goes on; entries of a still
    earlier one were committed meanwhile.
    """
    assert lives.play(704626).outcome is Outcome.VALID


def test_a_seed_is_one_life() -> None:
    for seed in (6, 7):
        assert lives.play(seed).trace_hash == lives.play(seed).trace_hash
    assert len({lives.play(seed).trace_hash for seed in range(6)}) == 6


def test_both_kinds_of_life_have_their_command() -> None:
    result = CliRunner().invoke(chaos, ["sim", "--small", "--seeds", "0-5"])

    assert result.exit_code == 0
    assert "6 valid, 0 violated" in result.output
    assert "replication alone" in CliRunner().invoke(chaos, ["replay", "7", "--small"]).output
    with mutated("majority_of_the_isr_is_enough"):
        assert CliRunner().invoke(chaos, ["sim", "--small", "--seeds", "1"]).exit_code == 1


def test_a_log_loses_unflushed_entries_and_a_truncation_may_be_undone() -> None:
    ends = set()
    for seed in range(40):
        log, random = Log(), Life(seed).random
        log.append([Entry(0, "a"), Entry(0, "b")], 0)
        log.flush(1)
        log.lose_power(random)
        ends.add(log.end)
    assert ends == {1, 2}

    log = Log()
    log.append([Entry(0, "a"), Entry(1, "b"), Entry(2, "left out")], 1)
    log.flush(2)
    log.truncate(1)
    assert (log.end, log.epoch_end(0), log.epoch_end(1)) == (1, (0, 1), (-1, -1))
    log.lose_power(Life(1).random)
    assert [entry.value for entry in log.entries] == ["a", "b"]
    assert log.epoch_end(1) == (1, 2)
