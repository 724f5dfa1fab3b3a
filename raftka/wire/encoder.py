"""Writes the encoder of one struct in one version as Python: it appends pieces of bytes to a list.
Knows nothing of frames.

The contents of `records` are appended as they are, uncopied, and may be spans of files. What a
version lacks is left out, or refused where the notation says so.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from raftka.runtime.interfaces import FileSpan
from raftka.wire.codec import WRITING, Piece, Source, checked_size, layout, merge, repeated, varint
from raftka.wire.rows import FIXED, NO_VERSION, Field, Row, Struct

Encoder = Callable[[Row, list[Piece]], None]
T = TypeVar("T", bound=Row | str)
PIECES_JOINED = 256  # small pieces of bytes, before they become one


def compile_encoder(struct: Struct, version: int, *, flexible: bool) -> Encoder:
    source = Source("def encode(row, parts):", {**WRITING, "EncodedRows": EncodedRows})
    source.put("put = parts.append")
    writer = _Writer(source, version, flexible)
    writer.row(struct, "row")
    writer.flush()
    encoder: Encoder = source.compile("encode", f"encoder of {struct.name} v{version}")
    return encoder


def encode_row(encoder: Encoder, row: Row, prefix: bytes) -> bytes:
    """Return a row without spans of files, behind `prefix`: the version of a record's value."""
    parts: list[Piece] = [prefix]
    encoder(row, parts)
    return b"".join([part for part in parts if not isinstance(part, FileSpan)])


def _compile_tags(struct: Struct, version: int) -> Callable[[Row], bytes]:
    """The tagged section of a row that has something in it."""
    source = Source("def tags(row):", {**WRITING, "EncodedRows": EncodedRows})
    source.put("section = []")
    writer = _Writer(source, version, flexible=True)
    for field in sorted(struct.of_version(version)[1], key=lambda f: f.tag or 0):
        with source.block(f"if not ({writer.is_default(field, 'row')}):"):
            source.put("parts = []", "put = parts.append")
            writer.field(field, f"row.{field.name}")
            writer.flush()
            source.put(
                'data = b"".join(parts)',
                f"section.append(varint({field.tag}) + varint(len(data)) + data)",
            )
    source.put('return varint(len(section)) + b"".join(section)')
    tags: Callable[[Row], bytes] = source.compile("tags", f"tags of {struct.name} v{version}")
    return tags


def encode_string(text: str, parts: list[Piece]) -> None:
    data = text.encode()
    parts.append(checked_size(data).to_bytes(2, "big") + data)


def encode_compact_string(text: str, parts: list[Piece]) -> None:
    data = text.encode()
    parts.append(varint(checked_size(data) + 1) + data)


class EncodedRows(Generic[T]):
    """An array of structs or strings in a message, whose elements are encoded as they are added: a
    long answer never exists as rows.

    Contents of `records` are kept as they are, like everywhere.
    """

    __slots__ = ("_count", "_fresh", "_joined", "encode")

    def __init__(self, encode: Callable[[T, list[Piece]], None]) -> None:
        self.encode = encode
        self._count = 0
        self._fresh: list[Piece] = []
        self._joined: list[Piece] = []

    def add(self, row: T) -> None:
        self.encode(row, self._fresh)
        self._count += 1
        if len(self._fresh) > PIECES_JOINED:
            self._join()

    def __len__(self) -> int:
        return self._count

    @property
    def pieces(self) -> list[Piece]:
        """The elements one behind the other, without their count. The last of them are joined
        with all else of the message, once.
        """
        return [*self._joined, *self._fresh] if self._joined else self._fresh

    def _join(self) -> None:
        self._joined += merge(self._fresh)
        self._fresh.clear()


class _Writer:
    """In the written code `put` appends a piece. A run is gathered as (letters, expression) and
    packed by one Struct.
    """

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.put = source.put
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []

    def row(self, struct: Struct, row: str) -> None:
        plain, tagged = struct.of_version(self.version)
        for field in struct.fields:
            if field.refused and self.version not in field.versions:
                message = f"{struct.name} v{self.version} has no {field.name}"
                self.put(f"if not ({self.is_default(field, row)}): raise ValueError({message!r})")
        for field in plain:
            self.field(field, f"{row}.{field.name}")
        if self.flexible and tagged:
            self.tags(struct, tagged, row)
        elif self.flexible:
            self.run.append(("x", ""))

    def tags(self, struct: Struct, tagged: list[Field], row: str) -> None:
        """Nearly always there are none: one more zero byte of the run."""
        run = self.run
        with self.source.block(
            f"if {' and '.join(f'({self.is_default(f, row)})' for f in tagged)}:"
        ):
            self.run = [*run, ("x", "")]
            self.flush()
        with self.source.block("else:"):
            self.run = run
            self.flush()
            self.put(
                f"put({self.source.constant(_compile_tags(struct, self.version), 'tags')}({row}))"
            )

    def is_default(self, field: Field, row: str) -> str:
        value, default = f"{row}.{field.name}", self.source.constant(field.default, "default")
        if field.default is None:
            return f"{value} is None"
        if field.array:
            return f"{value} is not None and not {value}"
        if field.struct is not None:
            inner = " and ".join(
                f"({self.is_default(each, value)})" for each in field.struct.fields
            )
            return f"{value} is {default} or ({inner})"
        return f"{value} is {default} or {value} == {default}"

    def packed(self) -> str:
        """The expression that packs the run."""
        letters = "".join(letter for letter, _ in self.run)
        values = ", ".join(value for _, value in self.run if value)
        self.run = []
        if not letters:
            return 'b""'
        run = layout(letters)
        return (
            f"{self.source.constant(run.pack, 'pack')}({values})"
            if values
            else repr(bytes(run.size))
        )

    def flush(self) -> None:
        if self.run:
            self.put(f"put({self.packed()})")

    def field(self, field: Field, value: str) -> None:
        if not field.array and field.kind in FIXED:
            self.run.append((FIXED[field.kind][0], value))
            return
        if field.struct is not None and not field.array and self.version not in field.nullable:
            self.row(field.struct, value)
            return
        name = self.source.name("value")
        self.put(f"{name} = {value}")
        if self.version not in field.nullable:
            self.present(field, name)
            return
        run = self.run
        with self.source.block(f"if {name} is None:"):
            self.run = [*run, self.null(field)]
            self.flush()
        with self.source.block("else:"):
            self.run = run
            self.present(field, name)
            self.flush()

    def null(self, field: Field) -> tuple[str, str]:
        if field.struct is not None and not field.array:
            return ("b", "-1")
        return (
            ("x", "")
            if self.flexible
            else ("h" if field.kind == "string" and not field.array else "i", "-1")
        )

    def present(self, field: Field, value: str) -> None:
        """A value of variable size that is not null."""
        if field.array:
            self.array(field, value)
        elif field.struct is not None:
            self.run.append(("b", "1"))
            self.row(field.struct, value)
        elif field.kind == "string":
            self.put(f"{value} = {value}.encode()", f"n = checked_size({value})")
            self.count("n", "h")
            self.put(f"put({value})")
        else:
            self.flush()
            self.put(f"put_bytes(parts, {value}, {self.flexible})")

    def count(self, size: str, letter: str) -> None:
        """A length or count, packed with the run before it."""
        run = self.run
        if not self.flexible:
            self.run = [*run, (letter, size)]
            self.flush()
            return
        self.run = [*run, ("B", f"{size} + 1")]
        short = self.packed()
        self.run = run
        self.put(f"put({short} if {size} < 127 else {self.packed()} + varint({size} + 1))")

    def array(self, field: Field, value: str) -> None:
        self.put(f"n = len({value})")
        if field.kind in FIXED:
            self.count("n", "i")
            many = self.source.constant(repeated(FIXED[field.kind][0], packing=True), "many")
            self.put(f"put({many}[n](*{value}))")
            return
        self.count("n", "i")
        item = self.source.name("item")
        if field.struct is not None or field.kind == "string":
            self.put(
                f"if {value}.__class__ is EncodedRows: parts.extend({value}.pieces); {value} = ()"
            )
        with self.source.block(f"for {item} in {value}:"):
            self.field(replace(field, array=False, nullable=NO_VERSION), item)
            self.flush()
