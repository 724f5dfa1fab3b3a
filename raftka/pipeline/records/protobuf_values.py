"""Protobuf messages by their schemas, as values that declared fields judge. A registry gives
compiled descriptors, so no protoc is needed.

A message becomes a mapping: fields that can be missing and are missing are not in it. An enum is
its value's name, or the number as text where the schema has none. Timestamps are moments, wrappers
their values, a Duration is a group, `confluent.type.Decimal` a decimal, `google.type.Date` a day.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from importlib import import_module

from raftka.json_values import Json, JsonObject
from raftka.pipeline.records.fields import Misfit
from raftka.pipeline.records.registry_client import RegistryAway, RegistryClient, Schema

MOST_FILES = 1_000
DEEPEST = 100
MAIN = "the schema.proto"  # a name that no import has
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
OPTIONS_ONLY = ("confluent/meta.proto",)  # it defines options alone, which a reader needs not
DECIMAL_FILE = "confluent/type/decimal.proto"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Message = Json  # of the protobuf library, which has no types


class Messages:
    """The message types of one schema, by their place in its file."""

    def __init__(self, schema: Schema, client: RegistryClient) -> None:
        """Raises Misfit, RegistryAway and UnknownSchema."""
        from google.protobuf import descriptor_pool, message_factory

        files: JsonObject = {}
        _collect(MAIN, schema, client, files, 0)
        pool = descriptor_pool.DescriptorPool()
        try:
            for name in list(files):
                _add(pool, name, files, ())
            self._file = pool.FindFileByName(MAIN)
        except (TypeError, KeyError, ValueError) as error:
            raise Misfit(f"a Protobuf schema can not be used: {error}") from None
        self._top = [each.name for each in _proto(self._file).message_type]
        self._class: Callable[[Json], Json] = message_factory.GetMessageClass
        self._read: dict[tuple[int, ...], Callable[[bytes], Json]] = {}

    def reader(self, indexes: tuple[int, ...]) -> Callable[[bytes], Json]:
        """A function of the bytes of the message at this place: the first message is (0,), the
        second one inside it (0, 1). Raises Misfit.
        """
        if indexes not in self._read:
            self._read[indexes] = self._reader(indexes)
        return self._read[indexes]

    def _reader(self, indexes: Sequence[int]) -> Callable[[bytes], Json]:
        try:
            found = self._file.message_types_by_name[self._top[indexes[0]]]
            for at in indexes[1:]:
                found = _nested(found.nested_types, at)
        except IndexError:
            raise Misfit(f"its schema has no message at the place {list(indexes)}") from None
        kind = self._class(found)

        def read(value: bytes) -> Json:
            from google.protobuf.message import DecodeError

            try:
                return plain(kind.FromString(value))
            except DecodeError as error:
                raise Misfit(f"no Protobuf message {found.full_name}: {error}") from None

        return read


def _nested(types: Sequence[Json], at: int) -> Json:
    """The message type at a place inside another one. Clients of C++'s line count the entries of
    maps, which are such types; Java's do not.
    """
    found = types[at]
    return found if not _is_entry(found) else [each for each in types if not _is_entry(each)][at]


def _is_entry(message_type: Json) -> bool:
    return bool(message_type.GetOptions().map_entry)


def message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """The place of a message in its file, from the bytes behind a schema's number, and where the
    message begins. Raises Misfit.
    """
    count, at = _varint(value, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= DEEPEST:
        raise Misfit(f"no Protobuf: {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _varint(value, at)
        if index < 0:
            raise Misfit(f"no Protobuf: the message index {index}")
        indexes.append(index)
    return tuple(indexes), at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and the place behind it."""
    number = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number >> 1 ^ -(number & 1), at
    raise Misfit("no Protobuf: it has no message indexes behind the number of its schema")


# schemas


def _collect(
    name: str, schema: Schema, client: RegistryClient, files: JsonObject, depth: int
) -> None:
    """Descriptors by the names under which others import them."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    if name in files:
        return
    if len(files) >= MOST_FILES or depth > DEEPEST:
        raise Misfit("a Protobuf schema refers to too many others")
    try:
        files[name] = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (binascii.Error, ValueError):
        raise RegistryAway(
            "the registry gives a Protobuf schema as text where its descriptor is asked for "
            "(format=serialized)"
        ) from None
    except DecodeError:
        raise Misfit("a Protobuf schema of the registry is no descriptor") from None
    files[name].name = name
    for each in schema.references:
        _collect(
            each.name,
            client.version(each.subject, each.version, serialized=True),
            client,
            files,
            depth + 1,
        )


def _add(pool: Json, name: str, files: JsonObject, importing: tuple[str, ...]) -> None:
    """Add a file behind those that it imports."""
    try:
        pool.FindFileByName(name)
        return
    except KeyError:
        pass
    if name in importing:
        raise Misfit(f"Protobuf schemas import each other: {', '.join(importing)}")
    proto = files.get(name) or _well_known(name)
    for each in list(proto.dependency):
        if each in OPTIONS_ONLY and each not in files:
            at = list(proto.dependency).index(each)
            del proto.dependency[at]
            for places in (proto.public_dependency, proto.weak_dependency):
                left = [place - (place > at) for place in places if place != at]
                del places[:]
                places.extend(left)
        else:
            _add(pool, each, files, (*importing, name))
    pool.Add(proto)


def _well_known(name: str) -> Message:
    """The descriptor of a file that comes with Protobuf, or of Confluent's decimals. Raises
    Misfit.
    """
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    if name == DECIMAL_FILE:
        file = FileDescriptorProto(name=name, package="confluent.type", syntax="proto3")
        decimal = file.message_type.add(name="Decimal")
        kinds = (
            FieldDescriptorProto.TYPE_BYTES,
            FieldDescriptorProto.TYPE_UINT32,
            FieldDescriptorProto.TYPE_INT32,
        )
        for number, (field, kind) in enumerate(
            zip(("value", "precision", "scale"), kinds, strict=True), 1
        ):
            decimal.field.add(
                name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL
            )
        return file
    if (
        name.startswith("google/protobuf/")
        and name.endswith(".proto")
        and name[len("google/protobuf/") : -len(".proto")].isidentifier()
    ):
        try:
            return _proto(
                import_module(name[: -len(".proto")].replace("/", ".") + "_pb2").DESCRIPTOR
            )
        except ImportError:
            pass
    raise Misfit(f"a Protobuf schema imports {name}, which is not among its references")


def _proto(descriptor: Json) -> Message:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    proto = FileDescriptorProto()
    descriptor.CopyToProto(proto)
    return proto


# values


def plain(message: Message) -> Json:
    """The value of a message. Raises Misfit."""
    special = SPECIAL.get(message.DESCRIPTOR.full_name)
    if special is not None:
        return special(message)
    found: JsonObject = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if not field.is_repeated:
            found[field.name] = _one(field, value)
        elif field.message_type is not None and _is_entry(field.message_type):
            found[field.name] = _map(field.message_type, value)
        else:
            found[field.name] = [_one(field, each) for each in value]
    return found


def _one(field: Json, value: Json) -> Json:
    if field.message_type is not None:
        return plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


def _map(entry: Json, value: Json) -> JsonObject:
    kind = entry.fields_by_name["value"]
    return {
        str(name).lower() if isinstance(name, bool) else str(name): _one(kind, value[name])
        for name in value
    }


def _moment(message: Message) -> datetime:
    try:
        return EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        raise Misfit(f"a Timestamp of {message.seconds} s is in no year of ours") from None


def _decimal(message: Message) -> Decimal:
    number = int.from_bytes(message.value, "big", signed=True)
    if len(message.value) > 20 or not -100 <= message.scale <= 100:
        raise Misfit(
            f"a Decimal of {len(message.value)} bytes and scale {message.scale} is too large"
        )
    return Decimal(number).scaleb(-message.scale, context=Context(prec=60))


def _day(message: Message) -> Json:
    try:
        return date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        raise Misfit(f"a Date of {message.year}-{message.month}-{message.day} is no day") from None


SPECIAL: dict[str, Callable[[Message], Json]] = {
    "google.protobuf.Timestamp": _moment,
    "google.type.Date": _day,
    "confluent.type.Decimal": _decimal,
    **dict.fromkeys(WRAPPERS, lambda message: message.value),
}
