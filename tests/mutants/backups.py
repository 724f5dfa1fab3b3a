"""Planted in backups: in the cut of logs and clusters, in files that are shared with brokers, in
what a restore ends, and in the order of writes.
"""

from typing import Any

from raftka.backup import create, cut, moment, replica, restore
from raftka.backup.places import Folder
from raftka.broker.coordinators.transaction_service import TransactionCoordinatorService
from raftka.broker.handlers import backup as requests
from raftka.broker.logs.backup_stage import BackupStage
from raftka.log import manager
from raftka.log.segments.recycled_segment import RecycledSegments
from raftka.log.segments.segment import Segment
from tests.mutants.registry import mutant


@mutant(RecycledSegments, "wants")
def file_of_a_backup_is_written_over(wants: Any) -> Any:
    """A segment that retention has deleted is written over, although a backup has its file under
    another name: the backup has other records then.
    """

    class Alone:
        is_linked = is_shared = False

        def __init__(self, file: Any) -> None:
            self.size = file.size

    return lambda self, file: wants(self, Alone(file))


@mutant(Segment, "leave_to_backup")
def backup_is_cut_with_the_log(_: Any) -> Any:
    """A log that is cut after an unclean election takes the same records from the backup: just
    when they are needed.
    """
    return lambda self, size: None


@mutant(BackupStage, "cut")
def cut_ends_before_records_that_were_acknowledged(cut_one: Any) -> Any:
    """A log is cut at its high watermark at once: records with acks=1 that were acknowledged before
    the backup was begun are missing.
    """
    return lambda self, partition, at_least: cut_one(self, partition, -1)


@mutant(TransactionCoordinatorService, "hold_commits")
def commits_go_on_while_the_cluster_is_cut(_: Any) -> Any:
    """Transactions are committed while the cluster is cut: their markers are in one partition of
    the backup and not in another.
    """
    return lambda self, seconds: True


@mutant(TransactionCoordinatorService, "hold_commits")
def hold_that_has_ended_is_not_told(hold: Any) -> Any:
    """A hold that ended by itself, or with its broker's process, counts as in force all the time:
    commits of the meantime tear transactions.
    """

    def bug(self: Any, seconds: float) -> bool:
        hold(self, seconds)
        return True

    return bug


@mutant(requests, "_pending")
def markers_are_not_awaited(_: Any) -> Any:
    """The cluster is cut while markers of commits are on their way: a transaction is committed in
    one partition of the backup, and open in another.
    """

    async def bug(*_: Any) -> int:
        return 0

    return bug


@mutant(cut, "FIRST")
def offsets_are_cut_with_the_records(_: Any) -> Any:
    """Committed offsets are cut together with records: an offset may point behind a record that
    came after the cut of its partition.
    """
    return ()


@mutant(cut, "LAST")
def schemas_are_cut_before_records(_: Any) -> Any:
    """Schemas are cut together with records: a record may name a schema that is not there."""
    return ()


@mutant(cut, "alive_in")
def brokers_that_came_meanwhile_are_not_seen(_: Any) -> Any:
    """A broker that was started while the cluster was cut has held no commit, and nobody asks."""
    return lambda image: dict.fromkeys(image.alive_brokers(), 0)


@mutant(replica, "_abort_transactions")
def open_transactions_hang(_: Any) -> Any:
    """Transactions that were open at the cut stay open in restored partitions: no coordinator knows
    of them, and readers of committed records stand still.
    """
    return lambda *_: None


@mutant(replica, "_fence_producers")
def producer_of_before_commits_what_was_aborted(_: Any) -> Any:
    """A transaction that the restore has aborted in the partitions is open at its coordinator: its
    old producer commits it, and records of it are missing.
    """
    return lambda *_: None


@mutant(replica, "_mend_offsets")
def offsets_outlive_their_topics(_: Any) -> Any:
    """Committed offsets of topics that were not restored stay: they hold for the next topic of that
    name.
    """
    return lambda *_: None


@mutant(restore, "moved_ahead")
def numbers_are_given_out_twice(_: Any) -> Any:
    """Epochs and producer ids go on where the metadata were cut, although the old cluster has given
    out more.
    """
    return lambda image, index, report: image


@mutant(moment, "_first_torn")
def transactions_are_torn_at_a_moment(_: Any) -> Any:
    """A restore as of a moment ends each partition for itself: a transaction is committed in one,
    and its records in another are aborted.
    """
    return lambda timelines, ms: None


@mutant(Folder, "settle")
def manifest_comes_before_its_files(_: Any) -> Any:
    """The manifest is written before names of linked files are on the disk: a power cut leaves a
    backup whose files are missing.
    """
    return lambda self, paths: None


@mutant(create, "clean_up")
def leftovers_stay(_: Any) -> Any:
    """The files of a backup that was broken off stay in the place for ever."""
    return lambda place: []


@mutant(manager, "check_readable")
def node_starts_on_a_part_of_a_backup(_: Any) -> Any:
    """A node starts on directories whose restore was broken off: partitions are missing, and
    nothing says so.
    """
    return lambda files, path: None


@mutant(restore, "PARTLY")
def restore_looks_whole_from_the_beginning(_: Any) -> Any:
    """A directory has the note of a whole restore while it is filled: after a power cut the cluster
    starts with what had come.
    """
    return b"whole"
