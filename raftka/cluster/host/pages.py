"""The two pages of a host: /metrics, those of all its brokers as one, and /health, the health of
each broker. Knows no process.

For each request the host asks all brokers at once. A broker that does not answer is missing in the
page, and its `raftka_host_broker_up` is 0.
"""

import json
import time
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlsplit

import trio

from raftka.broker.context import BrokerContext
from raftka.broker.exporter.guarded import guarded_server
from raftka.cluster.host.plan import LOOPBACK
from raftka.cluster.host.supervisor import Broker, Supervisor
from raftka.http.answer_reader import HttpFailed
from raftka.http.client import Answer, Wanted, fetch
from raftka.http.messages import TEXT, Reply, Request, Response
from raftka.http.pages import Page
from raftka.http.server import HttpServer
from raftka.limits import HOST_PAGE_BYTES, HOST_PAGE_SECONDS, LimitExceeded
from raftka.runtime.interfaces import Runtime

OK, UNAVAILABLE = 200, 503
HOST_FAMILIES = {
    "raftka_host_broker_up": (
        "gauge",
        "1: the broker has given its page; 0: it does not run, or does not answer.",
    ),
    "raftka_host_broker_restarts_total": (
        "counter",
        "Times that the broker was started again, because it had ended by itself.",
    ),
}
HOST = "host"  # the label's value for the supervisor's own numbers


class HostPages:
    def __init__(self, context: BrokerContext, supervisor: Supervisor, token: str) -> None:
        """`token`: opens the brokers' pages."""
        self._context, self._supervisor, self._token = context, supervisor, token
        self._waiting: list[Reply] = []

    def server(self) -> HttpServer:
        """Return the server of both pages. Raises TlsError, SettingError for useless settings."""
        health: Page = partial(self.show_health, brief=False)
        brief: Page = partial(self.show_health, brief=True)
        open_pages = (
            {} if self._context.metadata.settings["metrics.auth.health"] else {"/health": brief}
        )
        pages: dict[str, Page] = {"/metrics": self.show_metrics, "/health": health}
        return guarded_server(self._context, pages, open_pages, "metrics")

    def show_metrics(self, request: Request, reply: Reply) -> None:
        """Make one page for all requests that come meanwhile."""
        self._waiting.append(reply)
        if len(self._waiting) == 1:
            self._context.runtime.spawn(self._make_metrics, "host metrics")

    async def _make_metrics(self) -> None:
        answers = await self._ask_all("/metrics")
        pages = {
            str(node_id): answer.body for node_id, answer in answers.items() if answer.status == OK
        }
        own = self._own_numbers(
            {node_id for node_id, answer in answers.items() if answer.status == OK}
        )
        shared = self._shared_numbers()
        self._context.runtime.offload.run(
            lambda: own + merged({**pages, HOST: shared}), self._on_page
        )

    def _on_page(self, page: bytes | BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        if isinstance(page, BaseException):
            self._context.events.error("metrics_failed", error=repr(page))
            text = b"the metrics could not be written: see the host's log\n"
            response = Response(UNAVAILABLE, TEXT, text)
        else:
            response = Response(OK, CONTENT_TYPE, page)
        for reply in waiting:
            reply(response)

    def _own_numbers(self, up: set[int]) -> bytes:
        """Return the families of the host alone; each sample has the broker's label already."""
        of_broker = {
            "raftka_host_broker_up": {
                each.plan.node_id: int(each.plan.node_id in up) for each in self._supervisor.brokers
            },
            "raftka_host_broker_restarts_total": {
                each.plan.node_id: each.restarts for each in self._supervisor.brokers
            },
        }
        lines = []
        for name, (kind, text) in HOST_FAMILIES.items():
            lines += [f"# HELP {name} {text}\n", f"# TYPE {name} {kind}\n"]
            lines += [
                f'{name}{{{LABEL}="{node_id}"}} {value}\n'
                for node_id, value in of_broker[name].items()
            ]
        return "".join(lines).encode()

    def _shared_numbers(self) -> bytes:
        """Return the supervisor's own numbers, in families that brokers have too."""
        numbers: dict[str, float] = {
            "process_cpu_seconds_total": time.process_time(),
            **self._context.metrics.counters,
        }
        return "".join(
            f"# TYPE {name} counter\n{name} {value}\n" for name, value in numbers.items()
        ).encode()

    def show_health(self, request: Request, reply: Reply, *, brief: bool) -> None:
        """`brief`: for clients without a login."""
        self._context.runtime.spawn(lambda: self._answer_health(reply, brief=brief), "host health")

    async def _answer_health(self, reply: Reply, *, brief: bool) -> None:
        answers = await self._ask_all("/health")
        brokers = {
            str(each.plan.node_id): _health_of(answers.get(each.plan.node_id))
            for each in self._supervisor.brokers
        }
        is_ok = all(each.get("status") == "ok" for each in brokers.values())
        found: dict[str, object] = {"status": "ok" if is_ok else "unavailable"}
        if not brief:
            found["brokers"] = brokers
        status = OK if is_ok else UNAVAILABLE
        reply(Response(status, "application/json", json.dumps(found).encode() + b"\n"))

    async def _ask_all(self, path: str) -> dict[int, Answer]:
        """Return the answers by node id, of the brokers that answer."""
        found: dict[int, Answer] = {}

        async def ask(broker: Broker) -> None:
            node_id, port = broker.plan.node_id, broker.plan.settings["metrics.port"]
            try:
                found[node_id] = await get_page(self._context.runtime, port, path, self._token)
            except LimitExceeded as error:
                self._context.metrics.hit(error.limit)
            except HttpFailed as error:
                self._context.events.debug(
                    "host_page_missing", broker=node_id, path=path, error=str(error)
                )

        async with trio.open_nursery() as nursery:
            for each in self._supervisor.brokers:
                if each.running is not None:
                    nursery.start_soon(ask, each)
        return {node_id: found[node_id] for node_id in sorted(found)}


def _health_of(answer: Answer | None) -> Mapping[str, object]:
    """Return the page of /health as the broker wrote it."""
    try:
        found = None if answer is None else json.loads(answer.body)
    except ValueError:
        found = None
    return (
        found
        if isinstance(found, dict)
        else {"status": "unavailable", "reason": "it does not answer"}
    )


async def get_page(runtime: Runtime, port: int, path: str, token: str) -> Answer:
    """Get a page of a broker of this host, on a connection of its own to 127.0.0.1. Return the
    answer, of any status. Raises HttpFailed, and LimitExceeded for a page that is too long or takes
    too long.
    """
    found: list[Answer | HttpFailed | LimitExceeded] = []
    came = trio.Event()

    def on_answer(result: Answer | HttpFailed | LimitExceeded) -> None:
        found.append(result)
        came.set()

    wanted = Wanted(
        urlsplit(f"http://{LOOPBACK}:{port}{path}"),
        HOST_PAGE_BYTES,
        headers=(f"Authorization: Bearer {token}",),
        statuses=None,
        needs_end=True,
    )
    fetch(runtime, wanted, HOST_PAGE_SECONDS, on_answer)
    await came.wait()
    if isinstance(found[0], Answer):
        return found[0]
    raise found[0]


LABEL = "broker"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def merged(pages: Mapping[str, bytes]) -> bytes:
    """Merge pages into one, in which each sample has the label `broker`. `pages`: by the label's
    value. Each family comes once, in the order of its first page. Linear in the bytes.

    The text format of Prometheus, version 0.0.4, as raftka's own exporter writes it: a family's
    samples follow its HELP and TYPE.
    """
    heads: dict[bytes, dict[bytes, bytes]] = {}  # by family and keyword
    samples: dict[bytes, list[bytes]] = {}
    for value, page in pages.items():
        label = f'{LABEL}="{value}"'.encode()
        family = b""
        for line in page.split(b"\n"):
            if line.startswith((b"# HELP ", b"# TYPE ")):
                _, keyword, family, *_ = line.split(b" ", 3)
                heads.setdefault(family, {}).setdefault(keyword, line)
            elif line and not line.startswith(b"#"):
                samples.setdefault(family, []).append(_labelled(line, label))
    lines = [
        line
        for family, found in samples.items()
        for line in (*heads.get(family, {}).values(), *found)
    ]
    return b"".join([line + b"\n" for line in lines])


def _labelled(sample: bytes, label: bytes) -> bytes:
    """Return a sample with the label. The exporter itself has no label of that name."""
    name, brace, rest = sample.partition(b"{")
    if brace and b" " not in name:
        return name + b"{" + label + (b"" if rest.startswith(b"}") else b",") + rest
    name, _, value = sample.partition(b" ")
    return name + b"{" + label + b"} " + value
