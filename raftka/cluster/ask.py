"""One request to one broker, above all: who leads what. For views and probes that ask the next
broker at once instead of waiting for this one.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import Connection
from raftka.client.connection import Address
from raftka.security.client_security import PLAINTEXT, ClientSecurity
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.schema import Api, Req, Resp

TIMEOUT_SECONDS = 2.0
PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class PartitionView:
    topic: str
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    # brokers that are not fenced, and for a moment those that died
    brokers: dict[int, tuple[str, int]]
    controller: int
    partitions: tuple[PartitionView, ...]

    def of(self, topic: str) -> list[PartitionView]:
        return sorted((p for p in self.partitions if p.topic == topic), key=lambda p: p.partition)

    def leader_address(self, topic: str, partition: int) -> tuple[str, int]:
        return self.brokers[self.of(topic)[partition].leader]


def ask(
    address: Address,
    topics: Sequence[str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
    security: ClientSecurity = PLAINTEXT,
) -> ClusterView:
    """Metadata of these topics, or of all. Raises OSError when the broker does not answer in time
    (seconds).
    """
    return ask_any([address], topics, timeout, security)


def ask_any(
    addresses: Sequence[Address],
    topics: Sequence[str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
    security: ClientSecurity = PLAINTEXT,
) -> ClusterView:
    """From the first that answers. Raises OSError."""
    wanted = None if topics is None else [METADATA.request.topics(name=name) for name in topics]
    with Client(addresses, answer_s=timeout, security=security) as client:
        return _view(
            client.ask_any(
                METADATA, METADATA.request(topics=wanted, allow_auto_topic_creation=False)
            )
        )


def call(
    address: Address,
    api: Api[Req, Resp],
    request: Req,
    *,
    timeout: float = TIMEOUT_SECONDS,
    version: int | None = None,
    security: ClientSecurity = PLAINTEXT,
) -> Resp:
    """One request on a connection of its own, in the newest version, or the newest up to `version`.
    Raises OSError when no answer comes in time.
    """
    connection = Connection(address, "raftka", timeout, security)
    try:
        return connection.send(api, request, version).wait()
    finally:
        connection.close()


def wait_for_brokers(
    addresses: Sequence[Address], count: int, deadline: float, security: ClientSecurity = PLAINTEXT
) -> bool:
    """Until each of them lists so many brokers as alive; False when that was not so at `deadline`
    (of time.monotonic).
    """
    with Client(addresses, answer_s=TIMEOUT_SECONDS, security=security) as client:
        for address in addresses:
            while _brokers_listed_by(client, address) < count:
                if time.monotonic() > deadline:
                    return False
                time.sleep(PAUSE_SECONDS)
    return True


def _brokers_listed_by(client: Client, address: Address) -> int:
    try:
        return len(client.ask_at(address, DESCRIBE_CLUSTER, DESCRIBE_CLUSTER.request(), 0).brokers)
    except OSError:
        return 0


def _view(row: MetadataResponse) -> ClusterView:
    partitions = tuple(
        PartitionView(
            topic.name or "",
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
        )
        for topic in row.topics
        for p in topic.partitions
    )
    return ClusterView(
        {broker.node_id: (broker.host, broker.port) for broker in row.brokers},
        row.controller_id,
        partitions,
    )
