"""G1c: transactions that read in a circle, each what the next one wrote. With read-committed each
would have to be committed before the other.

That their writes interleave in a circle is as it must be in Kafka, where writes are not isolated:
it is a note.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from raftka.chaos.checks.versions import Versions, happened
from raftka.chaos.history import TRANSACTION, History, Operation
from raftka.chaos.verdict import Findings, Rules

Graph = dict[int, list[int]]  # by where a transaction began


def check(
    history: History, versions: Mapping[str, Versions], rules: Rules, findings: Findings
) -> None:
    there = {
        each.began: each
        for each in history.operations
        if each.verb == TRANSACTION and happened(each, versions)
    }
    reads = _reads(there, versions)
    for circle in circles(reads):
        if rules.read_committed:
            said = f"{len(circle)} transactions read each other's records in a circle"
            findings.wrong(
                "G1c", _key(there[circle[0]]), said, [there[each] for each in sorted(circle)]
            )
        else:
            findings.note("G1c")
    writes = _writes(there, versions)
    findings.note("G0", sum(1 for _ in circles(writes)))
    findings.note(
        "G1c by way of writes",
        sum(
            1
            for _ in circles(
                {each: [*reads.get(each, ()), *writes.get(each, ())] for each in there}
            )
        ),
    )


def _key(operation: Operation) -> str:
    return next(iter(operation.polled), operation.sends[0][0] if operation.sends else "")


def _reads(there: Mapping[int, Operation], versions: Mapping[str, Versions]) -> Graph:
    """From who wrote to who read, of those who do both: others are in no circle."""
    graph: Graph = defaultdict(list)
    for operation in there.values():
        if not operation.sends:
            continue
        for key, records in operation.polled.items():
            writers = versions[key].writers
            for writer in {writers[value].began for _, value in records if value in writers} - {
                operation.began
            }:
                if writer in there and there[writer].polled:
                    graph[writer].append(operation.began)
    return graph


def _writes(there: Mapping[int, Operation], versions: Mapping[str, Versions]) -> Graph:
    """From each writer to that of the next record, where both are transactions."""
    graph: Graph = defaultdict(list)
    for each in versions.values():
        if not each.transactions:
            continue
        before: Operation | None = None
        for offset in each.offsets:
            writer = each.writers.get(each.at[offset])
            if (
                before is not None
                and writer is not None
                and writer is not before
                and before.began in there
                and writer.began in there
            ):
                graph[before.began].append(writer.began)
            before = writer
    return graph


def circles(graph: Mapping[int, list[int]]) -> Iterator[list[int]]:
    """Strongly connected components of more than one, after Tarjan."""
    search = _Search(graph)
    for root in graph:
        if root not in search.number:
            yield from search.of(root)


class _Search:
    """Without recursion: a history is deeper than Python's stack."""

    def __init__(self, graph: Mapping[int, list[int]]) -> None:
        self.graph = graph
        self.number: dict[int, int] = {}  # in the order in which nodes were found
        self._low: dict[int, int] = {}  # the first that can be reached from here
        self._waiting: dict[int, None] = {}  # a stack: found, and not in a component yet
        self._path: list[tuple[int, Iterator[int]]] = []

    def of(self, root: int) -> Iterator[list[int]]:
        self._enter(root)
        while self._path:
            node, rest = self._path[-1]
            following = next(rest, None)
            if following is None:
                component = self._leave(node)
                if len(component) > 1:
                    yield component
            elif following not in self.number:
                self._enter(following)
            elif following in self._waiting:
                self._low[node] = min(self._low[node], self.number[following])

    def _enter(self, node: int) -> None:
        self.number[node] = self._low[node] = len(self.number)
        self._waiting[node] = None
        self._path.append((node, iter(self.graph.get(node, ()))))

    def _leave(self, node: int) -> list[int]:
        """Its component, when it is the first of one."""
        self._path.pop()
        low = self._low[node]
        if self._path:
            above = self._path[-1][0]
            self._low[above] = min(self._low[above], low)
        component: list[int] = []
        while low == self.number[node] and (not component or component[-1] != node):
            component.append(self._waiting.popitem()[0])
        return component
