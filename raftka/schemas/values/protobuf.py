"""Protobuf values: checked for the registry; read as values that declared fields judge for the
pipeline, and written for SQL. The pipeline's registry gives compiled descriptors, so it needs no
protoc.

A message that is read becomes a mapping: fields that can be missing and are missing are not in it.
An enum is its value's name, or the number as text where the schema has none. Timestamps are
moments, wrappers their values, a Duration is a group, `confluent.type.Decimal` a decimal,
`google.type.Date` a day.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from importlib import import_module

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from raftka.json_values import Json, JsonObject
from raftka.schemas.client import Schema, SchemaSource
from raftka.schemas.formats.schema import InvalidSchema, Reference
from raftka.schemas.framing import Indexes, NotFramed, message_indexes
from raftka.schemas.values import Misfit

MAX_FILES = 1_000
MAX_DEPTH = 100
MAIN = "the schema.proto"  # a name that no import has
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
OPTIONS_ONLY = ("confluent/meta.proto",)  # it defines options alone, which a reader does not need
# files that clients import without sending them, beside Protobuf's: package, message, its fields
OWN_FILES: Mapping[str, tuple[str, str, Mapping[str, FieldDescriptorProto.Type.ValueType]]] = {
    "confluent/type/decimal.proto": (
        "confluent.type",
        "Decimal",
        {
            "value": FieldDescriptorProto.TYPE_BYTES,
            "precision": FieldDescriptorProto.TYPE_UINT32,
            "scale": FieldDescriptorProto.TYPE_INT32,
        },
    ),
    "google/type/date.proto": (
        "google.type",
        "Date",
        dict.fromkeys(("year", "month", "day"), FieldDescriptorProto.TYPE_INT32),
    ),
}
WHOLE = (
    FieldDescriptorProto.TYPE_UINT64,
    FieldDescriptorProto.TYPE_FIXED64,
)
FIRST = b"\0"  # the indexes of the first message of a file
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MessageTypes:
    """The message types of one file, by their indexes."""

    def __init__(self, pool: DescriptorPool, name: str) -> None:
        self._file = pool.FindFileByName(name)
        self._top = [each.name for each in _proto(self._file).message_type]
        self._found: dict[Indexes, type[Message]] = {}

    def parse(self, payload: bytes) -> Message:
        """Return the message of a payload, which begins with its indexes. Raise Misfit."""
        try:
            indexes, start = message_indexes(payload, 0)
        except NotFramed as error:
            raise Misfit(f"no Protobuf: it has {error}") from None
        message_type = self._find(indexes)
        try:
            return message_type.FromString(payload[start:])
        except DecodeError as error:
            name = message_type.DESCRIPTOR.full_name
            raise Misfit(f"no Protobuf message {name}: {error}") from None

    def first(self) -> type[Message]:
        """Raise Misfit for a file without messages."""
        return self._find((0,))

    def _find(self, indexes: Indexes) -> type[Message]:
        if indexes not in self._found:
            try:
                if min(indexes) < 0:
                    raise IndexError
                found = self._file.message_types_by_name[self._top[indexes[0]]]
                for index in indexes[1:]:
                    found = _nested(found.nested_types, index)
            except IndexError:
                text = f"its schema has no message at the place {list(indexes)}"
                raise Misfit(text) from None
            self._found[indexes] = GetMessageClass(found)
        return self._found[indexes]


def _nested(types: Sequence[Json], at: int) -> Json:
    """Return the message type at a place inside another one. Clients of C++'s line count the
    entries of maps, which are such types; Java's do not.
    """
    found = types[at]
    return found if not _is_entry(found) else [each for each in types if not _is_entry(each)][at]


def _is_entry(message_type: Json) -> bool:
    return bool(message_type.GetOptions().map_entry)


# checking


def matcher(text: str, references: tuple[Reference, ...]) -> Callable[[bytes], None]:
    """Return a function that raises Misfit for a payload that is no value of the schema. Raise
    InvalidSchema.
    """
    # It needs protoc, which comes with the registry's extra, not with the pipeline's.
    from raftka.schemas.formats.protobuf import parse

    pool = DescriptorPool()
    files = parse(text, references).files
    try:
        for file in files:
            pool.Add(file)
    except TypeError as error:
        raise InvalidSchema(f"its files do not go together: {error}") from None
    types = MessageTypes(pool, files[-1].name)

    def match(payload: bytes) -> None:
        message = types.parse(payload)
        if not message.IsInitialized():
            raise Misfit(
                f"{message.DESCRIPTOR.full_name} has no "
                f"{', '.join(message.FindInitializationErrors())}"
            )

    return match


# reading


def make_reader(schema: Schema, source: SchemaSource) -> Callable[[bytes], Json]:
    """Return a function that reads the bytes behind the schema id of one record. `schema` is a
    descriptor in base64. Both raise Misfit, and this one the errors of the source.
    """
    types = _types(schema, source)
    return lambda payload: plain(types.parse(payload))


# writing


def make_writer(schema: Schema, source: SchemaSource) -> Callable[[Json], bytes]:
    """Return a function that returns the bytes behind the schema id for a message of the file's
    first type, from a mapping: dates, times and decimals are Python's, what is None is left out.
    `schema` is a descriptor in base64. Both raise Misfit, and this one the errors of the source.
    """
    message_type = _types(schema, source).first()
    arguments = _Arguments().of(message_type.DESCRIPTOR)

    def write(value: Json) -> bytes:
        try:
            data: bytes = message_type(**arguments(value)).SerializeToString()
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise Misfit(f"the value does not fit the Protobuf schema: {error}") from None
        return FIRST + data

    return write


def write(schema: Schema, source: SchemaSource, value: Json) -> bytes:
    """Return the bytes behind the schema id for a message of the file's first type, from JSON as
    Protobuf writes it. `schema` is a descriptor in base64. Raise Misfit.
    """
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        message = ParseDict(value, _types(schema, source).first()())
    except (ParseError, TypeError, AttributeError, RecursionError) as error:
        raise Misfit(f"the value does not fit the Protobuf schema: {error}") from None
    data: bytes = message.SerializeToString()
    return FIRST + data


class _Arguments:
    """Functions that turn values into arguments of messages. A type may have itself inside."""

    def __init__(self) -> None:
        self._found: dict[str, Callable[[Json], Json]] = {}

    def of(self, descriptor: Json) -> Callable[[Json], Json]:
        name = descriptor.full_name
        if name not in self._found:
            if (special := ARGUMENTS.get(name)) is not None:
                return special
            fields: dict[str, Callable[[Json], Json]] = {}

            def convert(value: Json) -> JsonObject:
                # an unknown name is left to the message, which refuses it
                return {
                    name: fields.get(name, _itself)(each)
                    for name, each in value.items()
                    if each is not None
                }

            self._found[name] = convert
            fields |= {each.name: self._field(each) for each in descriptor.fields}
        return self._found[name]

    def _field(self, field: Json) -> Callable[[Json], Json]:
        if field.message_type is not None and _is_entry(field.message_type):
            one = self._one(field.message_type.fields_by_name["value"])
            return lambda value: {name: one(each) for name, each in value.items()}
        one = self._one(field)
        return (lambda value: [one(each) for each in value]) if field.is_repeated else one

    def _one(self, field: Json) -> Callable[[Json], Json]:
        if field.message_type is not None:
            return self.of(field.message_type)
        return _whole if field.type in WHOLE else _itself


def _itself(value: Json) -> Json:
    return value


def _whole(value: Json) -> Json:
    """Return the number as Protobuf has it: columns of 64 bits without a sign are decimals."""
    return int(value) if type(value) is Decimal and value == int(value) else value


def first_type(schema: Schema, source: SchemaSource) -> Json:
    """Return the descriptor of the file's first message. `schema` is a descriptor in base64. Raise
    Misfit, and the errors of the source.
    """
    return _types(schema, source).first().DESCRIPTOR


def _types(schema: Schema, source: SchemaSource) -> MessageTypes:
    """Raise Misfit, and the errors of the source."""
    files: dict[str, FileDescriptorProto] = {}
    _collect(MAIN, schema, source, files, 0)
    pool = DescriptorPool()
    try:
        for name in list(files):
            _add(pool, name, files, ())
        return MessageTypes(pool, MAIN)
    except (TypeError, KeyError, ValueError) as error:
        raise Misfit(f"a Protobuf schema can not be used: {error}") from None


def _collect(
    name: str,
    schema: Schema,
    source: SchemaSource,
    files: dict[str, FileDescriptorProto],
    depth: int,
) -> None:
    """Add the descriptors of a schema and of its references, by the names in imports."""
    if name in files:
        return
    if len(files) >= MAX_FILES or depth > MAX_DEPTH:
        raise Misfit("a Protobuf schema refers to too many others")
    try:
        files[name] = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except DecodeError:
        raise Misfit("a Protobuf schema of the registry is no descriptor") from None
    files[name].name = name
    for each in schema.references:
        _collect(
            each.name,
            source.version(each.subject, each.version, serialized=True),
            source,
            files,
            depth + 1,
        )


def _add(
    pool: DescriptorPool,
    name: str,
    files: dict[str, FileDescriptorProto],
    importing: tuple[str, ...],
) -> None:
    """Add a file after the files that it imports."""
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


def _well_known(name: str) -> FileDescriptorProto:
    """Return the descriptor of a file that comes with Protobuf, or of OWN_FILES. Raise Misfit."""
    if name in OWN_FILES:
        package, type_name, fields = OWN_FILES[name]
        file = FileDescriptorProto(name=name, package=package, syntax="proto3")
        message = file.message_type.add(name=type_name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            message.field.add(
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


def _proto(descriptor: Json) -> FileDescriptorProto:
    proto = FileDescriptorProto()
    descriptor.CopyToProto(proto)
    return proto


def plain(message: Json) -> Json:
    """Return the value of a message. Raise Misfit."""
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


def _timestamp(message: Json) -> datetime:
    try:
        return EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        raise Misfit(f"a Timestamp of {message.seconds} s is in no year of ours") from None


def _decimal(message: Json) -> Decimal:
    number = int.from_bytes(message.value, "big", signed=True)
    if len(message.value) > 20 or not -100 <= message.scale <= 100:
        raise Misfit(
            f"a Decimal of {len(message.value)} bytes and scale {message.scale} is too large"
        )
    return Decimal(number).scaleb(-message.scale, context=Context(prec=60))


def _date(message: Json) -> Json:
    try:
        return date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        raise Misfit(f"a Date of {message.year}-{message.month}-{message.day} is no day") from None


SPECIAL: dict[str, Callable[[Json], Json]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.type.Date": _date,
    "confluent.type.Decimal": _decimal,
    **dict.fromkeys(WRAPPERS, lambda message: message.value),
}


def _timestamp_arguments(value: datetime) -> Json:
    since = value - EPOCH
    return {
        "seconds": since // timedelta(seconds=1),
        "nanos": since.microseconds * 1000,
    }


def _decimal_arguments(value: Decimal) -> Json:
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    number = int(value.scaleb(scale, context=Context(prec=60)))
    size = number.bit_length() // 8 + 1
    return {
        "value": number.to_bytes(size, "big", signed=True),
        "precision": len(digits),
        "scale": scale,
    }


def _date_arguments(value: date) -> Json:
    return {"year": value.year, "month": value.month, "day": value.day}


ARGUMENTS: dict[str, Callable[[Json], Json]] = {
    "google.protobuf.Timestamp": _timestamp_arguments,
    "google.type.Date": _date_arguments,
    "confluent.type.Decimal": _decimal_arguments,
    **dict.fromkeys(WRAPPERS, lambda value: {"value": value}),
}
