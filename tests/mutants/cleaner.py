"""Planted in compaction: the last value of a key that is eaten, what is cleaned too early, segments
that take their place over a log that was cut.
"""

from typing import Any

from raftka.broker.logs import cleaner as log_cleaner
from raftka.log.compaction import compaction
from raftka.log.compaction.compaction import Compaction
from raftka.log.log import Log
from tests.mutants.registry import mutant


@mutant(Compaction, "_note_keys")
def cleaner_keeps_the_first_value(note: Any) -> Any:
    """Of the values of a key the oldest stays, and the last is eaten."""

    def bug(self: Compaction, data: bytes, position: int, header: Any) -> int:
        known = dict(self.latest)
        taken = int(note(self, data, position, header))
        self.latest.update(known)
        return taken

    return bug


@mutant(compaction, "kept_at")
def cleaner_eats_the_last_record_of_a_batch(kept_at: Any) -> Any:
    """Off by one: of a batch that is written anew the last record that should stay goes."""

    def bug(data: bytes, at: int, header: Any, places: Any, expired: bool) -> Any:
        return kept_at(data, at, header, places[:-1] if len(places) > 1 else places, expired)

    return bug


@mutant(log_cleaner, "dirt_of")
def cleans_what_is_not_committed(dirt_of: Any) -> Any:
    """A value is dropped for a later one that is cut with the next leader: the key has none."""

    def bug(log: Log, up_to: int, now_ms: int, *settled: int) -> Any:
        return dirt_of(log, log.end_offset, now_ms, *settled)

    return bug


@mutant(log_cleaner, "dirt_of")
def cleans_above_the_recovery_point(dirt_of: Any) -> Any:
    """The cleaner leaves gaps where recovery takes a gap for damage, and cuts the log there."""

    def bug(log: Log, up_to: int, now_ms: int, *_: int) -> Any:
        settled, log.durability.settled_point = (
            log.durability.settled_point,
            log.end_offset,
        )
        try:
            return dirt_of(log, up_to, now_ms)
        finally:
            log.durability.settled_point = settled

    return bug


@mutant(Compaction, "_kept")
def cleaner_drops_tombstones_early(kept: Any) -> Any:
    """A tombstone goes with the compaction that finds it: who was away keeps the value it was
    for.
    """

    def bug(
        self: Compaction, data: bytes, at: int, header: Any, last_offset: int, expired: bool
    ) -> Any:
        self.with_tombstones.add(header[0])
        return kept(self, data, at, header, last_offset, True)

    return bug
