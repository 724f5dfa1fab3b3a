"""Records as lines of JSON: what `raftka consume -o json` prints, `raftka produce -i json` and the
console's import read. Knows no broker.

A key, value or header is text in UTF-8, null, or {"base64": ...} where the bytes are no text. A
writer that could not read everything ends with a line {"left_out": {...}}, which no reader takes.
"""

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from raftka.json_values import Json
from raftka.wire.records import RecordHeaders

# of a line; the last three are given anew to a record that is written
FIELDS = ("key", "value", "headers", "partition", "topic", "offset", "timestamp")

LEFT_OUT = "left_out"  # the field of the last line


class Line(NamedTuple):
    """A record that is to be written."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None


class Placed(Protocol):
    """A record with its place, as readers give it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> RecordHeaders: ...


def line_of(record: Placed) -> bytes:
    """Return the line, with its newline."""
    row = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": json_of(record.key),
        "value": json_of(record.value),
        "headers": [[name, json_of(value)] for name, value in record.headers],
    }
    return json.dumps(row).encode() + b"\n"


def left_out_line(what: Mapping[str, Json]) -> bytes:
    """Return the last line of an output that lacks something; `what`: counts and reasons."""
    return json.dumps({LEFT_OUT: what}).encode() + b"\n"


def read_line(text: bytes) -> Line:
    """Raise ValueError; its text goes on behind the number of the line."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f" is not a record in JSON: {error}") from None
    if isinstance(row, dict) and LEFT_OUT in row:
        raise ValueError(
            f" is no record, but what the export has left out: {json.dumps(row[LEFT_OUT])[:500]}; "
            "remove the line to write the records that are there"
        )
    unknown = [str(name) for name in row if name not in FIELDS] if isinstance(row, dict) else []
    if unknown:
        raise ValueError(f": there is no field {unknown[0]}; there are {', '.join(FIELDS)}")
    try:
        headers = [_header_of(each) for each in row.get("headers") or []]
        partition = row.get("partition")
        if partition is not None and type(partition) is not int:
            raise TypeError(f"its partition {partition!r} is no number")
        return Line(bytes_of(row.get("key")), bytes_of(row.get("value")), headers, partition)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f" is not a record in JSON: {error}") from None


def _header_of(pair: Json) -> tuple[str, bytes | None]:
    """Raise ValueError, TypeError or KeyError for a value that is no header."""
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise TypeError(f"a header is a list of its name and its value, not {json.dumps(pair)}")
    return pair[0], bytes_of(pair[1])


def json_of(value: bytes | None) -> Json:
    """Return a key, value or header for JSON, as `bytes_of` reads it."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value or b"").decode()}


def bytes_of(value: Json) -> bytes | None:
    """Raise ValueError, TypeError or KeyError for a value that stands for no bytes."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if isinstance(value, bool | float | list):  # str() would write them in another way
        raise TypeError(f"{json.dumps(value)} is no text: write it with quotes")
    return None if value is None else str(value).encode()
