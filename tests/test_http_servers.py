"""All HTTP servers of the project under one table of requests that are odd but legal, and of those
that two readers might end at different places.

What a server refuses it refuses once, and closes: nothing behind it is taken for a request.
"""

import re
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from raftka.http import request_reader
from raftka.http.pages import BOUNDS
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread
from raftka.pipeline.page import HOST, Kept, site_of
from raftka.sql.server.server import Door, SqlServer
from raftka.testing import Cluster
from tests.kit.console import console_of
from tests.kit.sql_server import TOKEN, FakeSession

UPGRADE = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQA\r\n"
SERVERS = ("registry", "metrics", "bridge", "page", "console", "sql")
STAYS, CLOSES = True, False


class Target(NamedTuple):
    port: int
    path: str  # of a page that is there
    login: str = ""  # a header, with its end

    def with_login(self, request: str) -> str:
        line, end, rest = request.partition(" HTTP/1.1\r\n")
        return f"{line}{end}{self.login if end else ''}{rest}"


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, Target]]:
    page = ServerThread(
        (HOST, 0),
        lambda runtime: HttpServer(site_of(runtime, Kept(), b"null"), BOUNDS, runtime.clock),
        "page",
    )
    page.start()
    with (
        Cluster(metrics_port=0, zookeeper_bridge_port=0, zookeeper_bridge_admin_port=0) as cluster,
        cluster.registry() as registry,
        console_of(cluster, allowed_hosts=["x"]) as console,
        SqlServer(FakeSession, Door(TOKEN)) as sql,
    ):
        node = cluster._embedded.nodes[1]
        bridge = getattr(node.edges["zookeeper.bridge.port"], "admin_port", None)
        assert bridge is not None
        assert node.node is not None
        assert node.node.metrics_port is not None
        yield {
            "registry": Target(registry.port, "/config"),
            "metrics": Target(node.node.metrics_port, "/health"),
            "bridge": Target(bridge, "/commands/ruok"),
            "page": Target(page.port, "/latest"),
            "console": Target(console.port, "/api/me"),
            "sql": Target(
                urlsplit(sql.url).port or 0, "/health", f"Authorization: Bearer {TOKEN}\r\n"
            ),
        }
    page.stop()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Talk:
    """A connection whose answers are read one by one."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), 30)
        self._come = b""

    def __enter__(self) -> "Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: str | bytes) -> None:
        self._socket.sendall(data if isinstance(data, bytes) else data.encode())

    def answer(self, method: str = "GET") -> Answer | None:
        """Return None where the server has closed."""
        while b"\r\n\r\n" not in self._come:
            if not self._more():
                assert not self._come, self._come
                return None
        head, _, self._come = self._come.partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (each.partition(": ") for each in fields)
        }
        status = int(line.split()[1])
        size = 0 if method == "HEAD" or status == 100 else int(headers["content-length"])
        while len(self._come) < size:
            assert self._more(), "the server closed in the middle of a body"
        body, self._come = self._come[:size], self._come[size:]
        return Answer(status, headers, body)

    def _more(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            return False
        self._come += data
        return bool(data)


GET = "GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n"

# name: (request, status at each of SERVERS, whether a server that keeps connections keeps this one)
Line = tuple[str, tuple[int, int, int, int, int, int], bool]
PUT = '{"compatibility":"FULL"}'
LEGAL: dict[str, Line] = {
    "an upgrade to HTTP/2": (GET.replace("{more}", UPGRADE), (200,) * 6, STAYS),
    "an upgrade to a web socket": (
        GET.replace("{more}", "Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\n"),
        (200,) * 6,
        STAYS,
    ),
    "an upgrade that is not in Connection": (
        GET.replace("{more}", "Upgrade: h2c\r\n"),
        (200,) * 6,
        STAYS,
    ),
    "trailers are taken": (
        GET.replace("{more}", "TE: trailers\r\nConnection: TE\r\n"),
        (200,) * 6,
        STAYS,
    ),
    "a list in Connection": (
        GET.replace("{more}", "Connection: foo, keep-alive\r\n"),
        (200,) * 6,
        STAYS,
    ),
    "close in a list": (GET.replace("{more}", "Connection: foo, Close\r\n"), (200,) * 6, CLOSES),
    "close in a second Connection": (
        GET.replace("{more}", "Connection: close\r\nConnection: foo\r\n"),
        (200,) * 6,
        CLOSES,
    ),
    "the absolute form": ("GET http://x:80{path} HTTP/1.1\r\nHost: x\r\n\r\n", (200,) * 6, STAYS),
    "the absolute form of another host": (
        "GET HTTPS://other{path} HTTP/1.1\r\nHost: x\r\n\r\n",
        (200,) * 6,
        STAYS,
    ),
    "OPTIONS of everything": ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", (200,) * 6, STAYS),
    "OPTIONS of a page": ("OPTIONS {path} HTTP/1.1\r\nHost: x\r\n\r\n", (200,) * 6, STAYS),
    "HEAD": ("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n", (200,) * 6, STAYS),
    "HEAD of nothing": ("HEAD /nothing HTTP/1.1\r\nHost: x\r\n\r\n", (404,) * 6, STAYS),
    "HTTP/1.0": ("GET {path} HTTP/1.0\r\n\r\n", (200,) * 6, CLOSES),
    "HTTP/1.0 that goes on": (
        "GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        (200,) * 6,
        STAYS,
    ),
    "an upgrade in HTTP/1.0": ("GET {path} HTTP/1.0\r\n" + UPGRADE + "\r\n", (200,) * 6, CLOSES),
    "an upgrade in HTTP/1.0 that goes on": (
        "GET {path} HTTP/1.0\r\nConnection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n\r\n",
        (200,) * 6,
        STAYS,
    ),
    "an empty host": ("GET {path} HTTP/1.1\r\nHost:\r\n\r\n", (200,) * 6, STAYS),
    "an empty header": (GET.replace("{more}", "X-Empty:\r\n"), (200,) * 6, STAYS),
    "a length of nothing": (GET.replace("{more}", "Content-Length: 0\r\n"), (200,) * 6, STAYS),
    "a query": ("GET {path}? HTTP/1.1\r\nHost: x\r\n\r\n", (200,) * 6, STAYS),
    "an unknown method": (
        "BREW {path} HTTP/1.1\r\nHost: x\r\n\r\n",
        (405, 405, 405, 405, 403, 405),
        STAYS,
    ),
}
AMBIGUOUS: dict[str, Line] = {
    "a folded header": (GET.replace("{more}", "A: b\r\n c\r\n"), (400,) * 6, CLOSES),
    "two lengths": (
        GET.replace("{more}", "Content-Length: 5\r\nContent-Length: 0\r\n") + "abcde",
        (400,) * 6,
        CLOSES,
    ),
    "two equal lengths": (
        GET.replace("{more}", "Content-Length: 0\r\nContent-Length: 0\r\n"),
        (400,) * 6,
        CLOSES,
    ),
    "a list of lengths": (GET.replace("{more}", "Content-Length: 0, 0\r\n"), (400,) * 6, CLOSES),
    "a length with a sign": (GET.replace("{more}", "Content-Length: +0\r\n"), (400,) * 6, CLOSES),
    "a length and chunks": (
        GET.replace("{more}", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
        (400,) * 6,
        CLOSES,
    ),
    "chunks and a length": (
        GET.replace("{more}", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n") + "0\r\n\r\n",
        (400,) * 6,
        CLOSES,
    ),
    "chunks in HTTP/1.0": (
        "GET {path} HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        "\r\n",
        (400,) * 6,
        CLOSES,
    ),
    "a coding that is not known": (
        GET.replace("{more}", "Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n",
        (501, 400, 400, 400, 501, 501),
        CLOSES,
    ),
    "no host": ("GET {path} HTTP/1.1\r\n\r\n", (400,) * 6, CLOSES),
    "two hosts": ("GET {path} HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", (400,) * 6, CLOSES),
    "a space before a colon": (
        GET.replace("{more}", "Content-Length : 5\r\n") + "abcde",
        (400,) * 6,
        CLOSES,
    ),
    "a proxy": ("CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", (400,) * 6, CLOSES),
    "everything": ("GET * HTTP/1.1\r\nHost: x\r\n\r\n", (400,) * 6, CLOSES),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", [*LEGAL, *AMBIGUOUS])
def test_odd_requests_are_answered_once(targets: dict[str, Target], server: str, name: str) -> None:
    request, statuses, stays = {**LEGAL, **AMBIGUOUS}[name]
    target, method = targets[server], request.partition(" ")[0]
    status = statuses[SERVERS.index(server)]
    closes_at = (400,) if server in ("registry", "sql") else (400, 403, 405)
    stays = stays and status not in closes_at

    with Talk(target.port) as talk:
        talk.send(target.with_login(request.format(path=target.path, more="")))
        answer = talk.answer(method)
        assert answer is not None
        assert answer.status == status
        assert (answer.headers.get("connection") == "close") != stays
        if method == "OPTIONS" or status == 405:
            assert {"GET", "HEAD"} <= set(answer.headers["allow"].split(", "))
        if stays:
            if "HTTP/1.0" in request:
                assert answer.headers["connection"] == "keep-alive"
            last_request = GET.format(path=target.path, more="Connection: close\r\n")
            talk.send(target.with_login(last_request))
            last = talk.answer()
            assert last is not None
            assert last.status == 200
        assert talk.answer() is None


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("version", ["", " HTTP/0.9", " HTTP/2.0", " HTTP/3.0"])
def test_another_version_of_http_is_refused(
    targets: dict[str, Target], server: str, version: str
) -> None:
    with Talk(targets[server].port) as talk:
        talk.send(f"GET {targets[server].path}{version}\r\nHost: x\r\n\r\n")
        answer = talk.answer()
        assert answer is not None
        assert answer.status == 400
        assert talk.answer() is None


@pytest.mark.parametrize("server", SERVERS)
def test_head_is_as_long_as_get(targets: dict[str, Target], server: str) -> None:
    target, lengths = targets[server], []
    for method in ("GET", "HEAD"):
        with Talk(target.port) as talk:
            talk.send(f"{method} {target.path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = talk.answer(method)
            assert answer is not None
            lengths.append(int(answer.headers["content-length"]))
            assert talk.answer() is None

    assert lengths[0] > 0
    assert abs(lengths[0] - lengths[1]) < 10  # numbers on it may have a digit more


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("more", ["", UPGRADE, "\r\nGET"])
def test_requests_that_come_together_are_answered_in_order(
    targets: dict[str, Target], server: str, more: str
) -> None:
    """`more`: with an upgrade in each; or with an empty line before each, as old clients send."""
    target = targets[server]
    request = GET.format(path=target.path, more=more if more == UPGRADE else "")
    request = target.with_login(request)
    request = f"\r\n{request}" if more == "\r\nGET" else request

    with Talk(target.port) as talk:
        talk.send(request + request.replace(target.path, "/nothing") + request)

        answers = [talk.answer() for _ in range(3)]

    assert [each and each.status for each in answers] == [200, 404, 200]


# bodies, which the registry alone takes


def level(talk: Talk) -> bytes:
    talk.send("GET /config HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = talk.answer()
    assert answer is not None
    return answer.body


BODIES = {
    "a length": (f"Content-Length: {len(PUT)}\r\n", PUT),
    "chunks": ("Transfer-Encoding: chunked\r\n", f"{len(PUT):x}\r\n{PUT}\r\n0\r\n\r\n"),
    "chunks with extensions and trailers": (
        "Transfer-Encoding: Chunked\r\nTrailer: X\r\n",
        f'5;a=b\r\n{PUT[:5]}\r\n{len(PUT) - 5:X};c="d"\r\n{PUT[5:]}\r\n0;e\r\nX: y\r\nHost: z\r\n'
        "Authorization: none\r\n\r\n",
    ),
}


@pytest.mark.parametrize("upgrade", ["", UPGRADE, "Upgrade: websocket\r\nConnection: Upgrade\r\n"])
@pytest.mark.parametrize("form", BODIES)
@pytest.mark.parametrize("pieces", [1, 7, 1_000_000])
def test_a_body_comes_whole_whatever_stands_beside_it(
    targets: dict[str, Target], upgrade: str, form: str, pieces: int
) -> None:
    """An `Upgrade` that is not done is passed over: the body belongs to the request as it is."""
    headers, body = BODIES[form]
    request = f"PUT /config HTTP/1.1\r\nHost: x\r\n{upgrade}{headers}\r\n{body}".encode()

    with Talk(targets["registry"].port) as talk:
        talk.send(
            b'PUT /config HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\n\r\n{"compatibility":"NONE"}'
        )
        assert talk.answer() is not None
        for at in range(0, len(request), pieces):
            talk.send(request[at : at + pieces])
        answer = talk.answer()
        assert answer is not None
        assert (answer.status, answer.body) == (200, b'{"compatibility":"FULL"}')
        assert level(talk) == b'{"compatibilityLevel":"FULL"}'


@pytest.mark.parametrize("upgrade", ["", UPGRADE])
def test_a_client_that_waits_is_told_to_send_its_body(
    targets: dict[str, Target], upgrade: str
) -> None:
    with Talk(targets["registry"].port) as talk:
        talk.send(
            f"PUT /config HTTP/1.1\r\nHost: x\r\n{upgrade}Expect: 100-Continue\r\nContent-Length: "
            f"{len(PUT)}\r\n\r\n"
        )
        first = talk.answer()
        talk.send(PUT)
        second = talk.answer()

    assert [each and each.status for each in (first, second)] == [100, 200]


def test_a_client_of_http_1_0_is_not_told_to_send_its_body(targets: dict[str, Target]) -> None:
    with Talk(targets["registry"].port) as talk:
        talk.send(
            f"PUT /config HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: {len(PUT)}\r\n\r\n"
        )
        talk.send(PUT)
        answer = talk.answer()

    assert answer is not None
    assert answer.status == 200


def test_a_body_in_a_coding_that_is_not_known_is_refused(targets: dict[str, Target]) -> None:
    with Talk(targets["registry"].port) as talk:
        talk.send(
            "PUT /config HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: "
            f"{len(PUT)}\r\n\r\n{PUT}"
        )
        answer = talk.answer()

    assert answer is not None
    assert answer.status == 415


def test_a_method_that_a_path_has_not_is_told_those_it_has(targets: dict[str, Target]) -> None:
    with Talk(targets["registry"].port) as talk:
        talk.send("PATCH /config HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = talk.answer()

    assert answer is not None
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, PUT")


@pytest.mark.parametrize("server", ["metrics", "bridge", "page"])
@pytest.mark.parametrize("form", BODIES)
def test_a_body_where_there_are_none_is_refused_and_is_no_request(
    targets: dict[str, Target], server: str, form: str
) -> None:
    headers, body = BODIES[form]
    target = targets[server]
    hidden = GET.format(path=target.path, more="")

    with Talk(target.port) as talk:
        talk.send(f"GET {target.path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n{body}{hidden}")
        answer = talk.answer()
        assert answer is not None
        assert answer.status == 400
        assert talk.answer() is None


# bugs, planted


PLANTED: dict[str, tuple[object, str, Any, str, str]] = {
    "an absolute target is refused": (
        request_reader,
        "REQUEST_LINE",
        re.compile(rb"(\w+) (/\S*)()() HTTP/1\.([01])"),
        "registry",
        "the absolute form",
    ),
    "a header may be missing": (
        request_reader.RequestReader,
        "_check_head",
        lambda self, request: None,
        "page",
        "no host",
    ),
    "an upgrade reaches the parser": (
        request_reader,
        "UPGRADE",
        re.compile(rb"$^"),
        "metrics",
        "an upgrade to HTTP/2",
    ),
    "one of two hosts is taken": (request_reader, "ONCE", (), "bridge", "two hosts"),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_bugs_in_http_are_found(
    targets: dict[str, Target], bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, planted, server, line = PLANTED[bug]
    monkeypatch.setattr(where, name, planted)

    with pytest.raises((AssertionError, ConnectionError)):
        test_odd_requests_are_answered_once(targets, server, line)
