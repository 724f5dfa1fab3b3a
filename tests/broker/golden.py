"""Exchanges recorded with Apache Kafka, asked again of a fresh node and compared field by field.

A line of a golden file: number, what it shows, API key, version, frames in hex without their sizes.
Topic ids, fetch sessions and members are paired as they come, order in arrays is not compared where
the real broker has none.
"""

import json
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from raftka.broker.handlers.api_versions import TELEMETRY
from raftka.broker.network.dispatch import HANDLERS
from raftka.runtime.simulated.clock import EPOCH_MS
from raftka.versions import RAFTKA_VERSION, SUPPORTED
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import iterate, records_of
from raftka.wire.rows import ZERO_UUID, Row
from tests.broker.requests import produce
from tests.broker.stage import BY_NAME, Stage, Wire, decoded

# the recorded broker's address and ours
SAME = {
    "/127.0.0.1": "/client",
    "127.0.0.1": "n1",
    59692: 9092,
    59792: 9093,
    26000: 9092,
    26100: 9093,
}
# fields of ApiVersions in which 4.4.0 announces more than the recorded 4.3.1: (recorded, ours)
SINCE_4_3 = {
    ".api_keys(18).max_version": (4, 5),
    ".api_keys(28).max_version": (5, 6),
    ".api_keys(42).max_version": (2, 3),
    ".api_keys(88).max_version": (0, 1),
    ".api_keys(89).max_version": (0, 1),
    ".supported_features(metadata.version).max_version": (30, 33),
    ".supported_features(share.version).max_version": (1, 2),
    ".finalized_features(share.version).max_version_level": (1, 2),
    ".finalized_features(share.version).min_version_level": (1, 2),
    ".finalized_features(metadata.version).max_version_level": (30, 33),
    ".finalized_features(metadata.version).min_version_level": (30, 33),
}
OWN = re.compile(  # of that run: lengths of the metadata log, its disk
    r".*\.(cluster_id|total_bytes|usable_bytes|finalized_features_epoch|"
    r"log_end_offset)|\.topics.*\.high_watermark"
)
# of classic groups, of others
MEMBER = re.compile(r".+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[\w-]{22}")
# arrays of plain values that Kafka keeps in sets: mechanisms, the partitions of a transaction
IN_NO_ORDER = ("mechanisms", "partitions")
IDENTITY = (
    "name",
    "topic",
    "group_id",
    "api_key",
    "partition_index",
    "index",
    "partition",
    "topic_id",
    "transactional_id",
    "producer_id",
)
OF_ACL = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)

# of topics, groups and brokers, that the recorded 4.3.1 does not have
SETTINGS_SINCE_4_3 = frozenset(
    (
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.group.enable",
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.name.prefix",
        "group.streams.assignors",
        "group.streams.rack.aware.assignment.tags",
        "group.streams.topology.description.plugin.class",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "streams.assignor.name",
        "streams.rack.aware.assignment.tags",
    )
)
Differences = dict[str, tuple[Any, Any]]  # field -> (recorded, ours)
# exchanges, a pattern of fields, the reason why they differ
Meant = Sequence[tuple[Collection[int], str, str]]


class Exchange(NamedTuple):
    n: int
    comment: str
    key: int
    version: int
    request: str | None  # None: 1.1 MB in one batch
    outcome: str
    response: str | None
    principal: str | None = None  # whoever had logged in on that connection
    closes: bool = False  # the connection ended after the answer

    @property
    def name(self) -> str:
        return (
            f"{self.n}-{HANDLERS[self.key].api.name if self.key >= 0 else 'bytes'}-v{self.version}"
        )

    @property
    def answer(self) -> Any:
        assert self.response is not None
        return decoded(HANDLERS[self.key].api, self.answered_version, bytes.fromhex(self.response))

    @property
    def answered_version(self) -> int:
        return self.version if self.version in HANDLERS[self.key].api.versions else 0


def not_meant(meant: Meant, n: int, found: Differences) -> Differences:
    """The differences of an exchange that no reason is given for."""
    return {
        field: values
        for field, values in found.items()
        if not any(re.fullmatch(pattern, field) for pattern in patterns_of(meant, n))
    }


def all_found(meant: Meant, n: int, found: Differences) -> bool:
    """Return whether everything that is said to differ does."""
    return all(
        any(re.fullmatch(pattern, field) for field in found) for pattern in patterns_of(meant, n)
    )


def patterns_of(meant: Meant, n: int) -> list[str]:
    return [pattern for numbers, pattern, _ in meant if n in numbers]


def numbers_of(meant: Meant) -> list[int]:
    return sorted({n for numbers, _, _ in meant for n in numbers})


def recorded(path: Path) -> list[Exchange]:
    return [Exchange(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


class Replay:
    """One node is asked what the recorded one was asked, in order. `prepare` does what was done
    before an exchange and says what time it is then.
    """

    # exchanges in which a commit of nothing is sent back once, and then answered as recorded
    sent_back: Container[int] = ()
    newer_settings: Container[str] = SETTINGS_SINCE_4_3
    not_announced: Collection[int] = TELEMETRY
    newer_apis: Container[int] = (93, 94)

    def __init__(
        self, stage: Stage, exchanges: Sequence[Exchange], recorded_ids: Mapping[str, bytes]
    ) -> None:
        self.stage = stage
        self.exchanges = exchanges
        self.ids = {ZERO_UUID: ZERO_UUID}  # recorded -> ours
        self.recorded_ids = recorded_ids
        stage.world.network.delay("client", "n1", 0.0)

    def run(self) -> dict[int, Differences]:
        found = {}
        for exchange in self.exchanges:
            wire = self.stage.wire()
            self.set_clock(self.prepare(exchange.n, wire))
            found[exchange.n] = self.ask(exchange, wire)
        return found

    def prepare(self, n: int, wire: Wire) -> int:
        """Returns the node's wall clock at that exchange, ms."""
        raise NotImplementedError

    def ask(self, exchange: Exchange, wire: Wire) -> Differences:
        wire.send_frame(self.request(exchange))
        if exchange.n in self.sent_back:
            data = wire.frame()
            assert data is not None
            answer = decoded(HANDLERS[exchange.key].api, exchange.answered_version, data)
            assert answer.error_code == Code.CONCURRENT_TRANSACTIONS, answer
            wire.send_frame(self.request(exchange))
        return self.compare(exchange, wire.frame())

    def set_clock(self, wall_ms: int) -> None:
        world = self.stage.world
        world.machine("n1").wall_offset_s = (wall_ms - EPOCH_MS) / 1000 - world.now + 0.0003

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        self.ids[self.recorded_ids[name]] = self.stage.create(name, partitions, configs=configs)

    def request(self, exchange: Exchange) -> bytes:
        assert exchange.request is not None
        return self.with_our_ids(bytes.fromhex(exchange.request))

    def with_our_ids(self, data: bytes) -> bytes:
        for recorded, ours in self.ids.items():  # of topics, of fetch sessions and of members
            data = data.replace(recorded, ours) if recorded != ZERO_UUID else data
        return data

    def compare(self, exchange: Exchange, data: bytes | None) -> Differences:
        outcome = "closed" if data is None else "answer"
        if data is None or exchange.response is None:
            return {} if outcome == exchange.outcome else {"outcome": (exchange.outcome, outcome)}
        ours = decoded(HANDLERS[exchange.key].api, exchange.answered_version, data)
        return dict(self._row("", exchange.answer, ours))

    def _row(self, path: str, recorded: Row, ours: Row) -> Iterator[tuple[str, tuple[Any, Any]]]:
        for field in recorded.struct.fields:
            yield from self._field(
                f"{path}.{field.name}",
                field.name,
                getattr(recorded, field.name),
                getattr(ours, field.name),
            )

    def _field(
        self, path: str, name: str, recorded: Any, ours: Any
    ) -> Iterator[tuple[str, tuple[Any, Any]]]:
        if isinstance(recorded, Row) and isinstance(ours, Row):
            yield from self._row(path, recorded, ours)
        elif isinstance(recorded, list | tuple) and isinstance(ours, list | tuple):
            if name in IN_NO_ORDER and not any(isinstance(each, Row) for each in recorded):
                recorded, ours = sorted(recorded), sorted(ours)
            yield from self._array(path, name, recorded, ours)
        elif not self.same(path, name, recorded, ours):
            yield path, (recorded, ours)

    def _array(
        self, path: str, name: str, recorded: Any, ours: Any
    ) -> Iterator[tuple[str, tuple[Any, Any]]]:
        theirs, mine = (
            {_identity(i, row, ids): row for i, row in enumerate(rows)}
            for rows, ids in ((recorded, self.ids), (ours, {}))
        )
        theirs = {key: row for key, row in theirs.items() if self._ours_too(name, row)}
        mine = {key: row for key, row in mine.items() if not self._ours_alone(name, row)}
        for key in sorted(theirs.keys() | mine.keys(), key=str):
            yield from self._field(f"{path}({key})", name, theirs.get(key), mine.get(key))

    def _ours_alone(self, name: str, row: Any) -> bool:
        if name in ("supported_features", "finalized_features"):
            return bool(row.name == RAFTKA_VERSION)
        if name == "api_keys":
            return row.api_key in self.newer_apis
        return name == "configs" and row.name in self.newer_settings

    def _ours_too(self, name: str, row: Any) -> bool:
        """Other APIs and features are not announced before they work."""
        if name == "api_keys":
            return row.api_key in HANDLERS.keys() - set(self.not_announced)
        return name not in ("supported_features", "finalized_features") or row.name in SUPPORTED

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name in ("topic_id", "client_instance_id"):
            return bool(
                (recorded == ZERO_UUID) == (ours == ZERO_UUID)
                and self.ids.setdefault(recorded, ours) == ours
            )
        if (
            name in ("member_id", "leader")
            and MEMBER.fullmatch(recorded or "")
            and MEMBER.fullmatch(ours or "")
        ):
            return bool(self.ids.setdefault(recorded.encode(), ours.encode()) == ours.encode())
        if name == "error_message" and recorded is not None:
            recorded = re.sub(
                r"[\w-]{22}",
                lambda found: self.ids.get(found[0].encode(), found[0].encode()).decode(),
                recorded,
            )
        if name in ("session_id", "subscription_id") and recorded and ours:
            theirs, mine = (each.to_bytes(4, signed=True) for each in (recorded, ours))
            return bool(self.ids.setdefault(theirs, mine) == mine)
        if name == "records" and recorded and ours:
            return bool(self.content(recorded) == self.content(ours))
        if SINCE_4_3.get(path) == (recorded, ours):
            return True
        if OWN.fullmatch(path):
            return type(recorded) is type(ours)
        return bool(
            recorded == ours
            or (isinstance(recorded, str | int) and SAME.get(recorded, recorded) == ours)
        )

    def content(self, records: memoryview) -> Any:
        """Bytes, or what is in them where they are compressed: there are many ways to compress."""
        batches = list(iterate(records))
        rest = bytes(records[sum(len(batch) for _, batch in batches) :])
        opened = [
            (header._replace(length=0, crc=0), list(records_of(batch)))
            if header.compression
            else bytes(batch)
            for header, batch in batches
        ]
        return opened, rest


def _identity(position: int, row: Any, ids: dict[bytes, bytes]) -> Any:
    """Return the fields that tell one element of an array from another; its position if none
    does.
    """
    if hasattr(row, "resource_name") and len(row.__slots__) == 2:
        return row.resource_type, row.resource_name
    if hasattr(row, "user"):
        return row.user
    if hasattr(row, "permission_type") or hasattr(row, "pattern_type"):
        return tuple(getattr(row, name, None) for name in OF_ACL)
    if hasattr(row, "member_epoch"):
        return ids.get(row.member_id.encode(), row.member_id.encode())
    if isinstance(row, Row):
        names = [name for name in IDENTITY if name in row.__slots__]
        no_id = "" if "group_id" in names else ZERO_UUID if names == ["topic_id"] else position
        found = next(
            (value for name in names if (value := getattr(row, name)) not in ("", None, ZERO_UUID)),
            no_id,
        )
        return ids.get(found, found) if isinstance(found, bytes) else found
    return position


def append(wire: Wire, topic: str, records: memoryview, partition: int = 0, **fields: Any) -> None:
    """The batches of an answer, as their producer sent them. `fields` are of the request."""
    for _, found in iterate(records):
        sent = bytearray(found)
        sent[:8] = bytes(8)
        sent[12:16] = b"\xff" * 4
        request = produce(topic, bytes(sent), partition, **fields)
        answer = wire.ask(PRODUCE, request, BY_NAME[PRODUCE.key])
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


RECORDED_IDS = {
    "secret": UUID("7573e58b-5e0e-4171-96a2-4a30c83aed44").bytes,
    "open": UUID("28ea8b5b-80d2-4114-a94c-5334f2c19ee0").bytes,
}
