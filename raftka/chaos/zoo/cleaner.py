"""Planted in compaction: the last value of a key that is eaten, what is cleaned too early, segments that take their place over a log that was cut."""

from typing import Any

from raftka.broker import log_cleaner
from raftka.broker.log_cleaner import Round
from raftka.chaos.zoo.planting import plant
from raftka.log import compaction
from raftka.log.compaction import Compaction
from raftka.log.log import Log
from raftka.log.storage import Storage


@plant(Compaction, "_note_keys")
def cleaner_keeps_the_first_value(note: Any) -> Any:
    """Of the values of a key the oldest stays, and the last is eaten."""

    def bug(self: Compaction, data: bytes, position: int, header: Any) -> int:
        known = dict(self.latest)
        taken = int(note(self, data, position, header))
        self.latest.update(known)
        return taken

    return bug


@plant(compaction, "kept_at")
def cleaner_eats_the_last_record_of_a_batch(kept_at: Any) -> Any:
    """Off by one: of a batch that is written anew the last record that should stay goes."""

    def bug(data: bytes, at: int, header: Any, places: Any, expired: bool) -> Any:
        return kept_at(data, at, header, places[:-1] if len(places) > 1 else places, expired)

    return bug


@plant(log_cleaner, "dirt_of")
def cleans_what_is_not_committed(dirt_of: Any) -> Any:
    """A value is dropped for a later one that is cut with the next leader: the key has none."""

    def bug(log: Log, up_to: int, now_ms: int) -> Any:
        return dirt_of(log, log.end_offset, now_ms)

    return bug


@plant(log_cleaner, "dirt_of")
def cleans_above_the_recovery_point(dirt_of: Any) -> Any:
    """The cleaner leaves gaps where recovery takes a gap for damage, and cuts the log there."""

    def bug(log: Log, up_to: int, now_ms: int) -> Any:
        settled, log.settled_point = log.settled_point, log.end_offset
        try:
            return dirt_of(log, up_to, now_ms)
        finally:
            log.settled_point = settled

    return bug


@plant(Compaction, "_kept")
def cleaner_drops_tombstones_early(kept: Any) -> Any:
    """A tombstone goes with the compaction that finds it: who was away keeps the value it was for."""

    def bug(self: Compaction, data: bytes, at: int, header: Any, last_offset: int, expired: bool) -> Any:
        self.with_tombstones.add(header[0])
        return kept(self, data, at, header, last_offset, True)

    return bug


@plant(Compaction, "_is_last_of_producer")
def cleaner_eats_a_producers_last_batch(_: Any) -> Any:
    """A producer whose last record was replaced is forgotten: its retry is written twice after a restart."""

    def bug(self: Compaction, header: Any, last_offset: int) -> bool:
        return False

    return bug


@plant(Round, "_is_wanted")
def cleaner_overlooks_a_truncation(_: Any) -> Any:
    """A log was cut while it was cleaned: the new segment brings back what is gone."""
    return property(lambda self: self._is_live)


@plant(Storage, "_finish_swap")
def truncation_amid_a_swap(_: Any) -> Any:
    """A log is cut while a cleaned segment takes its place: which of the two counts is open."""

    def bug(self: Storage) -> None: ...

    return bug


@plant(Round, "_step")
def swap_without_flush(_: Any) -> Any:
    """Names of segments change without waiting for the disk: with the power the old come back beside the new."""

    def bug(self: Round, *, first: bool = False) -> None:
        try:
            self.log.begin_swap(self._results.popleft(), self.now_ms)
            while self.log.go_on_swap():
                pass
        except OSError as error:
            self.cleaner.replicas.log_failed(self.host, error)
        self._swapping = False
        self._go_on()

    return bug
