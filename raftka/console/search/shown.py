"""Records as JSON for a page, and as lines for a file. Masked fields are hidden in both."""

from collections.abc import Mapping
from typing import NamedTuple

from raftka.client.json_lines import line_of
from raftka.console.decoding.decoder import HEX, MASKED, NULL, Decoded
from raftka.console.decoding.masks import SHOWN
from raftka.console.limits import SHOWN_CHARACTERS, SHOWN_HEADERS, WHOLE_CHARACTERS
from raftka.console.search.scan import Found, Progress
from raftka.json_values import JsonObject
from raftka.wire.records import RecordHeaders


def row_of(found: Found, *, whole: bool = False) -> JsonObject:
    """`whole`: of one record that is shown by itself; in a list long texts are cut."""
    record, seen = found.seen.record, found.seen
    most = (WHOLE_CHARACTERS if whole else SHOWN_CHARACTERS).value
    headers: list[JsonObject] = []
    for (name, decoded), (_, data) in zip(seen.headers(), record.headers, strict=True):
        if len(headers) == SHOWN_HEADERS.value:
            break
        headers.append({"name": name[:most], **part_of(decoded, data, most)})
    return {
        "partition": found.where[1],
        "offset": record.offset,
        "timestamp": record.timestamp,
        "size": sum(
            len(each or b"")
            for each in (record.key, record.value, *(value for _, value in record.headers))
        ),
        "key": part_of(seen.key, record.key, most),
        "value": part_of(seen.value, record.value, most),
        "headers": headers,
        "more_headers": max(0, len(record.headers) - SHOWN_HEADERS.value),
    }


def part_of(decoded: Decoded, data: bytes | None, most: int) -> JsonObject:
    """A key, value or header. `size`: bytes; of null it is null."""
    part: JsonObject = {
        "kind": decoded.kind,
        "text": decoded.text[:most],
        "size": None if data is None else len(data),
    }
    if len(decoded.text) > most:
        part["cut"] = True
    if decoded.schema_id is not None:
        part["schema_id"] = decoded.schema_id
    if decoded.problem is not None:
        part["problem"] = decoded.problem
    return part


class _Line(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


def export_line(found: Found, *, masks: bool) -> bytes:
    """Return the line of `raftka consume -o json`; with masks, texts as they are shown."""
    record, where = found.seen.record, found.where
    key, value, headers = record.key, record.value, record.headers
    if masks:
        key, value = _text_of(found.seen.key, key), _text_of(found.seen.value, value)
        headers = [
            (name, _text_of(decoded, data))
            for (name, decoded), (_, data) in zip(found.seen.headers(), record.headers, strict=True)
        ]
    return line_of(_Line(*where, record.offset, record.timestamp, key, value, headers))


def _text_of(decoded: Decoded, data: bytes | None) -> bytes | None:
    if decoded.kind == NULL:
        return None
    if decoded.kind == MASKED:
        return SHOWN.encode()
    # bytes that could hold a masked field are shown as such; numbers stay
    return data if decoded.kind == HEX else decoded.text.encode("utf-8", "surrogatepass")


def left_out(progress: Progress, partitions: Mapping[str, str]) -> JsonObject:
    """Return what an export lacks, empty where it lacks nothing. `partitions`: those that were not
    read to their ends, and why.
    """
    found: JsonObject = {
        "unreadable": progress.unreadable_count,
        "first_unreadable": progress.unreadable,
        "lost": progress.lost,
        "unsearched": progress.unsearched,
        "partitions": dict(partitions),
    }
    return {name: value for name, value in found.items() if value}
