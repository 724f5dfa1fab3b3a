"""The pages of a node's metrics port: /health, and /metrics, which is made off the loop and once for all who ask meanwhile. Knows no socket."""

import json
from collections import deque
from collections.abc import Mapping

from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.exporter.group_metrics import GroupNumbers, groups_of
from raftka.broker.exporter.health import health
from raftka.broker.exporter.http import TEXT, Page, Reply
from raftka.broker.exporter.snapshot import PartitionNumbers, Snapshot, numbers_of, take_snapshot
from raftka.broker.handlers.services import Services
from raftka.broker.replica.partition import Partition

AT_ONCE = 200  # partitions that one turn looks at: about a millisecond


def pages_of(services: Services) -> Mapping[str, Page]:
    return {"/metrics": MetricsPage(services), "/health": lambda reply: _health(services, reply)}


def _health(services: Services, reply: Reply) -> None:
    found = health(services)
    reply(200 if found["status"] == "ok" else 503, "application/json", json.dumps(found).encode() + b"\n")


class MetricsPage:
    """Numbers are gathered on the loop, some partitions a turn; a page of them is written by another thread: thousands are thousands of lines."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._waiting: list[Reply] = []
        self._exposition: object | None = None  # made with the first scrape: prometheus-client is not for nodes that nobody asks

    def __call__(self, reply: Reply) -> None:
        self._waiting.append(reply)
        if len(self._waiting) == 1:
            coordinators = self.services.groups.runtime.partitions.values() if self.services.metadata.settings.is_broker else ()
            self._gather(deque(self.services.replicas.partitions.values()), [], deque(coordinators), [])

    def _gather(
        self, left: deque[Partition], found: list[PartitionNumbers], coordinators: deque[CoordinatorPartition], groups: list[GroupNumbers]
    ) -> None:
        clock = self.services.context.runtime.clock
        try:
            looked_at = min(AT_ONCE, len(left))
            found += [numbers_of(left.popleft()) for _ in range(looked_at)]
            while coordinators and looked_at < AT_ONCE:
                groups += (more := groups_of(self.services, coordinators.popleft()))
                looked_at += 1 + sum([len(group.offsets) for group in more])
            if left or coordinators:
                clock.call_at(clock.now(), lambda: self._gather(left, found, coordinators, groups))
                return
            snapshot = take_snapshot(self.services, found, groups)
        except Exception as error:  # called by a timer: a bug of ours must not end the node
            self._made(error)
        else:
            self.services.context.runtime.offload.run(lambda: self._written(snapshot), self._made)

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
