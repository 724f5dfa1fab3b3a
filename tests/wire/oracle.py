"""An independent codec: kafka-python's, generated from Apache's own schemas, which lie in its
wheel. Values in and out are plain dicts.

Names and shapes come from those schemas too, so a field that we forgot or misplaced shows.
"""

import pkgutil
import re
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import strategies as st

import raftka.wire.messages
from raftka.broker.network.dispatch import FIRST_OWN_KEY
from raftka.wire.rows import Row, Struct
from raftka.wire.schema import AnyApi, Api

with warnings.catch_warnings():
    # it reads its schemas with importlib.resources.read_text
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    from kafka.protocol.api_header import ResponseClassRegistry
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.schemas.load_json import load_json

Values = dict[str, Any]

OURS = "tests.wire.schemas"  # what the wheel lacks (of 4.4.0), in the form of its schemas
LACKING = (
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "DescribeShareGroupOffsets",
    "ShareGroupDescribe",
    "ShareGroupHeartbeat",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "UpdateRaftVoter",
    "UnregisterController",
    "ApiVersions",
    "DeleteGroups",
    "DeleteShareGroupState",
    "GetTelemetrySubscriptions",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "ReadShareGroupStateSummary",
    "WriteShareGroupState",
    "PushTelemetry",
    "StreamsGroupDescribe",
    "StreamsGroupHeartbeat",
    "StreamsGroupTopologyDescriptionUpdate",
    "TxnOffsetCommit",
    "UnregisterBroker",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
    "ShareAcknowledge",
    "ShareFetch",
)


def _apis() -> list[AnyApi]:
    """Everything in raftka.wire.messages that is Kafka's, by its key: what is written there is
    compared, listed or not.
    """
    modules = [
        import_module(f"raftka.wire.messages.{found.name}")
        for found in pkgutil.iter_modules(raftka.wire.messages.__path__)
    ]
    return sorted(
        (
            value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, Api) and value.key < FIRST_OWN_KEY
        ),
        key=lambda api: api.name,
    )


APIS = _apis()
SIDES = ("Request", "Response")
CASES = [
    (api, side, version)
    for api in APIS
    for side in SIDES
    for version in range(api.min_version, api.max_version + 1)
]

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_RENAMED = {
    "topic_authorized_operations": "authorized_operations",
    "cluster_authorized_operations": "authorized_operations",
}


class Oracle:
    def __init__(self, api: AnyApi, side: str, version: int) -> None:
        name = api.name + side
        package = OURS if api.name in LACKING else None
        self.cls = _their_class(name, package)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.schema = load_json(name, package)
        self.version = version

    @property
    def knows(self) -> bool:
        """Return whether its schemas have this version: else it would leave out the fields that are
        new in it, and compare nothing of them.
        """
        return self.version in _versions(self.schema["validVersions"])

    def values(self) -> st.SearchStrategy[Values]:
        """Any values of the fields that this version has."""
        return self._struct(self.schema["fields"])

    def encode(self, values: Values) -> bytes:
        fields = self._theirs(self.schema["fields"], self.cls._struct, values)
        return bytes(self.cls(version=self.version, **fields).encode())

    def decode(self, data: bytes) -> Values:
        return self._plain(self.schema["fields"], self.cls.decode(data, version=self.version))

    def present(self, fields: list[Values]) -> Iterator[tuple[str, Values]]:
        for field in fields:
            if self.version in _versions(field.get("versions", "0+")):
                yield snake(field["name"]), field

    def _struct(self, fields: list[Values]) -> st.SearchStrategy[Values]:
        return st.fixed_dictionaries(
            {name: self._field(field) for name, field in self.present(fields)}
        )

    def _field(self, field: Values) -> st.SearchStrategy[Any]:
        kind, array = field["type"].removeprefix("[]"), field["type"].startswith("[]")
        value: st.SearchStrategy[Any]
        if "fields" in field:
            value = self._struct(field["fields"])
        elif _is_operations(field):
            value = st.integers(0, 2**31 - 1)
        else:
            value = _simple(kind)
        if array:
            value = st.lists(value, max_size=3)
        return (
            st.none() | value
            if self.version in _versions(field.get("nullableVersions", "none"))
            else value
        )

    def _theirs(self, fields: list[Values], struct: Any, values: Values) -> Values:
        """Return the arguments of their constructors. A tagged field that says nothing is left out,
        as ours is.
        """
        given = {}
        for name, field in self.present(fields):
            theirs, value = name if name in struct.fields else _RENAMED[name], values[name]
            if "tag" in field and self._says_nothing(field, value):
                continue
            given[theirs] = self._their_value(field, struct.fields[theirs], value)
        return given

    def _their_value(self, field: Values, theirs: Any, value: Any) -> Any:
        if value is None:
            return None
        if "fields" in field:
            rows = [
                theirs.data_class(
                    version=self.version, **self._theirs(field["fields"], theirs, row)
                )
                for row in _listed(value)
            ]
            return rows if field["type"].startswith("[]") else rows[0]
        if field["type"] == "uuid":
            return uuid.UUID(bytes=value)
        return (
            {bit for bit in range(32) if value >> bit & 1}
            if theirs.name == "authorized_operations"
            else value
        )

    def _plain(self, fields: list[Values], theirs: Any) -> Values:
        plain = {}
        for name, field in self.present(fields):
            value = (
                getattr(theirs, name) if hasattr(theirs, name) else getattr(theirs, _RENAMED[name])
            )
            if "tag" in field and value is None:
                value = self._nothing(field)
            plain[name] = self._plain_value(field, value)
        return plain

    def _plain_value(self, field: Values, value: Any) -> Any:
        if field["type"] == "uuid" and value is None:
            return bytes(16)  # theirs for a zero id
        if value is None or isinstance(value, bytes | str | int | float):
            return value
        if isinstance(value, memoryview):
            return bytes(value)
        if isinstance(value, uuid.UUID):
            return value.bytes
        if _is_operations(field):
            return sum(1 << bit for bit in value)
        if "fields" not in field:
            return list(value)
        rows = [
            v if isinstance(v, dict) else self._plain(field["fields"], v) for v in _listed(value)
        ]
        return rows if field["type"].startswith("[]") else rows[0]

    def _nothing(self, field: Values) -> Any:
        if field["type"].startswith("[]"):
            return []
        if "fields" in field:
            return {name: self._nothing(f) for name, f in self.present(field["fields"])}
        default = field.get("default")
        if field["type"] == "string":
            return None if default == "null" else default or ""
        if field["type"] == "uuid":
            return bytes(16)
        return False if field["type"] == "bool" else int(default or 0)

    def _says_nothing(self, field: Values, value: Any) -> bool:
        return bool(value == self._nothing(field))


@cache
def _their_class(name: str, package: str | None) -> Any:
    if package is None:
        modules = (
            kafka.protocol.admin,
            kafka.protocol.consumer,
            kafka.protocol.metadata,
            kafka.protocol.producer,
            kafka.protocol.sasl,
        )
        return next(getattr(m, name) for m in modules if hasattr(m, name))
    # the clients of this process go on with the classes of the wheel
    registry = ResponseClassRegistry._response_class_registry
    of_the_wheel = dict(registry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = type(ApiMessage)(name, (ApiMessage,), {}, load_json=package)
    registry.clear()
    registry.update(of_the_wheel)
    return made


def row_of(struct: Struct, values: Values) -> Row:
    """Our row with these values."""
    inner = {field.name: field.struct for field in struct.fields}

    def ours(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return row_of(inner[name] or struct, value)
        return [ours(name, v) for v in value] if isinstance(value, list) else value

    return struct.row(**{name: ours(name, value) for name, value in values.items()})


def _simple(kind: str) -> st.SearchStrategy[Any]:
    if kind in _BITS:
        half = 1 << _BITS[kind] - 1
        return st.integers(-half, half - 1) | st.sampled_from([0, -1, half - 1, -half])
    return {
        "bool": st.booleans(),
        "uint16": st.integers(0, 65535),
        "float64": st.floats(allow_nan=False),
        "string": st.text(max_size=12)
        | st.sampled_from(["", "ä" * 63, "x" * 126, "x" * 127, "x" * 20000]),
        "uuid": st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
        "records": st.binary(max_size=40)
        | st.sampled_from([b"", bytes(126), bytes(127), bytes(20000)]),
        "bytes": st.binary(max_size=40)
        | st.sampled_from([b"", bytes(126), bytes(127), bytes(20000)]),
    }[kind]


def _is_operations(field: Values) -> bool:
    return bool(
        field["type"] in ("int32", "bitfield") and field["name"].endswith("AuthorizedOperations")
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _versions(text: str) -> range:
    if text == "none":
        return range(0)
    low, dash, high = text.rstrip("+").partition("-")
    return range(int(low), 1000 if text.endswith("+") else int(high if dash else low) + 1)
