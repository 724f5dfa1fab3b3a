"""Series of clients as /metrics shows them, within limits of clients, series and bytes. Knows no
Protobuf and no page.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.broker.client_metrics.otlp import Attribute, Kind, Point
from raftka.broker.work.long_work import Steps
from raftka.coordinator.timers import Timer, Timers
from raftka.limits import (
    CLIENT_METRICS_BYTES,
    CLIENT_METRICS_INSTANCES,
    CLIENT_METRICS_LABEL_BYTES,
    CLIENT_METRICS_SERIES,
    CLIENT_METRICS_SERIES_OF_CLIENT,
    Limit,
)

PREFIX = "org.apache.kafka."
FAMILY = "kafka_client_"
STRANGE = re.compile(r"[^a-zA-Z0-9_]")
TOTAL = "_total"
# labels of the client itself; attributes of a push cannot take their place
CLIENT_LABELS = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
)

Key = tuple[str, str]  # family, and labels in Prometheus' text


@dataclass(slots=True)
class _Series:
    value: float
    pushed_at: float


@dataclass(slots=True)
class _Client:
    labels: str
    timer: Timer  # its owner is the instance id
    series: dict[Key, _Series] = field(default_factory=dict)

    def size_of(self, key: Key) -> int:
        """Return the bytes of a series' name and labels on the page."""
        return len(self.labels) + len(key[0]) + len(key[1])


class ClientNumbers(NamedTuple):
    """The series of one client, for the page."""

    labels: str
    series: list[tuple[str, str, float]]  # family, labels, value


class ClientSeries:
    def __init__(self, hit: Callable[[Limit], None]) -> None:
        """`hit` hears of each limit because of which something is not kept."""
        self._hit = hit
        self._clients: dict[bytes, _Client] = {}  # in the order of their last pushes
        self._timers = Timers()
        self.count = 0
        self.size_bytes = 0  # of all names and labels

    def take(
        self,
        instance_id: bytes,
        fields: Mapping[str, str | None],
        points: Iterable[Point],
        now: float,
        silent_s: float,
    ) -> Steps[None]:
        """Keep the numbers of a push until no push has come for `silent_s`; a series that later
        pushes do not have leaves after that time too.
        """
        client = self._clients.pop(instance_id, None)
        if client is None:
            if len(self._clients) >= CLIENT_METRICS_INSTANCES.value:
                self._hit(CLIENT_METRICS_INSTANCES)
                self._forget(next(iter(self._clients)))
            labels = _labels([(name, fields.get(name) or "") for name in CLIENT_LABELS])
            client = _Client(labels, Timer(instance_id, self._forget))
        self._clients[instance_id] = client
        self._timers.set(client.timer, now + silent_s)
        for point in points:
            self._put(client, point, now)
            yield
            if self._clients.get(instance_id) is not client:
                return  # it had to make room for another in the meantime
        gone = [key for key, each in client.series.items() if each.pushed_at <= now - silent_s]
        for key in gone:
            del client.series[key]
            self.count -= 1
            self.size_bytes -= client.size_of(key)

    def expire(self, now: float) -> None:
        """Forget the clients that have not pushed for too long."""
        while (timer := self._timers.due(now)) is not None:
            timer.ring(timer.owner)

    def next_expiry(self) -> float:
        """Return a time before which no client expires, inf if there is no client."""
        return self._timers.next()

    def numbers(self) -> Iterable[ClientNumbers]:
        """Yield the series of each client that there is when its turn comes."""
        for instance_id in list(self._clients):
            client = self._clients.get(instance_id)
            if client is not None:
                yield ClientNumbers(
                    client.labels,
                    [(name, labels, each.value) for (name, labels), each in client.series.items()],
                )

    def _put(self, client: _Client, point: Point, now: float) -> None:
        attributes = point.attributes + point.of_resource
        length = len(client.labels) + len(point.name)
        length += sum([len(key) + len(value) for key, value in attributes])
        if length > CLIENT_METRICS_LABEL_BYTES.value:
            self._hit(CLIENT_METRICS_LABEL_BYTES)
            return
        own = [each for each in attributes if _name(each[0]) not in CLIENT_LABELS]
        key = (_family(point), _labels(own))
        series = client.series.get(key)
        if series is not None:
            series.value = series.value + point.value if point.kind is Kind.DELTA else point.value
            series.pushed_at = now
            return
        size_bytes = client.size_of(key)
        limit = self._limit_of(client, size_bytes)
        if limit is not None:
            self._hit(limit)
            return
        client.series[key] = _Series(point.value, now)
        self.count += 1
        self.size_bytes += size_bytes

    def _limit_of(self, client: _Client, size_bytes: int) -> Limit | None:
        """Return the limit that one more series of the client would exceed."""
        if len(client.series) >= CLIENT_METRICS_SERIES_OF_CLIENT.value:
            return CLIENT_METRICS_SERIES_OF_CLIENT
        if self.count >= CLIENT_METRICS_SERIES.value:
            return CLIENT_METRICS_SERIES
        if self.size_bytes + size_bytes > CLIENT_METRICS_BYTES.value:
            return CLIENT_METRICS_BYTES
        return None

    def _forget(self, instance_id: bytes) -> None:
        client = self._clients.pop(instance_id)
        self.count -= len(client.series)
        self.size_bytes -= sum(map(client.size_of, client.series))
        self._timers.off(client.timer)


def _family(point: Point) -> str:
    """Return the name on the page: Kafka's without its prefix; that of a counter ends in _total."""
    name = FAMILY + STRANGE.sub("_", point.name.removeprefix(PREFIX))
    if point.kind is Kind.GAUGE:
        return name.removesuffix(TOTAL)  # the end says that a family is a counter
    return name if name.endswith(TOTAL) else name + TOTAL


def _labels(attributes: list[Attribute]) -> str:
    """Return the labels in Prometheus' text and in order; the first value of a name counts."""
    found: dict[str, str] = {}
    for key, value in attributes:
        found.setdefault(_name(key), value)
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in sorted(found.items())])


def _name(key: str) -> str:
    name = STRANGE.sub("_", key)
    return f"_{name}" if name[0].isdigit() else name


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
