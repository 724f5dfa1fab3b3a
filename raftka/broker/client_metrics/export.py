"""Export of clients' pushes by OTLP over HTTP, in Protobuf, to one collector. It never holds up a
client or the loop: pushes wait in memory within a limit, one request is in flight at a time.
"""

from collections import deque
from collections.abc import Mapping
from urllib.parse import urlsplit

from raftka.broker.client_metrics.otlp import with_attributes
from raftka.broker.context import BrokerContext
from raftka.broker.work.long_work import Steps
from raftka.http.answer_reader import HttpFailed
from raftka.http.client import Answer, Wanted, fetch
from raftka.limits import (
    MIB,
    OTLP_ANSWER_BYTES,
    OTLP_SECONDS,
    OTLP_WAITING_BYTES,
    LimitExceeded,
)
from raftka.security.tls_context import TlsContexts, client_context
from raftka.security.tls_settings import TlsError, TlsSettings

PATH = "/v1/metrics"  # of an endpoint without a path
REQUEST_BYTES = 1 * MIB  # of pushes in one request, if it has more than one
HEADERS = ("Content-Type: application/x-protobuf", "Accept: application/x-protobuf")
AGAIN = (429, 502, 503, 504)  # OTLP's answers after which the same request is made anew
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
PUSHES, FAILURES = "raftka_otlp_pushes_total", "raftka_otlp_failures_total"


class OtlpExport:
    def __init__(self, context: BrokerContext, url: str) -> None:
        parts = urlsplit(url)
        self._url = parts if parts.path.strip("/") else parts._replace(path=PATH)
        self._context = context
        self._metrics = context.metrics
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0  # those in flight included
        self._in_flight: list[bytes] = []
        self._wait_s = FIRST_WAIT_S
        self._is_due = False  # a request is in flight, or a timer will make the next one
        self._is_failing = False
        self._tls = TlsContexts(
            lambda: TlsSettings.of(lambda name: None),
            client_context,
            context.store_files,
            context.runtime.clock.now,
        )

    def offer(self, data: bytes, fields: Mapping[str, str | None]) -> Steps[None]:
        """Send a push that was read, with the client's fields as attributes of its resource; drop
        the oldest ones if too much waits.
        """
        attributes = [(name, value) for name, value in fields.items() if value is not None]
        attributes.append(("broker_id", str(self._context.node_id)))
        try:
            push = yield from with_attributes(data, attributes)
        except LimitExceeded as error:
            self._metrics.hit(error.limit)
            return
        self._waiting.append(push)
        self.waiting_bytes += len(push)
        while self.waiting_bytes > OTLP_WAITING_BYTES.value and self._waiting:
            self._metrics.hit(OTLP_WAITING_BYTES)
            self.waiting_bytes -= len(self._waiting.popleft())
        if not self._is_due and self._waiting:
            self._is_due = True
            self._context.later(self._send)

    def _send(self) -> None:
        if self._context.stopped:
            return
        if not self._in_flight:
            self._take_waiting()
        if not self._in_flight:
            self._is_due = False
            return
        # a MetricsData has the one field of an ExportMetricsServiceRequest; two behind each other
        # are one with the contents of both
        wanted = Wanted(
            self._url, OTLP_ANSWER_BYTES, HEADERS, statuses=None, body=b"".join(self._in_flight)
        )
        try:
            tls = (
                (self._tls.current(), self._context.later) if self._url.scheme == "https" else None
            )
        except TlsError as error:
            self._on_failure(str(error), again=True)
            return
        fetch(self._context.runtime, wanted, OTLP_SECONDS, self._on_answer, tls)

    def _take_waiting(self) -> None:
        size_bytes = 0
        while self._waiting:
            size_bytes += len(self._waiting[0])
            if self._in_flight and size_bytes > REQUEST_BYTES:
                return
            self._in_flight.append(self._waiting.popleft())

    def _on_answer(self, answer: Answer | HttpFailed | LimitExceeded) -> None:
        if not isinstance(answer, Answer):
            if isinstance(answer, LimitExceeded):
                self._metrics.hit(answer.limit)
            self._on_failure(str(answer), again=True)
            return
        if not 200 <= answer.status < 300:
            self._on_failure(f"the answer is {answer.status}", again=answer.status in AGAIN)
            return
        self._metrics.count(PUSHES, len(self._in_flight))
        if self._is_failing:
            self._is_failing = False
            self._context.events.info("otlp_collector_back")
        self._next()

    def _on_failure(self, reason: str, *, again: bool) -> None:
        self._metrics.count(FAILURES)
        if not self._is_failing:
            self._is_failing = True
            self._context.events.warning("otlp_collector_away", error=reason)
        if not again:
            self._next()
            return
        clock, wait_s = self._context.runtime.clock, self._wait_s
        self._wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        clock.call_at(clock.now() + wait_s, self._send)

    def _next(self) -> None:
        """Go on behind the request that is done."""
        self.waiting_bytes -= sum(map(len, self._in_flight))
        self._in_flight.clear()
        self._wait_s = FIRST_WAIT_S
        self._context.later(self._send)
