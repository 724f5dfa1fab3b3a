"""The API of dead letters on a real node, as the page uses it."""

from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.console.api import dead_letters as routes_of_letters
from raftka.console.dead_letters import summary as summary_module
from raftka.console.dead_letters.jobs import Jobs
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.dead_letters import BEGIN_MS, ERROR, OWN, connect, share_group, spring, write_letters


@pytest.fixture(autouse=True)
def clean(raftka_cluster: Cluster) -> Iterator[None]:
    yield
    raftka_cluster.clean()


@pytest.fixture
def client(raftka_cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(raftka_cluster.bootstrap_servers), "test", 10.0) as client:
        yield client


@pytest.fixture
def origin(raftka_cluster: Cluster) -> str:
    return raftka_cluster.create_topic("orders", partitions=2)


@pytest.fixture
def bad(raftka_cluster: Cluster, client: Client, origin: str) -> str:
    """Five letters: three of one kind, one of another, one that tells nothing."""
    name = raftka_cluster.create_topic("orders.dlq", partitions=2)
    other = connect(origin, 0, error="java.io.IOException", message="timed out")
    write_letters(client, name, [(b"k1", b'{"id": 1}', (*OWN, *connect(origin, 1, 4)))])
    write_letters(
        client,
        name,
        [
            (b"k2", b'{"id": 2}', connect(origin, 1, 5)),
            (b"k3", b'{"id": 3}', other),
            (None, b"\xff\xfe\xfd", ()),
            (b"k5", b'{"id": 5}', connect("gone", 0, 6)),
        ],
        1,
        begin_ms=BEGIN_MS + 9_000,
    )
    return name


def path(topic: str, rest: str) -> str:
    return f"/api/dead-letters/topics/{topic}/{rest}"


def last(api: Api, address: str, **body: object) -> Json:
    with api.stream(address, method="POST", body=body) as events:
        return [each.json for each in events if each.name == "plan"][-1]


def done(api: Api, raftka_cluster: Cluster, job: Json) -> Json:
    def ended() -> Json:
        found = next(
            each
            for each in api.get("/api/dead-letters/redrives")["redrives"]
            if each["id"] == job["id"]
        )
        return found if found["state"] != "running" else None

    return raftka_cluster.wait_for(ended)


def test_topics_are_found_by_their_names(api: Api, raftka_cluster: Cluster, bad: str) -> None:
    for name in ("orders-dlt", "Orders.DLT", "my_dead_letters", "dlq.share", "orders.dlqs"):
        raftka_cluster.create_topic(name)
    found = api.get("/api/dead-letters", sort="name")

    assert [each["name"] for each in found["topics"]] == sorted(
        [bad, "orders-dlt", "Orders.DLT", "my_dead_letters", "dlq.share"]
    )
    assert (found["total"], found["missing"]) == (5, {})
    second = api.get("/api/dead-letters", sort="-name", size=2, page=2)
    assert [each["name"] for each in second["topics"]] == ["my_dead_letters", "dlq.share"]
    own = api.get("/api/dead-letters", pattern=["*.DLQS", "x"])
    assert [each["name"] for each in own["topics"]] == ["orders.dlqs"]
    assert api.get("/api/dead-letters", search="SHARE")["total"] == 1
    raftka_cluster.wait_for(
        lambda: api.get("/api/dead-letters", search=bad)["topics"][0]["letters"] == 5
    )


def test_topics_are_found_by_settings_and_headers(
    api: Api, raftka_cluster: Cluster, client: Client, origin: str
) -> None:
    for name in ("named", "headers", "plain", "empty"):
        raftka_cluster.create_topic(name, partitions=3)
    raftka_cluster.create_topic("checked", raftka_schema_validation_dead_letter_topic="named")
    write_letters(client, "headers", [(None, b"v", connect(origin))], 2)
    write_letters(client, "plain", [(None, b"v", OWN)], 1)
    with api.stream("/api/dead-letters/find") as events:
        found = list(events)

    assert {each.json["name"]: each.json["why"] for each in found if each.name == "found"} == {
        "named": "topic checked names it",
        "headers": "headers of Kafka Connect",
    }
    progress = [each.json for each in found if each.name == "progress"]
    assert progress[-1]["done"] == progress[-1]["total"]
    assert found[-1].name == "end"


def test_letters_are_counted_by_failure_and_origin(
    api: Api, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api.stream(path(bad, "summary")) as events:
        counted = [each.json for each in events][-1]
    assert (counted["letters"], counted["is_whole"]) == (5, True)
    assert {(each["kind"], each["origin"]): each["letters"] for each in counted["counts"]} == {
        (ERROR, "orders"): 2,
        ("java.io.IOException", "orders"): 1,
        (ERROR, "gone"): 1,
        ("no error is named", None): 1,
    }
    assert counted["counts"][0]["letters"] == 2
    assert (counted["counts"][0]["first_ms"], counted["counts"][0]["last_ms"]) == (
        BEGIN_MS,
        BEGIN_MS + 9_000,
    )

    monkeypatch.setattr(summary_module, "KINDS_OF_FAILURE", Limit("few", 1, "of the test"))
    with api.stream(path(bad, "summary")) as events:
        counted = [each.json for each in events][-1]
    assert len(counted["counts"]) == 2
    assert sum(each["letters"] for each in counted["counts"]) == 5


def test_pages_of_letters_are_filtered(api: Api, bad: str) -> None:
    def offsets(**query: object) -> list[tuple[int, int]]:
        found = api.get(path(bad, "letters"), **query)["letters"]
        return [(each["partition"], each["offset"]) for each in found]

    assert offsets() == [(1, 3), (1, 2), (1, 1), (1, 0), (0, 0)]
    assert offsets(kind=ERROR) == [(1, 3), (1, 0), (0, 0)]
    assert offsets(kind=ERROR, origin="orders") == [(1, 0), (0, 0)]
    assert offsets(unknown_origin="true") == [(1, 2)]
    assert offsets(search='"ID": 5') == [(1, 3)]
    assert offsets(search="TIMED") == [(1, 1)]
    first = api.get(path(bad, "letters"), size=2)
    second = api.get(path(bad, "letters"), size=10, before=first["next"])
    assert [each["offset"] for each in first["letters"]] == [3, 2]
    assert [each["offset"] for each in second["letters"]] == [1, 0, 0]
    assert second["next"] is None
    for wrong in ("1", "a:1", "1:-1", "1:²"):
        assert api.ask("GET", path(bad, "letters"), {"before": wrong}).status == 400
    assert api.ask("GET", path("nowhere", "letters")).status == 404


def test_lists_of_letters_stay_short_whatever_their_headers_hold(
    api: Api, client: Client, bad: str
) -> None:
    write_letters(client, bad, [(b"k", b"v", connect("orders", 0, error="e" * 100_000))])

    found = api.get(path(bad, "letters"), search="eeee")["letters"]
    assert [len(each["error"]) for each in found] == [300]
    whole = api.get(path(bad, f"letters/{found[0]['partition']}/{found[0]['offset']}"))
    assert len(whole["error"]) == 100_000


def test_one_letter_is_shown_in_full(api: Api, bad: str) -> None:
    found = api.get(path(bad, "letters/0/0"))

    assert found["value"] == {"kind": "json", "text": '{"id": 1}', "is_cut": False}
    assert found["origin"] == {
        "topic": "orders",
        "partition": 1,
        "offset": 4,
        "timestamp_ms": None,
    }
    assert (found["convention"], found["stack"], found["sent"]) == (
        "Kafka Connect",
        "at a.B(1)",
        None,
    )
    assert found["edit"] == {"key": "k1", "value": '{"id": 1}'}
    assert found["headers"][0] == {"name": "trace", "kind": "text", "text": "7", "is_cut": False}
    assert api.get(path(bad, "letters/1/2"))["edit"] == {"key": "", "value": None}
    for wrong, status in {"0/9": 404, "9/0": 404, "x/0": 400, "0/-1": 400}.items():
        assert api.ask("GET", path(bad, f"letters/{wrong}")).status == status


def test_a_redrive_sends_what_its_plan_has_shown_and_the_letters_say_so(
    api: Api, raftka_cluster: Cluster, client: Client, bad: str
) -> None:
    planned = last(api, path(bad, "plan"), origin="orders")
    assert (planned["letters"], planned["by_target"], planned["refused"]) == (
        3,
        {"orders": 3},
        {},
    )
    assert planned["first"][0]["target"] == "orders"
    assert [each["name"] for each in planned["first"][0]["headers"]][-3:] == [
        "raftka.redriven.from",
        "raftka.redriven.at",
        "raftka.redriven.times",
    ]
    write_letters(client, bad, [(None, b"late", connect("orders", 0))])

    job = api.post(path(bad, "redrive"), origin="orders", spans=planned["spans"])
    ended = done(api, raftka_cluster, job)
    assert (ended["state"], ended["sent"], ended["error"]) == ("done", 3, None)
    values = [each.value or b"" for each in raftka_cluster.records("orders")]
    assert sorted(values) == [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}']
    rows = api.get(path(bad, "letters"))["letters"]
    assert {(row["partition"], row["offset"]): row["sent"] for row in rows} == {
        (0, 0): "sent",
        (0, 1): None,
        (1, 0): "sent",
        (1, 1): "sent",
        (1, 2): None,
        (1, 3): None,
    }
    again = last(api, path(bad, "plan"))
    assert again["refused"] == {
        "it was sent before": 3,
        "its origin is not known: choose a topic": 1,
        "gone: UNKNOWN_TOPIC_OR_PARTITION": 1,
    }
    assert last(api, path(bad, "plan"), again="all", target="orders")["by_target"] == {"orders": 6}


def test_one_letter_is_edited_and_sent(api: Api, raftka_cluster: Cluster, bad: str) -> None:
    spans = last(api, path(bad, "plan"), offsets=[[0, 0]])["spans"]
    job = api.post(
        path(bad, "redrive"), offsets=[[0, 0]], edited={"value": '{"id": 11}'}, spans=spans
    )
    assert done(api, raftka_cluster, job)["sent"] == 1

    (found,) = raftka_cluster.records("orders")
    assert (found.key, found.value) == (b"k1", b'{"id": 11}')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"edited": {"value": "x"}}, "edited is for one letter"),
        ({"edited": {"topic": "x"}, "offsets": [[0, 0]]}, "edited has key and value"),
        ({"offsets": [[0]]}, "offsets has pairs"),
        ({"offsets": [[0, each] for each in range(1_001)]}, "1000 are allowed"),
        ({"spans": {"9": [0, 1]}}, "are no offsets of orders.dlq"),
        ({"spans": {"0": [0]}}, "are no offsets of orders.dlq"),
        ({"spans": {"x": [0, 1]}}, "is no number"),
        ({"again": "always"}, "again is nothing or in doubt or all"),
    ],
)
def test_an_order_that_cannot_be_is_refused(
    api: Api, bad: str, body: dict[str, Json], message: str
) -> None:
    answer = api.ask("POST", path(bad, "redrive"), body={"spans": {"0": [0, 1]}, **body})

    assert answer.status == 400
    assert message in answer.json["message"]
    assert api.get("/api/dead-letters/redrives", topic="none") == {"redrives": []}


def test_two_redrives_of_a_topic_do_not_run_at_once(
    api: Api, raftka_cluster: Cluster, bad: str
) -> None:
    spans = last(api, path(bad, "plan"))["spans"]
    with raftka_cluster.hold("Produce") as held:
        job = api.post(path(bad, "redrive"), spans=spans)
        raftka_cluster.wait_for(lambda: held.hits)
        answer = api.ask("POST", path(bad, "redrive"), body={"spans": spans})
        assert (answer.status, answer.json["error"]) == (409, "REDRIVE_RUNS")
        assert api.post(f"/api/dead-letters/redrives/{job['id']}/stop")["state"] == "running"
    ended = done(api, raftka_cluster, job)
    # all of them were on their way
    assert (ended["state"], ended["sent"], ended["in_doubt"]) == ("done", 3, 0)
    assert api.ask("POST", "/api/dead-letters/redrives/x/stop").status == 404


def test_a_process_stays_while_a_redrive_runs_and_a_day_after_it(
    api: Api, raftka_cluster: Cluster, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs()
    monkeypatch.setattr(routes_of_letters, "JOBS", jobs)
    assert jobs.may_end(600)
    with raftka_cluster.hold("Produce") as held:
        job = api.post(path(bad, "redrive"), spans={"1": [0, 1]})
        raftka_cluster.wait_for(lambda: held.hits)
        assert not jobs.may_end(1_000_000)
    assert done(api, raftka_cluster, job)["sent"] == 1
    assert not jobs.may_end(86_399)
    assert jobs.may_end(86_400)


def test_letters_hide_what_is_masked_and_no_filter_finds_it(
    raftka_cluster: Cluster, client: Client, origin: str
) -> None:
    bad = raftka_cluster.create_topic("masked.dlq")
    write_letters(
        client, bad, [(b"k", b'{"card": "4711", "id": 1}', (("token", b"s3"), *spring(origin, 0)))]
    )
    masked = ["card", "token", "kafka_dlt-exception-message"]
    dotted = raftka_cluster.create_topic("dotted.dlq")
    write_letters(client, dotted, [(b"k", b"v", connect(origin, 0))])
    with console_of(raftka_cluster, masked=["__connect.errors.exception.message"]) as console:
        found = Api(console.url).get(path(dotted, "letters/0/0"))
        assert "no price" not in str(found)
        assert found["message"] == "***"
    with console_of(raftka_cluster, masked=masked) as console:
        api = Api(console.url)
        full = api.get(path(bad, "letters/0/0"))
        text = str([full, api.get(path(bad, "letters")), last(api, path(bad, "plan"))])
        for secret in ("4711", "s3", "no price"):
            assert secret not in text
            assert api.get(path(bad, "letters"), search=secret)["letters"] == []
        assert full["edit"] == {"key": "k", "value": None}
        assert len(api.get(path(bad, "letters"), search='"id": 1')["letters"]) == 1
        job = api.post(path(bad, "redrive"), spans={"0": [0, 1]})
        assert done(api, raftka_cluster, job)["sent"] == 1
    (found,) = raftka_cluster.records(origin)
    assert found.value == b'{"card": "4711", "id": 1}'


def test_a_console_that_shows_no_records_shows_no_letters_and_a_read_only_one_sends_none(
    raftka_cluster: Cluster, bad: str
) -> None:
    with console_of(raftka_cluster, show_records=False) as console:
        api = Api(console.url)
        assert api.get("/api/dead-letters")["total"] == 1
        for each in ("letters", "summary", "letters/0/0"):
            assert api.ask("GET", path(bad, each)).status == 403
        assert api.ask("POST", path(bad, "plan"), body={}).status == 403
    with console_of(raftka_cluster, read_only=True) as console:
        api = Api(console.url)
        assert len(api.get(path(bad, "letters"))["letters"]) == 5
        assert last(api, path(bad, "plan"))["letters"] == 5
        answer = api.ask("POST", path(bad, "redrive"), body={"spans": {"0": [0, 1]}})
        assert answer.status == 403
    assert raftka_cluster.records("orders") == []


def test_letters_that_lack_their_content_are_planned_with_their_originals(
    api: Api, raftka_cluster: Cluster, client: Client, origin: str
) -> None:
    bad = raftka_cluster.create_topic("dlq.orders")
    write_letters(client, origin, [(b"k", b"original", OWN)], 1)
    write_letters(client, bad, [(None, None, share_group(origin, 1, 0))])
    planned = last(api, path(bad, "plan"))

    assert planned["first"][0]["value"]["text"] == "original"
    assert api.get(path(bad, "letters/0/0"))["lacks_content"]
