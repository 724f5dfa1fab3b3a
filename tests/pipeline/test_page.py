"""The page: what it keeps, what it answers, and that it follows its topics over a restart. No Spark
and no browser.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.client.blocking import transaction
from raftka.client.blocking.producer import Producer
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import Shown
from raftka.pipeline.page import HTML, Kept, ProjectPage
from raftka.pipeline.project import PROJECTS
from raftka.pipeline.topics.source import Stream
from raftka.testing import Cluster
from tests.pipeline.page_requests import ask
from tests.pipeline.players import Player


def test_only_newer_entries_are_sent() -> None:
    kept = Kept()
    kept.position("a", {"latitude": 1})
    kept.position("b", {"latitude": 2})
    seen = kept.since(0)
    kept.position("a", {"latitude": 3})
    assert kept.since(2)["positions"] == {"a": {"latitude": 3}}
    kept.alert({"event": "ENTER"})
    kept.position("b", None)

    assert seen == {
        "number": 2,
        "positions": {"a": {"latitude": 1}, "b": {"latitude": 2}},
        "alerts": [],
        "trouble": None,
    }
    assert kept.since(2) == {
        "number": 5,
        "positions": {"a": {"latitude": 3}, "b": None},
        "alerts": [{"event": "ENTER"}],
        "trouble": None,
    }
    assert kept.since(5)["positions"] == {}


def test_it_does_not_grow_for_ever() -> None:
    kept = Kept(keys=2)
    for at in range(500):
        kept.position(f"k{at % 5}", {"at": at})
        kept.alert(at)

    assert list(kept.since(0)["positions"]) == ["k4", "k3"]
    assert kept.since(0)["alerts"] == list(range(300, 500))


def test_the_trouble_of_one_topic_stays_while_another_is_read() -> None:
    kept = Kept()
    kept.tell("a", "gone")
    kept.tell("b", None)
    assert kept.since(0)["trouble"] == "a: gone"
    kept.tell("b", "away")
    assert kept.since(0)["trouble"] == "a: gone; b: away"
    kept.tell("a", None)
    kept.tell("b", None)
    assert kept.since(0)["trouble"] is None


@pytest.fixture
def page(cluster: Cluster) -> Iterator[ProjectPage]:
    shown = Shown(
        cluster.create_topic(partitions=2),
        cluster.create_topic(),
        PROJECTS / "trucks" / "fences.geojson",
    )
    page = ProjectPage(cluster.bootstrap_servers, shown, 0)
    page.shown = shown  # type: ignore[attr-defined]
    page.start()
    yield page
    page.stop()


def test_records_come_through(page: ProjectPage, cluster: Cluster, player: Player) -> None:
    shown: Shown = page.shown  # type: ignore[attr-defined]
    producer = Producer(player.brokers)
    for at, value in enumerate([b'{"latitude": 1}', b'{"latitude": 2}', b"no JSON"]):
        producer.add((shown.positions, at % 2), (b"truck-%d" % (at % 2), value, (), 1))
    producer.add((str(shown.alerts), 0), (b"1", b'{"event": "ENTER"}', (), 1))
    producer.flush()

    found = cluster.wait_for(lambda: (told := ask(page, "latest"))["number"] == 4 and told)
    assert found["positions"] == {"truck-0": None, "truck-1": {"latitude": 2}}
    assert found["alerts"] == [{"event": "ENTER"}]
    assert ask(page, "latest?after=4")["positions"] == {}
    assert ask(page, "names") == {"title": "Trucks", "noun": "truck"}
    assert [each["properties"]["name"] for each in ask(page, "fences")["features"]] == [
        "north depot",
        "eastern gate",
        "south market",
    ]


def test_records_of_others_do_not_stop_the_page(
    page: ProjectPage, cluster: Cluster, player: Player
) -> None:
    alerts = str(page.shown.alerts)  # type: ignore[attr-defined]
    producer = Producer(player.brokers)
    foreign = (
        b"[" * 100_000,
        b'{"latitude": NaN}',
        b'{"latitude": 1e999}',
        b"\xff",
        b"",
        None,
        b"[1]",
        b'"text"',
    )
    for value in (*foreign, b'{"id": 1}'):
        producer.add((alerts, 0), (b"\xff", value, (), 1))
    producer.flush()

    shown = cluster.wait_for(
        lambda: (found := ask(page, "latest")["alerts"]) and len(found) == 9 and found
    )
    assert shown == [None] * 6 + [[1], "text", {"id": 1}]


def test_an_error_of_an_unknown_kind_is_shown_and_reading_goes_on(
    page: ProjectPage, cluster: Cluster, player: Player, monkeypatch: Any
) -> None:
    failing = iter([KeyError("a bug")])

    def latest(stream: Stream, start: Any) -> Any:
        for error in failing:
            raise error
        return real(stream, start)

    real = Stream.latest
    monkeypatch.setattr(Stream, "latest", latest)
    assert "KeyError('a bug')" in cluster.wait_for(lambda: ask(page, "latest")["trouble"])
    monkeypatch.setattr("raftka.pipeline.page.AFTER_FAILURE_S", 0.1)
    cluster.wait_for(lambda: ask(page, "latest")["trouble"] is None)


def test_rows_of_aborted_batches_are_not_shown(
    page: ProjectPage, cluster: Cluster, player: Player
) -> None:
    alerts = str(page.shown.alerts)  # type: ignore[attr-defined]
    for number, commit in enumerate((False, True)):
        identity = transaction.begin(player.brokers, alerts, 60_000)
        producer = Producer(player.brokers, identity=identity)
        producer.add((alerts, 0), (b"1", b'{"id": %d}' % number, (), 1))
        producer.flush()
        transaction.end(player.brokers, identity, commit=commit)

    assert cluster.wait_for(lambda: ask(page, "latest")["alerts"]) == [{"id": 1}]


def test_brokers_that_are_away_are_reported() -> None:
    with Cluster(nodes=1) as alone:
        page = ProjectPage(alone.bootstrap_servers, Shown(alone.create_topic()), 0)
        page.start()
        alone.kill(1)
        assert "nobody answered" in alone.wait_for(lambda: ask(page, "latest")["trouble"], 60)
        alone.restart(1)
        alone.wait_for(lambda: ask(page, "latest")["trouble"] is None, 60)
        page.stop()


def test_the_page_needs_nothing_else() -> None:
    text = HTML.read_text()

    assert not re.search(r"https?://|src=|<link|@import", text)
    assert set(re.findall(r'fetch\("(\w+)', text)) == {"latest", "fences", "history", "names"}
    assert "innerHTML" not in text  # what records hold is text


def test_paths_that_are_none_and_ports_of_others(page: ProjectPage, cluster: Cluster) -> None:
    with pytest.raises(HTTPError, match="404"):
        ask(page, "../streams.yml")
    with urlopen(page.url, timeout=10) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'")
    port = int(page.url.rstrip("/").rpartition(":")[2])
    with pytest.raises(PipelineError, match=f"the page can not have port {port}.*--page"):
        ProjectPage(cluster.bootstrap_servers, Shown("t"), port)
