"""Topics, partitions, groups and transactional ids in the requests and answers of all APIs, found
in the schemas of the messages. Knows no API but by the names of its fields.

A request is a tree: rows of topics hold rows, or numbers, of partitions. A *leaf* is what one error
can be given for: a partition where the request names partitions, else a topic, a group or a
transactional id.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from raftka.wire.rows import Field, Row, Struct
from raftka.wire.schema import AnyApi

TOPIC, PARTITION, GROUP, TRANSACTION = "topic", "partition", "group", "transactional_id"
COORDINATED = "key"  # FindCoordinator: a group or a transactional id, as `key_type` says
KINDS = (TOPIC, PARTITION, GROUP, TRANSACTION)

OF_A_FIELD = {
    "group_id": GROUP,
    "transactional_id": TRANSACTION,
    "v3_and_below_transactional_id": TRANSACTION,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_id": TOPIC,
    "partition": PARTITION,
    "partition_index": PARTITION,
    "partition_id": PARTITION,
    "index": PARTITION,
    "key": COORDINATED,
}
OF_PLAIN_VALUES = {  # arrays of numbers or strings
    "partitions": PARTITION,
    "partition_indexes": PARTITION,
    "topic_names": TOPIC,
    "groups": GROUP,
    "groups_names": GROUP,
    "group_ids": GROUP,
    "transactional_ids": TRANSACTION,
    "coordinator_keys": COORDINATED,
}
NOT_ASKED_FOR = {"forgotten_topics_data", "assignments", "configs", "protocols"}
ERRORS = ("error_code", "partition_error_code")
# fields of an answer that have no value beside an error, as Kafka answers
NO_VALUE: dict[str, object] = {
    "base_offset": -1,
    "log_append_time_ms": -1,
    "log_start_offset": -1,
    "high_watermark": -1,
    "last_stable_offset": -1,
    "low_watermark": -1,
    "offset": -1,
    "timestamp": -1,
    "end_offset": -1,
    "committed_offset": -1,
    "leader_id": -1,
    "leader_epoch": -1,
    "node_id": -1,
    "port": -1,
    "records": b"",
}
GROUP_KEY_TYPE = 0


class Leaf(NamedTuple):
    """A part of a message that one error can be given for; None: the message does not say."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    topic_id: bytes = bytes(16)

    def within(self, wider: "Leaf") -> bool:
        """Return whether all that `wider` says is said here too."""
        return all(
            wanted is None or wanted == own for own, wanted in zip(self[:4], wider[:4], strict=True)
        )


NOTHING = Leaf()
TopicName = Callable[[bytes], str | None]  # of a topic's id


@dataclass(frozen=True, slots=True)
class Array:
    """An array field; `inner` describes its rows, or `kind` what its plain values are."""

    name: str
    kind: str | None
    inner: "Places | None"


@dataclass(frozen=True, slots=True)
class Places:
    """The fields of a struct, in one version, that name something."""

    row: type[Row]
    keys: tuple[tuple[str, str], ...]  # field, kind
    error: str | None
    arrays: tuple[Array, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """All that a message may name, itself and in its arrays."""
        found = {kind for _, kind in self.keys}
        for array in self.arrays:
            if array.inner is not None:
                found |= array.inner.kinds
            elif array.kind is not None:
                found.add(array.kind)
        return frozenset(found)


@cache
def request_places(api: AnyApi, version: int) -> Places:
    return _places(api.request.struct, version, in_topic=False)


@cache
def answer_places(api: AnyApi, version: int) -> Places:
    return _places(api.response.struct, version, in_topic=False)


def named_kinds(api: AnyApi) -> frozenset[str]:
    """Return the kinds that requests of the API name, in any of its versions; FindCoordinator both
    of its kinds.
    """
    low, high = api.versions
    found = frozenset().union(
        *(request_places(api, version).kinds for version in range(low, high + 1))
    )
    return found - {COORDINATED} | {GROUP, TRANSACTION} if COORDINATED in found else found


def _places(struct: Struct, version: int, *, in_topic: bool) -> Places:
    present = [field for field in struct.fields if version in field.versions]
    keys = tuple(
        (field.name, kind) for field in present if (kind := _kind(struct, field)) is not None
    )
    in_topic = in_topic or any(kind == TOPIC for _, kind in keys)
    arrays = [
        array
        for field in present
        if field.array and field.name not in NOT_ASKED_FOR
        if (array := _array(field, version, in_topic=in_topic)) is not None
    ]
    error = next((field.name for field in present if field.name in ERRORS), None)
    return Places(struct.row, keys, error, tuple(arrays))


def _kind(struct: Struct, field: Field) -> str | None:
    if field.array or field.struct is not None:
        return None
    if field.name == "name":  # of topics, settings, users and protocols alike
        return TOPIC if "Topic" in struct.name and "Config" not in struct.name else None
    if field.name == "key" and struct.name not in ("FindCoordinatorRequest", "Coordinator"):
        return None
    return OF_A_FIELD.get(field.name)


def _array(field: Field, version: int, *, in_topic: bool) -> Array | None:
    if field.struct is None:
        kind = OF_PLAIN_VALUES.get(field.name)
        return Array(field.name, kind, None) if kind and (kind != PARTITION or in_topic) else None
    inner = _places(field.struct, version, in_topic=in_topic)
    return Array(field.name, None, inner) if inner.keys or inner.arrays else None


class Message:
    """A request or an answer whose leaves are looked at; `name_of` finds the names of topic ids.

    `key_type` tells the kind of FindCoordinator's keys; answers do not say it again.
    """

    def __init__(
        self, row: Row, places: Places, name_of: TopicName, key_type: int | None = None
    ) -> None:
        self.row = row
        self.places = places
        self._name_of = name_of
        self._key_type = getattr(row, "key_type", 0) if key_type is None else key_type

    def leaves(self) -> Iterator[Leaf]:
        return self._leaves(self.row, self.places, NOTHING)

    @property
    def is_for_all(self) -> bool:
        """The request is for all topics: the array that would name them is null."""
        return self._is_for_all(self.row, self.places)

    def _is_for_all(self, row: Row, places: Places) -> bool:
        for array in places.arrays:
            if array.inner is None:
                continue
            rows = getattr(row, array.name)
            if rows is None and any(kind == TOPIC for _, kind in array.inner.keys):
                return True
            if any(self._is_for_all(each, array.inner) for each in rows or ()):
                return True
        return False

    def _leaves(self, row: Row, places: Places, outer: Leaf) -> Iterator[Leaf]:
        own = self._named(row, places, outer)
        found = False
        for array in places.arrays:
            for each in getattr(row, array.name) or ():
                found = True
                if array.inner is None:
                    yield self._with(own, array.kind, each)
                else:
                    yield from self._leaves(each, array.inner, own)
        if not found and (own is not outer or row is self.row):
            yield own

    def _named(self, row: Row, places: Places, outer: Leaf) -> Leaf:
        leaf = outer
        for name, kind in places.keys:
            leaf = self._with(leaf, kind, getattr(row, name))
        return leaf

    def _with(self, leaf: Leaf, kind: str | None, value: object) -> Leaf:
        if isinstance(value, bytes):
            if any(value):
                return leaf._replace(topic_id=value, topic=leaf.topic or self._name_of(value))
            return leaf
        if value is None or (value == "" and kind == TOPIC):
            return leaf
        if kind == COORDINATED:
            kind = GROUP if self._key_type == GROUP_KEY_TYPE else TRANSACTION
        named: dict[str, Any] = {str(kind): value}
        return leaf._replace(**named)

    # changes

    def take_out(self, chosen: Callable[[Leaf], bool]) -> list[Leaf]:
        """Remove the chosen leaves from the message, and rows that become empty; return them."""
        taken: list[Leaf] = []
        self._take_out(self.row, self.places, NOTHING, chosen, taken)
        return taken

    def _take_out(
        self,
        row: Row,
        places: Places,
        outer: Leaf,
        chosen: Callable[[Leaf], bool],
        taken: list[Leaf],
    ) -> bool:
        """Return whether the row goes: it is a chosen leaf, or nothing of it is left."""
        own = self._named(row, places, outer)
        had_any = False
        left = 0
        for array in places.arrays:
            values = getattr(row, array.name)
            if not values:
                continue
            had_any = True
            kept = []
            for each in values:
                if array.inner is None:
                    leaf = self._with(own, array.kind, each)
                    goes = chosen(leaf)
                    if goes:
                        taken.append(leaf)
                else:
                    goes = self._take_out(each, array.inner, own, chosen, taken)
                if not goes:
                    kept.append(each)
            left += len(kept)
            setattr(row, array.name, type(values)(kept))
        if had_any:
            return not left
        if own is not outer and chosen(own):
            taken.append(own)
            return True
        return False

    def put_error(self, leaf: Leaf, code: int) -> None:
        """Give the leaf an error in this answer, in a row of its own where it has none."""
        self._put_error(self.row, self.places, leaf, code)

    def _put_error(self, row: Row, places: Places, leaf: Leaf, code: int) -> None:
        for array in places.arrays:
            inner = array.inner
            if inner is None or not _leads_to_error(inner):
                continue
            kind = next((kind for _, kind in inner.keys), None)
            if kind is None or _value(leaf, kind) is None:
                continue
            rows: list[Row] = list(getattr(row, array.name) or ())
            found = next((each for each in rows if self._is_of(each, inner, leaf)), None)
            if found is None:
                found = inner.row(**_keys(inner, leaf))
                setattr(row, array.name, [*rows, found])
            if _goes_deeper(kind, inner, leaf):
                self._put_error(found, inner, leaf, code)
            else:
                fail(found, inner, code)
            return

    def _is_of(self, row: Row, places: Places, leaf: Leaf) -> bool:
        own = self._named(row, places, NOTHING)
        return all(
            _value(own, kind) == _value(leaf, kind)
            if kind != TOPIC
            else own.topic == leaf.topic or own.topic_id == leaf.topic_id != bytes(16)
            for _, kind in places.keys
        )

    def fail_leaves(self, chosen: Leaf, code: int) -> list[Leaf]:
        """Give all rows of an answer that the choice names an error; return them. Rows of topics
        get it where the choice names no partition, and the answer has a place for it there.
        """
        failed: list[Leaf] = []
        self._fail_leaves(self.row, self.places, NOTHING, chosen, code, failed)
        return failed

    def _fail_leaves(
        self,
        row: Row,
        places: Places,
        outer: Leaf,
        chosen: Leaf,
        code: int,
        failed: list[Leaf],
    ) -> None:
        own = self._named(row, places, outer)
        if places.error is not None and row is not self.row and own.within(chosen):
            fail(row, places, code)
            failed.append(own)
            return
        for array in places.arrays:
            if array.inner is not None:
                for each in getattr(row, array.name) or ():
                    self._fail_leaves(each, array.inner, own, chosen, code, failed)


def fail(row: Row, places: Places, code: int) -> None:
    """Turn a row of an answer into that of an error."""
    for field in row.struct.fields:
        if field.name in NO_VALUE and field.struct is None:
            setattr(row, field.name, NO_VALUE[field.name])
    for array in places.arrays:
        setattr(row, array.name, [])
    if places.error is not None:
        setattr(row, places.error, code)


def places_errors(api: AnyApi, version: int, leaf: Leaf) -> bool:
    """Return whether the answer has a place for an error of this leaf alone."""
    return any(
        array.inner is not None and _leads_to_error(array.inner) and _fits(array.inner, leaf)
        for array in answer_places(api, version).arrays
    )


def _fits(places: Places, leaf: Leaf) -> bool:
    kinds = [kind for _, kind in places.keys]
    return bool(kinds) and all(_value(leaf, kind) is not None for kind in kinds)


def _leads_to_error(places: Places) -> bool:
    return places.error is not None or any(
        array.inner is not None and _leads_to_error(array.inner) for array in places.arrays
    )


def _goes_deeper(kind: str, inner: Places, leaf: Leaf) -> bool:
    """Return whether the error stands in an array within the row that names `kind`."""
    if kind in (GROUP, TRANSACTION):
        return leaf.topic is not None and bool(inner.arrays)
    return kind == TOPIC and leaf.partition is not None and _has_partitions(inner)


def _has_partitions(places: Places) -> bool:
    return any(
        array.inner is not None and any(kind == PARTITION for _, kind in array.inner.keys)
        for array in places.arrays
    )


def _value(leaf: Leaf, kind: str) -> object:
    if kind == COORDINATED:
        return leaf.group if leaf.group is not None else leaf.transactional_id
    return getattr(leaf, kind)


def _keys(places: Places, leaf: Leaf) -> dict[str, object]:
    return {
        name: leaf.topic_id
        if name == "topic_id"
        else (leaf.topic or "" if kind == TOPIC else _value(leaf, kind))
        for name, kind in places.keys
    }
