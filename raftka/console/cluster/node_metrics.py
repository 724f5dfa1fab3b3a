"""Turn times of raftka's nodes and the software of their clients, from the metrics that nodes offer
over HTTP. Other brokers, and nodes without `metrics.port` or with a login there, have none.
"""

import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.every_broker import ask_brokers
from raftka.client.connection import Address
from raftka.console.limits import METRICS_BYTES, METRICS_PARTITIONS
from raftka.console.view.cached import Cached, Effort
from raftka.console.view.metadata import Metadata
from raftka.wire.messages.configs import DESCRIBE_CONFIGS

EVERY_S, PLACES_S, ANSWER_S = 5.0, 60.0, 2.0
BROKER = 4  # type of a resource with settings
PORT, HOST, TLS = "metrics.port", "metrics.host", "metrics.ssl"
BUCKET = re.compile(rb'^raftka_turntimems_bucket\{le="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE)
SOFTWARE = re.compile(
    rb"^kafka_server_socket_server_metrics_connections_software\{([^}\n]*)\} ([0-9.e+]+)$",
    re.MULTILINE,
)
LABEL = re.compile(rb'(\w+)="([^"\\]*)"')  # names of software need no escapes

Buckets = dict[float, float]  # turns that took at most so many ms, since the node began
Software = Mapping[tuple[str, str], int]  # connections to a node by name and version


class Reading(NamedTuple):
    """Of all nodes; `p99_ms` of the turns since the reading before."""

    buckets: Mapping[int, Buckets]
    p99_ms: Mapping[int, float]
    software: Mapping[int, Software]


class SoftwareRow(NamedTuple):
    """Connections of clients of one name and version, and the nodes that have them."""

    name: str
    version: str
    connections: int
    nodes: Sequence[int]


class NodeMetrics:
    """For many threads."""

    def __init__(self, client: Callable[[], AbstractContextManager[Client]]) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._metadata: Metadata | None = None
        self._places: Cached[Mapping[int, Address]] = Cached(self._read_places)
        self._readings: Cached[Reading] = Cached(self._read)

    def p99_ms(self, metadata: Metadata) -> Mapping[int, float]:
        """Return milliseconds by broker, as far as known: 99 % of turns are shorter. They are read
        in the background, and never of a cluster whose metrics are long.
        """
        found = self._peek(metadata)
        return found.p99_ms if found is not None else {}

    def software(self, metadata: Metadata, first_s: float) -> Mapping[int, Software] | None:
        """Return the software of clients by the nodes that tell it; None: it is being read for the
        first time. The first reading is waited for, for `first_s` at most.
        """
        if is_too_large(metadata):
            return {}
        found = self._peek(metadata, first_s)
        return found.software if found is not None else None

    def _peek(self, metadata: Metadata, first_s: float = 0.0) -> Reading | None:
        if is_too_large(metadata):
            return None
        with self._lock:
            self._metadata = metadata
        found = self._readings.peek(EVERY_S, first_s)
        return found.value if found is not None else None

    def _read_places(self, _: Effort) -> Mapping[int, Address]:
        """Ask each broker where its metrics are."""
        with self._lock:
            metadata = self._metadata
        assert metadata is not None
        resource = DESCRIBE_CONFIGS.request.resources
        rows = {
            node_id: DESCRIBE_CONFIGS.request(
                resources=[
                    resource(
                        resource_type=BROKER,
                        resource_name=str(node_id),
                        configuration_keys=[PORT, HOST],
                    )
                ]
            )
            for node_id in metadata.brokers
        }
        found = {}
        with self._client() as client:
            client.brokers = metadata.addresses
            answers = ask_brokers(client, DESCRIBE_CONFIGS, rows)
        for node_id, answer in answers.of.items():
            values = {one.name: one.value for each in answer.results for one in each.configs}
            port = values.get(PORT) or ""
            if port.isdecimal() and 0 < int(port) < 65536:
                found[node_id] = (values.get(HOST) or metadata.brokers[node_id].host, int(port))
        return found

    def _read(self, _: Effort) -> Reading:
        before = self._readings.last
        buckets, p99_ms, software = {}, {}, {}
        for node_id, address in self._places.get(PLACES_S).value.items():
            page = read_page(address)
            if told := software_of(page):
                software[node_id] = told
            if found := buckets_of(page):
                buckets[node_id] = found
                old = before.buckets.get(node_id, {}) if before is not None else {}
                if (value := quantile(old, found, 0.99)) is not None:
                    p99_ms[node_id] = value
        return Reading(buckets, p99_ms, software)


def is_too_large(metadata: Metadata) -> bool:
    """Return whether the metrics of the cluster's nodes are too long to be read for a page."""
    return metadata.partition_count > METRICS_PARTITIONS.value


def read_page(address: Address) -> bytes:
    """Return the node's metrics; empty where there are none for us."""
    connection = http.client.HTTPConnection(*address, timeout=ANSWER_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.read(METRICS_BYTES.value) if answer.status == 200 else b""
    except (OSError, http.client.HTTPException, ClientError):
        return b""
    finally:
        connection.close()


def buckets_of(page: bytes) -> Buckets:
    return {float(bound): float(count) for bound, count in BUCKET.findall(page)}


def quantile(before: Buckets, now: Buckets, part: float) -> float | None:
    """Return the time in ms that `part` of the turns between two readings did not exceed, as the
    bound of a bucket; None: there was no turn, or all counts are of a node that began anew.
    """
    grown = {bound: count - before.get(bound, 0.0) for bound, count in sorted(now.items())}
    total = max(grown.values(), default=0.0)
    if total <= 0 or min(grown.values()) < 0:
        return None
    bound = next(bound for bound, count in grown.items() if count >= part * total)
    finite = [each for each in now if each != float("inf")]
    return bound if bound != float("inf") else max(finite, default=None)


def software_of(page: bytes) -> Software:
    """Return the connections of all listeners by name and version of their clients' software."""
    found: Counter[tuple[str, str]] = Counter()
    for labels, count in SOFTWARE.findall(page):
        of = {name.decode(): value.decode() for name, value in LABEL.findall(labels)}
        key = of.get("clientSoftwareName", ""), of.get("clientSoftwareVersion", "")
        found[key] += round(float(count))
    return found


def software_rows(by_node: Mapping[int, Software]) -> list[SoftwareRow]:
    """Return a row for each name and version; those with the most connections come first."""
    keys = {key for each in by_node.values() for key in each}
    rows = [
        SoftwareRow(
            *key,
            sum(each.get(key, 0) for each in by_node.values()),
            sorted(node_id for node_id, each in by_node.items() if key in each),
        )
        for key in keys
    ]
    return sorted(rows, key=lambda row: (-row.connections, row.name, row.version))
