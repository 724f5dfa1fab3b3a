"""Answers that are not true, or not any more: stale leaders, hidden brokers, other addresses,
coordinators, versions and watermarks. For `cluster.show(...)`; the state of the cluster stays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from raftka.testing.faults.effects import changes
from raftka.testing.faults.fault import Effect
from raftka.testing.faults.selection import Apis, api_key
from raftka.testing.faults.treatment import Cut, Hit, Treatment
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from raftka.wire.messages.fetch import FetchResponse, PartitionData
from raftka.wire.messages.find_coordinator import FindCoordinatorResponse
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.rows import Row

BROKERS = ("Metadata", "FindCoordinator")
Versions = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shown:
    """Answers of some APIs that are changed; `where` chooses requests as the methods of the cluster
    do.
    """

    name: str
    apis: Apis
    effect: Effect
    where: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def stale_leader(
    topic: str, partition: int | None = None, *, leader: int, leader_epoch: int = -1
) -> Shown:
    """Metadata name this leader of a partition, or of all of the topic; -1: none."""

    def change(row: Row) -> None:
        for each in cast(MetadataResponse, row).topics:
            for part in each.partitions if each.name == topic else ():
                if partition in (None, part.partition_index):
                    part.leader_id, part.leader_epoch = leader, leader_epoch
                    part.error_code = int(Code.LEADER_NOT_AVAILABLE if leader < 0 else Code.NONE)

    name = f"show leader {leader} of {topic}" + ("" if partition is None else f"-{partition}")
    return Shown(name, "Metadata", changes(change), {"topic": topic})


def hidden_node(node_id: int) -> Shown:
    """Metadata leave the broker out, and its partitions have no leader there. Its connections
    stay.
    """

    def change(row: Row) -> None:
        answer = cast(MetadataResponse, row)
        answer.brokers = [each for each in answer.brokers if each.node_id != node_id]
        if answer.controller_id == node_id:
            answer.controller_id = -1
        for topic in answer.topics:
            for part in topic.partitions:
                if part.leader_id == node_id:
                    part.leader_id = -1
                    part.error_code = int(Code.LEADER_NOT_AVAILABLE)

    return Shown(f"hide node {node_id}", "Metadata", changes(change))


def address(
    node_id: int, *, host: str | None = None, port: int | None = None, rack: str | None = None
) -> Shown:
    """Metadata and FindCoordinator name another address or rack of the broker."""
    shown = {
        name: value
        for name, value in (("host", host), ("port", port), ("rack", rack))
        if value is not None
    }
    if not shown:
        raise ValueError("nothing to show: host, port or rack")

    def change(row: Row) -> None:
        brokers: list[Row]
        if row.struct is METADATA.response.struct:
            brokers = list(cast(MetadataResponse, row).brokers)
        else:
            brokers = [row, *cast(FindCoordinatorResponse, row).coordinators]
        for each in brokers:
            if getattr(each, "node_id", None) == node_id:
                for name in shown.keys() & set(each.__slots__):
                    setattr(each, name, shown[name])

    return Shown(f"show {shown} of node {node_id}", BROKERS, changes(change))


def coordinator(key: str, node_id: int, bootstrap_servers: str) -> Shown:
    """FindCoordinator names this broker for the group or transactional id; `bootstrap_servers`: of
    the cluster, where the broker's address stands at its place.
    """
    host, _, port = bootstrap_servers.split(",")[node_id - 1].rpartition(":")

    def effect(treatment: Treatment, hit: Hit) -> None:
        of_request = getattr(treatment.request.body, "key", None)

        def change(row: Row) -> None:
            answer = cast(FindCoordinatorResponse, row)
            for each in answer.coordinators:
                if each.key == key:
                    each.node_id, each.host, each.port = node_id, host, int(port)
                    each.error_code = 0
            if of_request == key:
                answer.node_id, answer.host, answer.port = node_id, host, int(port)
                answer.error_code = 0

        treatment.changes.append(change)

    return Shown(f"show coordinator {node_id} of {key}", "FindCoordinator", effect)


def versions(limited: Mapping[str, Versions | None]) -> Shown:
    """ApiVersions announces these versions (low, high) of some APIs, None: not the API at all;
    other versions of them are refused as by a broker that does not have them: the connection ends.
    """
    bounds = {api_key(api): limits for api, limits in limited.items()}
    for api, limits in limited.items():
        if limits is not None and limits[0] > limits[1]:
            raise ValueError(f"{api}: versions {limits[0]} to {limits[1]}")

    def announce(row: Row) -> None:
        answer = cast(ApiVersionsResponse, row)
        kept = [each for each in answer.api_keys if bounds.get(each.api_key, ()) is not None]
        for each in kept:
            low, high = bounds.get(each.api_key) or (each.min_version, each.max_version)
            each.min_version, each.max_version = (
                max(low, each.min_version),
                min(high, each.max_version),
            )
        answer.api_keys = kept

    def effect(treatment: Treatment, hit: Hit) -> None:
        request = treatment.request
        if request.api is API_VERSIONS:
            treatment.changes.append(announce)
            return
        limits = bounds[request.api.key]
        if limits is None or not limits[0] <= request.version <= limits[1]:
            treatment.cut = Cut(before=True)

    return Shown(f"show versions {dict(limited)}", ("ApiVersions", *limited), effect)


def preferred_replica(topic: str, partition: int, node_id: int) -> Shown:
    """Fetch answers send consumers to another replica (KIP-392)."""

    def change(part: PartitionData) -> None:
        part.preferred_read_replica, part.records = node_id, b""

    name = f"show preferred replica {node_id} of {topic}-{partition}"
    return _fetch(name, topic, partition, change)


def watermarks(
    topic: str, partition: int, *, high: int | None = None, start: int | None = None
) -> Shown:
    """Fetch answers have another high watermark, or another start of the log."""

    def change(part: PartitionData) -> None:
        if high is not None:
            part.high_watermark = part.last_stable_offset = high
        if start is not None:
            part.log_start_offset = start

    name = f"show high watermark {high}, log start {start} of {topic}-{partition}"
    return _fetch(name, topic, partition, change)


def _fetch(
    name: str, topic: str, partition: int, change_one: Callable[[PartitionData], None]
) -> Shown:
    def effect(treatment: Treatment, hit: Hit) -> None:
        name_of = treatment.topic_name

        def change(row: Row) -> None:
            for each in cast(FetchResponse, row).responses:
                for part in each.partitions:
                    if topic in (each.topic, name_of(each.topic_id)) and (
                        part.partition_index == partition
                    ):
                        change_one(part)

        treatment.changes.append(change)

    return Shown(name, "Fetch", effect, {"topic": topic, "partition": partition})
