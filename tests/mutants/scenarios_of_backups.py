"""Tests that find the bugs planted in backups. See scenarios.py."""

from collections.abc import Callable
from random import Random

import pytest

from raftka.log.directory import RESTORE, LogDirectoryError
from raftka.log.manager import LogManager
from tests.backup import test_cut, test_moment, test_power_cuts, test_restore
from tests.backup.small import Source, settings_of
from tests.broker import test_backup_requests as requests
from tests.broker.stage import Stage
from tests.log import test_backup_cut
from tests.log.files import MemoryFiles
from tests.log.given import NOW
from tests.mutants.directed import finds


def _with_stage(test: Callable[[Stage], None], nodes: int = 1) -> None:
    with Stage(nodes) as stage:
        stage.create("t", 1)
        test(stage)


@finds
def file_of_a_backup_is_written_over() -> None:
    test_backup_cut.test_retention_writes_over_no_file_of_a_backup()


@finds
def backup_is_cut_with_the_log() -> None:
    test_backup_cut.test_a_cut_of_the_log_leaves_a_backups_bytes()


@finds
def cut_ends_before_records_that_were_acknowledged() -> None:
    _with_stage(requests.test_a_cut_waits_for_what_is_not_committed, 3)


@finds
def commits_go_on_while_the_cluster_is_cut() -> None:
    _with_stage(requests.test_commits_wait_while_a_backup_is_cut)


@finds
def hold_that_has_ended_is_not_told() -> None:
    _with_stage(requests.test_a_hold_ends_by_itself_and_says_so)


@finds
def markers_are_not_awaited() -> None:
    with pytest.MonkeyPatch.context() as patch:
        _with_stage(
            lambda stage: requests.test_a_commit_without_its_markers_is_pending(stage, patch)
        )


@finds
def offsets_are_cut_with_the_records() -> None:
    test_cut.test_the_order_of_a_cut(test_cut.Played())


@finds
def schemas_are_cut_before_records() -> None:
    test_cut.test_the_order_of_a_cut(test_cut.Played())


@finds
def brokers_that_came_meanwhile_are_not_seen() -> None:
    test_cut.test_a_broker_that_came_back_makes_the_cut_anew(test_cut.Played())


@finds
def open_transactions_hang() -> None:
    test_restore.test_what_was_open_is_aborted_in_all_partitions(_small())


@finds
def producer_of_before_commits_what_was_aborted() -> None:
    test_restore.test_the_producer_of_an_open_transaction_is_fenced(_small())


@finds
def offsets_outlive_their_topics() -> None:
    test_restore.test_offsets_of_topics_that_are_gone_are_dropped(_small())


@finds
def transactions_are_torn_at_a_moment() -> None:
    test_moment.test_a_transaction_is_not_torn(test_moment.Timed(), 2_005)


@finds
def numbers_are_given_out_twice() -> None:
    test_restore.test_the_metadata_are_the_seeds_of_a_new_cluster(_small())


def _small() -> tuple[MemoryFiles, Source]:
    return test_restore.made()


@finds
def manifest_comes_before_its_files() -> None:
    test_power_cuts.test_the_power_goes_while_a_backup_is_made()


@finds
def leftovers_stay() -> None:
    test_power_cuts.test_the_power_goes_while_a_backup_is_made()


@finds
def node_starts_on_a_part_of_a_backup() -> None:
    files, _ = _small()
    test_power_cuts.until_power_goes(files, 60, lambda: test_restore.restored(files))
    paths = settings_of()[0].log_dirs
    assert files.exists(f"{paths[0]}/{RESTORE}")
    try:
        LogManager.open(files, paths, 1, Random(1), NOW)
    except LogDirectoryError:
        return
    raise AssertionError("a node would start")


@finds
def restore_looks_whole_from_the_beginning() -> None:
    test_power_cuts.test_the_power_goes_during_a_restore()
