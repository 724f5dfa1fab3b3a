"""Types of columns: from SQL, and as SQL writes them."""

import re

from raftka.pipeline.records.fields import LARGEST_DECIMAL, Exact, Field, Group, Kind, Many, MapOf
from raftka.sql.language.reader import DEEPEST, Reader

PLAIN = {
    "BOOLEAN": "boolean",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "VARCHAR": "string",
    "BYTES": "binary",
    "TIMESTAMP": "timestamp",
    "DATE": "date",
}
FIRST = {kind: name for name, kind in reversed(PLAIN.items())}
NAMES = f"{', '.join(PLAIN)}, DECIMAL(10, 2), ARRAY<INT>, MAP<STRING, INT> and STRUCT<name STRING>"
PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")


def read_type(reader: Reader, depth: int = 0) -> Kind:
    """Raises StatementError."""
    if depth > DEEPEST:
        reader.refuse(f"types stand in each other more than {DEEPEST} deep")
    token = reader.take()
    word = token.word
    if word in PLAIN:
        if word == "VARCHAR" and reader.skip("("):  # its length means nothing
            reader.number("a length")
            reader.expect(")")
        return PLAIN[word]
    if word == "DECIMAL":
        return _decimal(reader)
    if word == "ARRAY":
        reader.expect("<")
        items = Many(read_type(reader, depth + 1))
        reader.expect(">")
        return items
    if word == "MAP":
        reader.expect("<")
        if not reader.skip("STRING"):
            reader.expect("VARCHAR")
        reader.expect(",")
        values = MapOf(read_type(reader, depth + 1))
        reader.expect(">")
        return values
    if word == "STRUCT":
        reader.expect("<")
        return Group(tuple(reader.in_brackets(lambda: _field(reader, depth), ">")))
    raise reader.error(f"{token.text or 'the end'} is no type. There are {NAMES}", token.at)


def _field(reader: Reader, depth: int) -> Field:
    name = reader.name("a field")
    reader.skip(":")
    return Field(name, read_type(reader, depth + 1), nullable=True)


def _decimal(reader: Reader) -> Exact:
    at = reader.next.at
    reader.expect("(")
    digits = reader.number("the number of digits")
    scale = reader.number("the digits behind the point") if reader.skip(",") else 0
    reader.expect(")")
    if not 1 <= digits <= LARGEST_DECIMAL or scale > digits:
        reader.refuse(
            f"a DECIMAL has 1 to {LARGEST_DECIMAL} digits, no more of them behind the point", at
        )
    return Exact(digits, scale)


def type_text(kind: Kind) -> str:
    """Return the type as SQL writes it."""
    if isinstance(kind, Exact):
        return f"DECIMAL({kind.digits}, {kind.scale})"
    if isinstance(kind, Many):
        return f"ARRAY<{type_text(kind.of)}>"
    if isinstance(kind, MapOf):
        return f"MAP<STRING, {type_text(kind.of)}>"
    if isinstance(kind, Group):
        parts = (f"{quoted(each.name)} {type_text(each.kind)}" for each in kind.fields)
        return f"STRUCT<{', '.join(parts)}>"
    return FIRST[kind]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def written_name(name: str) -> str:
    """Return a name as a statement has it."""
    return name if PLAIN_NAME.fullmatch(name) else quoted(name)
