"""Protection of the console: what other sites, and names of strangers, cannot do to a browser."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.console.call import Call
from raftka.console.protection import Hosts, host_of
from raftka.console.routes import route
from raftka.console.server import ConsoleServer
from raftka.console.settings import ConsoleSettings
from raftka.console.static import PAGES, Static
from raftka.http.messages import Request
from raftka.json_values import Json
from tests.console.scene import own_routes
from tests.kit.console import Api

BROKERS = [("127.0.0.1", 1)]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Json]]:
    """Things that a route of the test has changed."""
    with own_routes(monkeypatch):
        changes: list[Json] = []

        @route("POST", "/api/test/change", "", writes=True)
        def change(call: Call) -> Json:
            changes.append("change")

        @route("POST", "/api/test/preview", "")
        def preview(call: Call) -> Json:
            changes.append("preview")

        @route("GET", "/api/test/records", "", records=True)
        def records(call: Call) -> Json:
            return [SCRIPT]

        yield changes


@pytest.fixture
def console(changes: list[Json]) -> Iterator[ConsoleServer]:
    with ConsoleServer(ConsoleSettings(BROKERS, port=0)) as console:
        yield console


@pytest.fixture
def api(console: ConsoleServer) -> Api:
    return Api(console.url)


# requests that pages of other sites make (CSRF)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "{url}", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "https://{host}"}, 200),  # of a proxy with TLS
        ({"X-Raftka-Console": ""}, 403),
        ({"X-Raftka-Console": "2"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # another program of this machine
        ({"Origin": "null"}, 403),
        ({"Origin": "file://{host}"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
    ids=str,
)
def test_only_pages_of_the_console_change_something(
    api: Api, changes: list[Json], headers: dict[str, str], status: int
) -> None:
    host = api.url.removeprefix("http://")
    sent = {name: value.format(url=api.url, host=host) for name, value in headers.items()}

    assert api.ask("POST", "/api/test/change", headers=sent).status == status
    assert changes == (["change"] if status == 200 else [])


def test_form_of_another_site_changes_nothing(api: Api, changes: list[Json]) -> None:
    """A form needs no permission to send these; older browsers send no Origin with it."""
    headers = {"X-Raftka-Console": "", "Content-Type": "text/plain"}

    answer = api.ask("POST", "/api/test/change", body=b'{"a": 1}', headers=headers)

    assert (answer.status, answer.json["error"], changes) == (403, "FOREIGN_ORIGIN", [])


def test_other_sites_read_nothing_and_may_link_to_pages(api: Api) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}

    answer = api.ask("GET", "/api/me", headers=foreign)

    assert answer.status == 403
    assert api.ask("GET", "/nothing", headers=foreign).status == 404
    allowed = api.ask("OPTIONS", "/api/test/change", headers={"X-Raftka-Console": ""})
    for each in (answer, allowed, api.ask("GET", "/api/me")):
        assert not [name for name in each.headers if name.startswith("access-control")]


# names that lead here (DNS rebinding)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost:80@evil.example", 421),
        ("localhost:x", 421),
        ("192.168.0.1", 421),
        ("0.0.0.0", 421),
    ],
)
def test_console_answers_to_its_own_names_alone(api: Api, host: str, status: int) -> None:
    answer = api.ask("GET", "/api/me", headers={"Host": host})
    page = api.ask("GET", "/nothing", headers={"Host": host})

    assert (answer.status, page.status) == (status, status if status == 421 else 404)


def test_console_of_a_network_has_names_and_addresses() -> None:
    settings = ConsoleSettings(BROKERS, host="0.0.0.0", allowed_hosts=["kafka.example"])
    hosts = Hosts(settings, lambda: ["machine"])

    def status(host: str) -> int:
        try:
            hosts.check(Request("GET", "/", {b"host": host.encode()}, False))
        except Exception as error:
            return getattr(error, "status", 0)
        return 200

    found = {
        host: status(host)
        for host in ("machine", "Kafka.Example:443", "10.0.0.1:1", "[fe80::1]", "evil.example", "")
    }
    assert found == {
        "machine": 200,
        "Kafka.Example:443": 200,
        "10.0.0.1:1": 200,
        "[fe80::1]": 200,
        "evil.example": 421,
        "": 200,
    }


@pytest.mark.parametrize("host", ["a/b", "a?b", "a#b", "[::1", "a b:c", "user@host", "a\\b:x"])
def test_malformed_host_has_no_name(host: str) -> None:
    assert host_of(host) == ""


# headers


def test_every_answer_has_the_headers_of_protection(api: Api) -> None:
    answers = [
        api.ask("GET", "/api/me"),
        api.ask("GET", "/api/nothing"),
        api.ask("GET", "/nothing"),
        api.ask("DELETE", "/api/me"),
        api.ask("GET", "/api/me", headers={"Host": "evil.example"}),
        api.ask("GET", "/api/me", headers={"Sec-Fetch-Site": "cross-site"}),
        api.ask("GET", "/api/me", headers={"X-Long": "x" * 20_000}),
    ]
    assert [each.status for each in answers] == [200, 404, 404, 405, 421, 403, 431]
    for each in answers:
        policy = each.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert each.headers["x-frame-options"] == "DENY"
        assert each.headers["x-content-type-options"] == "nosniff"
        assert each.headers["referrer-policy"] == "no-referrer"
        assert each.headers["cache-control"] == "no-store"


def test_script_in_a_value_or_a_path_stays_json(api: Api) -> None:
    """A browser that is led to the address itself shows text: the type is JSON, and not sniffed."""
    for answer in (
        api.ask("GET", "/api/test/records"),
        api.ask("GET", f"/api/{SCRIPT}"),
        api.ask("GET", f"/{SCRIPT}"),
        api.ask("GET", f"/api/me?{SCRIPT}=1"),
    ):
        assert answer.headers["content-type"] == "application/json"
        assert SCRIPT[:8] in json.dumps(answer.json)


def test_names_of_headers_and_lines_cannot_be_smuggled_into_an_answer(api: Api) -> None:
    answer = api.ask("GET", "/api/a%0d%0aSet-Cookie:%20x=y")

    assert answer.status == 404
    assert "set-cookie" not in answer.headers


# files


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    (tmp_path / "secret.js").write_text("secret")
    root = tmp_path / "pages"
    (root / "js").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html>" + "a" * 2000)
    (root / "js" / "app.js").write_text("export {}")
    (root / "notes.py").write_text("no page")
    return root


def test_no_path_leads_out_of_the_pages(api: Api, pages: Path) -> None:
    static = Static(pages)
    for path in ("/", "/index.html", "/js/app.js"):
        assert static.has(path)
    for path in (
        "/../secret.js",
        "/js/../../secret.js",
        "/js/../index.html",
        "/%2e%2e/secret.js",
        "//index.html",
        "/js",
        "/js/",
        "/notes.py",
        "",
        "/index.html/",
        str(pages.parent / "secret.js"),
    ):
        assert not static.has(path), path
    for target in ("/../settings.py", "/..%2fsettings.py", "/js/../../settings.py", "/settings.py"):
        with socket.create_connection(("127.0.0.1", int(api.url.rpartition(":")[2])), 30) as raw:
            raw.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 404 "), target


def test_pages_have_no_script_and_no_style_in_them(api: Api) -> None:
    """The policy refuses them, and a page that needed some would not work."""
    in_page = re.compile(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|javascript:", re.I)
    documents = list(PAGES.rglob("*.html"))
    assert documents
    for path in documents:
        assert in_page.findall(path.read_text()) == [], path
    front = api.ask("GET", "/")
    assert (front.status, front.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert front.headers["content-security-policy"].startswith("default-src 'self';")


def test_pages_are_compressed_and_kept_by_the_browser_until_they_change(pages: Path) -> None:
    static = Static(pages)

    def ask(path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        found = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        answer = static.answer(Request("GET", path, found, False))
        return answer.status, dict(each.split(": ", 1) for each in answer.headers), answer.body

    status, headers, body = ask("/", accept_encoding="gzip")
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert len(body) < 200
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert ask("/", accept_encoding="gzip", if_none_match=headers["ETag"])[0] == 304
    status, plain, body = ask("/", if_none_match=headers["ETag"])
    assert (status, len(body)) == (200, 2015)
    (pages / "index.html").write_text("new")
    status, changed, body = ask("/", if_none_match=plain["ETag"])
    assert (status, body) == (200, b"new")
    assert changed["ETag"] != plain["ETag"]


# switches


def test_read_only_console_refuses_what_writes_and_allows_previews(changes: list[Json]) -> None:
    with ConsoleServer(ConsoleSettings(BROKERS, port=0, read_only=True)) as console:
        api = Api(console.url)
        answer = api.ask("POST", "/api/test/change")
        assert (answer.status, answer.json["error"]) == (403, "READ_ONLY")
        assert api.post("/api/test/preview") is None
        assert api.get("/api/me")["read_only"] is True
    assert changes == ["preview"]


def test_console_without_records_refuses_what_shows_them(changes: list[Json]) -> None:
    with ConsoleServer(ConsoleSettings(BROKERS, port=0, show_records=False)) as console:
        api = Api(console.url)
        answer = api.ask("GET", "/api/test/records")
        assert (answer.status, answer.json["error"]) == (403, "NO_RECORDS")
        watched = api.ask("GET", "/api/test/records", headers={"Accept": "text/event-stream"})
        assert watched.status == 403
        assert api.get("/api/me")["shows_records"] is False


def test_masked_fields_are_declared_and_shown() -> None:
    masked = ["card", "$.customer.email", "x-token", "größe"]
    with ConsoleServer(ConsoleSettings(BROKERS, port=0, masked=masked)) as console:
        assert Api(console.url).get("/api/me")["masked"] == masked
    for wrong in ("", "a b", "$.", "$", "a..b", "$.a[0]", "a.*"):
        with pytest.raises(ValueError, match="is no field to mask"):
            ConsoleSettings(BROKERS, masked=[wrong])
