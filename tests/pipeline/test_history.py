"""The trucks' past places: rows of a lake, bounded; the page's server; and the slider in a browser,
where there is one.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
deltalake = pytest.importorskip("deltalake", reason="needs raftka[pipeline]")
pytest.importorskip("yaml", reason="needs raftka[pipeline]")

from raftka.pipeline import history
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.streams import History, Shown, declared
from raftka.pipeline.history import FRESH_S, LONGEST_MINUTES, Past
from raftka.pipeline.page import ProjectPage
from raftka.pipeline.project import PROJECTS
from raftka.testing import Cluster
from tests.pipeline.page_requests import ask

NOW_S = 1_800_000_000
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def write(path: Path, rows: list[tuple[float, int, float | None]], now_s: float = NOW_S) -> None:
    """Minutes before now, truck, latitude."""
    moments = [datetime.fromtimestamp(now_s - 60 * minutes, UTC) for minutes, _, _ in rows]
    table = {
        "minute": pa.array(moments, pa.timestamp("us", "UTC")),
        "truck": pa.array([truck for _, truck, _ in rows], pa.int32()),
        "latitude": [latitude for _, _, latitude in rows],
        "longitude": [13.0] * len(rows),
        "fastest_kmh": [1.0] * len(rows),
    }
    deltalake.write_deltalake(path, pa.table(table), mode="append")


@pytest.fixture
def source(tmp_path: Path) -> History:
    return History(str(tmp_path / "minutes"), "minute", "truck")


def test_rows_of_the_last_minutes_in_order_of_time(source: History) -> None:
    write(Path(source.path), [(5, 1, 52.0), (500, 1, 50.0)])
    write(Path(source.path), [(7, 2, 51.0), (1, 2, None)])

    found = Past(source, lambda: NOW_S).of(60)

    assert found == {
        "since": (NOW_S - 3600) * 1000,
        "until": NOW_S * 1000,
        "rows": [[(NOW_S - 420) * 1000, "2", 51.0, 13.0], [(NOW_S - 300) * 1000, "1", 52.0, 13.0]],
        "cut": False,
        "trouble": None,
    }


def test_answers_are_bounded(source: History, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path(source.path), [(minute, 1, 50.0 + minute) for minute in range(10)])
    monkeypatch.setattr(history, "ROWS", 3)

    found = Past(source, lambda: NOW_S).of(10**9)

    assert [latitude for _, _, latitude, _ in found["rows"]] == [52.0, 51.0, 50.0]  # the newest
    assert found["cut"]
    assert found["until"] - found["since"] == LONGEST_MINUTES * 60_000
    monkeypatch.setattr(history, "READ_ROWS", 5)
    assert Past(source, lambda: NOW_S).of(60)["cut"]


def test_an_answer_is_given_again_for_some_seconds(source: History) -> None:
    now = [float(NOW_S)]
    past = Past(source, lambda: now[0])
    assert "is no Delta table" in past.of(60)["trouble"] or past.of(60)["rows"] == []
    write(Path(source.path), [(5, 1, 52.0)])
    assert past.of(60)["rows"] == []
    now[0] += FRESH_S
    assert len(past.of(60)["rows"]) == 1


def test_the_project_says_which_lake() -> None:
    outputs = {
        "kept": {"delta": "lake/kept", "options": {"storage.region": "x", "compactEvery": 3}},
        "sent": {"topic": "sent"},
    }

    def told(**said: Any) -> Any:
        return declared(
            {"outputs": outputs, "page": {"positions": "p", "history": said}}, Path("/p"), {}
        ).page

    assert told(**{"from": "kept"}).history == History(
        "/p/lake/kept", "_timestamp", "truck", {"storage.region": "x"}
    )
    for said, why in (
        ({"from": "sent"}, "one of the outputs with delta, kept"),
        ({"from": "kept", "at": "a'b"}, "no name of a column"),
        ({"x": 1}, "has x"),
    ):
        with pytest.raises(OptionRefused, match=why):
            told(**said)


# the page


@pytest.fixture
def page(source: History) -> Iterator[ProjectPage]:
    """Two trucks, whose last minutes are in the lake, and one of them in the topic."""
    import time

    write(
        Path(source.path),
        [
            (minute, truck, 52.4 + minute / 1000 + truck / 100)
            for minute in range(1, 60)
            for truck in (1, 2)
        ],
        time.time(),
    )
    with Cluster(nodes=1) as cluster:
        shown = ProjectPage(
            cluster.bootstrap_servers,
            Shown(cluster.create_topic(), None, PROJECTS / "trucks" / "fences.geojson", source),
            0,
        )
        shown.start()
        yield shown
        shown.stop()


def test_the_server_answers(page: ProjectPage, tmp_path: Path) -> None:
    assert len(ask(page, "history?minutes=30")["rows"]) in (58, 60)
    assert len(ask(page, "history?minutes=9999999999999999999999")["rows"]) == 118
    assert len(ask(page, "history?minutes=x")["rows"]) in (0, 2)
    with Cluster(nodes=1) as cluster:
        other = ProjectPage(cluster.bootstrap_servers, Shown("t"), 0)
        other.start()
        with pytest.raises(HTTPError, match="404"):
            ask(other, "history")
        other.stop()


REPLAY = """<script>addEventListener("load", () => setTimeout(() => {
  $("slider").value = 900; $("slider").oninput();
  document.title = [$("time").hidden, then !== null, rows.size, $("moment").textContent].join("|");
}, 1500));</script>"""


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_the_slider_shows_the_past_in_a_browser(
    page: ProjectPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = tmp_path / "page.html"
    html.write_text(Path("raftka/pipeline/page.html").read_text() + REPLAY)
    monkeypatch.setattr("raftka.pipeline.page.HTML", html)
    picture = tmp_path / "page.png"
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,800",
        "--virtual-time-budget=8000",
    ]
    command.append(f"--user-data-dir={tmp_path / 'profile'}")

    dumped = subprocess.run(
        [*command, "--dump-dom", page.url], capture_output=True, text=True, timeout=120, check=False
    )
    subprocess.run(
        [*command, f"--screenshot={picture}", page.url],
        capture_output=True,
        timeout=120,
        check=False,
    )

    (title,) = (
        line.partition("<title>")[2].partition("</title>")[0]
        for line in dumped.stdout.splitlines()
        if "<title>" in line
    )
    hidden, is_past, trucks, moment = title.split("|")
    assert (hidden, is_past, trucks) == ("false", "true", "2"), json.dumps(dumped.stdout[-2000:])
    assert moment.count(":") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
