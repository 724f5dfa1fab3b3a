"""What a message is made of: fields with their versions, structs of fields, and rows of values. Knows neither bytes nor the notation."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

ZERO_UUID = bytes(16)
FREED_AT_ONCE = 256  # elements of an array that are no rows

# struct's letter and the default of every type of fixed size; sizes in bytes follow from the letter
FIXED: Mapping[str, tuple[str, Any]] = {
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
VARIABLE: Mapping[str, Any] = {"string": "", "bytes": b"", "records": None}


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
    default: Any
    versions: Versions = ALL_VERSIONS
    array: bool = False
    nullable: Versions = NO_VERSION
    tag: int | None = None
    refused: bool = False  # a value in a version that lacks the field is an error, not ignored
    struct: "Struct | None" = None


class Row:
    """The values of one struct, an attribute a field. Fields that a version lacks are at their default after decoding.

    Arrays of structs are lists of rows, arrays of numbers are tuples; a default is shared between rows, so assign, never change in place.
    """

    __slots__: tuple[str, ...] = ()
    struct: "Struct"  # set on each class

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, all the way down; record bytes as bytes."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, Row) and other.struct is self.struct and other.as_dict() == self.as_dict())

    __hash__ = None  # type: ignore[assignment]  # a row changes

    def __repr__(self) -> str:
        changed = {f.name: value for f in self.struct.fields if (value := getattr(self, f.name)) != f.default}
        return f"{self.struct.name}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def free(row: Row) -> Generator[None, None, None]:
    """Empty the arrays of a row nobody needs any more, some elements at a time: to free 100,000 rows at once takes 50 ms."""
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


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


class Struct:
    """A sequence of fields. Called with values it makes a row; the structs inside it are its attributes."""

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        self.name = name
        self.fields = tuple(fields)
        self._inner = {f.name: f.struct for f in fields if f.struct is not None}

    def __call__(self, **values: Any) -> Row:
        return self.row(**values)

    def __getattr__(self, name: str) -> "Struct":
        try:
            return self.__dict__["_inner"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('name')} has no struct {name}") from None

    def __repr__(self) -> str:
        return f"<struct {self.name}>"

    @cached_property
    def row(self) -> type[Row]:
        """The class of its rows; made at first use, most messages are never seen by a process."""
        names = [f.name for f in self.fields]
        defaults = {f"d{i}": f.default for i, f in enumerate(self.fields)}
        arguments = "".join(f", {name}=d{i}" for i, name in enumerate(names))
        body = "".join(f"\n    self.{name} = {name}" for name in names) or "\n    pass"
        exec(f"def __init__(self{arguments}):{body}", defaults)
        return type(self.name, (Row,), {"__slots__": tuple(names), "__init__": defaults["__init__"], "struct": self})

    def field(self, path: str) -> Field:
        """The field of that name, or behind structs: `topics.partitions.offset`."""
        *structs, name = path.split(".")
        owner = self
        for each in structs:
            owner = owner._inner[each]
        return next(field for field in owner.fields if field.name == name)

    @cached_property
    def carries_records(self) -> bool:
        """Somewhere in it are record batches."""
        return any(f.kind == "records" or (f.struct is not None and f.struct.carries_records) for f in self.fields)

    def of_version(self, version: int) -> tuple[list[Field], list[Field]]:
        """The fields that stand in line, and the tagged ones."""
        present = [f for f in self.fields if version in f.versions]
        return [f for f in present if f.tag is None], [f for f in present if f.tag is not None]
