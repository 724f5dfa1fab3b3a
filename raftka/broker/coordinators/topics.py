"""The metadata that coordinators use: the present topics, and their numbers of partitions a short
while ago.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Protocol

from raftka.broker.context import BrokerContext
from raftka.coordinator.machine import Topics
from raftka.metadata.image import Delta, MetadataImage

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
REMEMBERED_S = 60.0  # of a growth


class WatchedTopics(Topics, Protocol):
    def on_image(
        self, before: MetadataImage, image: MetadataImage, delta: Delta, now: float
    ) -> None: ...


class ImageTopics:
    __slots__ = ("_context", "_grown", "_times")

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._times: list[float] = []  # of all growths of topics, in order
        # by topic id: when it grew, and its partitions until then
        self._grown: dict[bytes, list[tuple[float, int]]] = {}

    def topic_id(self, name: str) -> bytes | None:
        return self._context.metadata.image.topic_ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._context.metadata.image.topics.get(topic_id)
        return topic.name if topic is not None else None

    def partition_count(self, name: str) -> int:
        topic = self._context.metadata.image.topic_named(name)
        return len(topic.partitions) if topic is not None else 0

    def names(self) -> Iterable[str]:
        return self._context.metadata.image.topic_ids

    # growths

    def grown_since(self, when: float) -> int:
        return len(self._times) - bisect_right(self._times, when) if self._times else 0

    def growth_after(self, name: str, when: float) -> tuple[float, int] | None:
        growths = self._grown.get(self.topic_id(name) or b"", ())
        return next((growth for growth in growths if growth[0] > when), None)

    def on_image(
        self, before: MetadataImage, image: MetadataImage, delta: Delta, now: float
    ) -> None:
        """Remember which topics have got partitions. Topics that are new have no growth: no member
        can have read them before.
        """
        for topic_id in delta.topics_changed:
            old, new = before.topics.get(topic_id), image.topics.get(topic_id)
            if old is not None and new is not None and len(old.partitions) < len(new.partitions):
                self._grown.setdefault(topic_id, []).append((now, len(old.partitions)))
                self._times.append(now)
        if self._times and self._times[0] <= now - REMEMBERED_S:
            self._times = self._times[bisect_right(self._times, now - REMEMBERED_S) :]
            kept = {
                topic_id: [each for each in growths if each[0] > now - REMEMBERED_S]
                for topic_id, growths in self._grown.items()
            }
            self._grown = {topic_id: growths for topic_id, growths in kept.items() if growths}
