"""Progress of a query, committed as offsets of a group: tools that show the lag of groups show the
query's. Knows no Spark.

Nobody reads from there, the checkpoint alone counts. So what goes wrong is a warning, and takes the
query some seconds at most, twice a minute.
"""

import logging
import time
from collections.abc import Callable

from raftka.client.blocking.client import error_codes
from raftka.client.blocking.member import commit_request
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import SourceOptions
from raftka.pipeline.topics.positions import Offsets
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages.offsets import OFFSET_COMMIT

WAIT_S = 2.0
RETRY_S = 30.0
# brokers forget the offsets of a group without members, and somebody may delete or reset them
AGAIN_S = 3600.0
BY_NAME = 2  # a version that old brokers know and new ones still do
NO_MEMBER = {
    Code.UNKNOWN_MEMBER_ID,
    Code.ILLEGAL_GENERATION,
    Code.STALE_MEMBER_EPOCH,
    Code.REBALANCE_IN_PROGRESS,
}

log = logging.getLogger(__name__)


class Refused(Exception):
    """Trying again at once would not help."""


class Progress:
    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._group, self._clock = options.group_id, clock
        self._brokers = Brokers(
            options.bootstrap, options.client_id, WAIT_S, wait_s=WAIT_S, security=options.security
        )
        self._told: Offsets = {}
        self._told_at = clock()
        self._wanted: Offsets = {}
        self._not_before = 0.0
        self._warned = ""

    def publish(self, offsets: Offsets) -> None:
        """Publish the offsets of all that is read. Never raises."""
        self._wanted = offsets
        if self._clock() >= self._not_before:
            self._commit_if_new()

    def close(self) -> None:
        """Publish the rest and close the connections. Never raises."""
        self._commit_if_new()
        self._brokers.close()

    def _commit_if_new(self) -> None:
        if self._group is None or (
            self._wanted == self._told and self._clock() - self._told_at < AGAIN_S
        ):
            return
        try:
            self._commit(self._group)
            self._told, self._told_at, self._warned = self._wanted, self._clock(), ""
        except Exception as error:
            self._not_before = self._clock() + RETRY_S
            if str(error) != self._warned:
                log.warning(
                    "the query goes on, but its progress could not be committed for the group %s: "
                    "%s",
                    self._group,
                    error,
                )
            self._warned = str(error)

    def _commit(self, group: str) -> None:
        """Raises Refused, Unreachable and KafkaError."""
        answer = self._brokers.ask_coordinator(
            group, OFFSET_COMMIT, commit_request(group, self._wanted), BY_NAME
        )
        if codes := error_codes(answer):
            text = ", ".join(map(name_of_code, sorted(codes)))
            if codes & NO_MEMBER:
                text += (
                    ": the group has members of its own. Another kafka.group.id, which no "
                    "consumer has, shows the query alone"
                )
            raise Refused(text)
