"""Topics with the partitions that the members of a group can have heard of.

A client asks for metadata when those that it has are old, five seconds as a rule, which is also
Kafka's time between two heartbeats: so heartbeats and metadata keep step. A group whose members
come sooner, because something has just happened, loses this step. A member that is assigned a
partition that its metadata do not have yet may end: so the partitions that a topic gets are hidden
from the group for as long as they may be unknown.
"""

from collections.abc import Iterable

from raftka.coordinator.machine import Topics


class VisibleTopics:
    """The topics as they were at a time (`since`, on the node's monotonic clock), but for those
    that have come or gone since then.
    """

    def __init__(self, topics: Topics, since: float) -> None:
        self._topics = topics
        self._since = since
        self.hidden_growths = topics.grown_since(since)  # of topics of any group

    def topic_id(self, name: str) -> bytes | None:
        return self._topics.topic_id(name)

    def partition_count(self, name: str) -> int:
        growth = self._topics.growth_after(name, self._since) if self.hidden_growths else None
        return self._topics.partition_count(name) if growth is None else growth[1]

    def first_hidden(self, names: Iterable[str]) -> float | None:
        """Return when the first of these topics grew whose new partitions are hidden; None: there
        is none.
        """
        growths = (
            [
                growth
                for name in names
                if (growth := self._topics.growth_after(name, self._since)) is not None
            ]
            if self.hidden_growths
            else []
        )
        return min(growths)[0] if growths else None
