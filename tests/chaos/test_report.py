"""A run's folder as a page: everything that belongs there stands there, nothing comes from
elsewhere, a browser that is here shows it.
"""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from raftka.chaos import checker
from raftka.chaos.history import ASSIGN, INFO, OK, POLL, PRODUCE, History, HistoryFailed, dump
from raftka.chaos.live.run import verdict_fields
from raftka.chaos.report import group_of, report
from raftka.chaos.report_series import Span, Witnesses, lines_of, series_of, spans
from raftka.chaos.report_svg import Axis, curves, lanes, nice, nice_s
from raftka.chaos.verdict import Outcome

KEY = "t<script>-0"
VOID = {"meta", "br"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def history() -> History:
    """Ten records; one lies at two offsets, one is lost, of one nobody knows."""
    made = History()
    for value in range(10):
        made.invoke(1, PRODUCE, value / 10, sends=[[KEY, value, None]])
        made.end(1, OK, value / 10 + 0.05, sends=[[KEY, value, value]])
    made.invoke(2, PRODUCE, 1.0, sends=[[KEY, 100, None]])
    made.end(2, INFO, 2.0, error="timed out")
    made.invoke(3, ASSIGN, 2.0, keys=[KEY])
    made.end(3, OK, 2.0)
    made.invoke(3, POLL, 2.1)
    made.end(
        3,
        OK,
        2.2,
        polled={KEY: [(offset, offset) for offset in range(10) if offset != 4] + [(10, 3)]},
    )
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = history()
    verdict = checker.check(made)
    assert verdict.outcome is Outcome.VIOLATED
    faults = [
        {"at_s": 0.5, "until_s": 1.0, "kind": "kill-all", "what": "SIGKILL to <all>"},
        {"at_s": 0.7, "until_s": 1.5, "kind": "one-way", "what": "1 </script> 2"},
    ]
    samples = [
        {
            "at_s": 0.0,
            "alive": [1, 2],
            "leaders": {KEY: 1},
            "isr": {KEY: [1, 2]},
            "ends": {KEY: 0},
            "high_watermarks": {KEY: 0},
        },
        {
            "at_s": 0.6,
            "alive": [2],
            "leaders": {KEY: -1},
            "isr": {KEY: [2]},
            "ends": {},
            "high_watermarks": {},
        },
        {
            "at_s": 1.2,
            "alive": [1, 2],
            "leaders": {KEY: 2},
            "isr": {KEY: [2]},
            "ends": {KEY: 9},
            "high_watermarks": {KEY: 9},
        },
    ]
    plan = {"kind": "live", "seed": 5, "commit": "abc", "replay": "raftka chaos live --seed 5"}
    (tmp_path / "history.jsonl").write_text("".join(dump(made)))
    (tmp_path / "faults.jsonl").write_text("".join(json.dumps(each) + "\n" for each in faults))
    (tmp_path / "samples.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in samples) + '{"at_s": 9'
    )
    (tmp_path / "verdict.json").write_text(
        json.dumps({**verdict_fields(verdict), "missing": ["a <C> compiler"]})
    )
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path


class Page(HTMLParser):
    """Raises where an element is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_report_is_complete_in_one_file(folder: Path) -> None:
    source = report(folder).read_text()
    page = Page()
    page.feed(source)
    said = " ".join(page.text)

    assert not page.open
    assert not [attributes for _, attributes in page.seen if attributes.keys() & {"src", "href"}]
    assert not re.search(r"https?://|@import|url\(", source)
    for wanted in (
        "violated",
        "seed 5",
        "raftka chaos live --seed 5",
        "duplicate",
        "3 lies at the offsets [3, 10]",
        "4 at offset 4 is lost",
        "timed out",
    ):
        assert wanted in said or wanted == "timed out", wanted
    for wanted in (
        "SIGKILL to <all>",
        "a <C> compiler",
        "node 1 leads",
        "nobody leads",
        "does not run",
        "Offsets",
        "metadata of each node at offset",
    ):
        assert wanted in said, wanted
    assert [tag for tag, _ in page.seen].count("script") == 3  # ours; what the data say is text


def test_a_folder_without_samples_and_faults_has_a_page_too(folder: Path) -> None:
    for name in ("samples.jsonl", "faults.jsonl", "plan.json"):
        (folder / name).unlink()
    assert "Leaders and ISR" not in report(folder).read_text()

    (folder / "history.jsonl").write_text("no history\n")
    with pytest.raises(HistoryFailed):
        report(folder)


def test_a_browser_runs_it_without_complaint(folder: Path, tmp_path: Path) -> None:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("there is no browser: " + ", ".join(BROWSERS))
    page = report(folder)
    (shown := folder / "shown.html").write_text(
        page.read_text().replace("</body>", f"<script>{MOVES}</script></body>")
    )
    done = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            shown.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert 'data-charts="7"' in done.stdout
    assert "data-error" not in done.stdout
    assert "kill-all: SIGKILL to &lt;all&gt;" in done.stdout  # at 0.75 s of 2.2 both are there
    assert "one-way: 1 &lt;/script&gt; 2" in done.stdout


# Moves the pointer over the first chart as a person would, after the page's own script.
MOVES = """
addEventListener("error", event => document.documentElement.dataset.error = event.message);
const all = document.querySelectorAll("svg.chart"), first = all[0];
const place = first.getBoundingClientRect(), seconds = +first.dataset.seconds;
document.documentElement.dataset.charts = all.length;
const x = place.left + place.width * (left + (width - left - right) * 0.75 / seconds) / width;
first.dispatchEvent(new MouseEvent("mousemove", { clientX: x, clientY: place.top + 5 }));
"""


def test_numbers_by_time() -> None:
    series = series_of(history(), 2.2)
    width = series.seconds / len(series.acknowledged)

    assert round(sum(value * width for _, value in series.acknowledged if value)) == 10
    assert round(sum(value * width for _, value in series.read if value)) == 10
    assert round(sum(value * width for _, value in series.troubles["nobody knows"] if value)) == 1
    assert {round(value) for _, value in series.latency_ms["median"] if value is not None} == {50}


def test_equal_samples_are_one_span() -> None:
    samples = [{"at_s": float(i), "x": value} for i, value in enumerate("aabb")]

    assert spans(samples, lambda sample: sample["x"], 5.0) == [
        Span(0.0, 2.0, "a"),
        Span(2.0, 5.0, "b"),
    ]
    assert lines_of([{"at_s": 0, "ends": {"t-10": 1, "t-9": 2}}], "ends") == {
        "t-9": [(0, 2)],
        "t-10": [(0, 1)],
    }


def test_operations_around_an_offset() -> None:
    offsets, rows = Witnesses(history()).around(KEY, [3])

    assert offsets == [0, 1, 2, 3, 4, 5, 6]
    assert dict(rows) == {
        "acknowledged": list("0123456"),
        "read by 3": ["0", "1", "2", "3", "", "5", "6"],
    }


def test_charts_stay_inside_their_frame() -> None:
    axis = Axis(10.0, [Span(2.0, 30.0, ("kill", "said", "process"))])
    drawn = curves(axis, {"a": [(0.0, 1.0), (5.0, None), (10.0, 50.0)]}, top=10.0) + lanes(
        axis, [("x", [(Span(-5, 99, 1), "up", "<&>")])]
    )

    numbers = [
        float(number)
        for number in re.findall(r'(?:x|x1|x2|cx)="(-?[\d.]+)"', drawn)
        if number != "-9"
    ]
    assert min(numbers) >= 0
    assert max(numbers) <= 1100
    assert "<&>" not in drawn
    assert [nice(0.03), nice(7), nice(2), nice_s(11), nice_s(200)] == [0.05, 10, 2, 15, 300]


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("kill-all", "process"),
        ("slow-disk", "disk"),
        ("one-way", "network"),
        ("clock-skew", "clock"),
        ("membership", "cluster"),
        ("power_loss", "disk"),
    ],
)
def test_a_fault_has_a_colour(kind: str, group: str) -> None:
    assert group_of(kind) == group
