"""`raftka pipeline run`: a project's flows in one session until SIGTERM, each started again when it
fails. Reports progress in lines and in a file.
"""

import logging
import os
import shutil
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftka.pipeline.errors import PipelineError, Unreachable
from raftka.pipeline.flows.live import Live
from raftka.pipeline.flows.requests import clear, serve
from raftka.pipeline.flows.streams import BOOTSTRAP, connection, load
from raftka.pipeline.flows.supervisor import FIRST_PAUSE_S, LONGEST_PAUSE_S, Reported, Supervised
from raftka.pipeline.page import ProjectPage, page_of
from raftka.pipeline.project import Project, held, load_project, write_status
from raftka.pipeline.running.checks import check
from raftka.pipeline.running.lag import Ends, LagWatch, ends_of
from raftka.pipeline.running.metrics import Flows, MetricsPage
from raftka.pipeline.running.stopping import Stopped, Stopping, end_children
from raftka.pipeline.spark import is_local, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

CHECK_S = 0.25
STATUS_S = 1.0
JAVA_ENDS_S = 10.0  # so long it may take to end when it is told to
BETWEEN_BATCHES_S = 30.0  # so long a query may take to its next pause when all is to end
STATIC = {  # ours, where the project says nothing else
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.noDataProgressEventInterval": "2000",
}

# what they tell is told by the exception
NOISY = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")

Say = Callable[[str], None]


def run(
    folder: Path,
    *,
    every_s: float,
    port: int | None,
    master: str | None,
    config: Mapping[str, str],
    say: Say,
    metrics: int | None = None,
) -> None:
    """Run the project; return after SIGTERM or Ctrl-C. Raise PipelineError, within a second for
    errors of the project's files. `metrics`: a port.
    """
    stopping = Stopping()
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
    project = load_project(folder)
    check(project)
    try:
        with ExitStack() as held_open:
            with stopping.start():
                lock = held_open.enter_context(held(project))
                running = held_open.enter_context(Running(project, lock, every_s, say))
                held_open.enter_context(Pages(project, port, say))
                held_open.enter_context(Metrics(metrics, running.reported, say))
                running.begin(master, config, stopping)
            running.supervise(stopping.event)
    except Stopped:
        say(f"{project.name}: stopped before it had begun")


class Running:
    def __init__(self, project: Project, lock: int, every_s: float, say: Say) -> None:
        self._project, self._lock, self._every_s, self._say = project, lock, every_s, say
        self._spark: SparkSession | None = None
        self._flows: list[Supervised] = []
        self._live: Live | None = None
        self._lags: LagWatch | None = None
        self._written = float("-inf")

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Stopped):
            end_children()
            self._stop_lag()
            self._write_status("stopped", at_once=True)
        else:
            self.end()

    def reported(self) -> Mapping[str, Reported]:
        return {flow.name: flow.reported for flow in list(self._flows)}

    def begin(self, master: str | None, config: Mapping[str, str], stopping: Stopping) -> None:
        """Start the flows. Raise PipelineError for any error of Spark or of a definition; its
        traceback is in the log.
        """
        try:
            self._begin(master, config, stopping)
        except PipelineError:
            raise
        except Exception as error:
            if stopping.event.is_set():
                raise
            raise PipelineError(f"{self._sentence(error)}. All of it is in {self._log}") from None

    def _sentence(self, error: Exception) -> str:
        from raftka.pipeline.flows.spark_statements import sentence

        with suppress(OSError), self._log.open("a") as log:
            log.write("".join(traceback.format_exception(error)))
        frames = [
            each
            for each in traceback.extract_tb(error.__traceback__)
            if each.filename.startswith(f"{self._project.folder}/")
        ]
        where = f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""
        return where + " ".join(f"{type(error).__name__}: {sentence(error)}".split()).rstrip(".")

    @property
    def _log(self) -> Path:
        return self._project.state / "spark.log"

    def _begin(self, master: str | None, config: Mapping[str, str], stopping: Stopping) -> None:
        settings = {**STATIC, **self._project.configuration, **config}
        # Spark's is a list
        if is_local(
            {**settings, **({"spark.master": master} if master else {})}
        ) and "," not in str(self._project.folder):
            settings.setdefault("spark.local.dir", str(self._emptied()))
        self._write_status("starting")
        self._spark = session(
            self._project.name, settings, master=master, log=self._log, held=self._lock
        )
        stopping.listen()
        self._spark.sparkContext.setLogLevel("WARN")
        silence_counters(self._spark)
        self._java = self._spark.sparkContext._gateway.proc
        self._say(
            f"{self._project.name}: Spark {self._spark.version} is there, its log goes to "
            f"{self._log}"
        )
        graph = self._loaded(stopping.event)
        if graph is None:
            return
        watch = self._watch_lag()
        for flow in graph.streams():
            checkpoint = graph.checkpoint(flow)
            self._flows.append(
                Supervised(
                    flow.name, partial(graph.start, flow, self._every_s), checkpoint, lag=watch.lag
                )
            )
        watch.start()
        clear(self._project)
        self._live = Live(self._project, graph, self._flows, self._every_s, self._say, watch.lag)

    def _watch_lag(self) -> LagWatch:
        path = self._project.folder / "streams.yml"
        ends = (
            ends_of(load(path))
            if path.is_file()
            else Ends({}, connection(os.environ.get(BOOTSTRAP, "localhost:9092"), None))
        )
        self._lags = LagWatch(
            ends,
            lambda: [position for flow in list(self._flows) for position in flow.committed or ()],
        )
        return self._lags

    def _stop_lag(self) -> None:
        if self._lags is not None:
            self._lags.stop()

    def _emptied(self) -> Path:
        """Return the emptied folder for blocks and for shared columns. A killed Java has left its
        own there.
        """
        folder = self._project.state / "local"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        return folder

    def _loaded(self, stopping: threading.Event) -> Any:
        """Definitions ask brokers, which may be away. None: it is to end before they were back."""
        from raftka.pipeline.flows.graph import Graph

        pause = FIRST_PAUSE_S
        while not stopping.is_set():
            graph = Graph(self._spark, self._project)
            try:
                graph.load()
            except Unreachable as error:
                self._say(f"{self._project.name}: {error}. It is tried again in {pause:g} s")
                stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            else:
                return graph
        return None

    def supervise(self, stopping: threading.Event) -> None:
        """Raises PipelineError."""
        while not stopping.is_set():
            self._check_java()
            try:
                self._check_flows()
            except Exception:
                if stopping.is_set():
                    return
                if self._java_ends():  # what its client says of that says nothing
                    self._check_java()
                raise
            self._write_status("running")
            stopping.wait(CHECK_S)

    def _check_flows(self) -> None:
        if self._live is not None:
            serve(self._project, self._live.answer)
        for flow in self._flows:
            if flow.query is None and any(
                each.is_starting(time.monotonic()) for each in self._flows
            ):
                continue
            for line in flow.check(time.monotonic()):
                self._say(f"{time.strftime('%H:%M:%S')}  {line}")
                self._written = float("-inf")

    def _java_ends(self) -> bool:
        """Return True if Java has ended, or ends now: a signal may have gone to the whole group of
        processes.
        """
        try:
            self._java.wait(JAVA_ENDS_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _check_java(self) -> None:
        ended = self._java.poll()
        if ended is not None:
            self._spark = None  # nothing of it can be asked any more
            raise PipelineError(
                f"Java ended with exit code {ended}; {self._log} may say why. Nothing is lost: "
                "next step: run it again"
            )

    def end(self) -> None:
        """Stop the queries between two batches, if they pause soon: else the next start sends the
        records of a half-done batch again.
        """
        self._stop_lag()
        if self._spark is None:
            return
        self._write_status("stopping", at_once=True)
        words = "stopped"
        try:
            self._end_flows()
            self._spark.stop()
        except Exception:
            if not self._java_ends():
                raise
            words = (
                "stopped, and Java beside it: a batch that was under way is done again at the "
                "next start"
            )
        for flow in self._flows:
            flow.reported.state = "stopped"
        self._write_status("stopped", at_once=True)
        self._say(f"{self._project.name}: {words}")

    def _end_flows(self) -> None:
        deadline = time.monotonic() + BETWEEN_BATCHES_S
        left = [flow for flow in self._flows if flow.query is not None]
        while left:
            for flow in list(left):
                if not _is_busy(flow.query) or time.monotonic() > deadline:
                    flow.query.stop()
                    left.remove(flow)
            time.sleep(0.01 if left else 0)

    def _write_status(self, state: str, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if now - self._written < STATUS_S and not at_once:
            return
        self._written = now
        flows = {flow.name: asdict(flow.reported) for flow in self._flows}
        try:
            write_status(
                self._project,
                {
                    "pid": os.getpid(),
                    "name": self._project.name,
                    "state": state,
                    "time": time.time(),
                    "flows": flows,
                },
            )
        except OSError as error:  # a full disk: the flows say so themselves
            self._say(f"{self._project.name}: its status can not be written: {error}")


def silence_counters(spark: "SparkSession") -> None:
    """Silence PySpark's server of counters: it prints a traceback when Java ends, which is reported
    elsewhere.
    """
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _is_busy(query: "StreamingQuery") -> bool:
    return bool(query.isActive and query.status["isTriggerActive"])


class Pages:
    """The project's page, where it has one."""

    def __init__(self, project: Project, port: int | None, say: Say) -> None:
        self._page: ProjectPage | None = None
        if port is not None:
            self._page = page_of(project.folder, port)
        self._say = say

    def __enter__(self) -> None:
        if self._page is not None:
            self._page.start()
            self._say(f"the map is at {self._page.url}")

    def __exit__(self, *exception: object) -> None:
        if self._page is not None:
            self._page.stop()


class Metrics:
    """The page for Prometheus, where it is wanted."""

    def __init__(self, port: int | None, flows: Flows, say: Say) -> None:
        """Raises PipelineError."""
        self._page = None if port is None else MetricsPage(port, flows)
        self._say = say

    def __enter__(self) -> None:
        if self._page is not None:
            self._page.start()
            self._say(f"metrics are at {self._page.url}")

    def __exit__(self, *exception: object) -> None:
        if self._page is not None:
            self._page.stop()
