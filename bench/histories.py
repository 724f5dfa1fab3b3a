"""The speed of judging a history: one of the toy broker that the checker's tests use, read from its
lines and checked. No broker runs.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator

from raftka.chaos.checker import check
from raftka.chaos.history import History, dump, load
from raftka.chaos.verdict import Outcome
from tests.kit.toy_kafka import Toy

OPERATIONS = 200_000


def rows(runs: int) -> Iterator[str]:
    for title, transactions, registers in (
        ("all verbs", True, 1),
        ("produce, poll, groups", False, 0),
    ):
        history = Toy(1, keys=4, transactions=transactions, registers=registers).run(OPERATIONS)
        count, lines = len(history.operations), list(dump(history))
        records = sum(
            len(each) for operation in history.operations for each in operation.polled.values()
        )
        reading = statistics.median(_seconds(lambda lines=lines: load(lines)) for _ in range(runs))  # type: ignore[misc]
        checking = statistics.median(
            _seconds(lambda history=history: _judge(history))  # type: ignore[misc]
            for _ in range(runs)
        )
        yield (
            f"| {title} | {count:,} | {records:,} | **{count / checking:,.0f}** | "
            f"{count / (checking + reading):,.0f} |"
        )


def _judge(history: History) -> None:
    assert check(history).outcome is Outcome.VALID


def _seconds(work: Callable[[], object]) -> float:
    """Of this process alone; without the garbage collector, as whoever judges a large history
    should: nothing of it is garbage.
    """
    gc.collect()
    gc.disable()
    begin = time.process_time()
    work()
    seconds = time.process_time() - begin
    gc.enable()
    return seconds
