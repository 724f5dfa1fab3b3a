"""Records of a topic: look, search, export; write, copy, import."""

import json
import time
from collections.abc import Iterator, Mapping

from raftka.client.blocking.client import Client, Unreachable, Where
from raftka.client.blocking.positions import Bounds, offsets_at
from raftka.client.blocking.producer import Producer, partition_of
from raftka.client.json_lines import Line, left_out_line, read_line
from raftka.console.call import ApiError, Call, Download, Event
from raftka.console.decoding.encoder import encode
from raftka.console.decoding.registry import decoder_of
from raftka.console.errors import UNREACHABLE
from raftka.console.limits import IMPORT_ERRORS
from raftka.console.parameters import LARGEST, Field, Flag, Number, Text, refusal
from raftka.console.routes import route
from raftka.console.search.asked import (
    END,
    FILTERS,
    SCOPE,
    Reachable,
    filter_of,
    formats_of,
    partitions_of,
    range_of,
    reachable,
    read_place,
)
from raftka.console.search.filters import Filter
from raftka.console.search.paging import (
    CURSOR,
    Reading,
    read_back,
    read_cursor,
    read_forward,
    write_cursor,
)
from raftka.console.search.scan import Found, Progress, Scanner, Search
from raftka.console.search.shown import export_line, left_out, row_of
from raftka.json_values import Json, JsonObject
from raftka.wire.errors import KafkaError
from raftka.wire.records import NewRecord, Record

PROGRESS_S = 0.5
CHUNK_BYTES = 64 * 1024  # of an export
PREVIEW_RECORDS = 5

RECORD_FIELDS = {
    "key": Field(object, None),
    "value": Field(object, None),
    "headers": Field(list[list[object]], []),
    "partition": Field(int | None, None),
}


# look


@route(
    "GET",
    "/api/topics/{topic}/records",
    "A page of records, merged by time over the partitions",
    query={
        **SCOPE,
        "at": Text(END),
        "back": Flag(),
        "size": Number(50, least=1, most=200),
    },
    records=True,
    answer="records; newer and older: places for `at` (older with back=true), null at the ends; "
    "begins and ends: offsets by partition; unreadable: batches and records that are left out, and "
    "why; left_out: partitions that cannot be read now, and why",
)
def look(call: Call) -> Json:
    query, topic = call.query, call.path["topic"]
    with call.client() as client:
        there = reachable(call, client, topic, query["partition"])
        bounds = Bounds.of(client, there.read)
        at = query["at"]
        is_back = query["back"] or at == END
        if at.startswith(CURSOR):
            all_edges = read_cursor(at, there.wheres)
            edges = {
                where: max(begin, min(all_edges[where], bounds.ends[where]))
                for where, begin in bounds.begins.items()
            }
        else:
            # of a partition that is left out all comes with a later page, when it is there again
            all_edges = dict.fromkeys(there.wheres, LARGEST if is_back else 0)
            edges = offsets_at(client, read_place(at), bounds)
        reading = Reading(
            client,
            lambda: Scanner(Filter(), decoder_of(call.settings), formats_of(query)),
            query["committed"],
            call.is_gone,
        )
        if is_back:
            page = read_back(reading, edges, bounds.begins, query["size"])
        else:
            page = read_forward(reading, edges, bounds.ends, query["size"])
    return {
        "records": [each.row for each in page.shown],
        "newer": write_cursor({**all_edges, **page.after})
        if _differ(page.after, bounds.ends)
        else None,
        "older": write_cursor({**all_edges, **page.before})
        if _differ(page.before, bounds.begins)
        else None,
        "begins": {str(where[1]): offset for where, offset in bounds.begins.items()},
        "ends": {str(where[1]): offset for where, offset in bounds.ends.items()},
        "unreadable": page.unreadable,
        "left_out": there.reasons,
    }


def _differ(edges: Mapping[Where, int], bounds: Mapping[Where, int]) -> bool:
    return any(edges[where] != bound for where, bound in bounds.items())


@route(
    "GET",
    "/api/topics/{topic}/records/{partition}/{offset}",
    "One record as a whole",
    query={"key_as": SCOPE["key_as"], "value_as": SCOPE["value_as"]},
    records=True,
    answer="The record",
)
def one_record(call: Call) -> Json:
    with call.client() as client:
        where = _where(call)
        record = _read_one(client, call, where, _number(call.path["offset"], "the offset"))
    return row_of(record, whole=True)


def _where(call: Call) -> Where:
    return call.path["topic"], _number(call.path["partition"], "the partition")


def _number(text: str, noun: str) -> int:
    number = Number(most=LARGEST)
    found: int = number.parse(noun, [text])
    return found


def _read_one(client: Client, call: Call, where: Where, offset: int) -> Found:
    """Raise ApiError when there is none; records of open transactions are read too."""
    there = reachable(call, client, where[0], (where[1],))
    if where in there.left_out:
        raise ApiError(503, UNREACHABLE, f"{where[0]}-{where[1]}: {there.left_out[where]}")
    missing = ApiError(404, "NO_RECORD", f"{where[0]}-{where[1]} has no record at offset {offset}")
    bounds = Bounds.of(client, [where])
    if not bounds.begins[where] <= offset < bounds.ends[where]:
        raise missing
    formats = formats_of({"key_as": "auto", "value_as": "auto", **call.query})
    scanner = Scanner(Filter(), decoder_of(call.settings), formats)
    search = Search(client, {where: offset}, {where: offset + 1}, scanner, committed=False)
    for each in search.run():
        if each is not None:
            return each
        if call.is_gone():
            break
    raise missing


# search and export


@route(
    "POST",
    "/api/topics/{topic}/search",
    "Search a topic from its begin, or go on with a search",
    query={**SCOPE, **FILTERS, "most": Number(100, least=1, most=1000)},
    body={"positions": Field(dict[str, int] | None, None)},
    records=True,
    stream=True,
    answer="Events: found (records), progress, done (why: end or most; positions to go on from)",
)
def search(call: Call) -> Iterator[Event]:
    query, topic, most = call.query, call.path["topic"], call.query["most"]
    wanted = filter_of(query)
    with call.client() as client:
        there = reachable(call, client, topic, query["partition"])
        span = range_of(client, there.read, wanted)
        begins = _go_on(span.begins, call.body["positions"])
        scanner = Scanner(wanted, decoder_of(call.settings), formats_of(query))
        work = Search(client, begins, span.stops, scanner, committed=query["committed"])
        clock = _Clock()
        yield "progress", _progress(work, clock, there)
        rows: list[JsonObject] = []
        for each in work.run():
            if call.is_gone():
                return
            if each is not None:
                rows.append(row_of(each))
            is_full = work.progress.found >= most
            if clock.is_due() or is_full:
                if rows:
                    yield "found", rows
                    rows = []
                yield "progress", _progress(work, clock, there)
            if is_full:
                break
        if rows:
            yield "found", rows
        yield "progress", _progress(work, clock, there)
        positions = {str(where[1]): offset for where, offset in work.positions.items()}
        yield "done", {"why": "most" if positions else "end", "positions": positions}


class _Clock:
    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._begun

    def is_due(self) -> bool:
        now = time.monotonic()
        if now - self._last < PROGRESS_S:
            return False
        self._last = now
        return True


def _go_on(begins: Mapping[Where, int], positions: Mapping[str, int] | None) -> dict[Where, int]:
    """Return the positions of an earlier search; partitions that are done are left out."""
    if positions is None:
        return dict(begins)
    return {
        where: max(begin, positions[str(where[1])])
        for where, begin in begins.items()
        if str(where[1]) in positions
    }


def _progress(work: Search, clock: _Clock, there: Reachable) -> JsonObject:
    progress: Progress = work.progress
    elapsed_s = max(clock.elapsed_s, 1e-3)
    return {
        "records": progress.records,
        "bytes": progress.bytes,
        "records_s": round(progress.records / elapsed_s),
        "bytes_s": round(progress.bytes / elapsed_s),
        "found": progress.found,
        "percent": round(work.percent, 1),
        "unsearched": progress.unsearched,
        "lost": progress.lost,
        "unreadable": progress.unreadable,
        "left_out": there.reasons,
    }


@route(
    "GET",
    "/api/topics/{topic}/export",
    "Records as lines of JSON, as raftka consume -o json prints them",
    query={**SCOPE, **FILTERS, "most": Number(LARGEST, least=1)},
    records=True,
    answer="A file, a record a line. Where something could not be read there is a last line "
    "{left_out: {...}}: unreadable (batches and records) with the first of them, lost (offsets "
    "that were deleted meanwhile), unsearched (records), partitions (why their ends were not read)",
)
def export(call: Call) -> Json:
    query, topic = call.query, call.path["topic"]
    wanted = filter_of(query)
    with call.client() as client:
        there = reachable(call, client, topic, query["partition"])
        span = range_of(client, there.read, wanted)
    decoder = decoder_of(call.settings)

    def chunks() -> Iterator[bytes]:
        left, chunk = query["most"], bytearray()
        scanner = Scanner(wanted, decoder, formats_of(query))
        partitions = there.reasons
        with call.client() as client:
            work = Search(client, span.begins, span.stops, scanner, committed=query["committed"])
            try:
                for each in work.run():
                    if call.is_gone() or not left:
                        break
                    if each is None:
                        continue
                    chunk += export_line(each, masks=decoder.has_masks)
                    left -= 1
                    if len(chunk) >= CHUNK_BYTES:
                        yield bytes(chunk)
                        chunk.clear()
            except Unreachable as error:  # the brokers of these: others were read to their ends
                partitions |= {str(each[1]): str(error) for each in work.positions}
        if missing := left_out(scanner.progress, partitions):
            chunk += left_out_line(missing)
        yield bytes(chunk)

    return Download(f"{topic}.jsonl", "application/x-ndjson", chunks())


# write


@route(
    "POST",
    "/api/topics/{topic}/records",
    "Write a record",
    body=RECORD_FIELDS,
    writes=True,
    answer="partition and offset. A key, value or header is a text, null, {base64}, or {schema_id, "
    "json} for a schema of the registry",
)
def write(call: Call) -> Json:
    topic, body = call.path["topic"], call.body
    encoded = {
        **body,
        "key": encode(call.settings, body["key"]),
        "value": encode(call.settings, body["value"]),
    }
    try:
        line = read_line(json.dumps(encoded).encode())
    except ValueError as error:
        raise refusal(f"the record{error}") from None
    with call.client() as client:
        count = len(partitions_of(client, topic))
        where = (topic, _place(line, count, topic))
        return _written(_send(client, [(where, _new(line))]))


@route(
    "POST",
    "/api/topics/{topic}/copy",
    "Copy a record to a topic, or send it again to its own",
    body={
        "partition": Field(int),
        "offset": Field(int),
        "to": Field(str),
        "to_partition": Field(int | None, None),
    },
    writes=True,
    records=True,
    answer="partition and offset of the copy",
)
def copy(call: Call) -> Json:
    """Without `to_partition` the key decides, or the partition of the record in its own topic."""
    topic, body = call.path["topic"], call.body
    with call.client() as client:
        where = (topic, _number(str(body["partition"]), "partition"))
        found = _read_one(client, call, where, _number(str(body["offset"]), "offset"))
        record: Record = found.seen.record
        target = body["to"]
        count = len(partitions_of(client, target))
        wanted = body["to_partition"]
        if wanted is None and target == topic:
            wanted = where[1]
        line = Line(record.key, record.value, list(record.headers), wanted)
        return _written(_send(client, [((target, _place(line, count, target)), _new(line))]))


@route(
    "POST",
    "/api/topics/{topic}/import",
    "Write records from lines of JSON, or show the records that would be written",
    body={"lines": Field(str), "preview": Field(bool, True)},
    writes=True,
    answer="records, bytes, partitions (records by partition), errors (line and message), first: "
    "the first records; sent: records that were written",
)
def import_lines(call: Call) -> Json:
    """Nothing is written while a line is wrong."""
    topic = call.path["topic"]
    with call.client() as client:
        count = len(partitions_of(client, topic))
        given = _Import(topic, count, call.body["lines"])
        answer: JsonObject = {
            "records": len(given.records),
            "bytes": given.bytes,
            "partitions": given.by_partition(),
            "errors": given.errors[: IMPORT_ERRORS.value],
            "wrong_lines": len(given.errors),
            "first": given.first,
            "sent": 0,
        }
        if not call.body["preview"]:
            if given.errors:
                first = given.errors[0]
                raise refusal(f"line {first['line']} {first['message']}; nothing was written")
            _send(client, given.records)
            answer["sent"] = len(given.records)
    return answer


class _Import:
    """Lines as records of a topic, and what is wrong with them."""

    def __init__(self, topic: str, partitions: int, lines: str) -> None:
        self.records: list[tuple[Where, NewRecord]] = []
        self.errors: list[JsonObject] = []
        self.first: list[str] = []
        self.bytes = 0
        for number, text in enumerate(lines.split("\n"), 1):
            if not text.strip():
                continue
            try:
                line = read_line(text.encode("utf-8", "surrogatepass"))
                where = (topic, _place(line, partitions, topic, len(self.records)))
            except (ValueError, ApiError) as error:
                self.errors.append({"line": number, "message": str(error).lstrip(": ")})
                continue
            self.records.append((where, _new(line)))
            self.bytes += len(line.key or b"") + len(line.value or b"")
            if len(self.first) < PREVIEW_RECORDS:
                self.first.append(text[:1000])

    def by_partition(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for (_, partition), _ in self.records:
            found[str(partition)] = found.get(str(partition), 0) + 1
        return found


def _new(line: Line) -> NewRecord:
    return line.key, line.value, line.headers, time.time_ns() // 1_000_000


def _place(line: Line, count: int, topic: str, number: int = 0) -> int:
    """Return the partition: the wanted one, that of the key, or by turns. Raise ApiError."""
    if line.partition is None:
        return partition_of(line.key, count) if line.key is not None else number % count
    if not 0 <= line.partition < count:
        raise ApiError(404, "UNKNOWN_PARTITION", f"{topic} has no partition {line.partition}")
    return line.partition


def _send(client: Client, records: list[tuple[Where, NewRecord]]) -> list[tuple[Where, int]]:
    """Write them all; return the place of each batch. Raise KafkaError and Unreachable; with more
    than one record the text says how many were written before.
    """
    places: list[tuple[Where, int]] = []
    producer = Producer(
        client, on_written=lambda where, offset, count: places.append((where, offset))
    )
    try:
        for where, record in records:
            producer.add(where, record)
        producer.flush()
    except KafkaError as error:
        if producer.written:
            text = f"{producer.written} of {len(records)} records were written, then: {error}"
            raise KafkaError(error.code, text) from None
        raise
    return places


def _written(places: list[tuple[Where, int]]) -> JsonObject:
    ((topic, partition), offset) = places[0]
    return {"topic": topic, "partition": partition, "offset": offset}
