"""The portable runtime beside that of Linux, one node each: what it costs to do without epoll,
sendfile and the kernel's own flushes.
"""

from bench.rows import ONE_NODE, ROWS, Row
from bench.systems import Raftka
from raftka.runtime.real.choice import LINUX, PORTABLE, VARIABLE

GOAL = 2.0  # times the CPU time on the Linux runtime
# fifty connections, and requests of 1 MB, with flushes and without; other rows explain these
MEASURED: tuple[Row, ...] = tuple(row for row in ROWS if row.name != "single-deep")


class OnRuntime(Raftka):
    """One node on the runtime of that name."""

    def __init__(self, kind: str) -> None:
        self.name = f"raftka, {kind}"  # two of them are measured together
        super().__init__(1, ONE_NODE)
        for node in self.processes.nodes.values():
            node.environment[VARIABLE] = kind


def both() -> list[OnRuntime]:
    return [OnRuntime(kind) for kind in (LINUX, PORTABLE)]
