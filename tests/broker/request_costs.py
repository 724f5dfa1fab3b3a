"""Requests with arrays of any length for every API."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from raftka.broker.network.access.authorizer import AllowAll
from raftka.broker.network.session import Session
from raftka.broker.share.sessions import SessionKey
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.share.state import SharePartitionKey
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID, InitProducerIdRequest
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from raftka.wire.messages.share_fetch import SHARE_FETCH
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.rows import ZERO_UUID, Field, Row, Struct
from raftka.wire.schema import AnyApi
from tests.broker.requests import batch
from tests.broker.stage import Stage, Wire
from tests.kit.broker.share import shares

ITEMS = 150
SHARES = (SHARE_FETCH, SHARE_ACKNOWLEDGE)


class Nobody(AllowAll):
    """Refuses whatever can be refused to a client."""

    def allowed(self, session: Session, operation: str, resource: tuple[str, str]) -> bool:
        return False

    def allowed_any_topic(self, session: Session, operation: str) -> bool:
        return False


def opened() -> Stage:
    """A node with many topics, and one of many partitions."""
    with shares():
        stage = Stage(
            auto_create_topics_enable="false",
            offsets_topic_num_partitions="5",
            transaction_state_log_num_partitions="1",
            group_initial_rebalance_delay_ms="0",
        )
    create(stage, *[f"t{index}" for index in range(2 * ITEMS)])
    stage.create("wide", partitions=2 * ITEMS)
    stage.create("kept")
    asked = FIND_COORDINATOR.request(coordinator_keys=[f"g{index}" for index in range(2 * ITEMS)])
    wire = stage.wire()
    stage.wait(
        lambda: {each.error_code for each in wire.ask(FIND_COORDINATOR, asked).coordinators} == {0}
    )
    commit = OFFSET_COMMIT.request
    kept = [
        commit.topics(
            name="kept",
            partitions=[commit.topics.partitions(partition_index=0, committed_offset=1)],
        )
    ]
    wire.ask(OFFSET_COMMIT, commit(group_id="g", topics=kept), 9)  # so that there is such a group
    asked = FIND_COORDINATOR.request(key_type=1, coordinator_keys=["t"])
    stage.wait(lambda: wire.ask(FIND_COORDINATOR, asked).coordinators[0].error_code == 0)
    asked = FIND_COORDINATOR.request(
        key_type=2, coordinator_keys=[SharePartitionKey("g", bytes(16), 0).coordinator_key()]
    )
    stage.wait(lambda: wire.ask(FIND_COORDINATOR, asked).coordinators[0].error_code == 0)
    for name in ("t", *[f"t{index}" for index in range(2 * ITEMS)]):
        row = INIT_PRODUCER_ID.request(transactional_id=name, transaction_timeout_ms=900_000)
        stage.wait(partial(_is_known, wire, row))
    return stage


def open_session(stage: Stage, api: AnyApi) -> None:
    """Open the session with which a request about shares goes on, if it does."""
    if api in SHARES:
        node = stage.nodes[1]
        node.share_sessions.open(SessionKey("g", "m"), next(iter(node.dispatcher.connections)))


def _is_known(wire: Wire, row: InitProducerIdRequest) -> bool:
    return wire.ask(INIT_PRODUCER_ID, row).error_code == 0


def create(stage: Stage, *names: str) -> None:
    request = CREATE_TOPICS.request
    row = request(
        topics=[
            request.topics(name=name, num_partitions=1, replication_factor=1) for name in names
        ],
        timeout_ms=30_000,
    )
    assert {topic.error_code for topic in stage.wire().ask(CREATE_TOPICS, row).topics} == {0}


def arrays(struct: Struct, version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all arrays in a message of that version."""
    for field in struct.fields:
        if version in field.versions:
            here = (*path, field.name)
            if field.array:
                yield here
            if field.struct is not None:
                yield from arrays(field.struct, version, here)


class Maker:
    """A request whose array at `path` has `count` items; every other array has one."""

    def __init__(
        self, stage: Stage, api: AnyApi, path: tuple[str, ...], kind: str, count: int
    ) -> None:
        self.image = stage.nodes[1].image
        self.api = api
        self.version = api.announced.high
        self.path = path
        self.kind = kind
        self.count = count
        (transactions,) = stage.nodes[1].transactions.runtime.partitions.values()
        assert isinstance(transactions.machine, TransactionCoordinator)
        self.producer_id = transactions.machine.transactions["t"].producer_id
        self.wide = len(path) > 1  # the items are partitions, or something else inside a topic

    def request(self) -> Any:
        return self.row(self.api.request.struct, (), 0)

    def row(self, struct: Struct, path: tuple[str, ...], index: int) -> Row:
        row = struct.row()
        for field in struct.fields:
            if self.version in field.versions:
                setattr(row, field.name, self.value(field, (*path, field.name), index))
        return row

    def value(self, field: Field, path: tuple[str, ...], index: int) -> Any:
        if not field.array:
            return self.one(field, path, index)
        if field.tag is not None and path != self.path[: len(path)]:
            return field.default
        count = self.count if path == self.path else 1
        items = [self.one(field, path, at if path == self.path else index) for at in range(count)]
        return (
            items if field.struct is not None or field.kind in ("string", "bytes") else tuple(items)
        )

    def one(self, field: Field, path: tuple[str, ...], index: int) -> Any:
        at = 0 if self.kind == "repeated" else index
        if field.struct is not None:
            if field.tag is not None:
                return field.default
            return self.row(field.struct, path, index)
        name = field.name
        if field.kind == "uuid":
            # these take a name or an id
            return ZERO_UUID if self.api in (METADATA, DELETE_TOPICS) else self.topic_id(at)
        if field.kind == "string":
            return self.text(name, at)
        if field.kind == "records":
            return batch(b"x")
        if field.kind == "bytes":
            return b"x"
        if (
            "partition" in name
            and field.kind == "int32"
            and "max_bytes" not in name
            and "limit" not in name
        ):
            return at + (1_000_000 if self.kind == "unknown" else 0)
        return self.number(name, at)

    def topic_id(self, at: int) -> bytes:
        known = self.image.topic_ids.get(self.topic(at))
        return known if known is not None and self.kind != "unknown" else at.to_bytes(16, "big")

    def topic(self, at: int) -> str:
        if self.api is CREATE_TOPICS:
            return f"new{self.count}.{at}"
        if self.api is DELETE_TOPICS and self.kind == "known":
            return f"gone{self.count}.{at}"
        if self.kind == "unknown":
            return f"no{at}"
        return (
            "wide"
            if self.wide and self.path[-1] not in ("configs", "configuration_keys")
            else f"t{at}"
        )

    def text(self, name: str, at: int) -> Any:
        texts = {
            "group_id": f"g{at}"
            if self.path[0] == "groups"
            else f"join{self.count}"
            if self.api is JOIN_GROUP
            else "g",
            "groups": f"g{at}",
            "groups_names": f"g{at}",
            "group_ids": f"g{at}",
            "coordinator_keys": f"g{at}",
            "path": "/data",
            "value": "1",
            "key": "k",
            "feature": "metadata.version",
            "protocol_type": "consumer",
            "states_filter": f"s{at}",
            "types_filter": f"y{at}",
            "configuration_keys": f"k{at}",
            "subscribed_topic_regex": None,
            "group_instance_id": "i" if self.api is JOIN_GROUP else None,
            "instance_id": None,
            "transactional_id": None if self.api is PRODUCE else "t",
            "rack_id": "",
            "server_assignor": None,
            "cursor": None,
            "topic_id": None,
        }
        if name in texts:
            return texts[name]
        if name in (
            "member_id",
            "committed_metadata",
            "client_software_name",
            "client_software_version",
            "reason",
            "host",
        ):
            if self.api is JOIN_GROUP and name == "member_id":
                return ""
            return (
                f"m{at}"
                if name == "member_id" and self.path[-1] in ("members", "assignments")
                else "m"
            )
        if self.api is JOIN_GROUP and name == "name":
            return f"p{at}"
        if self.path[-1] == "configs" and name == "name":
            return f"setting.{at}"
        if name == "name" and self.api.name == "DeleteTopics":
            return self.topic(at) if self.kind != "unknown" else f"no{at}"
        return self.topic(at)

    def number(self, name: str, at: int) -> int:
        numbers = {
            "timeout_ms": 30_000,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 5_000,
            "resource_type": 2,
            "resource_types": (2, 4, 8, 16, 32)[at % 5],
            "config_operation": 0,
            "num_partitions": -1 if "assignments" in self.path else 1,
            "replication_factor": -1 if "assignments" in self.path else 1,
            "count": 1 + self.count,
            "acks": 1,
            "max_bytes": 1 << 20,
            "partition_max_bytes": 1 << 10,
            "replica_id": -1,
            "session_epoch": 0,
            "share_session_epoch": 1,  # a session that begins takes no acknowledgements
            "max_records": 10,
            "timestamp": -1,
            "current_leader_epoch": -1,
            "last_fetched_epoch": -1,
            "leader_epoch": 0,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "generation_id": -1,
            "generation_id_or_member_epoch": -1,
            "member_epoch": 0,
            "retention_time_ms": -1,
            "response_partition_limit": 2000,
            "key_type": 0,
            "max_version_level": 33,
            "upgrade_type": 1,
            "producer_id": self.producer_id,
        }
        return numbers.get(name, 1 + at if name in ("broker_ids", "replicas") else 0)
