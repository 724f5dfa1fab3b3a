"""Writes a Protobuf descriptor as .proto text: with full names of types, one declaration a line.
Comments are not in a descriptor.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    unknown_fields,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import DecodeError, Message

from raftka.schemas.formats.schema import InvalidSchema

NAME = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
PLAIN_DEFAULT = re.compile(r"-?[A-Za-z0-9_.+-]+")
ESCAPED_DEFAULT = re.compile(r'([^"\\\n]|\\[^\n])*')
MAX_FIELD, MAX_ENUM = (1 << 29) - 1, (1 << 31) - 1
EDITION_PREFIX = "EDITION_"
DESCRIPTOR_FILE = "google/protobuf/descriptor.proto"
LEFT_OUT = ("map_entry", "uninterpreted_option")
ESCAPED = {char: f"\\{char:03o}" for char in (*range(0x20), 0x7F)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\n"): "\\n",
}


class Options:
    """Writes options with the definitions of `files`, which are all that a file imports."""

    def __init__(self, files: Iterable[descriptor_pb2.FileDescriptorProto] = ()) -> None:
        self._pool: descriptor_pool.DescriptorPool | None = None
        files = list(files)
        if any(each.name == DESCRIPTOR_FILE for each in files):  # else there are no custom options
            self._pool = descriptor_pool.DescriptorPool()
            try:
                for each in files:
                    self._pool.Add(each)
            except TypeError as error:  # an import is not among them, or a name is there twice
                raise InvalidSchema(f"it does not go with what it imports: {error}") from None

    def write(self, options: Message) -> list[str]:
        """`name = value` for each that is set, in the order of their numbers."""
        if self._pool is not None:
            found = message_factory.GetMessageClass(
                self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
            )
            try:
                options = found.FromString(options.SerializeToString())
            except DecodeError:
                raise InvalidSchema(
                    f"an option of {options.DESCRIPTOR.name} is not of its type"
                ) from None
        if is_custom(options) or any(
            field.name == "uninterpreted_option" for field, _ in options.ListFields()
        ):
            raise InvalidSchema(
                f"an option of {options.DESCRIPTOR.name} is defined nowhere: is a reference "
                "missing?"
            )
        written = []
        for field, value in options.ListFields():
            if field.name not in LEFT_OUT:
                name = f"(.{field.full_name})" if field.is_extension else field.name
                written += [
                    f"{name} = {self._value(field, each)}"
                    for each in (value if field.is_repeated else [value])
                ]
        return written

    def _value(self, field: FieldDescriptor, value: object) -> str:
        if field.message_type is not None:
            text = text_format.MessageToString(value, as_one_line=True, descriptor_pool=self._pool)
            return f"{{ {text} }}"
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            if known is None:
                raise InvalidSchema(
                    f"the option {field.name} has the value {value}, which its enum has not"
                )
            return str(known.name)
        if isinstance(value, bool):
            return str(value).lower()
        return quote(value) if isinstance(value, str | bytes) else str(value)


def is_custom(options: Message) -> bool:
    """Return True if options have fields that their pool does not know."""
    return len(unknown_fields.UnknownFieldSet(options)) > 0


def quote(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return (
            '"'
            + "".join(
                chr(each) if 0x20 <= each < 0x7F and chr(each) not in '"\\' else f"\\{each:03o}"
                for each in value
            )
            + '"'
        )
    return '"' + value.translate(ESCAPED) + '"'


def print_file(file: FileDescriptorProto, options: Options, normalized: bool = False) -> str:
    """`normalized`: imports by name, fields, values and ranges by number; messages keep their
    order, which the data names them by.
    """
    return "\n".join(_Printer(options, file.syntax, normalized).file(file)) + "\n"


def checked(name: str) -> str:
    """A name from a descriptor, which need not come from protoc: text in a name would be
    declarations in the file.
    """
    if not NAME.fullmatch(name):
        raise InvalidSchema(f"{name[:80]!r} is no name in Protobuf")
    return name


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return ("  " + line for line in lines)


def _json_name(name: str) -> str:
    return re.sub("_+(.?)", lambda found: found[1].upper(), name)


# full names of the maps' entries and groups within, and the lines
_Unit = tuple[set[str], list[str]]


class _Queue:
    """Units in their order, which are given out up to the one with a map's entry or a group."""

    def __init__(self, units: Iterable[_Unit]) -> None:
        self._units = deque(units)
        self.places = {
            name: index for index, (names, _) in enumerate(self._units) for name in names
        }
        self._given = 0

    def through(self, name: str | None) -> Iterator[str]:
        """Lines of the units up to that name; all for None."""
        last = len(self._units) + self._given - 1 if name is None else self.places.get(name, -1)
        while self._given <= last:
            self._given += 1
            yield from self._units.popleft()[1]


class _Printer:
    def __init__(self, options: Options, syntax: str, normalized: bool) -> None:
        self._options = options
        self._syntax = syntax or "proto2"
        self._normalized = normalized
        self._scope = ""  # the full name of what is around, with a dot before each part

    def file(self, file: FileDescriptorProto) -> Iterator[str]:
        if self._syntax == "editions":
            edition = descriptor_pb2.Edition.Name(file.edition).removeprefix(EDITION_PREFIX)
            yield f"edition = {quote(edition)};"
        else:
            yield f"syntax = {quote(self._syntax)};"
        if file.package:
            yield f"package {checked(file.package)};"
            self._scope = f".{file.package}"
        kinds = {
            **dict.fromkeys(file.public_dependency, "public "),
            **dict.fromkeys(file.weak_dependency, "weak "),
        }
        imports = [
            f"import {kinds.get(index, '')}{quote(name)};"
            for index, name in enumerate(file.dependency)
        ]
        yield from sorted(imports) if self._normalized else imports
        yield from self._option_lines(file.options)
        groups = self._groups(file.extension)
        for message in file.message_type:
            if f"{self._scope}.{message.name}" not in groups:
                yield from self._message(message)
        for enum in file.enum_type:
            yield from self._enum(enum)
        for _, lines in self._extend_units(file.extension, file.message_type):
            yield from lines
        for service in file.service:
            yield f"service {checked(service.name)} {{"
            yield from _indented(self._service(service))
            yield "}"

    def _message(self, message: DescriptorProto) -> Iterator[str]:
        yield f"message {checked(message.name)} {{"
        yield from _indented(self._body(message))
        yield "}"

    def _body(self, message: DescriptorProto) -> Iterator[str]:
        around = self._scope
        self._scope = f"{around}.{message.name}"
        yield from self._option_lines(message.options)
        yield from self._members(message)
        for enum in message.enum_type:
            yield from self._enum(enum)
        for extensions in message.extension_range:
            written = self._options.write(extensions.options)
            yield (
                "extensions "
                f"{_range(extensions.start, extensions.end - 1, MAX_FIELD)}{_bracketed(written)};"
            )
        ranges = [(each.start, each.end - 1) for each in message.reserved_range]
        yield from self._reserved(ranges, message.reserved_name, MAX_FIELD)
        self._scope = around

    def _members(self, message: DescriptorProto) -> Iterator[str]:
        """Nested messages, fields, extensions. Data names a message by its place among nested ones,
        to which maps and groups belong.

        So a field of a map or group is written where its message is, with the fields before it.
        """
        maps = {
            f"{self._scope}.{each.name}": each
            for each in message.nested_type
            if each.options.map_entry
        }
        queues = [
            _Queue(self._units(message, maps)),
            _Queue(self._extend_units(message.extension, message.nested_type)),
        ]
        for nested in message.nested_type:
            name = f"{self._scope}.{nested.name}"
            if not any(name in each.places for each in queues):
                yield from self._message(nested)
            elif not self._normalized:
                for each in queues:
                    yield from each.through(name)
        for each in queues:
            yield from each.through(None)

    def _units(self, message: DescriptorProto, maps: dict[str, DescriptorProto]) -> Iterator[_Unit]:
        members: dict[int, list[FieldDescriptorProto]] = {}
        for field in message.field:
            if _in_oneof(field):
                members.setdefault(field.oneof_index, []).append(field)
        for field in sorted(message.field, key=_number) if self._normalized else message.field:
            if not _in_oneof(field):
                names = self._groups([field]) | ({field.type_name} & maps.keys())
                yield names, list(self._field(field, self._label(field), message.nested_type, maps))
            elif (fields := members.pop(field.oneof_index, None)) is not None:
                yield self._groups(fields), list(self._oneof(message, field.oneof_index, fields))

    def _oneof(
        self, message: DescriptorProto, index: int, fields: list[FieldDescriptorProto]
    ) -> Iterator[str]:
        if not 0 <= index < len(message.oneof_decl):
            raise InvalidSchema(f"{message.name[:80]!r} has no oneof number {index}")
        oneof = message.oneof_decl[index]
        yield f"oneof {checked(oneof.name)} {{"
        yield from _indented(self._option_lines(oneof.options))
        for field in sorted(fields, key=_number) if self._normalized else fields:
            yield from _indented(self._field(field, "", message.nested_type, {}))
        yield "}"

    def _field(
        self,
        field: FieldDescriptorProto,
        label: str,
        nested: Sequence[DescriptorProto],
        maps: dict[str, DescriptorProto],
    ) -> Iterator[str]:
        options = self._field_options(field)
        if field.type == FieldDescriptorProto.TYPE_GROUP:
            group = next(
                (each for each in nested if f"{self._scope}.{each.name}" == field.type_name), None
            )
            if group is None:
                raise InvalidSchema(f"the group {field.type_name[:80]!r} is not where its field is")
            yield f"{label}group {checked(group.name)} = {field.number}{_bracketed(options)} {{"
            yield from _indented(self._body(group))
            yield "}"
        elif (entry := maps.get(field.type_name)) is not None and len(entry.field) == 2:
            key, value = (_type_name(each) for each in sorted(entry.field, key=_number))
            yield (
                f"map<{key}, {value}> {checked(field.name)} = {field.number}{_bracketed(options)};"
            )
        else:
            yield (
                f"{label}{_type_name(field)} {checked(field.name)} = "
                f"{field.number}{_bracketed(options)};"
            )

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return "repeated "
        if field.proto3_optional:
            return "optional "
        if self._syntax != "proto2":
            return ""
        return "required " if field.label == FieldDescriptorProto.LABEL_REQUIRED else "optional "

    def _field_options(self, field: FieldDescriptorProto) -> list[str]:
        options = []
        if field.HasField("default_value"):
            options.append(f"default = {_default(field)}")
        if field.json_name and not field.extendee and field.json_name != _json_name(field.name):
            options.append(f"json_name = {quote(field.json_name)}")
        return options + self._options.write(field.options)

    def _enum(self, enum: EnumDescriptorProto) -> Iterator[str]:
        yield f"enum {checked(enum.name)} {{"
        yield from _indented(self._option_lines(enum.options))
        yield from _indented(
            self._reserved(
                [(each.start, each.end) for each in enum.reserved_range],
                enum.reserved_name,
                MAX_ENUM,
            )
        )
        values = enum.value
        if self._normalized and len(values) > 1:  # the first one is the default
            values = [values[0], *sorted(values[1:], key=lambda value: (value.number, value.name))]
        for value in values:
            yield (
                f"  {checked(value.name)} = "
                f"{value.number}{_bracketed(self._options.write(value.options))};"
            )
        yield "}"

    def _reserved(
        self, ranges: list[tuple[int, int]], names: Sequence[str], most: int
    ) -> Iterator[str]:
        for first, last in sorted(ranges) if self._normalized else ranges:
            yield f"reserved {_range(first, last, most)};"
        for name in sorted(names) if self._normalized else names:
            yield f"reserved {checked(name) if self._syntax == 'editions' else quote(name)};"

    def _extend_units(
        self, extensions: Sequence[FieldDescriptorProto], nested: Sequence[DescriptorProto]
    ) -> Iterator[_Unit]:
        for extendee, grouped in groupby(extensions, key=lambda each: each.extendee):
            fields = list(grouped)
            lines = [
                line
                for field in fields
                for line in self._field(field, self._label(field), nested, {})
            ]
            yield self._groups(fields), [f"extend {checked(extendee)} {{", *_indented(lines), "}"]

    def _service(self, service: descriptor_pb2.ServiceDescriptorProto) -> Iterator[str]:
        yield from self._option_lines(service.options)
        for method in service.method:
            asked = ("stream " if method.client_streaming else "") + checked(method.input_type)
            answered = ("stream " if method.server_streaming else "") + checked(method.output_type)
            options = [f"option {each};" for each in self._options.write(method.options)]
            end = " { " + " ".join(options) + " }" if options else ";"
            yield f"rpc {checked(method.name)} ({asked}) returns ({answered}){end}"

    def _option_lines(self, options: descriptor_pb2.FileOptions) -> list[str]:
        return [f"option {each};" for each in self._options.write(options)]

    @staticmethod
    def _groups(fields: Sequence[FieldDescriptorProto]) -> set[str]:
        return {each.type_name for each in fields if each.type == FieldDescriptorProto.TYPE_GROUP}


def _in_oneof(field: FieldDescriptorProto) -> bool:
    """An optional field of proto3 is in a oneof of its own, which no text has."""
    return bool(field.HasField("oneof_index") and not field.proto3_optional)


def _number(field: FieldDescriptorProto) -> int:
    return int(field.number)


def _type_name(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return checked(field.type_name)
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _range(first: int, last: int, most: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last >= most else last}"


def _bracketed(options: list[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _default(field: FieldDescriptorProto) -> str:
    """A descriptor has the default of bytes escaped already."""
    if field.type == FieldDescriptorProto.TYPE_STRING:
        return quote(field.default_value)
    if field.type == FieldDescriptorProto.TYPE_BYTES and ESCAPED_DEFAULT.fullmatch(
        field.default_value
    ):
        return f'"{field.default_value}"'
    if not PLAIN_DEFAULT.fullmatch(field.default_value):
        raise InvalidSchema(
            f"the default {field.default_value[:80]!r} of {field.name[:80]!r} is none in Protobuf"
        )
    return str(field.default_value)
