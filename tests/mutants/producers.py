"""Planted in what is remembered of idempotent producers: retries that are written twice, or that
are taken for written and are not.
"""

from typing import Any

from raftka.log import recovery
from raftka.log.log import Log
from raftka.log.producers.state import SEQUENCES, Producer, ProducerState
from raftka.metadata.image import MetadataImage
from tests.mutants.registry import mutant


@mutant(ProducerState, "admit")
def retry_is_written_twice(admit: Any) -> Any:
    """A batch that is there already is appended again."""

    def bug(self: ProducerState, producer: Producer, epoch: int, sequence: int, count: int) -> Any:
        admit(self, producer, epoch, sequence, count)

    return bug


@mutant(Producer, "add")
def remembers_the_last_batch_alone(add: Any) -> Any:
    """Of a pipeline that is sent again only the last batch is known for a duplicate."""

    def bug(self: Producer, sequence: int, count: int, base_offset: int, timestamp: int) -> None:
        add(self, sequence, count, base_offset, timestamp)
        del self.batches[:-1]

    return bug


@mutant(Producer, "add")
def no_sequence_follows_the_last(add: Any) -> Any:
    """After a batch that ends exactly at sequence 2^31-1 the log expects 2^31, which no producer
    can send, instead of 0.
    """

    def bug(self: Producer, sequence: int, count: int, base_offset: int, timestamp: int) -> None:
        add(self, sequence, count, base_offset, timestamp)
        self.next_sequence = self.batches[-1][1] + 1

    return bug


@mutant(Producer, "add")
def sequences_do_not_wrap_inside_a_batch(add: Any) -> Any:
    """A batch whose sequences begin again at 0 inside it is remembered with a last sequence that is
    none: what follows is refused.
    """

    def bug(self: Producer, sequence: int, count: int, base_offset: int, timestamp: int) -> None:
        add(self, sequence, count, base_offset, timestamp)
        if sequence + count > SEQUENCES:
            self.batches[-1] = (sequence, sequence + count - 1, base_offset, timestamp)
            self.next_sequence = sequence + count

    return bug


@mutant(Log, "_append_given")
def follower_forgets_producers(append: Any) -> Any:
    """A follower notes no producers: when it leads it takes duplicates for new."""

    def bug(self: Log, batch: memoryview, header: Any, *now_ms: int) -> None:
        known = dict(self.producers.producers)
        append(self, batch, header, *now_ms)
        self.producers.producers.clear()
        self.producers.producers.update(known)

    return bug


@mutant(recovery, "rebuild")
def restart_forgets_producers(_: Any) -> Any:
    """Producer state is not read back: after a restart duplicates are new."""

    def bug(segments: Any, snapshots: Any, trusted_up_to: int, now_ms: int) -> ProducerState:
        return ProducerState()

    return bug


@mutant(ProducerState, "_restore")
def snapshot_has_one_coordinator_epoch(restore: Any) -> Any:
    """All producers of a snapshot come back with the coordinator epoch of its first one: a marker
    of a deposed transaction coordinator is current.
    """

    def bug(self: ProducerState, fields: tuple[int, ...], now_ms: int) -> None:
        restore(self, fields, now_ms)
        self.producers[fields[0]].coordinator_epoch = next(
            iter(self.producers.values())
        ).coordinator_epoch

    return bug


@mutant(MetadataImage, "apply")
def producer_ids_are_given_twice(apply: Any) -> Any:
    """The blocks of producer ids that were given out are not kept: two producers are one to every
    log.
    """

    def bug(self: MetadataImage, offset: int, records: Any) -> Any:
        image, delta = apply(self, offset, records)
        object.__setattr__(image, "next_producer_id", 0)
        return image, delta

    return bug
