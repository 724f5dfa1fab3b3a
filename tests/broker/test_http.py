"""The metrics port: pages for well-formed requests; one answer and the end for others, of which
other clients notice nothing.
"""

import json
from collections.abc import Iterator

import pytest

from raftka.http.messages import Reply, Request, Response
from raftka.http.pages import Pages
from raftka.limits import HTTP_CONNECTIONS, HTTP_REQUEST_BYTES, HTTP_SECONDS
from tests.broker.conftest import Lower
from tests.broker.stage import Stage
from tests.kit.broker.http import GET, PORT, Browser


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(metrics_port=str(PORT)) as stage:
        yield stage
        assert not stage.world.failures


def test_a_connection_asks_again_and_again(stage: Stage) -> None:
    browser = Browser(stage)
    for _ in range(3):
        status, headers, body = browser.answer_to(GET)
        assert (status, headers["content-type"]) == (200, "application/json")
        assert json.loads(body)["status"] == "ok"
    assert browser.close_reason is None


def test_requests_in_one_piece_are_answered_in_order(stage: Stage) -> None:
    browser = Browser(stage)
    nothing, metrics = (GET.replace(b"/health", path) for path in (b"/nothing", b"/metrics"))
    browser.send(GET + nothing + metrics + GET)

    assert [browser.page()[0] for _ in range(4)] == [200, 404, 200, 200]


def test_requests_may_come_byte_by_byte(stage: Stage) -> None:
    browser = Browser(stage)
    for byte in GET:
        browser.send(bytes([byte]))
        stage.world.run(stage.world.now + 0.01)

    assert browser.page()[0] == 200


def test_head_has_no_body(stage: Stage) -> None:
    browser = Browser(stage)
    status, headers, body = browser.answer_to(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1000
    assert browser.answer_to(GET)[0] == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /health HTTP/1.0\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n",
    ],
)
def test_connection_closes_when_the_client_asks_for_it(stage: Stage, request_: bytes) -> None:
    browser = Browser(stage)

    assert browser.answer_to(request_)[0] == 200
    stage.wait(lambda: browser.close_reason is not None)


HOSTILE = {
    "no Host header": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "no HTTP": (b"\x00\x00\x00\x10" + bytes(16) + b"\r\n\r\n", 400),
    "a body": (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde", 400),
    "a body in pieces": (
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "another method": (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    "another version": (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
    "no path": (b"GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "another scheme": (b"GET ftp://evil/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
    "a header without a name": (b"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", 400),
    "a control character": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400),
    "a bare line feed": (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n", 400),
    "a long path": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "many headers": (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 5000 + b"\r\n", 431),
    "a way out": (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_request_is_answered_once_and_closed(stage: Stage, what: str) -> None:
    sent, expected = HOSTILE[what]
    neighbour, browser = Browser(stage), Browser(stage)

    status, _, _ = browser.answer_to(sent)

    assert status == expected
    stage.wait(lambda: browser.close_reason is not None)
    assert not browser.came
    assert neighbour.answer_to(GET)[0] == 200
    assert len(stage.events("http_refused")) == (expected != 404)


def test_half_a_request_and_the_end(stage: Stage) -> None:
    browser = Browser(stage)
    browser.send(GET[:20])
    stage.world.run(stage.world.now + 1.0)
    browser.close()

    stage.wait(lambda: stage.nodes[1].web is not None and not stage.nodes[1].web.connections)


def test_a_page_that_fails_harms_nobody_else(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftka.broker.exporter.pages.health", lambda node: 1 / 0)
    browser = Browser(stage)

    assert browser.answer_to(GET)[0] == 500
    assert browser.answer_to(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 200
    assert stage.events("page_failed")[0]["path"] == "/health"


# limits


def test_http_connections(stage: Stage, lowered: Lower) -> None:
    lowered(HTTP_CONNECTIONS, 2)
    browsers = [Browser(stage) for _ in range(2)]
    for browser in browsers:
        assert browser.answer_to(GET)[0] == 200

    assert Browser(stage).frame() is None
    assert stage.counted(HTTP_CONNECTIONS.metric) == 1
    browsers[0].close()
    stage.world.run(stage.world.now + 1.0)
    assert Browser(stage).answer_to(GET)[0] == 200


def test_http_request_bytes(stage: Stage) -> None:
    browser = Browser(stage)
    browser.send(b"G" * (HTTP_REQUEST_BYTES.value + 1))

    assert browser.page()[0] == 431
    assert stage.counted(HTTP_REQUEST_BYTES.metric) == 1


@pytest.mark.parametrize("drip", [False, True])
def test_http_seconds(stage: Stage, drip: bool) -> None:
    browser = Browser(stage)
    assert browser.answer_to(GET)[0] == 200
    browser.send(b"GET ")
    for _ in range(20):
        stage.world.run(stage.world.now + HTTP_SECONDS.value / 18)
        if drip:
            browser.send(b"x")

    assert browser.close_reason is not None
    assert stage.counted(HTTP_SECONDS.metric) == 1


def test_client_that_does_not_read_gets_two_pages_and_then_waits(stage: Stage) -> None:
    browser = Browser(stage)
    assert browser.answer_to(GET)[0] == 200
    web = stage.nodes[1].web
    assert web is not None
    made: list[int] = []

    def page(request: Request, reply: Reply) -> None:
        made.append(len(made))
        reply(Response(200, "text/plain", bytes(4_000_000)))

    assert isinstance(web.site, Pages)
    web.site.pages = {"/large": page}
    browser.hold_reading(True)
    browser.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
    stage.world.run(stage.world.now + 10.0)

    assert 1 <= len(made) <= 2
    browser.hold_reading(False)
    assert [browser.page()[0] for _ in range(20)] == [200] * 20


# health


def test_a_node_says_whether_it_serves() -> None:
    with Stage(nodes=3, metrics_port=str(PORT)) as stage:
        node = stage.nodes[1]
        browser = Browser(stage)
        status, _, body = browser.answer_to(GET)
        assert (status, json.loads(body)) == (
            200,
            {
                "status": "ok",
                "node": 1,
                "roles": ["broker", "controller"],
                "cluster_id": node.image.cluster_id,
                "controller": node.quorum.leader,
                "broker_epoch": node.lifecycle.broker_epoch,
                "metadata_offset": node.image.offset,
            },
        )

        for other in (2, 3):
            stage.kill(other)
        stage.world.run(stage.world.now + 10.0)
        status, _, body = browser.answer_to(GET)
        assert status == 503
        assert "no controller has answered for" in json.loads(body)["reason"]


def test_a_node_that_can_not_write_says_so(stage: Stage) -> None:
    stage.nodes[1].lifecycle.withdraw("a test")
    status, _, body = Browser(stage).answer_to(GET)

    assert status == 503
    assert "a log can not be written" in json.loads(body)["reason"]


def test_node_without_a_cluster_is_unavailable() -> None:
    with Stage(nodes=3, metrics_port=str(PORT), wait=False) as stage:
        for other in (2, 3):
            stage.kill(other)
        status, _, body = Browser(stage).answer_to(GET)

        assert status == 503
        assert json.loads(body)["reason"] == "it is not registered with a controller"
