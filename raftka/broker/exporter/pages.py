"""The pages of a node's metrics port: /health, and /metrics, which is made off the loop and once
for all who ask meanwhile. Knows no socket.
"""

import json
from collections import Counter
from collections.abc import Generator, Mapping

from raftka.broker.exporter.group_metrics import GroupNumbers, groups_of
from raftka.broker.exporter.guarded import guarded_server
from raftka.broker.exporter.health import health
from raftka.broker.exporter.http import TEXT, HttpServer, Page, Reply
from raftka.broker.exporter.snapshot import PartitionNumbers, Snapshot, numbers_of, take_snapshot
from raftka.broker.exporter.transaction_metrics import count_ids, transactions_of
from raftka.broker.handlers.services import Services
from raftka.coordinator.transactions.records import State

AT_ONCE = 200  # partitions that one turn looks at: about a millisecond
IDS_OF_PARTITION = 50  # transactional ids that cost as much to count as one partition to look at
# as Kafka's: so long after transaction.max.timeout.ms no coordinator can be about to end a
# transaction
LATE_MS = 5 * 60_000


def metrics_server(services: Services) -> HttpServer:
    """Raises TlsError or SettingError when the port cannot be secured as the settings say."""
    pages: Mapping[str, Page] = {
        "/metrics": MetricsPage(services),
        "/health": lambda reply: _health(services, reply),
    }
    open_pages: Mapping[str, Page] = {"/health": lambda reply: _health(services, reply, brief=True)}
    return guarded_server(
        services.context,
        pages,
        {} if services.metadata.settings["metrics.auth.health"] else open_pages,
        "metrics",
    )


def _health(services: Services, reply: Reply, *, brief: bool = False) -> None:
    """`brief`: for strangers."""
    found = health(services)
    if brief:
        found = {"status": found["status"]}
    reply(
        200 if found["status"] == "ok" else 503,
        "application/json",
        json.dumps(found).encode() + b"\n",
    )


def _gather(services: Services) -> Generator[int, None, Snapshot]:
    """Yields after each thing that was looked at: how many partitions it was worth."""
    settings = services.metadata.settings
    late_before_ms = (
        services.context.runtime.clock.wall_ms() - settings["transaction.max.timeout.ms"] - LATE_MS
    )
    partitions: list[PartitionNumbers] = []
    for partition in list(services.replicas.partitions.values()):
        partitions.append(numbers_of(partition, late_before_ms))
        yield 1
    groups: list[GroupNumbers] = []
    for coordinator in list(services.groups.runtime.partitions.values()):
        groups += (more := groups_of(services, coordinator))
        yield 1 + sum([len(group.offsets) for group in more])
    ids: Counter[State] = Counter()
    for coordinator in list(services.transactions.runtime.partitions.values()):
        yield 1 + count_ids(coordinator, ids) // IDS_OF_PARTITION
    return take_snapshot(services, partitions, groups, transactions_of(services, ids))


class MetricsPage:
    """Numbers are gathered on the loop, some partitions a turn; a page of them is written by
    another thread: thousands are thousands of lines.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        self._waiting: list[Reply] = []
        # made with the first scrape: prometheus-client is not for nodes that nobody asks
        self._exposition: object | None = None

    def __call__(self, reply: Reply) -> None:
        self._waiting.append(reply)
        if len(self._waiting) == 1:
            self._gather_more(_gather(self.services))

    def _gather_more(self, gathering: Generator[int, None, Snapshot]) -> None:
        clock = self.services.context.runtime.clock
        looked_at = 0
        try:
            while looked_at < AT_ONCE:
                looked_at += next(gathering)
        except StopIteration as done:
            snapshot: Snapshot = done.value
            self.services.context.runtime.offload.run(lambda: self._written(snapshot), self._made)
        except Exception as error:  # called by a timer: a bug of ours must not end the node
            self._made(error)
        else:
            clock.call_at(clock.now(), lambda: self._gather_more(gathering))

    def _written(self, snapshot: "Snapshot") -> tuple[str, bytes]:
        """In another thread; never twice at a time."""
        from raftka.broker.exporter.exposition import Exposition

        if not isinstance(self._exposition, Exposition):
            self._exposition = Exposition()
        return self._exposition.write(snapshot)

    def _made(self, page: tuple[str, bytes] | BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        if isinstance(page, BaseException):
            self.services.context.events.error("metrics_failed", error=repr(page))
            for reply in waiting:
                reply(503, TEXT, b"the metrics could not be written: see the node's log\n")
        else:
            for reply in waiting:
                reply(200, *page)
