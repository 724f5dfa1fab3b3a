"""Planted in what readers are told: records that are not committed, words of a leader that is none any more, sessions that outlive what they knew."""

from typing import Any

from raftka.broker.fetch_session import FetchSession, FetchSessions, Wanted
from raftka.broker.handlers.fetch import Fetch
from raftka.broker.partition_host import PartitionHost
from raftka.chaos.zoo.planting import plant
from raftka.log.storage import Storage


@plant(Fetch, "_consumer_read")
def shows_what_is_not_committed(read: Any) -> Any:
    """Fetch beyond the high watermark: readers see records that are taken back with the next leader."""

    def bug(self: Fetch, host: PartitionHost, wanted: Wanted) -> Any:
        leader = host.leader
        if leader is None:
            return read(self, host, wanted)
        watermark, leader.high_watermark = leader.high_watermark, host.log.end_offset
        try:
            row = read(self, host, wanted)
        finally:
            leader.high_watermark = watermark
        row.high_watermark = row.last_stable_offset = watermark
        return row

    return bug


@plant(PartitionHost, "check_epoch")
def answers_readers_of_another_epoch(_: Any) -> Any:
    """Stale leader read: who knows of a newer leader is answered by the one before (before KIP-320)."""

    def bug(self: PartitionHost, epoch: int) -> None: ...

    return bug


@plant(Fetch, "_follower_read")
def divergence_tells_the_high_watermark(read: Any) -> Any:
    """A follower is told the high watermark when it must cut its log and does not listen; its session never says it again."""

    def bug(self: Fetch, host: PartitionHost, wanted: Wanted) -> Any:
        row = read(self, host, wanted)
        if row.diverging_epoch.end_offset >= 0:
            row.high_watermark = row.last_stable_offset = host.high_watermark
        return row

    return bug


@plant(FetchSessions, "_known")
def session_epoch_is_not_looked_at(known: Any) -> Any:
    """A reader that has missed an answer goes on in its session: what the answer told is not told again."""

    def bug(self: FetchSessions, body: Any, reader: Any, *, by_id: bool) -> FetchSession:
        session = self.by_id.get(body.session_id)
        if session is not None:
            session.epoch = body.session_epoch
        return known(self, body, reader, by_id=by_id)  # type: ignore[no-any-return]

    return bug


@plant(Wanted, "changed")
def session_forgets_what_is_new(changed: Any) -> Any:
    """What happens in a partition while no fetch waits is not noted for the next."""

    def bug(self: Wanted, *, wake: bool) -> None:
        if self.session.parked is not None:
            changed(self, wake=wake)

    return bug


@plant(Storage, "read")
def reads_from_the_batch_behind(read: Any) -> Any:
    """A read in the middle of a batch begins with the next one."""

    def bug(self: Storage, offset: int, max_bytes: int, up_to_offset: int, min_one: bool = True) -> Any:
        spans, size = read(self, offset, max_bytes, up_to_offset, min_one)
        if spans:
            base = int.from_bytes(bytes(spans[0].file.read(spans[0].position, 8)), "big")
            length = 12 + int.from_bytes(bytes(spans[0].file.read(spans[0].position + 8, 4)), "big")
            if base < offset and size > length:
                return [spans[0]._replace(position=spans[0].position + length, size=spans[0].size - length), *spans[1:]], size - length
        return spans, size

    return bug
