"""Reads our notation of messages. Knows nothing of bytes.

One field a line: `name type versions @tag`, indentation for the fields of a struct, `#` for
comments. A field without versions is in all of them.

    type        bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records
    Type        a struct of this name, Kafka's own; its fields follow, unless the message has shown
                them before
    type[]      an array of it
    type?       may be null, and is by default (an array is empty); `type?6+` only from version 6 on
    type=value  the default, where it is not zero, empty or null
    3+  3-5  3  versions;  `@0` a tagged field (KIP-482);  `!` encoding a value in a version that
        lacks the field is an error
"""

import re
from collections.abc import Iterator
from typing import Any

from raftka.wire.rows import ALL_VERSIONS, FIXED, NO_VERSION, VARIABLE, Field, Struct, Versions

_TYPE = re.compile(
    r"(?P<kind>[A-Za-z0-9]+)(?P<array>\[\])?(?P<null>\?(?P<null_from>\d+\+)?)?(?:=(?P<default>.+))?"
)
_VERSIONS = re.compile(r"(?P<low>\d+)(?:(?P<open>\+)|-(?P<high>\d+))?")
_CONSTANTS = {"true": True, "false": False, "null": None, '""': ""}

Line = tuple[int, list[str]]  # depth of indentation, words


def parse_struct(name: str, text: str) -> Struct:
    return Struct(name, _fields(name, list(_lines(text)), {}))


def parse_row(name: str, text: str) -> Any:
    """The class of rows of what is no message, and has no stub: a value in a record."""
    return parse_struct(name, text).row


def parse_versions(text: str) -> Versions:
    match = _VERSIONS.fullmatch(text)
    if match is None:
        raise ValueError(f"not a range of versions: {text}")
    low = int(match["low"])
    return Versions(low, ALL_VERSIONS.high if match["open"] else int(match["high"] or low))


def _lines(text: str) -> Iterator[Line]:
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield len(line) - len(line.lstrip()), words


def _fields(owner: str, lines: list[Line], known: dict[str, Struct]) -> list[Field]:
    """`known`: the structs that the message has shown so far, by name."""
    fields: list[Field] = []
    while lines:
        depth, words = lines.pop(0)
        inside: list[Line] = []
        while lines and lines[0][0] > depth:
            inside.append(lines.pop(0))
        fields.append(_field(owner, words, inside, known))
    return fields


def _field(owner: str, words: list[str], inside: list[Line], known: dict[str, Struct]) -> Field:
    name, type_, *marks = words
    match = _TYPE.fullmatch(type_)
    kind = match["kind"] if match is not None else ""
    is_new = kind[:1].isupper() and kind not in known
    if (
        match is None
        or is_new != bool(inside)
        or not (is_new or kind in known or kind in FIXED or kind in VARIABLE)
    ):
        raise ValueError(f"{owner}.{name}: no such type: {type_}")
    if is_new:
        known[kind] = Struct(kind, _fields(kind, inside, known))
    struct = known.get(kind)
    array = match["array"] is not None
    nullable = NO_VERSION if match["null"] is None else parse_versions(match["null_from"] or "0+")
    versions, tag, refused = _marks(marks)
    default = (
        _CONSTANTS.get(d, d) if (d := match["default"]) else _default(kind, array, nullable, struct)
    )
    if isinstance(default, str) and kind != "string":
        default = int(default, 0)
    return Field(
        name, "struct" if struct else kind, default, versions, array, nullable, tag, refused, struct
    )


def _marks(marks: list[str]) -> tuple[Versions, int | None, bool]:
    versions, tag, refused = ALL_VERSIONS, None, False
    for mark in marks:
        if mark.startswith("@"):
            tag = int(mark[1:])
        elif mark == "!":
            refused = True
        else:
            versions = parse_versions(mark)
    return versions, tag, refused


def _default(kind: str, array: bool, nullable: Versions, struct: Struct | None) -> object:
    if array:
        return ()
    if nullable != NO_VERSION:
        return None
    if struct is not None:
        return struct.row()
    return FIXED[kind][1] if kind in FIXED else VARIABLE[kind]
