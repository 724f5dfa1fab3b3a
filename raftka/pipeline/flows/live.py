"""Streams, tables and sinks that come and go while a pipeline runs. A request that fails leaves
everything as it was.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from raftka.json_values import JsonObject
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.flows.requests import LARGEST_ANSWER
from raftka.pipeline.flows.spark_statements import make_topic, sentence
from raftka.pipeline.flows.statements import (
    Statement,
    check_unused,
    file_of,
    parse,
    statement,
    write,
)
from raftka.pipeline.flows.supervisor import Supervised
from raftka.pipeline.project import Project, remove_data
from raftka.pipeline.running.lag import Lag
from raftka.pipeline.topics.positions import Position

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from raftka.pipeline.flows.graph import Graph

# for brokers and for the end of a batch: the other flows are not looked after so long
PATIENCE_S = 10.0


class Live:
    def __init__(
        self,
        project: Project,
        graph: "Graph",
        flows: list[Supervised],
        every_s: float,
        say: Callable[[str], None],
        lag: Callable[[Sequence[Position]], Lag] = lambda positions: Lag(),
    ) -> None:
        """`flows`: those that are looked after; this list gets and loses members here."""
        self._project, self._graph, self._flows, self._every_s = project, graph, flows, every_s
        self._say, self._lag = say, lag

    def answer(self, request: JsonObject) -> JsonObject:
        """Raises PipelineError."""
        actions: dict[object, Callable[[str], JsonObject]] = {
            "add": self._add,
            "remove": self._remove,
            "explain": self._explain,
        }
        action, argument = actions.get(request.get("do")), request.get("with")
        if action is None or not isinstance(argument, str):
            raise OptionRefused(
                "this process does not know the request: is it of another version of raftka?"
            )
        try:
            return action(argument)
        except PipelineError:
            raise
        except Exception as error:  # Spark's are of many kinds
            raise PipelineError(sentence(error)) from None

    def _add(self, text: str) -> JsonObject:
        found = parse(text)
        self._graph.add(found)
        try:
            make_topic(self._project, found, PATIENCE_S)
            write(self._project.folder, found)
        except Exception:
            self._graph.remove(found.name)
            raise
        if found.kind != "STREAM":
            try:
                self._start(found)
            except Exception:
                file_of(self._project.folder, found.name).unlink(missing_ok=True)
                self._graph.remove(found.name)
                raise
        self._say(f"{found.name}: added")
        return {"name": found.name, "kind": found.kind}

    def _start(self, found: Statement) -> None:
        (flow,) = (each for each in self._graph.flows if each.name == found.name)
        started = Supervised(
            found.name,
            partial(self._graph.start, flow, self._every_s),
            self._graph.checkpoint(flow),
            lag=self._lag,
        )
        started.check(time.monotonic())
        if started.query is None:
            raise PipelineError(str(started.reported.error))
        self._flows.append(started)

    def _remove(self, name: str) -> JsonObject:
        found = statement(self._project.folder, name)
        check_unused(self._project.folder, name)
        for flow in [each for each in self._flows if each.name == name]:
            self._flows.remove(flow)
            stop_between_batches(flow.query)
        self._graph.remove(name)
        file_of(self._project.folder, name).unlink(missing_ok=True)
        if found.kind != "STREAM":
            self._graph.remove_checkpoints(name)
            remove_data(self._project, name)
        self._say(f"{name}: removed")
        return {"name": name, "kind": found.kind}

    def _explain(self, name: str) -> JsonObject:
        return {"plan": self._graph.explain(name)[:LARGEST_ANSWER]}


def stop_between_batches(query: "StreamingQuery | None") -> None:
    """Between two batches, where there is such a moment soon."""
    if query is None:
        return
    deadline = time.monotonic() + PATIENCE_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.01)
    query.stop()
