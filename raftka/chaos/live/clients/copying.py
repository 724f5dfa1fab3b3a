"""Transactional roles of workers: one copies the topic to another in transactions, with its offsets
in them; one reads there what is committed.

What they begin and hear goes to a file of its own, a line each, for the judge (live/copies.py).
Some transactions are aborted; some are left without a word: then another client takes the
transactional id, and the one before tries to commit all the same.
"""

import itertools
import json
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from raftka.chaos.checks.transactions import Attempt, Result
from raftka.chaos.live.clients.clients import Record
from raftka.chaos.live.clients.copiers import COPIERS, CommittedReader, Copier
from raftka.chaos.live.clients.roles import AGAIN_S, QUIET_S, Task

ABORTED, LEFT = 0.15, 0.02  # of the transactions
PAUSE_S = 0.1  # between two
PADDING = 200  # bytes, at most
NUMBERS_EACH = 1_000_000_000  # of a worker: its transactions begin at a multiple


def target(topic: str, client: str) -> str:
    return f"{topic}-{client}"


class Ledger:
    """One file that several processes write: a line is one append."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, **line: object) -> None:
        data = json.dumps(line).encode() + b"\n"
        if os.write(self._fd, data) != len(data):
            raise OSError("the transactions could not be written down")


class Copying:
    """A client after the other: one that failed, or was left, is done with."""

    def __init__(self, task: Task, client: str, seed: int, worker: int, ledger: Ledger) -> None:
        self.task, self.client, self.ledger = task, client, ledger
        self._random = random.Random(seed)
        self._numbers = itertools.count(worker * NUMBERS_EACH)
        self._make = COPIERS[client][0]
        self._left: tuple[Copier, Attempt] | None = None  # whose transaction is open

    def run(self) -> None:
        while not self.task.over.is_set():
            copier: Copier | None = None
            try:
                copier = self._new()
                self._copy(copier)
            except Exception:  # whatever a library raises
                self.task.over.wait(AGAIN_S)
            if copier is not None and (self._left is None or self._left[0] is not copier):
                _close(copier)
        if self._left is not None:
            _close(self._left[0])

    def finish(self) -> None:
        """The last client of the id: nothing stays open; and what is committed in the end. Raises
        what the library raises.
        """
        copier = self._new()
        try:
            self.ledger.write(who=self.client, committed=dict(copier.begin()))
        finally:
            _close(copier)

    def _new(self) -> Copier:
        return self._make(
            self.task.bootstrap,
            self.task.topic,
            target(self.task.topic, self.client),
            f"{self.client}-copies",
            self.task.partitions,
        )

    def _copy(self, copier: Copier) -> None:
        copier.begin()
        self._zombie()
        while not self.task.over.is_set():
            records = copier.poll()
            if records and not self._transact(copier, records):
                return
            self.task.over.wait(PAUSE_S)

    def _transact(self, copier: Copier, records: Sequence[Record]) -> bool:
        """One transaction, or several of the same records until one is committed; False when it is
        left open.
        """
        while True:
            attempt, values = self._attempt(records)
            copier.write(values, {partition: offset + 1 for partition, offset, _ in records})
            chance = self._random.random()
            if chance < LEFT:
                self._left = copier, attempt
                return False
            if chance >= LEFT + ABORTED:
                self._commit(copier, attempt)
                return True
            copier.abort()
            if self.task.over.is_set():
                return True

    def _attempt(self, records: Sequence[Record]) -> tuple[Attempt, list[tuple[int, bytes]]]:
        number, topic = next(self._numbers), self.task.topic
        values = []
        for partition, offset, _ in records:
            attempt = Attempt(number, self.client, (topic, partition))
            values.append(
                (
                    self._random.randrange(self.task.partitions),
                    attempt.value(offset, self._random.randrange(PADDING)),
                )
            )
        self.ledger.write(
            who=self.client,
            number=number,
            sent=[[where, value.decode()] for where, value in values],
        )
        return attempt, values

    def _commit(self, copier: Copier, attempt: Attempt, *, fenced: bool = False) -> None:
        self.ledger.write(number=attempt.number, result=Result.UNKNOWN.name, fenced=fenced)
        copier.commit()
        self.ledger.write(number=attempt.number, result=Result.COMMITTED.name, fenced=fenced)

    def _zombie(self) -> None:
        """Another client has its id now."""
        if self._left is not None:
            copier, attempt = self._left
            self._left = None
            with suppress(Exception):
                self._commit(copier, attempt, fenced=True)
            _close(copier)


class Following:
    """Reads what is committed of the copies, while they are made; after an error a new client reads
    from the beginning.
    """

    def __init__(self, task: Task, client: str, ledger: Ledger) -> None:
        self.task, self.client, self.ledger = task, client, ledger

    def run(self) -> None:
        for number in itertools.count():
            if self.task.over.is_set():
                return
            try:
                reader = reader_of(self.task, self.client)
            except Exception:
                self.task.over.wait(AGAIN_S)
                continue
            with suppress(Exception):
                while not self.task.over.is_set():
                    self.note(f"{self.client}-{number}", reader.poll())
            with suppress(Exception):
                reader.close()

    def note(self, who: str, records: Sequence[Record], *, everything: bool = False) -> None:
        if records or everything:
            read = [
                [partition, offset, (value or b"").decode(errors="replace")]
                for partition, offset, value in records
            ]
            self.ledger.write(reader=who, client=self.client, read=read, everything=everything)


def reader_of(task: Task, client: str) -> CommittedReader:
    return COPIERS[client][1](task.bootstrap, target(task.topic, client), task.partitions)


def read_everything(task: Task, client: str, ledger: Ledger) -> str:
    """By a fresh consumer of what is committed. Returns what is wrong; empty: nothing."""
    following, reader = Following(task, client, ledger), reader_of(task, client)
    quiet_since = time.monotonic()
    try:
        while not reader.at_end():
            records = reader.poll()
            following.note(f"{client}-last", records)
            if records:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > QUIET_S:
                return (
                    f"{client}: a reader of what is committed does not come to the end within "
                    f"{QUIET_S:g} s"
                )
        following.note(f"{client}-last", reader.poll(), everything=True)
    finally:
        reader.close()
    return ""


def _close(copier: Copier) -> None:
    with suppress(Exception):
        copier.close()
