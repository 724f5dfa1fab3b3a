"""How far a query has come, told as a group's committed offsets: tools that show the lag of groups show a query's. Knows no Spark.

Nobody reads from there, the checkpoint alone counts. So what goes wrong is a warning, and takes the query some seconds at most, twice a minute.
"""

import logging
import time
from collections.abc import Callable

from raftka.pipeline.brokers import Brokers, Patience, code_name
from raftka.pipeline.options import Address, SourceOptions
from raftka.pipeline.positions import Offsets
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitRequestPartition

WAIT_S = 2.0
RETRY_S = 30.0
ONE_KEY, BY_NAME = 3, 2  # versions that old brokers know and new ones still do
NO_MEMBER = {Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.STALE_MEMBER_EPOCH, Code.REBALANCE_IN_PROGRESS}

log = logging.getLogger(__name__)


class Refused(Exception):
    """Trying again at once would not help."""


class Progress:
    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._group, self._clock = options.group_id, clock
        self._brokers = Brokers(options.bootstrap, options.client_id, WAIT_S, wait_s=WAIT_S)
        self._coordinator: Address | None = None
        self._told: Offsets = {}
        self._wanted: Offsets = {}
        self._not_before = 0.0
        self._warned = ""

    def publish(self, offsets: Offsets) -> None:
        """Of all that is read. Never raises."""
        self._wanted = offsets
        if self._clock() >= self._not_before:
            self._tell()

    def close(self) -> None:
        """Whatever has not been told yet is told now. Never raises."""
        self._tell()
        self._brokers.close()

    def _tell(self) -> None:
        if self._group is None or self._wanted == self._told:
            return
        try:
            self._commit(self._group, Patience(WAIT_S, "a group's offsets"))
            self._told, self._warned = self._wanted, ""
        except Exception as error:
            self._not_before = self._clock() + RETRY_S
            if str(error) != self._warned:
                log.warning("the query goes on, but its progress could not be committed for the group %s: %s", self._group, error)
            self._warned = str(error)

    def _commit(self, group: str, patience: Patience) -> None:
        while True:
            why: object
            try:
                self._coordinator = self._coordinator or self._found(group)
                answer = self._brokers.ask(self._coordinator, OFFSET_COMMIT, self._request(group), BY_NAME)
                codes = {each.error_code for topic in answer.topics for each in topic.partitions} - {0}
                if not codes:
                    return
                why = _judged(codes)
            except OSError as error:
                why = error
            self._coordinator = None
            patience.wait(why)

    def _found(self, group: str) -> Address:
        """Raises OSError."""
        answer = self._brokers.ask_any(FIND_COORDINATOR, FIND_COORDINATOR.request(key=group, key_type=0), ONE_KEY)
        if answer.error_code:
            raise OSError(_judged({answer.error_code}))
        return (answer.host, answer.port)

    def _request(self, group: str) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        row = OFFSET_COMMIT.request.topics
        for (topic, partition), offset in sorted(self._wanted.items()):
            topics.setdefault(topic, []).append(row.partitions(partition_index=partition, committed_offset=offset, committed_metadata=""))
        return OFFSET_COMMIT.request(group_id=group, topics=[row(name=name, partitions=partitions) for name, partitions in topics.items()])


def _judged(codes: set[int]) -> str:
    """Raises Refused."""
    text = ", ".join(map(code_name, sorted(codes)))
    if codes & NO_MEMBER:
        raise Refused(f"{text}: the group has members of its own. Another kafka.group.id, which no consumer has, shows the query alone")
    if not all(code in Code._value2member_map_ and Code(code).retriable for code in codes):
        raise Refused(text)
    return text
