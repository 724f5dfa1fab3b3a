"""Options of Protobuf descriptors as .proto text, custom ones as well, which only a pool with their
definitions can name.
"""

from collections.abc import Iterable

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    unknown_fields,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from raftka.registry.formats.schema import InvalidSchema

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
    """Whether options have fields that their pool does not know."""
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
