"""Addresses, numbers and live data of the pages, in a real browser."""

import json

import pytest

from raftka.testing import Cluster
from tests.console.browser.conftest import OpenPage


def test_links_keep_every_name(open_page: OpenPage) -> None:
    """Groups may have any text as their id."""
    page = open_page()
    names = ["orders", "a/b", "100 %", "#x?y=z&w", "größe", "..", "a+b"]
    found = page.evaluate(
        f"""(async (names) => {{
            const {{ link, current }} = await import("/js/router.js");
            const read = (name) => {{
                const query = {{ tab: "lag", q: name, no: null }};
                history.replaceState(null, "", link(["groups", name], query));
                const place = current();
                return [place.params.group, place.query.q, place.query.tab, "no" in place.query];
            }};
            const found = names.map(read);
            history.replaceState(null, "", "#/");
            return found;
        }})({json.dumps(names)})"""
    )
    assert found == [[name, name, "lag", False] for name in names]


def test_an_address_that_is_none_is_told(open_page: OpenPage) -> None:
    page = open_page("/#/no/such/%E0%A4%A/page")
    page.wait_for_text("There is no page")


NUMBERS = {
    "bytes(0)": "0 B",
    "bytes(999)": "999 B",
    "bytes(1500)": "1.5 kB",
    "bytes(271e9)": "271 GB",
    "bytes(null)": "–",
    "count(1234567)": "1,234,567",
    "count(undefined)": "–",
    "short(9999)": "9,999",
    "short(4288.91)": "4,288.9",
    "short(12345)": "12.3 k",
    "short(1.2e6)": "1.2 M",
    "duration(0.5)": "0.5 ms",
    "duration(999)": "999 ms",
    "duration(1500)": "1.5 s",
    "duration(600000)": "10 min",
    "counted(1, 'topic')": "1 topic",
    "counted(2000, 'topic')": "2,000 topics",
}


def test_numbers_are_written_for_people(open_page: OpenPage) -> None:
    found = open_page().evaluate(
        "import('/js/format.js').then(({ bytes, count, short, duration, counted }) => "
        f"[{', '.join(NUMBERS)}])"
    )
    assert dict(zip(NUMBERS, found, strict=True)) == NUMBERS


def test_times_that_are_no_date_are_numbers(open_page: OpenPage) -> None:
    found = open_page().evaluate(
        "import('/js/format.js').then(({ time }) => [2 ** 63, -9e15, 0, 8.64e15].map(time))"
    )
    assert found[:2] == ["9223372036854776000 ms", "-9000000000000000 ms"]
    assert found[2].startswith("19")
    assert found[3].startswith("+275760") or found[3].startswith("275760")


def test_time_that_is_to_come_is_not_told_as_an_age(open_page: OpenPage) -> None:
    page = open_page()
    found = page.evaluate(
        """import("/elements/small.js").then(async () => {
            const show = async (ms) => {
                const element = document.createElement("time-ago");
                element.ms = ms;
                document.body.append(element);
                await new Promise(requestAnimationFrame);
                return element.innerText;
            };
            return [await show(Date.now()), await show(Date.now() + 86400e3), await show(9e15)];
        })"""
    )
    assert found[0] == "now"
    assert found[1].startswith("20")
    assert found[2] == "9000000000000000 ms"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":[1,"b\\u0041 , "]}', '{"a":[1,"b\\u0041 , "]}'),
        ('{"a" : 1}', '{\n  "a": 1\n}'),
        ('{"a":1.10}', '{"a":1.10}'),
        ('{"a":9007199254740993}', '{"a":9007199254740993}'),
        ('{"a":1e400}', '{"a":1e400}'),
        ('{"a":1,"a":2}', '{"a":1,"a":2}'),
        ('{"2":1,"1":2}', '{"2":1,"1":2}'),
    ],
)
def test_json_is_indented_where_nothing_changes(open_page: OpenPage, text: str, shown: str) -> None:
    found = open_page().evaluate(
        f"import('/js/format.js').then(({{ indented }}) => indented({json.dumps(text)}))"
    )
    assert found == shown


def test_an_answer_that_refuses_is_a_failure_with_its_reason(open_page: OpenPage) -> None:
    page = open_page()
    page.allow_error("404")
    found = page.evaluate(
        "import('/js/api.js').then(({ api }) => api.get('/api/nothing').then(() => null,"
        " (failure) => [failure.constructor.name, failure.status, failure.code]))"
    )
    assert found == ["ApiFailure", 404, "NOT_FOUND"]


def test_live_data_come_until_they_are_stopped(open_page: OpenPage, cluster: Cluster) -> None:
    """A topic that is made while the page watches is in the next data."""
    page = open_page()
    page.evaluate(
        """import("/js/api.js").then(({ watch }) => {
            window.seen = [];
            const see = (data) => window.seen.push(data.topics);
            window.stop = watch("/api/cluster", { every: 1 }, see);
        })"""
    )
    page.wait_for("window.seen.length > 0")
    before = page.evaluate("window.seen.at(-1)")
    cluster.create_topic("made-while-watched")
    page.wait_for(f"window.seen.at(-1) === {before + 1}")
    page.evaluate("window.stop()")


def test_a_watch_of_what_is_not_there_tells_it_once(open_page: OpenPage) -> None:
    """The reader of a watch that may come back tries again after half a second."""
    page = open_page()
    page.allow_error("404")
    found = page.evaluate(
        """import("/js/api.js").then(({ watch }) => new Promise((done) => {
            const told = [];
            watch("/api/nothing", {}, () => {}, (failure) => told.push(failure.status));
            setTimeout(() => done(told), 1500);
        }))"""
    )
    assert found == [404]
