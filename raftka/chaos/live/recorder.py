"""One history that several processes write: each line is one append to one file, so the lines stand
in the order in which things happened.

What begins is written before it is asked for, what ends after it was answered; so whatever the
lines say was before something was so.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from raftka.chaos.history import OK, History, Records

PROCESSES_EACH = 1_000_000  # of a worker: its numbers begin at a multiple


class Recorder:
    """`began` is of time.monotonic, which all processes of a machine share."""

    def __init__(self, path: Path, began: float, worker: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._history = History(self._write)
        self._lock = threading.Lock()
        self._began = began
        self._processes = itertools.count(worker * PROCESSES_EACH)
        self.values = itertools.count(worker * 10**10)  # unique in all keys

    def process(self) -> int:
        return next(self._processes)

    def invoke(self, process: int, verb: str, *, at: float | None = None, **body: object) -> None:
        """`at`: when it begins, where that is later than now."""
        with self._lock:
            self._history.invoke(
                process, verb, self._now() if at is None else round(at - self._began, 4), **body
            )
            self._clear_written()

    def end(self, process: int, outcome: str, **body: object) -> None:
        with self._lock:
            self._history.end(process, outcome, self._now(), **body)
            self._clear_written()

    def at_once(self, process: int, verb: str, **body: object) -> None:
        """Record an operation that is known only when it is over."""
        with self._lock:
            self._history.invoke(process, verb, self._now())
            self._history.end(process, OK, self._now(), **body)
            self._clear_written()

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def _write(self, line: str) -> None:
        data = line.encode()
        if os.write(self._fd, data) != len(data):
            raise OSError("the history could not be written")

    def _clear_written(self) -> None:
        """The file has it: a worker lives for hours."""
        self._history.operations.clear()
        self._history.events.clear()


def payload(value: int, size: int) -> bytes:
    return b"%d " % value + b"x" * size


def value_of(data: bytes | None) -> int | str:
    """The number in the value; any other bytes become a value that was never sent, so the checker
    reports them.
    """
    number = (data or b"").partition(b" ")[0]
    return int(number) if number.isdigit() else repr(data)[:100]


def key(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def polled(topic: str, records: Iterable[tuple[int, int, bytes | None]]) -> dict[str, Records]:
    """Of (partition, offset, value), by key."""
    found: dict[str, list[tuple[int, int | str]]] = {}
    for partition, offset, value in records:
        found.setdefault(key(topic, partition), []).append((offset, value_of(value)))
    return dict(found)
