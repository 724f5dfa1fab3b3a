"""The host's pages when a broker answers nothing, too much, too late, or not what was asked: the
others are there all the same.
"""

import io
import json
from collections.abc import Awaitable, Callable

import pytest
import trio

from raftka.broker.context import BrokerContext
from raftka.broker.telemetry.event_log import Events
from raftka.broker.telemetry.metrics import Metrics
from raftka.cluster.host import pages
from raftka.cluster.host.pages import HostPages, get_page
from raftka.cluster.host.plan import LOOPBACK, plan_host
from raftka.cluster.host.supervisor import Supervisor
from raftka.http.answer_reader import HttpFailed
from raftka.http.client import Answer
from raftka.http.messages import Request, Response
from raftka.limits import HOST_PAGE_BYTES, Limit, LimitExceeded
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime.real.runtime import open_runtime

FILE = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "9@h:1",
    "listeners": "PLAINTEXT://:9092",
    "metrics.port": "0",
}
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nup 1"


async def serve(nursery: trio.Nursery, answer: bytes | None, heard: list[bytes]) -> int:
    """A port where each connection gets this answer and its end; None: nothing at all."""

    async def one(stream: trio.SocketStream) -> None:
        heard.append(bytes(await stream.receive_some(4096)))
        if answer is None:
            await trio.sleep_forever()
        else:
            await stream.send_all(answer)
            await stream.aclose()

    (listener,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
    nursery.start_soon(trio.serve_listeners, one, [listener])
    return int(listener.socket.getsockname()[1])


def asked(answer: bytes | None) -> tuple[Answer, list[bytes]]:
    heard: list[bytes] = []

    async def main() -> Answer | Exception:
        async with open_runtime() as runtime, trio.open_nursery() as nursery:
            port = await serve(nursery, answer, heard)
            try:
                return await get_page(runtime, port, "/metrics", "secret")
            except (HttpFailed, LimitExceeded) as error:
                return error
            finally:
                nursery.cancel_scope.cancel()

    found = trio.run(main)
    if isinstance(found, Exception):
        raise found
    return found, heard


def test_a_page_is_asked_for_with_the_token() -> None:
    answer, (request,) = asked(WHOLE)

    assert answer == Answer(200, b"up 1")
    assert request.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in request


NO_PAGES = {
    b"": "ends too early",
    b"HTTP/1.1 200 OK\r\n\r\nup 1": "does not say where it ends",
    WHOLE[:-1]: "ends too early",
    b"junk\r\n\r\n": "no HTTP",
    WHOLE.replace(b"200", b"two"): "no HTTP",
    b"\xff" * 100: "ends too early",
}


@pytest.mark.parametrize("answer", NO_PAGES)
def test_answer_that_is_not_whole_is_no_page(answer: bytes) -> None:
    with pytest.raises(HttpFailed, match=NO_PAGES[answer]):
        asked(answer)


def test_port_without_a_listener_is_no_page() -> None:
    async def main() -> None:
        async with open_runtime() as runtime:
            (listener,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
            port = listener.socket.getsockname()[1]
            await listener.aclose()
            with pytest.raises(HttpFailed, match="refused"):
                await get_page(runtime, port, "/metrics", "secret")

    trio.run(main)


def test_a_page_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "HOST_PAGE_BYTES", Limit("host_page_bytes", 4, ""))
    assert asked(WHOLE)[0].status == 200

    with pytest.raises(LimitExceeded) as exceeded:
        asked(WHOLE.replace(b"up 1", b"up 11").replace(b": 4", b": 5"))
    assert exceeded.value.limit.name == HOST_PAGE_BYTES.name


def test_a_broker_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit("host_page_seconds", 1, "")
    monkeypatch.setattr(pages, "HOST_PAGE_SECONDS", limit)
    with pytest.raises(LimitExceeded) as exceeded:
        asked(None)
    assert exceeded.value.limit is limit


class Host:
    """Brokers 1 to 3, whose pages are these answers; None: it does not run."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self.answers = answers
        self.metrics, self.log = Metrics(), io.StringIO()

    def play(self, script: Callable[[HostPages], Awaitable[None]]) -> None:
        async def main() -> None:
            async with open_runtime() as runtime, trio.open_nursery() as nursery:
                events = Events(self.log, runtime.clock.wall_ms, "debug")
                context = BrokerContext(
                    runtime, NodeSettings.from_properties(FILE), events, self.metrics
                )
                ports = [await serve(nursery, answer, []) for answer in self.answers]
                plan = plan_host(FILE, len(ports), "h").with_pages(ports, "secret")
                supervisor = Supervisor(
                    plan.brokers,
                    lambda plan: None,  # type: ignore[arg-type,return-value]
                    events,
                    self.metrics,
                    lambda: None,
                )
                for broker, answer in zip(supervisor.brokers, self.answers, strict=True):
                    broker.running = None if answer is None else object()  # type: ignore[assignment]
                await script(HostPages(context, supervisor, "secret"))
                nursery.cancel_scope.cancel()

        trio.run(main)


def request(path: str) -> Request:
    return Request("GET", path, {}, is_old=False)


async def page(pages: HostPages, path: str) -> tuple[int, str]:
    found: list[tuple[int, str]] = []
    done = trio.Event()

    def reply(response: Response) -> None:
        found.append((response.status, response.body.decode()))
        done.set()

    pages.server().site.answer(request(path), reply)
    await done.wait()
    return found[0]


def test_the_page_is_made_of_those_that_answer() -> None:
    host = Host([WHOLE, None, b"junk"])
    host.metrics.count("raftka_http_errors_total", 3)

    async def script(pages: HostPages) -> None:
        status, text = await page(pages, "/metrics")

        assert status == 200
        assert 'up{broker="1"} 1\n' in text
        assert [
            f'raftka_host_broker_up{{broker="{each}"}} {up}\n' in text
            for each, up in ((1, 1), (2, 0), (3, 0))
        ] == [True] * 3
        assert 'raftka_http_errors_total{broker="host"} 3\n' in text

    host.play(script)
    assert '"event": "host_page_missing", "broker": 3' in host.log.getvalue()


def test_limits_that_brokers_hit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "HOST_PAGE_BYTES", Limit("host_page_bytes", 3, ""))
    host = Host([WHOLE])

    async def script(pages: HostPages) -> None:
        text = (await page(pages, "/metrics"))[1]
        assert 'raftka_host_broker_up{broker="1"} 0' in text
        assert f'{HOST_PAGE_BYTES.metric}{{broker="host"}} 1' in text

    host.play(script)


def test_those_who_ask_meanwhile_get_the_same_page() -> None:
    host, found = Host([WHOLE]), list[bytes]()

    async def script(pages: HostPages) -> None:
        done = trio.Event()

        def reply(response: Response) -> None:
            found.append(response.body)
            if len(found) == 2:
                done.set()

        site = pages.server().site
        site.answer(request("/metrics"), reply)
        site.answer(request("/metrics"), reply)
        await done.wait()

    host.play(script)
    assert found[0] is found[1]


WELL = b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"status": "ok"}'
ILL = b'HTTP/1.1 503 No\r\nContent-Length: 45\r\n\r\n{"status": "unavailable", "reason": "fenced"}'


@pytest.mark.parametrize(
    ("answers", "status", "brokers"),
    [
        ([WELL, WELL], 200, [{"status": "ok"}, {"status": "ok"}]),
        (
            [WELL, None],
            503,
            [{"status": "ok"}, {"status": "unavailable", "reason": "it does not answer"}],
        ),
        ([WELL, ILL], 503, [{"status": "ok"}, {"status": "unavailable", "reason": "fenced"}]),
        (
            [WELL, WHOLE],
            503,
            [{"status": "ok"}, {"status": "unavailable", "reason": "it does not answer"}],
        ),
    ],
)
def test_a_host_is_well_when_all_its_brokers_are(
    answers: list[bytes | None], status: int, brokers: list[dict[str, str]]
) -> None:
    async def script(pages: HostPages) -> None:
        code, text = await page(pages, "/health")

        assert code == status
        assert json.loads(text)["brokers"] == {
            str(number): each for number, each in enumerate(brokers, 1)
        }

    Host(answers).play(script)
