"""State of the cluster's page between two looks of a session: moves, rates, groups that make no
progress, and answers of the brokers that the view does not have.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import ClientError, Unsupported
from raftka.client.blocking.every_broker import ask_every_broker
from raftka.client.blocking.quorum import Quorum, read_quorum
from raftka.console.cluster.node_metrics import NodeMetrics
from raftka.console.cluster.partitions import Counts, Moves, count_partitions
from raftka.console.limits import LATE_TRANSACTION_MS, MIN_ISR_TOPICS, STUCK_SECONDS
from raftka.console.sessions import Session
from raftka.console.view.beside import Beside
from raftka.console.view.cached import Aged, Cached, Effort
from raftka.console.view.ends import Ends
from raftka.console.view.groups import Committed, Groups, Lags
from raftka.console.view.metadata import Metadata
from raftka.json_values import JsonObject
from raftka.wire.errors import KafkaError
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.transactions import LIST_TRANSACTIONS

QUORUM_S, TRANSACTIONS_S, MIN_ISR_S = 2.0, 15.0, 60.0
RATES = 60  # readings of the curve
TOPIC = 2  # type of a resource with settings
MIN_ISR = "min.insync.replicas"
STABLE = "Stable"  # a group with members that is not about to change


class Progress(NamedTuple):
    """Since when (monotonic seconds) a group has committed `total`, the sum of its offsets."""

    total: int
    since: float


class ClusterMonitor:
    """For many threads."""

    def __init__(self, session: Callable[[], Session]) -> None:
        def client() -> AbstractContextManager[Client]:
            return session().client()

        self._lock = threading.Lock()
        self._moves = Moves()
        self._counted: tuple[Metadata, Counts] | None = None
        self._rates: deque[float] = deque(maxlen=RATES)
        self._ends: Ends | None = None
        self._committed: Committed | None = None
        self._progress: dict[str, Progress] = {}
        self._min_isr: dict[str, int] = {}
        self._min_isr_until = 0.0
        self._client = client
        self.node_metrics = NodeMetrics(client)
        self._quorum: Cached[Quorum | None] = Cached(self._read_quorum)
        self._late: Cached[Sequence[str]] = Cached(self._read_late_transactions)

    # partitions

    def observe(self, metadata: Metadata, now_ms: int) -> tuple[Counts, JsonObject]:
        """Return the counts, and the moves as the page shows them."""
        with self._lock:
            self._moves.observe(metadata, now_ms)
            if self._counted is None or self._counted[0] is not metadata:
                self._counted = metadata, count_partitions(metadata)
            return self._counted[1], self._moves.shown(now_ms)

    def min_isr(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Return min.insync.replicas of these topics, of the first MIN_ISR_TOPICS."""
        wanted = topics[: MIN_ISR_TOPICS.value]
        with self._lock:
            now = time.monotonic()
            if now >= self._min_isr_until:
                self._min_isr, self._min_isr_until = {}, now + MIN_ISR_S
            unknown = [each for each in wanted if each not in self._min_isr]
        if unknown:
            found = self._read_min_isr(unknown)
            with self._lock:
                # those of which nothing is told are not asked again at once
                self._min_isr |= dict.fromkeys(unknown, 1) | found
        with self._lock:
            return dict(self._min_isr)

    def _read_min_isr(self, topics: Sequence[str]) -> dict[str, int]:
        resource = DESCRIBE_CONFIGS.request.resources
        row = DESCRIBE_CONFIGS.request(
            resources=[
                resource(resource_type=TOPIC, resource_name=each, configuration_keys=[MIN_ISR])
                for each in topics
            ]
        )
        try:
            with self._client() as client:
                answer = client.ask_any(DESCRIBE_CONFIGS, row)
        except (OSError, ClientError):
            return {}
        return {
            each.resource_name: int(one.value)
            for each in answer.results
            for one in each.configs
            if one.value is not None and one.value.isdecimal()
        }

    # quorum

    def quorum(self) -> Quorum | None:
        """Return None where the cluster tells nothing of it now."""
        try:
            return self._quorum.get(QUORUM_S).value
        except (OSError, ClientError, KafkaError):
            return None

    def _read_quorum(self, _: Effort) -> Quorum | None:
        with self._client() as client:
            return read_quorum(client)

    # rates and groups

    def rates(self, ends: Ends | None) -> list[float]:
        """Return records a second of all topics at the last readings, the oldest first."""
        with self._lock:
            if ends is not None and ends is not self._ends:
                self._ends = ends
                if ends.rates_by_topic:
                    self._rates.append(round(sum(ends.rates_by_topic.values()), 1))
            return list(self._rates)

    def stuck_groups(
        self, groups: Groups | None, committed: Committed | None, lags: Lags | None
    ) -> dict[str, int]:
        """Return the lag of groups that have members, and have committed nothing for STUCK_SECONDS
        though records wait.
        """
        if groups is None or committed is None or lags is None:
            return {}
        now = time.monotonic()
        with self._lock:
            if committed is not self._committed:
                self._committed = committed
                self._progress = {
                    group_id: self._progress_of(group_id, sum(offsets.values()), now)
                    for group_id, offsets in committed.of.items()
                }
            return {
                group_id: lag
                for group_id, lag in lags.by_group.items()
                if lag > 0
                and (known := self._progress.get(group_id)) is not None
                and now - known.since >= STUCK_SECONDS.value
                and (group := groups.of.get(group_id)) is not None
                and group.state == STABLE
            }

    def _progress_of(self, group_id: str, total: int, now: float) -> Progress:
        known = self._progress.get(group_id)
        return known if known is not None and known.total == total else Progress(total, now)

    # transactions

    def late_transactions(self) -> Sequence[str]:
        """Return what was read last; it is read anew in the background."""
        found: Aged[Sequence[str]] | None = self._late.peek(TRANSACTIONS_S)
        return found.value if found is not None else ()

    def _read_late_transactions(self, _: Effort) -> Sequence[str]:
        row = LIST_TRANSACTIONS.request(
            state_filters=["Ongoing"], duration_filter=LATE_TRANSACTION_MS.value
        )
        with self._client() as client:
            try:
                answers = ask_every_broker(client, LIST_TRANSACTIONS, row)
            except Unsupported:
                return ()
        return sorted(
            each.transactional_id
            for answer in answers.of.values()
            for each in answer.transaction_states
        )


MONITORS: Beside[Session, ClusterMonitor] = Beside(ClusterMonitor)
