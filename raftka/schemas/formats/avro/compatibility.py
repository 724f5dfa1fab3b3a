"""Compatibility of Avro schemas: the data that a reader can resolve, as the Avro specification's
schema resolution and Java's SchemaCompatibility say.

| the writer has | the reader can read it if it has |
|---|---|
| int | int, long, float, double |
| long | long, float, double |
| float | float, double |
| string, bytes | string, bytes |
| null, boolean, double | the same |
| array, map | the same, and can read the items or values |
| fixed | the same size, and the name: without namespace, or as an alias |
| enum | the name likewise; all of the symbols, or a default symbol |
| record | the name likewise; for each field of the reader: a field of that name or alias in the
    writer that it can read, or a default |
| a union | something that can read each branch |
| anything | a union with a branch that can read it |
"""

from raftka.schemas.formats.avro.types import NAMED, Field, Type
from raftka.schemas.formats.pairs import Expanded, Fault, Need

READABLE = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
TOLD_SYMBOLS = 10


def expand(reader: Type, writer: Type) -> Expanded[Type]:
    if writer.kind == "union":
        return Expanded(
            needs=[_branch(reader, branch, index) for index, branch in enumerate(writer.branches)]
        )
    if reader.kind == "union":
        return Expanded(needs=[_of_union(reader, writer)])
    if reader.kind != writer.kind:
        if reader.kind in READABLE.get(writer.kind, ()):
            return Expanded()
        return Expanded(
            [
                Fault(
                    "TYPE_MISMATCH",
                    f"the reader has {describe(reader)}, the writer {describe(writer)}",
                )
            ]
        )
    if reader.items is not None and writer.items is not None:
        return Expanded(
            needs=[
                Need(
                    "items" if reader.kind == "array" else "values", [(reader.items, writer.items)]
                )
            ]
        )
    expanded: Expanded[Type] = Expanded(cost=(len(reader.fields) + len(writer.symbols)) // 16)
    if reader.kind in NAMED and not _names_match(reader, writer):
        said = (
            f"the reader's {reader.kind} is {reader.name}, the writer's is {writer.name}, which "
            "is no alias of the former"
        )
        expanded.faults.append(Fault("NAME_MISMATCH", said, "name"))
    if reader.kind == "fixed" and reader.size != writer.size:
        said = f"the reader's {reader.name} has {reader.size} bytes, the writer's has {writer.size}"
        expanded.faults.append(Fault("FIXED_SIZE_MISMATCH", said, "size"))
    if (
        reader.kind == "enum"
        and reader.default_symbol is None
        and (missing := writer.symbol_set - reader.symbol_set)
    ):
        told = ", ".join(sorted(missing)[:TOLD_SYMBOLS]) + (
            ", ..." if len(missing) > TOLD_SYMBOLS else ""
        )
        said = f"the reader's {reader.name} lacks symbols of the writer and has no default: {told}"
        expanded.faults.append(Fault("MISSING_ENUM_SYMBOLS", said, "symbols"))
    for index, field in enumerate(reader.fields):
        _expand_field(expanded, field, index, writer)
    return expanded


def describe(type_: Type) -> str:
    return f"{type_.kind} {type_.name}" if type_.name else type_.kind


def _branch(reader: Type, branch: Type, index: int) -> Need[Type]:
    if reader.kind != "union":
        return Need("", [(reader, branch)])
    need = _of_union(reader, branch)
    need.path = str(index)
    return need


def _of_union(reader: Type, writer: Type) -> Need[Type]:
    """Return the branches that may read the writer's type, the only options: unions may have
    thousands of branches.
    """
    if writer.kind in NAMED:
        candidates = [
            each
            for name in dict.fromkeys((writer.local_name, writer.name))
            for each in reader.branches_by_kind.get(f"{writer.kind} {name}", ())
            if _names_match(each, writer)
        ]
    else:
        kinds = READABLE.get(writer.kind, (writer.kind,))
        candidates = [each for kind in kinds for each in reader.branches_by_kind.get(kind, ())]
    candidates = list(dict.fromkeys(candidates))
    fault = Fault(
        "MISSING_UNION_BRANCH",
        f"no branch of the reader's union can read the writer's {describe(writer)}",
    )
    return Need("", [(each, writer) for each in candidates], fault)


def _names_match(reader: Type, writer: Type) -> bool:
    return reader.local_name == writer.local_name or writer.name in reader.aliases


def _expand_field(expanded: Expanded[Type], field: Field, index: int, writer: Type) -> None:
    names = (field.name, *field.aliases)
    written = next(
        (writer.fields_by_name[name] for name in names if name in writer.fields_by_name), None
    )
    if written is not None:
        expanded.needs.append(Need(f"fields/{index}/type", [(field.type, written.type)]))
    elif not field.has_default:
        said = (
            f"the reader's field {field.name} has no default, and the writer has no field of "
            "that name"
        )
        expanded.faults.append(Fault("READER_FIELD_MISSING_DEFAULT_VALUE", said, f"fields/{index}"))
