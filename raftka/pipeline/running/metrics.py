"""Metrics of flows for Prometheus: `raftka pipeline run --metrics PORT`, at /metrics."""

from collections.abc import Callable, Iterator, Mapping

from raftka.http.messages import Reply, Request, Response
from raftka.http.pages import BOUNDS, Pages, Stderr
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.supervisor import Reported
from raftka.pipeline.page import HOST
from raftka.runtime.interfaces import Runtime

# name, kind, help, of a flow's report; None: it is not known, and left out
METRICS: tuple[tuple[str, str, str, Callable[[Reported], float | None]], ...] = (
    (
        "lag_offsets",
        "gauge",
        "Offsets that are in the flow's topics now and not committed.",
        lambda flow: flow.lag,
    ),
    (
        "lag_seconds",
        "gauge",
        "Age of the oldest record that waits, by its timestamp.",
        lambda flow: flow.age_s,
    ),
    ("running", "gauge", "1 while its query runs.", lambda flow: flow.state == "running"),
    (
        "batch",
        "gauge",
        "Number of the last batch with rows.",
        lambda flow: flow.batch if flow.batch >= 0 else None,
    ),
    ("batch_seconds", "gauge", "Length of the last batch with rows.", lambda flow: flow.seconds),
    (
        "rows_read_total",
        "counter",
        "Rows that were read, of topics the offsets.",
        lambda flow: flow.rows,
    ),
    ("rows_written_total", "counter", "Rows that went to the output.", lambda flow: flow.written),
    (
        "late_rows_total",
        "counter",
        "Rows that were dropped, later than the watermark.",
        lambda flow: flow.late_rows,
    ),
    (
        "failures_total",
        "counter",
        "Queries that failed and were started again.",
        lambda flow: flow.failures,
    ),
    ("state_rows", "gauge", "Rows in its state.", lambda flow: flow.state_rows),
    ("state_bytes", "gauge", "Memory of its state.", lambda flow: flow.state_bytes),
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Flows = Callable[[], Mapping[str, Reported]]


def exposition(flows: Mapping[str, Reported]) -> str:
    return "".join(f"{line}\n" for line in _lines(flows))


def _lines(flows: Mapping[str, Reported]) -> Iterator[str]:
    for name, kind, text, value in METRICS:
        yield f"# HELP raftka_pipeline_flow_{name} {text}"
        yield f"# TYPE raftka_pipeline_flow_{name} {kind}"
        for flow, reported in flows.items():
            found = value(reported)
            if found is not None:
                label = flow.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                yield f'raftka_pipeline_flow_{name}{{flow="{label}"}} {float(found):g}'


class MetricsPage:
    def __init__(self, port: int, flows: Flows) -> None:
        """Raises PipelineError when the port is another's. Port 0 takes a free one."""
        self._flows = flows
        try:
            self._server = ServerThread((HOST, port), self._make_server, "metrics")
        except OSError as error:
            raise PipelineError(
                f"metrics can not have port {port}: {error}. Next step: --metrics another one"
            ) from None
        self.url = f"{self._server.url}/metrics"

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def _make_server(self, runtime: Runtime) -> HttpServer:
        return HttpServer(Pages({"/metrics": self._show}, Stderr()), BOUNDS, runtime.clock)

    def _show(self, request: Request, reply: Reply) -> None:
        reply(Response(200, CONTENT_TYPE, exposition(self._flows()).encode()))
