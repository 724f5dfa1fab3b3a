"""Dead letters: their topics, counts by failure and origin, single letters, and redrives."""

from collections.abc import Iterator, Mapping
from typing import Literal

from raftka.client.blocking.client import Where
from raftka.console.call import ApiError, Call, Event
from raftka.console.dead_letters.finding import PATTERNS, find_more, matching
from raftka.console.dead_letters.jobs import JOBS
from raftka.console.dead_letters.letters import Letter, read_letter
from raftka.console.dead_letters.reading import read_forward, read_page
from raftka.console.dead_letters.redrive import Again, Order, Plan, plan_redrive
from raftka.console.dead_letters.selection import Filter, Spans, spans_of, within
from raftka.console.dead_letters.shown import Lens, origin_of
from raftka.console.dead_letters.summary import Summary
from raftka.console.decoding.registry import decoder_of
from raftka.console.errors import UNREACHABLE
from raftka.console.limits import CHOSEN_LETTERS, EXAMINED_LETTERS
from raftka.console.parameters import Choice, Field, Flag, Number, Parameter, Text, Texts, refusal
from raftka.console.routes import route
from raftka.console.rows import missing_nodes, paged, rows_of_page
from raftka.console.search.asked import reachable
from raftka.json_values import Json, JsonObject

SHOWN_OF_PLAN = 5

FILTER: dict[str, Parameter] = {
    "kind": Text(None),
    "origin": Text(None),
    "unknown_origin": Flag(),
    "search": Text(""),
}
ORDER = {
    "kind": Field(str | None, None),
    "origin": Field(str | None, None),
    "unknown_origin": Field(bool, False),
    "search": Field(str, ""),
    "offsets": Field(list[list[int]], []),
    "target": Field(str | None, None),
    "again": Field(Literal["nothing", "in doubt", "all"], "nothing"),
    "edited": Field(dict[str, str | None], {}),
}
SORTS = ("name", "-name", "letters", "-letters", "rate", "-rate", "size", "-size")


@route(
    "GET",
    "/api/dead-letters",
    "Topics of dead letters, found by their names",
    query={
        "pattern": Texts(),
        "search": Text(""),
        "sort": Choice("-letters", SORTS),
        **paged(),
    },
    answer="The topics of a page, with records, bytes and records a second as far as known",
)
def dead_letter_topics(call: Call) -> Json:
    patterns = tuple(call.query["pattern"]) or PATTERNS
    metadata, overview = call.view.metadata(), call.view.overview()
    search = call.query["search"].casefold()
    rows: list[JsonObject] = []
    for name, topic in metadata.topics.items():
        pattern = matching(name, patterns)
        if pattern is None or search not in name.casefold():
            continue
        rows.append(
            {
                "name": name,
                "pattern": pattern,
                "partitions": len(topic.partitions),
                "letters": _of(overview.messages, name),
                "size": _of(overview.sizes and overview.sizes.by_topic, name),
                "rate": _of(overview.ends and overview.ends.rates_by_topic, name),
            }
        )
    sort = call.query["sort"]
    key, is_descending = sort.removeprefix("-"), sort.startswith("-")
    rows.sort(key=lambda row: row["name"])
    rows.sort(key=lambda row: row[key] if row[key] is not None else -1, reverse=is_descending)
    return {
        "topics": rows_of_page(rows, call.query["page"], call.query["size"]),
        "total": len(rows),
        "patterns": patterns,
        "pending": overview.pending,
        "missing": missing_nodes(call.view.missing),
    }


def _of(values: Mapping[str, float] | None, name: str) -> float | None:
    return None if values is None else values.get(name)


@route(
    "GET",
    "/api/dead-letters/find",
    "Further topics of dead letters, by settings that name them and by headers of their records",
    query={"pattern": Texts()},
    records=True,
    stream=True,
    answer="Events progress {done, total} and found {name, why}, then end",
)
def find_topics(call: Call) -> Iterator[Event]:
    patterns = tuple(call.query["pattern"]) or PATTERNS
    call.view.forget()  # the user asks now, perhaps for a topic that has just been made
    topics = call.view.metadata().topics
    others = [
        name
        for name, topic in sorted(topics.items())
        if not topic.internal and topic.error is None and matching(name, patterns) is None
    ]
    groups = [each.group_id for each in call.view.groups().of.values() if each.type == "share"]
    with call.client() as client:
        for done, total, found in find_more(client, others, groups, call.is_gone):
            for each in found:
                if each.topic in topics:
                    yield "found", {"name": each.topic, "why": each.why}
            yield "progress", {"done": done, "total": total}
    yield "end", {}


@route(
    "GET",
    "/api/dead-letters/topics/{topic}/summary",
    "Letters of a topic, counted by failure and origin",
    query={**FILTER},
    records=True,
    stream=True,
    answer="Events summary with the counts so far, done and total; the last has is_whole, "
    "and in left_out the partitions that could not be read",
)
def summary(call: Call) -> Iterator[Event]:
    wanted, counted = _filter_of(call.query, call), Summary()
    with call.client() as client:
        there = reachable(call, client, call.path["topic"])
        spans = spans_of(client, call.path["topic"], there.read)
        yield "summary", counted.as_json(0, sum(end - begin for begin, end in spans.values()))
        for forward, records in read_forward(client, spans, call.is_gone):
            for letter in map(read_letter, records):
                if wanted.matches(letter):
                    counted.add(wanted.lens.look_at(letter))
            if counted.is_due(forward.is_over):
                yield "summary", counted.as_json(forward.done, forward.total)
    yield "summary", {**counted.as_json(1, 1), "is_whole": True, "left_out": there.reasons}


@route(
    "GET",
    "/api/dead-letters/topics/{topic}/letters",
    "Letters of a topic, the newest first",
    query={
        **FILTER,
        "before": Text(""),
        "size": Number(50, least=1, most=200),
    },
    records=True,
    answer="Letters, and where the next page begins; a page may be short when a filter matches few",
)
def letters(call: Call) -> Json:
    topic, wanted = call.path["topic"], _filter_of(call.query, call)
    with call.client() as client:
        there = reachable(call, client, topic)
        spans = spans_of(client, topic, there.read)
        page = read_page(
            client,
            spans,
            _before_of(topic, call.query["before"]),
            wanted,
            call.query["size"],
            EXAMINED_LETTERS.value,
            call.is_gone,
        )
        key = client.topic_id(topic) or topic
    return {
        "letters": [_with_sent(wanted.lens.brief(each), each, key) for each in page.letters],
        "next": None if page.is_last else _before_text(page.before),
        "examined": page.examined,
        "missing": missing_nodes(there.missing),
    }


def _with_sent(row: JsonObject, letter: Letter, key: str) -> JsonObject:
    place = (letter.record.partition, letter.record.offset)
    sent = "sent" if JOBS.sent.was_sent(key, *place) else None
    return {**row, "sent": sent or ("in doubt" if JOBS.sent.is_in_doubt(key, *place) else None)}


def _before_text(before: Mapping[Where, int]) -> str:
    return ",".join(f"{partition}:{offset}" for (_, partition), offset in sorted(before.items()))


def _before_of(topic: str, text: str) -> dict[Where, int]:
    found = {}
    for pair in filter(None, text.split(",")):
        partition, _, offset = pair.partition(":")
        if not (partition.isascii() and partition.isdigit() and len(partition) < 10):
            raise refusal("before is PARTITION:OFFSET,... as the page before it had it in next")
        if not (offset.isascii() and offset.isdigit() and len(offset) < 20):
            raise refusal("before is PARTITION:OFFSET,... as the page before it had it in next")
        found[topic, int(partition)] = int(offset)
    return found


@route(
    "GET",
    "/api/dead-letters/topics/{topic}/letters/{partition}/{offset}",
    "One letter in full",
    records=True,
    answer="The letter with its failure, stack, headers, and the texts that may be edited",
)
def one_letter(call: Call) -> Json:
    topic, lens = call.path["topic"], _lens_of(call)
    place = (_number_of(call.path["partition"]), _number_of(call.path["offset"]))
    with call.client() as client:
        there = reachable(call, client, topic)
        if why := there.left_out.get((topic, place[0])):
            raise ApiError(503, UNREACHABLE, f"{topic}-{place[0]}: {why}")
        spans = within(spans_of(client, topic, there.read), Filter(offsets=frozenset({place})))
        key = client.topic_id(topic) or topic
        for _, records in read_forward(client, spans, call.is_gone):
            for record in records:
                letter = read_letter(record)
                return _with_sent(lens.full(letter), letter, key)
    raise ApiError(404, "NOT_FOUND", f"{topic}-{place[0]} has no record at offset {place[1]}")


def _number_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise refusal(f"{text[:40]!r} is no number of a partition or an offset")
    return int(text)


# redrives


@route(
    "POST",
    "/api/dead-letters/topics/{topic}/plan",
    "The records that a redrive would send",
    body=ORDER,
    records=True,
    stream=True,
    answer="Events plan with counts by target and by reason, the first records as they would be, "
    "and spans: the offsets that the redrive is to be given",
)
def plan(call: Call) -> Iterator[Event]:
    with call.client() as client:
        order = _order_of(call, spans_of(client, call.path["topic"]))
        found = None
        for found, done, total in plan_redrive(
            client, order, JOBS.sent, SHOWN_OF_PLAN, call.is_gone
        ):
            yield "plan", {**_plan_json(found, order), "done": done, "total": total}
        if found is not None:
            yield "plan", {**_plan_json(found, order), "is_whole": True}


def _plan_json(found: Plan, order: Order) -> JsonObject:
    lens = order.wanted.lens
    return {
        "letters": found.letters,
        "by_target": dict(found.by_target),
        "refused": dict(found.refused),
        "bytes": found.bytes,
        "first": [
            {
                **lens.brief(each.letter),
                **lens.content(each.record[0], each.record[1]),
                "target": each.where[0],
                "target_partition": each.where[1],
                "headers": lens.headers(each.record[2]),
            }
            for each in found.first
        ],
        "first_refused": [
            {
                "partition": each.letter.record.partition,
                "offset": each.letter.record.offset,
                "origin": origin_of(lens.look_at(each.letter)),
                "reason": each.reason,
            }
            for each in found.first_refused
        ],
        "spans": {str(partition): list(span) for (_, partition), span in order.spans.items()},
    }


@route(
    "POST",
    "/api/dead-letters/topics/{topic}/redrive",
    "Send letters again",
    body={**ORDER, "spans": Field(dict[str, list[int]])},
    writes=True,
    answer="The redrive, which goes on: GET /api/dead-letters/redrives tells how far it is",
)
def redrive(call: Call) -> Json:
    topic = call.path["topic"]
    with call.client() as client:
        whole = spans_of(client, topic)
    spans = {}
    for name, span in call.body["spans"].items():
        where = (topic, _number_of(name))
        if where not in whole or len(span) != 2 or not 0 <= span[0] <= span[1]:
            raise refusal(f"spans: {name}: {span[:3]} are no offsets of {topic}, as plan has them")
        begin, end = whole[where]
        spans[where] = (min(max(begin, span[0]), end), min(span[1], end))
    order = _order_of(call, spans)
    return JOBS.start(order, call.session, _cluster(call)).as_json()


@route(
    "GET",
    "/api/dead-letters/redrives",
    "Redrives of this user",
    query={"topic": Text("")},
    answer="Redrives that run and that have ended, the newest first",
)
def redrives(call: Call) -> Json:
    topic, jobs = call.query["topic"], JOBS.of(call.session.user, _cluster(call))
    return {
        "redrives": [
            each.as_json() for each in jobs if not topic or each.redrive.order.topic == topic
        ]
    }


@route(
    "POST",
    "/api/dead-letters/redrives/{id}/stop",
    "End a redrive; records on their way arrive",
    writes=True,
    answer="The redrive",
)
def stop_redrive(call: Call) -> Json:
    return JOBS.stop(call.path["id"], call.session.user, _cluster(call)).as_json()


def _cluster(call: Call) -> str:
    return ",".join(f"{host}:{port}" for host, port in call.settings.bootstrap)


def _lens_of(call: Call) -> Lens:
    return Lens(call.settings.masked, decoder_of(call.settings))


def _filter_of(given: Mapping[str, Json], call: Call) -> Filter:
    offsets: list[list[int]] = given.get("offsets") or []
    if len(offsets) > CHOSEN_LETTERS.value:
        raise refusal(f"offsets names {len(offsets)} letters, {CHOSEN_LETTERS.value} are allowed")
    if any(len(each) != 2 for each in offsets):
        raise refusal("offsets has pairs: [partition, offset]")
    return Filter(
        given["kind"],
        "" if given["unknown_origin"] else given["origin"],
        given["search"],
        frozenset((partition, offset) for partition, offset in offsets),
        _lens_of(call),
    )


def _order_of(call: Call, spans: Spans) -> Order:
    wanted, edited = _filter_of(call.body, call), call.body["edited"]
    if unknown := sorted(edited.keys() - {"key", "value"}):
        raise refusal(f"edited has key and value, not {unknown[0][:40]!r}")
    if edited and len(wanted.offsets) != 1:
        raise refusal("edited is for one letter: offsets has to name it")
    return Order(
        call.path["topic"],
        spans,
        wanted,
        call.body["target"] or None,
        Again(call.body["again"]),
        {name: None if text is None else text.encode() for name, text in edited.items()},
    )
