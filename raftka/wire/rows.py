"""Parts of a message: fields with their versions, structs of fields, and rows of values. Knows
neither bytes nor the notation.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

ZERO_UUID = bytes(16)
FREED_AT_ONCE = 256  # elements of an array that are no rows

# struct's letter and the default of every type of fixed size; sizes in bytes follow from the letter
FIXED: Mapping[str, tuple[str, object]] = {
    "bool": ("?", False),
    "int8": ("b", 0),
    "int16": ("h", 0),
    "uint16": ("H", 0),
    "int32": ("i", 0),
    "uint32": ("I", 0),
    "int64": ("q", 0),
    "float64": ("d", 0.0),
    "uuid": ("16s", ZERO_UUID),
}
VARIABLE: Mapping[str, object] = {"string": "", "bytes": b"", "records": None}


class Versions(NamedTuple):
    """A closed range."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


ALL_VERSIONS = Versions(0, 32767)
NO_VERSION = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class Field:
    """`kind` is a name of FIXED or VARIABLE, or "struct" with `struct` set."""

    name: str
    kind: str
    default: object
    versions: Versions = ALL_VERSIONS
    array: bool = False
    nullable: Versions = NO_VERSION
    tag: int | None = None
    refused: bool = False  # a value in a version that lacks the field is an error, not ignored
    struct: "Struct | None" = None


class Row:
    """The values of one struct, an attribute a field. Fields that a version lacks are at their
    default after decoding.

    Arrays of structs are lists of rows, arrays of numbers are tuples; a default is shared between
    rows, so assign, never change in place. The stubs beside the messages have the types of all
    fields.
    """

    __slots__: tuple[str, ...] = ()
    struct: "Struct"  # set on each class

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

    def as_dict(self) -> dict[str, object]:
        """Plain dicts and lists, all the way down; record bytes as bytes."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return other is self or (
            isinstance(other, Row)
            and other.struct is self.struct
            and other.as_dict() == self.as_dict()
        )

    __hash__ = None  # type: ignore[assignment]  # a row changes

    def __repr__(self) -> str:
        changed = [
            f"{f.name}={value!r}"
            for f in self.struct.fields
            if (value := getattr(self, f.name)) != f.default
        ]
        return f"{self.struct.name}({', '.join(changed)})"


class RowType(type):
    """The class of row classes: `FetchRequest.topics` is the class of the rows in that field,
    FetchTopic.
    """

    struct: "Struct"

    def __getattribute__(cls, name: str) -> object:
        inner = type.__getattribute__(cls, "struct").inner.get(name)
        return type.__getattribute__(cls, name) if inner is None else inner.row


def free(row: Row) -> Generator[None, None, None]:
    """Empty the arrays of a row nobody needs any more, some elements at a time: to free 100,000
    rows at once takes 50 ms.
    """
    for name in row.__slots__:
        array = getattr(row, name)
        if not isinstance(array, list):
            continue
        while array:
            last = array[-1]
            if isinstance(last, Row):
                yield from free(last)
            del array[-FREED_AT_ONCE if not isinstance(last, Row) else -1 :]
            yield


def _plain(value: object) -> object:
    if isinstance(value, Row):
        return value.as_dict()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


class Struct:
    """A sequence of fields."""

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        self.name = name
        self.fields = tuple(fields)
        self.inner = {f.name: f.struct for f in fields if f.struct is not None}

    def __repr__(self) -> str:
        return f"<struct {self.name}>"

    @cached_property
    def row(self) -> type[Row]:
        """The class of its rows; made at first use, most messages are never seen by a process."""
        names = [f.name for f in self.fields]
        made: dict[str, object] = {f"d{i}": f.default for i, f in enumerate(self.fields)}
        arguments = "".join(f", {name}=d{i}" for i, name in enumerate(names))
        body = "".join(f"\n    self.{name} = {name}" for name in names) or "\n    pass"
        exec(f"def __init__(self{arguments}):{body}", made)
        return cast(
            type[Row],
            RowType(
                self.name,
                (Row,),
                {"__slots__": tuple(names), "__init__": made["__init__"], "struct": self},
            ),
        )

    def field(self, path: str) -> Field:
        """The field of that name, or behind structs: `topics.partitions.offset`."""
        *structs, name = path.split(".")
        owner = self
        for each in structs:
            owner = owner.inner[each]
        return next(field for field in owner.fields if field.name == name)

    def structs(self) -> Iterator["Struct"]:
        """This one and all inside it; one that stands in several places comes several times."""
        yield self
        for struct in self.inner.values():
            yield from struct.structs()

    @cached_property
    def carries_records(self) -> bool:
        """Somewhere in it are record batches."""
        return any(
            f.kind == "records" or (f.struct is not None and f.struct.carries_records)
            for f in self.fields
        )

    def of_version(self, version: int) -> tuple[list[Field], list[Field]]:
        """The fields that stand in line, and the tagged ones."""
        present = [f for f in self.fields if version in f.versions]
        return [f for f in present if f.tag is None], [f for f in present if f.tag is not None]
