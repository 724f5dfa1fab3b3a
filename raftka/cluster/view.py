"""The demo's display: leaders, in-sync replicas and rates, once a second. A table in a terminal,
one line elsewhere.

Asks a broker for Metadata like any client, so it shows what a client can know; but a node whose
process is dead is not shown as a leader, although the brokers may not have noticed yet.
"""

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from raftka.cluster.ask import ClusterView, PartitionView, ask_any
from raftka.cluster.tally import Tally

if TYPE_CHECKING:
    from rich.console import Group

NO_LEADER = -1
SECONDS = 1.0
ASK_SECONDS = 0.5


class View(threading.Thread):
    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        topic: str,
        tally: Tally,
        runs: Callable[[int], bool],
    ) -> None:
        """`runs`: whether that node's process does."""
        super().__init__(name="view", daemon=True)
        self._addresses = addresses
        self._topic = topic
        self._tally = tally
        self._runs = runs
        self._events: deque[str] = deque(maxlen=6)
        self._unsaid: deque[str] = deque()
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._before = (0, 0)
        self._cluster: ClusterView | None = None
        # rich: the extra `table`
        self._draws_table = sys.stdout.isatty() and find_spec("rich") is not None

    def say(self, text: str) -> None:
        """Something that happened; from any thread."""
        line = f"{self.seconds:5.1f} s  {text}"
        self._events.append(line)
        self._unsaid.append(line)

    @property
    def seconds(self) -> float:
        """Since the view began."""
        return time.monotonic() - self._began

    def stop(self) -> None:
        self._ended.set()
        self.join()
        self._flush()

    def run(self) -> None:
        if self._draws_table:
            self._run_rich()
        else:
            self._each_second(self._print_line)

    def _each_second(self, show: Callable[[], None]) -> None:
        due = time.monotonic() + SECONDS
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due += SECONDS
            try:
                self._read_metadata()
                show()
            except Exception as error:  # the display goes on: without it nobody would see anything
                self.say(f"the display failed: {type(error).__name__} {error}")

    def _read_metadata(self) -> None:
        """Ask until one knows the topic: who has just come back may not."""
        for address in self._addresses:
            try:
                cluster = ask_any([address], [self._topic], ASK_SECONDS)
            except OSError:
                continue
            if cluster.of(self._topic):
                self._cluster = cluster
                return

    def _rates(self) -> tuple[int, int]:
        """Records acknowledged and read since the last time."""
        now = (self._tally.acknowledged, self._tally.read_count)
        rates = (now[0] - self._before[0], now[1] - self._before[1])
        self._before = now
        return rates

    def _partitions(self) -> list[PartitionView]:
        partitions = self._cluster.of(self._topic) if self._cluster else []
        return [
            each if self._runs(each.leader) else replace(each, leader=NO_LEADER)
            for each in partitions
        ]

    # one line a second

    def _print_line(self) -> None:
        self._flush()
        acknowledged, read = self._rates()
        partitions = self._partitions()
        leaders = " ".join(
            f"{_name(leader)}:{count}"
            for leader, count in sorted(Counter(p.leader for p in partitions).items())
        )
        small = sum(len(p.isr) < len(p.replicas) for p in partitions)
        print(
            f"{self.seconds:5.1f} s  acknowledged {acknowledged:6}/s  read {read:6}/s  leaders "
            f"{leaders or '-':12}  not in full ISR {small:2}",
            flush=True,
        )

    def _flush(self) -> None:
        if not self._draws_table:
            while self._unsaid:
                print(self._unsaid.popleft(), flush=True)

    # a table

    def _run_rich(self) -> None:
        from rich.live import Live

        with Live(self._table(), auto_refresh=False) as live:
            self._each_second(lambda: live.update(self._table(), refresh=True))
            self._read_metadata()
            live.update(self._table(), refresh=True)

    def _table(self) -> "Group":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        acknowledged, read = self._rates()
        table = Table(
            title=(
                f"{self._topic}   {acknowledged}/s acknowledged   {read}/s read   brokers "
                f"{sorted(self._cluster.brokers) if self._cluster else '?'}"
            )
        )
        for column in ("partition", "leader", "epoch", "in-sync replicas", "acknowledged", "read"):
            table.add_column(column, justify="right")
        for p in self._partitions():
            style = "red" if p.leader < 0 else "yellow" if len(p.isr) < len(p.replicas) else ""
            counts = (
                self._tally.acknowledged_of.get(p.partition, 0),
                self._tally.read_of.get(p.partition, 0),
            )
            table.add_row(
                *map(str, (p.partition, _name(p.leader), p.leader_epoch, list(p.isr), *counts)),
                style=style,
            )
        return Group(table, Text("\n".join(self._events)))


def _name(leader: int) -> str:
    return "none" if leader == NO_LEADER else str(leader)
