"""The pages of a node's metrics port: /health, and /metrics, which is made off the loop, once for
all requests that come meanwhile. Knows no socket.
"""

import json
from collections import Counter
from collections.abc import Generator, Mapping

from raftka.broker.exporter.group_metrics import GroupNumbers, groups_of
from raftka.broker.exporter.guarded import guarded_server
from raftka.broker.exporter.health import health
from raftka.broker.exporter.snapshot import PartitionNumbers, Snapshot, numbers_of, take_snapshot
from raftka.broker.exporter.transaction_metrics import count_ids, transactions_of
from raftka.broker.handlers.services import Services
from raftka.coordinator.transactions.records import State
from raftka.http.messages import TEXT, Reply, Request, Response
from raftka.http.pages import Page
from raftka.http.server import HttpServer

PARTITIONS_A_TURN = 200  # about a millisecond
IDS_OF_PARTITION = 50  # transactional ids that cost as much as one partition
SERIES_OF_PARTITION = 20  # of clients, likewise
# as Kafka's: so long after transaction.max.timeout.ms no coordinator can be about to end a
# transaction
LATE_MS = 5 * 60_000


def metrics_server(services: Services) -> HttpServer:
    """Raises TlsError or SettingError when the port cannot be secured as the settings say."""
    pages: Mapping[str, Page] = {
        "/metrics": MetricsPage(services),
        "/health": lambda request, reply: _health(services, reply),
    }
    open_pages: Mapping[str, Page] = {
        "/health": lambda request, reply: _health(services, reply, brief=True)
    }
    return guarded_server(
        services.context,
        pages,
        {} if services.metadata.settings["metrics.auth.health"] else open_pages,
        "metrics",
    )


def _health(services: Services, reply: Reply, *, brief: bool = False) -> None:
    """`brief`: for clients without a login."""
    found = health(services)
    if brief:
        found = {"status": found["status"]}
    status = 200 if found["status"] == "ok" else 503
    reply(Response(status, "application/json", json.dumps(found).encode() + b"\n"))


def gather(services: Services) -> Generator[int, None, Snapshot]:
    """Yield the work of each step, in partitions."""
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
    clients = []
    for client in services.client_metrics.series.numbers():
        clients.append(client)
        yield 1 + len(client.series) // SERIES_OF_PARTITION
    return take_snapshot(services, partitions, groups, transactions_of(services, ids), clients)


class MetricsPage:
    """Gather numbers on the loop, some partitions a turn; another thread writes the page, which has
    thousands of lines.
    """

    def __init__(self, services: Services) -> None:
        self.services = services
        self._waiting: list[Reply] = []
        # made with the first scrape: a node without scrapes does not import prometheus-client
        self._exposition: object | None = None

    def __call__(self, request: Request, reply: Reply) -> None:
        self._waiting.append(reply)
        if len(self._waiting) == 1:
            self._gather_more(gather(self.services))

    def _gather_more(self, gathering: Generator[int, None, Snapshot]) -> None:
        clock = self.services.context.runtime.clock
        visited = 0
        try:
            while visited < PARTITIONS_A_TURN:
                visited += next(gathering)
        except StopIteration as done:
            snapshot: Snapshot = done.value
            self.services.context.runtime.offload.run(lambda: self._write(snapshot), self._on_page)
        except Exception as error:  # called by a timer: a bug of ours must not end the node
            self._on_page(error)
        else:
            clock.call_at(clock.now(), lambda: self._gather_more(gathering))

    def _write(self, snapshot: Snapshot) -> tuple[str, bytes]:
        """Return content type and text. Runs in another thread, never twice at a time."""
        from raftka.broker.exporter.exposition import Exposition

        if not isinstance(self._exposition, Exposition):
            self._exposition = Exposition()
        return self._exposition.write(snapshot)

    def _on_page(self, page: tuple[str, bytes] | BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        if isinstance(page, BaseException):
            self.services.context.events.error("metrics_failed", error=repr(page))
            text = b"the metrics could not be written: see the node's log\n"
            response = Response(503, TEXT, text)
        else:
            response = Response(200, *page)
        for reply in waiting:
            reply(response)
