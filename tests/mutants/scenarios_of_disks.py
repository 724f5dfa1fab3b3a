"""Directed simulations and steps of logs that lose their power in the one moment that matters. See
scenarios.py.
"""

from random import Random

from raftka.chaos.simulated.clients.client import produce_row
from raftka.chaos.simulated.scene import TOPIC, Scene
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.log.recovery import Damaged
from raftka.runtime.simulated.disk import SYNC_S
from raftka.runtime.simulated.world import World
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch
from tests.broker.test_output_pins import test_an_answer_that_waits_for_a_slow_client_is_pinned
from tests.log.given import DIRECTORY, NOW, append, batch, checkpoint, disk, flush, open_log
from tests.log.test_life import (
    test_all_is_on_disk_when_a_log_is_closed_during_a_checkpoint,
    test_no_flipped_bit_of_a_time_index_makes_retention_delete_what_is_young,
)
from tests.log.test_recovery import (
    LAST_BATCH_BYTES,
    filled,
    test_what_was_removed_behind_an_empty_segment_does_not_come_back,
)
from tests.log.test_recycled_segment import (
    test_a_client_reads_the_records_that_were_sent_to_it_however_late,
    test_a_truncation_drops_it,
    test_it_is_not_written_over_while_answers_may_read_it,
    test_its_name_is_on_disk_before_it_is_written_over,
    test_no_batch_in_a_deleted_record_is_taken_for_the_next_one,
    test_what_is_sealed_or_closed_ends_with_its_records,
)
from tests.mutants.directed import finds


@finds
def forgets_producers_with_their_batches() -> None:
    """Retention takes all that a producer wrote, and the broker loses its power in the next moment:
    a retry of its last batch is a duplicate.
    """
    for seed in range(28, 34):  # what was not flushed may be on the disk all the same
        with World(seed) as world:
            settings = {"log.retention.check.interval.ms": "100"}
            scene = Scene(
                world, 1, settings=settings, replication_factor=1, configs={"retention.ms": "40000"}
            )
            world.run(world.now + 35.0)  # the first retention has been
            client = scene.client
            old = [(b"key", b"old", (), client.runtime.clock.wall_ms() - 50_000)]
            row = produce_row(
                TOPIC,
                0,
                build_batch(old, producer_id=scene.producer_id, producer_epoch=0, base_sequence=0),
            )
            scene.cluster.do(
                client,
                lambda client=client, row=row: client.ask_leader(TOPIC, 0, PRODUCE, row),  # type: ignore[misc]
            )
            log = scene.partition(1).log
            assert world.run(lambda log=log: log.segments[0].base_offset == 1, at_most_s=60.0), (  # type: ignore[misc]
                "retention took nothing"
            )
            world.run(world.now + 10 * SYNC_S[1])  # the directory is on disk
            scene.cluster.power_loss()
            scene.cluster.start(1)
            scene.cluster.wait_ready()
            scene.cluster.do(
                client,
                lambda client=client, row=row: client.ask_leader(TOPIC, 0, PRODUCE, row),  # type: ignore[misc]
            )
            end = scene.partition(1).log.end_offset
            assert end == 1, f"the retry was written again: the log ends at {end}"


@finds
def index_files_are_not_cut() -> None:
    """A full segment is cut and goes on; what is appended needs no index entry, a checkpoint
    passes, and the power goes.
    """
    files = disk()
    log = open_log(files, segment_bytes=400)
    append(log, batch(1, size=100), batch(1, size=100, timestamp=NOW + 1000), batch(1, size=200))
    flush(log)
    checkpoint(log)
    log.truncate_to(1)
    append(
        log, batch(1, size=20, timestamp=NOW + 10), batch(1, size=20, timestamp=NOW + 5), epoch=1
    )
    flush(log)
    point = checkpoint(log)
    left = files.power_loss(Random(1))
    entries = left.read(f"{DIRECTORY}/{0:020d}.timeindex")
    assert entries == log.segments.active.time_index.encoded(), (
        f"the time index has entries of what was cut: {entries.hex()}"
    )
    reopened = open_log(left, recovery_point=point, segment_bytes=400)
    found = reopened.max_timestamp_offset(reopened.end_offset)
    right = log.max_timestamp_offset(log.end_offset)
    assert found == right, f"the largest timestamp is {right}, after the loss of power {found}"


@finds
def time_index_is_believed() -> None:
    test_no_flipped_bit_of_a_time_index_makes_retention_delete_what_is_young()


@finds
def old_bytes_follow_at_once() -> None:
    test_no_batch_in_a_deleted_record_is_taken_for_the_next_one(b"x")


@finds
def old_records_are_searched_for_damage() -> None:
    test_no_batch_in_a_deleted_record_is_taken_for_the_next_one(b"x")


@finds
def missing_batches_are_believed() -> None:
    files = disk()
    committed = filled(files, 3).end_offset
    del files.names[f"{DIRECTORY}/{0:020d}.log"].data[-LAST_BATCH_BYTES:]
    try:
        end = Log.open(
            files, DIRECTORY, LogConfig(), NOW, clean_shutdown=False, whole=committed
        ).end_offset
    except Damaged:
        return
    raise AssertionError(f"opened up to {end}, and {committed} were committed")


@finds
def old_bytes_are_sealed() -> None:
    test_what_is_sealed_or_closed_ends_with_its_records()


@finds
def cut_of_old_bytes_is_not_flushed() -> None:
    test_what_is_sealed_or_closed_ends_with_its_records()


@finds
def name_of_a_written_over_segment_comes_back() -> None:
    test_its_name_is_on_disk_before_it_is_written_over()


@finds
def written_over_while_it_is_read() -> None:
    test_it_is_not_written_over_while_answers_may_read_it()


@finds
def pages_in_a_socket_are_written_over() -> None:
    test_a_client_reads_the_records_that_were_sent_to_it_however_late()


@finds
def spare_outlives_a_truncation() -> None:
    test_a_truncation_drops_it()


@finds
def closes_without_the_checkpoint_under_way() -> None:
    test_all_is_on_disk_when_a_log_is_closed_during_a_checkpoint("fsync")


@finds
def removed_segments_come_back() -> None:
    test_what_was_removed_behind_an_empty_segment_does_not_come_back()


@finds
def timeless_segments_never_end() -> None:
    """Records without a time come for a while: the segments that they fill are no older than
    segment.ms.
    """
    with World(21) as world:
        scene = Scene(world, configs={"segment.ms": "1000"})
        client, batch = scene.client, build_batch([(None, b"timeless", (), -1)])
        for _ in range(5):
            scene.cluster.do(
                client,
                lambda: client.ask_leader(
                    TOPIC, 0, PRODUCE, produce_row(TOPIC, 0, bytearray(batch))
                ),
            )
            world.run(world.now + 0.6)
        counts = [
            len(partition.log.segments) for partition in scene.cluster.partitions(TOPIC, 0).values()
        ]
        assert min(counts) > 1, f"segments: {counts}"


@finds
def waiting_answers_are_not_pinned() -> None:
    """A client sends two fetches and does not read: the file of the second answer stays as it
    is.
    """
    test_an_answer_that_waits_for_a_slow_client_is_pinned()
