"""A coordinator's knowledge of a consumer group beside its records. Knows no rule."""

from math import inf

from raftka.coordinator.modern.soft import REVOKE, SESSION
from raftka.coordinator.modern.soft import Soft as CommonSoft

JOIN, SYNC, DOWNGRADED = "join", "sync", "downgraded"


class Soft(CommonSoft):
    of_member = (SESSION, REVOKE, JOIN, SYNC)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.moved_at = -inf  # when something was last decided
        # the version of the topics that its metadata hash is known to be of
        self.seen_topics: tuple[int, int] | None = None
        self.visible_since = -inf  # growths of topics after that time are hidden from its members
        # when partitions that are hidden from its members now are to be assigned
        self.grows_at = inf
        # version of the topics, the group's subscription, and their hash
        self.hashed: tuple[tuple[int, int], object, int] | None = None
        self.resolved_topics = -1  # and its regular expressions
        self.resolved_at = -inf
