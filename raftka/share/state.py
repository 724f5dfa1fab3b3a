"""The persisted state of a share partition, as values: its leader and the share coordinator
exchange them (ReadShareGroupState, WriteShareGroupState).
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, Self

NO_START = -1  # no offset is known yet: the leader finds it with the first fetch
NO_COUNT = -1  # the number of completed deliveries is not known
NO_EPOCH = -1

_KEY = re.compile(r"(.+):([\w-]{22}):(-?[0-9]{1,9})", re.ASCII | re.DOTALL)


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: bytes  # 16 bytes
    partition: int

    def coordinator_key(self) -> str:
        """Return the key of FindCoordinator, by which the partition of __share_group_state is
        found.
        """
        topic_id = urlsafe_b64encode(self.topic_id).rstrip(b"=").decode()
        return f"{self.group_id}:{topic_id}:{self.partition}"

    @classmethod
    def parse(cls, coordinator_key: str) -> Self | None:
        """Return the share partition of such a key; None: it names none. A group id may have
        colons.
        """
        found = _KEY.fullmatch(coordinator_key)
        if found is None:
            return None
        return cls(found[1], urlsafe_b64decode(found[2] + "=="), int(found[3]))


class StateBatch(NamedTuple):
    """Records of consecutive offsets in one state."""

    first: int
    last: int  # included
    state: int  # Kafka's number: 0 available, 2 acknowledged, 3 archiving, 4 archived
    count: int  # type: ignore[assignment]  # deliveries so far; hides tuple.count


class ShareState(NamedTuple):
    """All that is persisted of a share partition."""

    state_epoch: int
    leader_epoch: int
    start: int  # the first offset that may still be delivered, or NO_START
    complete_count: int  # of records at or above `start` that are done, or NO_COUNT
    batches: tuple[StateBatch, ...]  # in order of offsets, without overlaps


class ShareSummary(NamedTuple):
    state_epoch: int
    leader_epoch: int
    start: int
    complete_count: int
