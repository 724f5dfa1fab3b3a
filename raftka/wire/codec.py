"""Parts that generated decoders and encoders are built from: source text, varints, packed arrays.
Knows no message.

A message is compiled once for each version and direction, at first use (about a millisecond): fixed
runs become one Struct, nested loops one function. Generated code checks the end of the frame once,
at its own end: until then a read beyond it fails in Struct or in indexing.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from struct import Struct
from struct import error as struct_error
from typing import Any

from raftka.limits import DECODED_OBJECTS, TAGGED_FIELDS
from raftka.runtime.interfaces import Buffer, FileSpan
from raftka.wire.errors import ProtocolError

REPLACEMENT_BYTES = 3  # of U+FFFD, in place of each byte that is no UTF-8
OWN_PIECE_BYTES = 8192  # content from this size on is not copied into its neighbours
NUMBERS_OF_STEP = 4096  # of a packed array, between two yields: some 0.1 ms
MAX_STRING = 32767  # bytes; the length is an int16 where it is not a varint

Piece = Buffer | FileSpan


class Source:
    """A function being written."""

    def __init__(self, head: str, known: Mapping[str, object]) -> None:
        self._lines = [head]
        self._depth = 1
        self._globals = dict(known)
        self._count = 0

    def put(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.put(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, value: object, stem: str) -> str:
        """The name under which the function sees `value`."""
        for name, known in self._globals.items():
            if known is value:
                return name
        name = self.name(stem)
        self._globals[name] = value
        return name

    def compile(self, name: str, title: str) -> Any:
        text = "\n".join(self._lines)
        exec(compile(text, f"<{title}>", "exec"), self._globals)
        return self._globals[name]


_layouts: dict[str, Struct] = {}


def layout(letters: str) -> Struct:
    """One Struct for each run of letters in the process."""
    if letters not in _layouts:
        _layouts[letters] = Struct(">" + letters)
    return _layouts[letters]


class Repeated(dict[int, Callable[..., Any]]):
    """Count -> unpack_from (or pack) of that many values; only small counts are kept."""

    def __init__(self, letter: str, packing: bool) -> None:
        super().__init__()
        self.letter = letter
        self.packing = packing

    def __missing__(self, count: int) -> Callable[..., Any]:
        many = Struct(
            f">{self.letter * count}" if len(self.letter) > 1 else f">{count}{self.letter}"
        )
        method = many.pack if self.packing else many.unpack_from
        if count <= 64:
            self[count] = method
        return method


_repeated: dict[tuple[str, bool], Repeated] = {}


def repeated(letter: str, *, packing: bool) -> Repeated:
    return _repeated.setdefault((letter, packing), Repeated(letter, packing))


# reading


def long_varint(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, above 127, was read: its 32 bits and the
    position behind it.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, position
    raise ProtocolError("a varint of more than 5 bytes")


def long_count(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """A compact length or a count, which Kafka reads as a signed number: what is negative then is 0
    here, null or none.
    """
    value, position = long_varint(view, position, first)
    return (value, position) if value <= 0x80000000 else (0, position)


def tag_count(view: memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the count of a section of tagged fields that takes more than one byte. Raises
    ProtocolError for too many fields.
    """
    count, position = long_count(view, position, first)
    if count > TAGGED_FIELDS.value:
        raise ProtocolError(
            f"{count} tagged fields, {TAGGED_FIELDS.value} are possible", TAGGED_FIELDS
        )
    return count, position


def skip_tags(view: memoryview, position: int, count: int) -> int:
    """Tagged fields that this version does not know, in any order (KIP-482). `count` is the
    section's first byte, which was read.
    """
    if count > 127:
        count, position = tag_count(view, position, count)
    for _ in range(count):
        tag = view[position]
        position += 1
        if tag > 127:
            _, position = long_varint(view, position, tag)
        size = view[position]
        position += 1
        if size > 127:
            size, position = long_varint(view, position, size)
        position += size
    return position


def unpack_in_steps(
    many: Repeated, size: int, view: memoryview, position: int, count: int
) -> Generator[None, None, tuple[int | float | bytes, ...]]:
    """`count` numbers of `size` bytes each, with a yield now and then."""
    values: list[int | float | bytes] = []
    while count > 0:
        part = min(count, NUMBERS_OF_STEP)
        values += many[part](view, position)
        position += part * size
        count -= part
        yield
    return tuple(values)


def refuse_null() -> None:
    raise ProtocolError("null where a value must be")


def refuse_replaced(text: str) -> None:
    """Refuse a string whose invalid UTF-8 made it too long to send back: answers repeat names."""
    if len(text.encode()) > MAX_STRING:
        raise ProtocolError(f"a string that is no UTF-8, of {len(text)} characters")


def refuse_string(size: int) -> None:
    raise ProtocolError(f"a string of {size} bytes, {MAX_STRING} are possible")


def refuse_count(count: int, rest: int) -> None:
    raise ProtocolError(f"{count} elements announced with {max(rest, 0)} bytes to come")


def refuse_objects() -> None:
    raise ProtocolError(f"more than {DECODED_OBJECTS.value} values in one request", DECODED_OBJECTS)


def refuse_end(position: int, end: int) -> None:
    raise ProtocolError(f"a field ends at byte {position} of {end}")


def refuse_cut(error: Exception) -> None:
    raise ProtocolError("the message ends inside a field") from error


# writing


def varint(value: int) -> bytes:
    """Unsigned."""
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def checked_size(text: bytes) -> int:
    if len(text) > MAX_STRING:
        raise ValueError(f"a string of {len(text)} bytes, {MAX_STRING} are possible")
    return len(text)


def size_of(pieces: Piece | Sequence[Piece]) -> int:
    if pieces.__class__ is bytes:
        return len(pieces)
    if isinstance(pieces, list | tuple):
        total = 0
        for piece in pieces:
            total += piece.size if piece.__class__ is FileSpan else len(piece)
        return total
    return pieces.size if isinstance(pieces, FileSpan) else len(pieces)


def put_bytes(parts: list[Any], pieces: Piece | Sequence[Piece], flexible: bool) -> None:
    """Length and content; the content is never copied, and may be lying in files."""
    size = size_of(pieces)
    parts.append(varint(size + 1) if flexible else size.to_bytes(4, "big", signed=True))
    if isinstance(pieces, list | tuple):
        parts.extend(pieces)
    else:
        parts.append(pieces)


def merge(parts: Sequence[Piece]) -> list[Piece]:
    """Neighbours that are small become one piece."""
    merged: list[Piece] = []
    small: list[Buffer] = []
    for part in parts:
        if part.__class__ is not FileSpan and len(part) < OWN_PIECE_BYTES:  # type: ignore[arg-type]
            small.append(part)  # type: ignore[arg-type]
            continue
        if small:
            merged.append(b"".join(small))
            small = []
        merged.append(part)
    if small:
        merged.append(b"".join(small))
    return merged


READING: dict[str, object] = {
    "new": object.__new__,
    "long_varint": long_varint,
    "long_count": long_count,
    "skip_tags": skip_tags,
    "tag_count": tag_count,
    "unpack_in_steps": unpack_in_steps,
    "refuse_null": refuse_null,
    "refuse_string": refuse_string,
    "refuse_replaced": refuse_replaced,
    "refuse_count": refuse_count,
    "refuse_objects": refuse_objects,
    "refuse_end": refuse_end,
    "refuse_cut": refuse_cut,
    "struct_error": struct_error,
}
WRITING: dict[str, object] = {
    "varint": varint,
    "checked_size": checked_size,
    "put_bytes": put_bytes,
}
