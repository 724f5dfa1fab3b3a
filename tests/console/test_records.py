"""Records at the console of a real cluster: look, search, export, write, copy, import."""

import json
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.client.blocking.transaction import begin, end
from raftka.client.json_lines import read_line
from raftka.json_values import Json
from raftka.limits import HEADERS_OF_RECORD
from raftka.testing import Cluster
from raftka.wire.records import NewRecord
from tests.kit.console import Api, console_of


@pytest.fixture
def client(raftka_cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(raftka_cluster.bootstrap_servers), "test", 20.0) as client:
        yield client


def record(
    value: str | bytes | None, key: str | None = None, time: int = 0, **headers: str
) -> NewRecord:
    data = value.encode() if isinstance(value, str) else value
    return (
        None if key is None else key.encode(),
        data,
        [(name, content.encode()) for name, content in headers.items()],
        time,
    )


def write(client: Client, topic: str, by_partition: Mapping[int, list[NewRecord]]) -> None:
    producer = Producer(client)
    for partition, records in by_partition.items():
        for each in records:
            producer.add((topic, partition), each)
    producer.flush()


def read(client: Client, topic: str, count: int, partition: int = 0) -> list[FetchedRecord]:
    reader, found = Reader(client, {(topic, partition): 0}), list[FetchedRecord]()
    while len(found) < count:
        found += reader.poll(1.0, 100)
    reader.close()
    return found


def places(page: Json) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in page["records"]]


def values(records: list[Json]) -> list[str]:
    return [each["value"]["text"] for each in records]


class Search:
    """A search, read to its end."""

    def __init__(
        self,
        api: Api,
        topic: str,
        query: Mapping[str, object],
        positions: Mapping[str, int] | None = None,
    ) -> None:
        body = {} if positions is None else {"positions": positions}
        self.records: list[Json] = []
        self.progress: list[Json] = []
        self.done: Json = None
        with api.stream(f"/api/topics/{topic}/search", query, "POST", body) as events:
            for name, found in events:
                if name == "found":
                    self.records += found
                elif name == "progress":
                    self.progress.append(found)
                elif name == "done":
                    self.done = found
                else:
                    raise AssertionError((name, found))

    @property
    def values(self) -> list[str]:
        return sorted(values(self.records))


# look


def test_the_last_records_of_all_partitions_come_newest_first(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    topic = raftka_cluster.create_topic(partitions=3, retention_ms=-1)
    written = {
        partition: [record(f"{time}", time=time) for time in range(partition, 30, 3)]
        for partition in range(3)
    }
    write(client, topic, written)

    page = api.get(f"/api/topics/{topic}/records", size=12)
    assert values(page["records"]) == [str(time) for time in range(29, 17, -1)]
    assert page["newer"] is None
    shown = values(page["records"])
    while page["older"] is not None:
        page = api.get(f"/api/topics/{topic}/records", size=12, at=page["older"], back="true")
        shown += values(page["records"])
    assert shown == [str(time) for time in range(29, -1, -1)]
    assert page["ends"] == {"0": 10, "1": 10, "2": 10}

    # and forwards again
    shown = []
    page = api.get(f"/api/topics/{topic}/records", size=12, at="begin")
    while True:
        shown += values(page["records"])
        if page["newer"] is None:
            break
        page = api.get(f"/api/topics/{topic}/records", size=12, at=page["newer"])
    assert shown == [str(time) for time in range(30)]


def test_a_page_begins_at_an_offset_or_a_time(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    topic = raftka_cluster.create_topic(partitions=2, retention_ms=-1)
    write(client, topic, {0: [record(f"{time}", time=time) for time in range(10)]})
    write(client, topic, {1: [record(f"{time}", time=time) for time in range(10, 20)]})

    def look(**query: object) -> list[tuple[int, int]]:
        return places(api.get(f"/api/topics/{topic}/records", **query))

    assert look(at="offset:8") == [(0, 8), (0, 9), (1, 8), (1, 9)]
    assert look(at="time:8") == [(0, 8), (0, 9), *((1, offset) for offset in range(10))]
    assert look(at="offset:8", partition=1) == [(1, 8), (1, 9)]
    assert look(at="offset:3", back="true", partition=0) == [(0, 2), (0, 1), (0, 0)]


def test_a_page_steps_back_over_offsets_that_no_consumer_sees(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, {0: [record("first"), record("second")]})
    for _ in range(12):
        identity = begin(client, f"of-{topic}", 60_000)
        producer = Producer(client, identity=identity)
        producer.add((topic, 0), record("aborted"))
        producer.flush()
        end(client, identity, commit=False)

    page = api.get(f"/api/topics/{topic}/records", size=2)
    assert values(page["records"]) == ["second", "first"]
    assert page["older"] is None
    page = api.get(f"/api/topics/{topic}/records", committed="false", size=3)
    assert values(page["records"]) == ["aborted"] * 3
    page = api.get(f"/api/topics/{topic}/records", at="offset:2")
    assert (page["records"], page["newer"]) == ([], None)


@pytest.mark.parametrize("at", ["begin", "end"])
def test_record_that_cannot_be_read_is_named_and_hides_no_other(
    raftka_cluster: Cluster, client: Client, api: Api, at: str
) -> None:
    topic = raftka_cluster.create_topic(partitions=1)
    many = [(str(each), b"") for each in range(HEADERS_OF_RECORD.value + 1)]
    write(client, topic, {0: [record("a"), (None, b"b", many, 0), record("c")]})
    reason = f"{topic}-0@1: a record with {len(many)} headers"

    page = api.get(f"/api/topics/{topic}/records", at=at)
    search = Search(api, topic, {})

    assert sorted(values(page["records"])) == values(search.records) == ["a", "c"]
    assert page["unreadable"] == search.progress[-1]["unreadable"] == [reason]


def test_one_record_is_shown_as_a_whole(raftka_cluster: Cluster, client: Client, api: Api) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    long = json.dumps({"text": "x" * 5000})
    write(client, topic, {0: [record(None), record(long, "k", 7, trace="1"), record("three")]})

    in_list = api.get(f"/api/topics/{topic}/records")["records"][1]
    assert (len(in_list["value"]["text"]), in_list["value"]["cut"]) == (2000, True)
    shown = api.get(f"/api/topics/{topic}/records/0/1")
    assert shown == {
        "partition": 0,
        "offset": 1,
        "timestamp": 7,
        "size": len(long) + 2,
        "key": {"kind": "text", "text": "k", "size": 1},
        "value": {"kind": "json", "text": long, "size": len(long)},
        "headers": [{"name": "trace", "kind": "text", "text": "1", "size": 1}],
        "more_headers": 0,
    }
    tombstone = api.get(f"/api/topics/{topic}/records/0/0")["value"]
    assert tombstone == {"kind": "null", "text": "", "size": None}
    as_hex = api.get(f"/api/topics/{topic}/records/0/2", value_as="hex")["value"]
    assert as_hex == {"kind": "hex", "text": b"three".hex(), "size": 5}
    for path, status in (
        ("0/3", 404),
        ("1/0", 404),
        ("0/x", 400),
        ("0/9223372036854775807", 404),
        ("x/0", 400),
    ):
        assert api.ask("GET", f"/api/topics/{topic}/records/{path}").status == status, path


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("at=somewhere", 400),
        ("at=at:1.2.3", 400),
        ("at=at:-1", 400),
        ("at=time:-1", 400),
        ("size=0", 400),
        ("size=201", 400),
        ("partition=7", 404),
        ("value_as=xml", 400),
    ],
)
def test_places_that_are_none_are_refused(
    raftka_cluster: Cluster, api: Api, query: str, status: int
) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    name, _, value = query.partition("=")
    assert api.ask("GET", f"/api/topics/{topic}/records", {name: value}).status == status


def test_a_topic_that_is_not_there_is_named(api: Api) -> None:
    answer = api.ask("GET", "/api/topics/nowhere-x/records")
    assert answer.status == 404
    assert "nowhere-x" in answer.json["message"]


# search


@pytest.fixture(scope="module")
def searched(raftka_cluster: Cluster) -> str:
    topic = raftka_cluster.create_topic(partitions=3, retention_ms=-1)
    with Client(addresses_of(raftka_cluster.bootstrap_servers), "test", 20.0) as client:
        write(
            client,
            topic,
            {
                partition: [
                    record(
                        json.dumps({"id": number, "city": {"name": f"City {number % 5}"}}),
                        f"key-{number}",
                        1000 + number,
                        trace=f"t{number % 7}",
                    )
                    for number in range(partition, 300, 3)
                ]
                for partition in range(3)
            },
        )
    return topic


def ids(search: Search) -> list[int]:
    return sorted(json.loads(each["value"]["text"])["id"] for each in search.records)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"text": '"id": 17,'}, [17]),
        ({"text": "CITY 3", "place": "value"}, list(range(3, 300, 5))),
        ({"text": "CITY 3", "case": "true"}, []),
        ({"text": "key-29", "place": "key"}, [29, *range(290, 300)]),
        ({"text": "key-29", "place": "value"}, []),
        ({"text": "key-2[0-3]$", "regex": "true", "place": "key"}, [20, 21, 22, 23]),
        ({"header": "trace=t5"}, list(range(5, 300, 7))),
        ({"path": "$.id >= 297"}, [297, 298, 299]),
        ({"path": '$.city.name == "City 4"', "from_ms": 1290}, [294, 299]),
        ({"from_ms": 1010, "to_ms": 1012}, [10, 11, 12]),
        ({"text": "key-1", "place": "key", "partition": 1, "to_ms": 1020}, [1, 10, 13, 16, 19]),
    ],
)
def test_a_search_finds_what_its_filters_want(
    searched: str, api: Api, query: dict[str, object], expected: list[int]
) -> None:
    found = Search(api, searched, {"most": 1000, **query})

    assert ids(found) == expected
    assert found.done == {"why": "end", "positions": {}}
    last = found.progress[-1]
    assert (last["percent"], last["found"], last["unsearched"]) == (100.0, len(expected), 0)
    assert last["records"] == (100 if "partition" in query else 300)


def test_two_paths_must_both_hold(searched: str, api: Api) -> None:
    def found(*paths: str) -> list[int]:
        query = [("path", path) for path in paths]
        with api.stream(f"/api/topics/{searched}/search", query, "POST", {}) as events:
            rows = [row for each in list(events) if each.name == "found" for row in each.json]
        return sorted(json.loads(row["value"]["text"])["id"] for row in rows)

    assert found("$.id < 10", '$.city.name contains "3"') == [3, 8]
    assert found("$.id < 10", "$.city.name contains 3") == []


def test_a_search_goes_on_behind_the_first_hits(searched: str, api: Api) -> None:
    found, positions, done = list[int](), None, None
    rounds = 0
    while done is None or done["why"] == "most":
        search = Search(api, searched, {"text": "City 3", "most": 7}, positions)
        found += ids(search)
        done, positions = search.done, search.done["positions"]
        rounds += 1
        assert len(search.records) <= 7
    assert sorted(found) == list(range(3, 300, 5))
    assert rounds == 9


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"text": "(", "regex": "true"}, "no regular expression"),
        ({"path": "id = 1"}, "begins with"),
        ({"header": "=x"}, "NAME=VALUE"),
        ({"from_ms": 2, "to_ms": 1}, "ends before it begins"),
        ({"place": "nowhere"}, "place is"),
        ({"most": 0}, "most is"),
    ],
)
def test_a_search_that_cannot_be_is_refused(
    searched: str, api: Api, query: dict[str, object], why: str
) -> None:
    answer = api.ask("POST", f"/api/topics/{searched}/search", query, {})
    assert answer.status == 400
    assert why in answer.json["message"]


def test_a_search_ends_when_its_page_leaves(
    raftka_cluster: Cluster, client: Client, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop is far behind what is written: without an end the search would go on."""
    from threading import Event

    from raftka.console.search import scan

    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, {0: [record("x")] * 10})
    ended = Event()
    run = scan.Search.run

    def endless(self: scan.Search) -> Iterator[scan.Found | None]:
        try:
            yield from run(self)
            while True:
                yield None
        finally:
            ended.set()

    monkeypatch.setattr(scan.Search, "run", endless)
    events = api.stream(f"/api/topics/{topic}/search", {"text": "x"}, "POST", {})
    assert events.next() is not None
    assert not ended.is_set()
    events.close()
    assert ended.wait(30)


# masks


@pytest.fixture
def masking(raftka_cluster: Cluster) -> Iterator[Api]:
    with console_of(raftka_cluster, masked=("ssn", "$.card.number")) as console:
        yield Api(console.url)


SECRETS = {"ssn": "needle-1", "card": {"number": [4711, {"x": "needle-2"}], "name": "shown-1"}}


def test_masked_fields_are_not_shown_found_or_exported(
    raftka_cluster: Cluster, client: Client, masking: Api
) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    values_: list[str | bytes] = [
        json.dumps(SECRETS),
        json.dumps([{"inside": json.dumps(SECRETS)}]),
        "ssn=needle-3",
        '{"ssn": "needle-4"',
        b"\x81\xa3ssn\xa8needle-5",
        b"\x00\x00\x00\x00\x01needle-6\xff",
        "plain",
    ]
    write(client, topic, {0: [record(value) for value in values_]})
    write(client, topic, {0: [record("v", json.dumps(SECRETS), ssn="needle-7", other="shown-2")]})

    answers = [
        masking.ask("GET", f"/api/topics/{topic}/records", {"key_as": form, "value_as": form}).body
        for form in ("auto", "text", "hex", "json", "msgpack")
    ]
    answers += [
        masking.ask("GET", f"/api/topics/{topic}/records/0/{offset}", {"value_as": form}).body
        for offset in range(8)
        for form in ("auto", "text", "hex", "json", "msgpack")
    ]
    answers.append(masking.ask("GET", f"/api/topics/{topic}/export").body)
    for answer in answers:
        assert b"needle" not in answer
        assert b"needle".hex().encode() not in answer
        assert b"4711" not in answer
        assert b"error" not in answer
    assert b"shown-1" in answers[0]
    assert b"shown-2" in answers[0]

    for wanted in (
        {"text": "needle"},
        {"text": "n.?eedle", "regex": "true"},
        {"path": '$.ssn contains "needle"'},
        {"path": "$.card.number[0] == 4711"},
        {"header": "ssn=needle-7"},
        {"text": "4711"},
    ):
        for form in ("auto", "text", "hex"):
            found = Search(masking, topic, {**wanted, "key_as": form, "value_as": form})
            assert found.records == [], wanted
    assert len(Search(masking, topic, {"text": "shown-1"}).records) == 2
    assert len(Search(masking, topic, {"text": "plain"}).records) == 1
    assert len(Search(masking, topic, {"path": '$.ssn == "***"'}).records) == 2


# export, write, copy, import


def test_an_export_is_what_produce_and_import_read(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    source, target = (
        raftka_cluster.create_topic(partitions=2, retention_ms=-1),
        raftka_cluster.create_topic(retention_ms=-1),
    )
    write(client, source, {0: [record("one", "k", h="1"), record(None, "gone")]})
    write(client, source, {1: [record(b"\xff\x00", "b"), record("two")]})

    answer = api.ask("GET", f"/api/topics/{source}/export")
    assert f'filename="{source}.jsonl"' in answer.headers["content-disposition"]
    lines = answer.body.decode()
    assert len([read_line(line.encode()) for line in lines.splitlines()]) == 4
    filtered = api.ask("GET", f"/api/topics/{source}/export", {"text": "two"}).body
    assert json.loads(filtered)["value"] == "two"
    assert api.ask("GET", f"/api/topics/{source}/export", {"most": 3}).body.count(b"\n") == 3

    # partitions of the lines that the target has not
    moved = lines.replace('"partition": 1', '"partition": 0')
    preview = api.post(f"/api/topics/{target}/import", lines=moved, preview=True)
    assert (preview["records"], preview["errors"], preview["sent"]) == (4, [], 0)
    assert preview["partitions"] == {"0": 4}
    assert client.offsets({(target, 0): -1})[target, 0] == 0
    assert api.post(f"/api/topics/{target}/import", lines=moved, preview=False)["sent"] == 4
    assert {(each.key, each.value, tuple(each.headers)) for each in read(client, target, 4)} == {
        (b"k", b"one", (("h", b"1"),)),
        (b"gone", None, ()),
        (b"b", b"\xff\x00", ()),
        (None, b"two", ()),
    }


def test_wrong_lines_are_named_and_nothing_is_written(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    topic = raftka_cluster.create_topic(partitions=2, retention_ms=-1)
    lines = '{"value": "x"}\n\nno\n{"value": "x", "partition": 2}\n{"valu": 1}\n'

    answer = api.post(f"/api/topics/{topic}/import", lines=lines, preview=True)
    assert (answer["records"], answer["wrong_lines"]) == (1, 3)
    assert [each["line"] for each in answer["errors"]] == [3, 4, 5]
    assert "no partition 2" in answer["errors"][1]["message"]
    refused = api.ask("POST", f"/api/topics/{topic}/import", (), {"lines": lines, "preview": False})
    assert refused.status == 400
    assert "line 3" in refused.json["message"]
    assert client.offsets({(topic, 0): -1, (topic, 1): -1}) == {(topic, 0): 0, (topic, 1): 0}


def test_a_record_is_written(raftka_cluster: Cluster, client: Client, api: Api) -> None:
    topic = raftka_cluster.create_topic(partitions=3, retention_ms=-1)

    answer = api.post(
        f"/api/topics/{topic}/records",
        key="k",
        value={"base64": "/wA="},
        headers=[["a", "1"], ["b", None]],
        partition=2,
    )
    assert answer == {"topic": topic, "partition": 2, "offset": 0}
    (written,) = read(client, topic, 1, 2)
    assert (written.key, written.value) == (b"k", b"\xff\x00")
    assert list(written.headers) == [("a", b"1"), ("b", None)]
    tombstone = api.post(f"/api/topics/{topic}/records", key="k", value=None)
    records = read(client, topic, tombstone["offset"] + 1, tombstone["partition"])
    assert (records[-1].key, records[-1].value) == (b"k", None)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"value": 5}, 400),
        ({"value": {"base64": "%"}}, 400),
        ({"value": {"base65": ""}}, 400),
        ({"value": "x", "partition": 9}, 404),
        ({"value": "x", "headers": [["a"]]}, 400),
        ({"value": {"schema_id": 1, "json": {}}}, 409),
        ({"value": "x", "topic": "other"}, 400),
    ],
)
def test_what_is_no_record_is_refused(
    raftka_cluster: Cluster, api: Api, body: Json, status: int
) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    assert api.ask("POST", f"/api/topics/{topic}/records", (), body).status == status


def test_a_record_is_copied_and_sent_again(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    source, target = (
        raftka_cluster.create_topic(partitions=2, retention_ms=-1),
        raftka_cluster.create_topic(retention_ms=-1),
    )
    write(client, source, {1: [record("one"), record(b"\xfe", "k", h="1")]})

    path = f"/api/topics/{source}/copy"
    assert api.post(path, partition=1, offset=1, to=target) == {
        "topic": target,
        "partition": 0,
        "offset": 0,
    }
    (copied,) = read(client, target, 1)
    assert (copied.key, copied.value, list(copied.headers)) == (b"k", b"\xfe", [("h", b"1")])
    assert api.post(path, partition=1, offset=0, to=source)["partition"] == 1
    assert api.post(path, partition=1, offset=0, to=source, to_partition=0)["partition"] == 0
    for body, status in (
        ({"partition": 1, "offset": 9, "to": target}, 404),
        ({"partition": 1, "offset": 0, "to": "nowhere-x"}, 404),
        ({"partition": -1, "offset": 0, "to": target}, 400),
    ):
        assert api.ask("POST", path, (), body).status == status, body


def test_switches_of_the_console(raftka_cluster: Cluster, client: Client) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    write(client, topic, {0: [record("x")]})
    with console_of(raftka_cluster, read_only=True) as console:
        api = Api(console.url)
        assert values(api.get(f"/api/topics/{topic}/records")["records"]) == ["x"]
        for verb, body in (
            ("records", {"value": "x"}),
            ("copy", {"partition": 0, "offset": 0, "to": topic}),
            ("import", {"lines": ""}),
        ):
            assert api.ask("POST", f"/api/topics/{topic}/{verb}", (), body).status == 403
    with console_of(raftka_cluster, show_records=False) as console:
        api = Api(console.url)
        for method, verb in (("GET", "records"), ("GET", "records/0/0"), ("GET", "export")):
            assert api.ask(method, f"/api/topics/{topic}/{verb}").status == 403
        assert api.ask("POST", f"/api/topics/{topic}/search", (), {}).status == 403
        copy = {"partition": 0, "offset": 0, "to": topic}
        assert api.ask("POST", f"/api/topics/{topic}/copy", (), copy).status == 403


# schemas


def test_records_with_a_schema_are_written_shown_and_found(
    raftka_cluster: Cluster, client: Client
) -> None:
    topic = raftka_cluster.create_topic(partitions=1, retention_ms=-1)
    states = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
    fields = [{"name": "id", "type": "long"}, {"name": "state", "type": states}]
    schema = {"type": "record", "name": "Order", "fields": fields}
    with (
        raftka_cluster.registry() as registry,
        console_of(raftka_cluster, registry=registry.url) as console,
    ):
        request = urllib.request.Request(
            f"{registry.url}/subjects/{topic}-value/versions",
            json.dumps({"schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            schema_id = json.load(answer)["id"]
        api = Api(console.url)
        for number, state in enumerate(["NEW", "PAID"]):
            value = {"schema_id": schema_id, "json": {"id": number, "state": state}}
            api.post(f"/api/topics/{topic}/records", value=value)
        write(client, topic, {0: [record("PAID, as a text")]})

        page = api.get(f"/api/topics/{topic}/records", at="begin")
        shown = [each["value"]["kind"] for each in page["records"]]
        assert shown == ["avro", "avro", "text"]
        assert page["records"][0]["value"]["schema_id"] == schema_id
        # the name of the state stands in the schema alone
        assert Search(api, topic, {"text": "paid"}).values == [
            "PAID, as a text",
            '{"id": 1, "state": "PAID"}',
        ]
        assert len(Search(api, topic, {"path": '$.state == "PAID"'}).records) == 1
        refused = {"value": {"schema_id": schema_id, "json": {"id": "x", "state": "NEW"}}}
        assert api.ask("POST", f"/api/topics/{topic}/records", (), refused).status == 400
