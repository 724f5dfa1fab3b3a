"""Bugs that raftka has had, or that its Raft library has as it comes: what was wrong, what found
it, and the mutant that brings it back.
"""

from typing import NamedTuple


class Regression(NamedTuple):
    bug: str  # in the mutants
    mended_in: str  # commit
    was_wrong: str
    found_by: str  # a hunt of the mutants
    seed: int = 0


REGRESSIONS = (
    Regression(
        "deposed_controller_confirms",
        "3c54dac",
        "A deposed controller took the commit index of its successor's entries for that of its "
        "own, and confirmed an ISR that nobody else knew.",
        "scenario",
    ),
    Regression(
        "failed_flush_is_believed",
        "2afe53a",
        "A flush failed and the node ended; the next process read the unflushed tail from the "
        "page cache, claimed it, and lost it with the power.",
        "scenario",
    ),
    Regression(
        "flushed_without_being_written",
        "85f24b1",
        "With flush=os a flush failed; the next process flushed what it found in the page cache, "
        "claimed it, and a power loss left a hole there.",
        "scenario",
    ),
    Regression(
        "names_are_not_flushed",
        "7918e70",
        "A log made by a process that was killed before its first flush was claimed by the next "
        "one: with the power all of it went.",
        "scenario",
    ),
    Regression(
        "divergence_tells_the_high_watermark",
        "921a8ef",
        "A follower that had to cut its log was told the high watermark when it did not listen, "
        "and its fetch session never said it again.",
        "scenario",
    ),
    Regression(
        "moved_away_is_kept",
        "9c90432",
        "A log whose replica went elsewhere while its broker was down stayed there.",
        "scenario",
    ),
    Regression(
        "serves_before_it_knows_anything",
        "551c6b2",
        "After a start of all a broker told clients that their topic was not there, and "
        "librdkafka gave up what it had to send.",
        "scenario",
    ),
    Regression(
        "leader_epochs_are_believed",
        "d53e90b",
        "A bit flipped in the leader epochs of a follower: it believed in an epoch that never "
        "was, and its leader refused it for ever.",
        "scenario",
    ),
    Regression(
        "sealed_at_the_recovery_point",
        "c629264",
        "After a power loss a segment's last records were not found by their time: its time index "
        "had been flushed before its last entry was made.",
        "scenario",
    ),
    Regression(
        "closes_before_the_flush",
        "6b2e916",
        "A partition left the controller in the turn in which a record of it was to be flushed: "
        "the file was closed by then, and the node stopped.",
        "scenario",
    ),
    Regression(
        "closes_and_writes",
        "6b2e916",
        "A record came in the turn in which its topic went: it was written to the closed log, "
        "which was taken for a broken disk.",
        "scenario",
    ),
    Regression(
        "journal_without_flush",
        "ead9211",
        "pysyncobj flushes nothing: 43 of 60 runs with power losses ended with state machines "
        "that differ.",
        "scenario",
    ),
    Regression(
        "coordinator_tells_what_it_remembers",
        "cc017a3",
        "A coordinator that had been cut off, and not heard that another had taken its group, "
        "told an offset that the other had replaced.",
        "scenario",
    ),
    Regression(
        "clean_end_made_names_durable",
        "104d573",
        "A log that was stopped in good order without a record was given some, and lost them with "
        "the power: its names were never flushed.",
        "scenario",
    ),
    Regression(
        "rotten_name_is_another_topic",
        "104d573",
        "A log whose partition.metadata could not be read was removed as an earlier topic's by a "
        "member of the ISR, which then led with nothing.",
        "scenario",
    ),
    Regression(
        "says_nothing_twice",
        "2bd0ec7",
        "A follower began anew in its leader's next epoch while the answer that said what is "
        "committed was under way, and was not told again.",
        "scenario",
    ),
    Regression(
        "leads_after_its_end",
        "c54719c",
        "A broker that was paused while it shut down heard of a leadership in the turn in which "
        "it had closed its logs, and took records into them.",
        "scenario",
    ),
    Regression(
        "forgets_producers_with_their_batches",
        "a8deb7d",
        "Retention deleted a segment before the snapshot of its producers was on disk: after a "
        "loss of power a retry was written again.",
        "scenario",
    ),
    Regression(
        "index_files_are_not_cut",
        "c903369",
        "A log was cut into a full segment whose index files were closed: they kept entries of "
        "what was cut, and a later checkpoint believed them.",
        "scenario",
    ),
    Regression(
        "an_index_made_again_is_only_appended_to",
        "e3ff907",
        "An index of aborted transactions that was lost and made again was not on the disk as a "
        "whole: after a loss of power its"
        " file was empty, and readers of committed records took what was aborted for committed.",
        "scenario",
    ),
    Regression(
        "aborts_go_with_the_offset_index",
        "1f4e76e",
        "A segment without its offset index, lost with the power, was opened as one in which "
        "nothing was aborted.",
        "scenario",
    ),
    Regression(
        "aborts_reach_into_the_dirty_part",
        "78b107f",
        "A cleaner took committed records for aborted ones, when an earlier transaction of their "
        "producer had been aborted in a part that was clean.",
        "scenario",
    ),
    Regression(
        "a_coordinator_refuses_from_memory",
        "8a666e9",
        "A transaction coordinator that had been cut off, and not heard of its successor, refused "
        "the epoch that the successor had given out.",
        "scenario",
    ),
    Regression(
        "a_late_answer_completes_the_next_transaction",
        "a8921d7",
        "A coordinator that could not replicate the end of a transaction heard again that its "
        "markers were written, when its producer had aborted"
        " the next one of the same epoch: the abort was complete without a marker, and readers of "
        "committed records were shown it.",
        "scenario",
    ),
    Regression(
        "time_index_is_believed",
        "15319b3",
        "A bit flipped in the time index of a sealed segment while its broker was down: the "
        "segment counted as old, and retention deleted it.",
        "scenario",
    ),
    Regression(
        "returning_broker_is_unfenced_at_once",
        "4483432",
        "A broker that was fenced for its silence was unfenced with its first heartbeat: for a "
        "moment it let in what was revoked meanwhile.",
        "scenario",
    ),
    Regression(
        "removed_segments_come_back",
        "6bd3e73",
        "Recovery removed the segments behind one that had lost all its records, and did not "
        "flush their directory: they could be there again after"
        " the next loss of power, among records of a later leader.",
        "scenario",
    ),
    Regression(
        "closes_without_the_checkpoint_under_way",
        "d18ddfb8",
        "A node ended in good order during a checkpoint, and lost power at once: the index of "
        "aborted transactions lacked what that was to flush,"
        " and readers of committed records were shown aborted ones.",
        "scenario",
    ),
    Regression(
        "only_the_leader_is_waited_for_again",
        "2ea85bb0",
        "The log refused a group's assignments: a member that was told so and only sent "
        "heartbeats from then on kept its share for ever.",
        "scenario",
    ),
    Regression(
        "short_way_does_not_ask_for_the_id",
        "24a7445",
        "A transactional producer whose right on its id was taken away went on, as long as its "
        "requests were answered the short way.",
        "scenario",
    ),
    Regression(
        "interrupted_first_fetch_misses_records",
        "4556fbcb",
        "The first fetch of a session went on in later turns: a record that came between its look "
        "at a partition and the session's watch was not"
        " told before another one came, so a follower left the ISR and producers waited. Seed "
        "60006 of swarm found it, on nodes that are busy.",
        "scenario",
    ),
    Regression(
        "interrupted_handlers_take_a_second_place",
        "e6c9f208",
        "A coordinator refused a request at once, and its handler was interrupted behind that: it "
        "took a second place among the answers, which"
        " nothing filled, and the connection got no more answers. Seed 4 of "
        "tests/simulation/test_corruption.py found it.",
        "scenario",
    ),
)
