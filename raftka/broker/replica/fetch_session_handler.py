"""The follower's side of a fetch session (KIP-227): the positions that the leader knows, so that a
request has only those that changed.

Knows no connection and no log. As long as the leader gives no session, every request is whole.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.replication.follower import Position
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, FetchPartition, FetchRequest, FetchResponse
from raftka.wire.replica_fetch import Asked

WHOLE = 0  # the epoch of a request that begins a session
LAST_EPOCH = 0x7FFFFFFF

Key = tuple[bytes, int]  # topic id, partition


class Place(NamedTuple):
    """One partition of a request to the leader."""

    position: Position
    log_start: int


class FetchSessionHandler:
    __slots__ = ("_known", "epoch", "id")

    def __init__(self) -> None:
        self.id = self.epoch = 0
        self._known: dict[Key, Place] = {}

    @property
    def whole(self) -> bool:
        """Return whether the next request names all partitions that are followed."""
        return self.epoch == WHOLE

    def lost(self) -> None:
        """End the session: no answer came, so the positions that the leader has are unknown. The
        next request ends it at the leader and begins another.
        """
        self.epoch = WHOLE

    def knows(self, key: Key, leader_epoch: int) -> bool:
        """Return whether the leader knows the partition in that epoch: it then does not repeat an
        answer.
        """
        place = self._known.get(key)
        return place is not None and place.position.leader_epoch == leader_epoch

    def request(
        self, wanted: Mapping[Key, Place], gone: Iterable[Key], max_bytes: int
    ) -> FetchRequest:
        """Make the next request, with the fields of the session.

        `wanted`: all partitions if it is whole, else at least those that may have changed; `gone`:
        partitions that are not fetched any more.
        """
        known = self._known
        forgotten: dict[bytes, list[int]] = {}
        if self.whole:
            known.clear()
        else:
            for key in gone:
                if key not in wanted and known.pop(key, None) is not None:
                    forgotten.setdefault(key[0], []).append(key[1])
        request = FETCH.request
        topics = [
            request.topics(topic_id=topic_id, partitions=[_row(each) for each in asked])
            for topic_id, asked in self.changes(wanted, max_bytes).items()
        ]
        return request(
            session_id=self.id,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=[
                request.forgotten_topics_data(topic_id=i, partitions=tuple(gone))
                for i, gone in forgotten.items()
            ],
        )

    def changes(self, wanted: Mapping[Key, Place], max_bytes: int) -> dict[bytes, list[Asked]]:
        """Return the places that the leader does not know, by topic. From now on they count as
        known.
        """
        known, topics = self._known, dict[bytes, list[Asked]]()
        for key, place in wanted.items():
            if known.get(key) != place:
                known[key] = place
                (offset, last_epoch, leader_epoch), log_start = place
                topics.setdefault(key[0], []).append(
                    Asked(key[1], leader_epoch, offset, last_epoch, log_start, max_bytes)
                )
        return topics

    def answered(self, answer: FetchResponse) -> bool:
        """Return whether the session goes on; else the next request is to be whole."""
        if answer.error_code:
            if answer.error_code == Code.FETCH_SESSION_ID_NOT_FOUND:
                self.id = 0
            self.epoch = WHOLE
            return False
        self.went_on(answer.session_id)
        return True

    def went_on(self, session_id: int) -> None:
        """Go on with the session that an answer without an error has named."""
        if self.epoch == WHOLE:
            self.id = session_id
        elif session_id != self.id:
            self.id = 0
        self.epoch = WHOLE if self.id == 0 else self.epoch + 1 if self.epoch < LAST_EPOCH else 1


def _row(asked: Asked) -> FetchPartition:
    return FETCH.request.topics.partitions(
        partition=asked.partition,
        current_leader_epoch=asked.leader_epoch,
        fetch_offset=asked.fetch_offset,
        last_fetched_epoch=asked.last_fetched_epoch,
        log_start_offset=asked.log_start,
        partition_max_bytes=asked.max_bytes,
    )
