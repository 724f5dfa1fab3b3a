"""Roles of workers, written down as operations: send, read by partition, read and commit in a
group, read everything in the end.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Condition, Event

from raftka.chaos.history import ASSIGN, COMMIT, FETCH_OFFSET, INFO, OK, POLL, PRODUCE, SUBSCRIBE
from raftka.chaos.live.clients.bootstrap import Bootstrap
from raftka.chaos.live.clients.clients import GIVE_UP_MS, Library, Reader, Sender
from raftka.chaos.live.recorder import Recorder, key, payload, polled

UNDER_WAY = 16  # records of a producer, sent and not acknowledged
PAYLOAD_BYTES = (20, 800)
UNTOLD = "the client never said"
AGAIN_S = 0.5  # after a client has failed
COMMIT_S = 1.0
QUIET_S = 120.0  # so long may the rest of a partition take to come, in the end


@dataclass(frozen=True, slots=True)
class Task:
    """The parts that all roles of a worker share."""

    bootstrap: Bootstrap
    topic: str
    partitions: int
    per_s: float  # records that a producer sends
    recorder: Recorder
    over: Event

    @property
    def keys(self) -> list[str]:
        return [key(self.topic, partition) for partition in range(self.partitions)]


class Producing:
    """A producer after the other: one that was not acknowledged something is done with."""

    def __init__(self, task: Task, library: Library, seed: int) -> None:
        self.task, self.library = task, library
        self._random = random.Random(seed)

    def run(self) -> None:
        number = 0
        while not self.task.over.is_set():
            number += 1
            try:
                sender = self.library.sender(self.task.bootstrap, self.task.topic)
            except Exception:  # whatever a library raises when it finds nobody
                self.task.over.wait(AGAIN_S)
                continue
            _OneProducer(
                self.task,
                sender,
                f"{self.library.name}-{self.task.recorder.process()}",
                self._random,
            ).run()


class _OneProducer:
    def __init__(self, task: Task, sender: Sender, name: str, chance: random.Random) -> None:
        self._task, self._sender, self._name, self._random = task, sender, name, chance
        self._free = deque(task.recorder.process() for _ in range(UNDER_WAY))
        self._under_way: dict[int, int] = {}  # process: value
        self._changed = Condition()
        self._failed = False

    def run(self) -> None:
        due = time.monotonic()
        while not self._failed and not self._task.over.is_set():
            self._send()
            due = max(due + 1 / self._task.per_s, time.monotonic() - 1)
            self._wait(lambda: False, max(0.0, due - time.monotonic()))
            self._wait(
                lambda: bool(self._free) or self._failed or self._task.over.is_set(),
                2 * GIVE_UP_MS / 1000,
            )
        self._wait(lambda: not self._under_way, 2 * GIVE_UP_MS / 1000)
        try:
            self._sender.close(1.0)
        except Exception:
            pass  # the records tell
        for process in tuple(self._under_way):
            self._told(process, "", None, UNTOLD)

    def _send(self) -> None:
        task = self._task
        if not self._free:
            return
        value, where = next(task.recorder.values), self._random.randrange(task.partitions)
        with self._changed:
            process = self._free.popleft()
            self._under_way[process] = value
        name = key(task.topic, where)
        task.recorder.invoke(
            process, PRODUCE, sends=[[name, value, None]], producer=self._name, epoch=0
        )
        try:
            self._sender.send(
                where,
                payload(value, self._random.randint(*PAYLOAD_BYTES)),
                partial(self._told, process, name),
            )
        except Exception as error:
            self._told(process, name, None, repr(error))

    def _told(self, process: int, name: str, offset: int | None, error: str) -> None:
        with self._changed:
            value = self._under_way.pop(process, None)
            if value is None:
                return  # told twice
            if offset is None or offset < 0:
                self._failed = True
                self._task.recorder.end(process, INFO, error=error[:200])
            else:
                self._task.recorder.end(process, OK, sends=[[name, value, offset]])
                self._free.append(process)
            self._changed.notify_all()

    def _wait(self, holds: Callable[[], bool], at_most_s: float) -> None:
        end = time.monotonic() + at_most_s
        while not holds() and (left := end - time.monotonic()) > 0:
            self._sender.serve()
            with self._changed:
                self._changed.wait(min(left, 0.02))


class Reading:
    """By partition, from where the one before it has been."""

    def __init__(self, task: Task, library: Library) -> None:
        self.task, self.library = task, library
        self._next = dict.fromkeys(range(task.partitions), 0)

    def run(self) -> None:
        while not self.task.over.is_set():
            try:
                self._read()
            except Exception:  # whatever a library raises
                self.task.over.wait(AGAIN_S)

    def _read(self) -> None:
        task, process = self.task, self.task.recorder.process()
        reader = self.library.reader(task.bootstrap, task.topic, None)
        try:
            reader.assign(self._next)
            task.recorder.at_once(process, ASSIGN, keys=task.keys)
            while not task.over.is_set():
                if records := reader.poll():
                    task.recorder.at_once(process, POLL, polled=polled(task.topic, records))
                    self._next.update({partition: offset + 1 for partition, offset, _ in records})
        finally:
            reader.close()


class Sharing:
    """A member of a group: reads what it owns, commits it, and asks for what is committed."""

    def __init__(
        self, task: Task, library: Library, group: str, *, new_protocol: bool = False
    ) -> None:
        self.task, self.library, self.group, self.new_protocol = task, library, group, new_protocol
        self._moved: set[int] = set()
        self._read_to: dict[int, int] = {}

    def run(self) -> None:
        while not self.task.over.is_set():
            try:
                self._share()
            except Exception:
                self.task.over.wait(AGAIN_S)

    def _share(self) -> None:
        task, process = self.task, self.task.recorder.process()
        reader = self.library.reader(
            task.bootstrap, task.topic, self.group, new_protocol=self.new_protocol
        )
        try:
            self._read_to.clear()
            reader.subscribe(self._move)
            task.recorder.at_once(process, SUBSCRIBE, keys=[])
            due = time.monotonic() + COMMIT_S
            while not task.over.is_set():
                self._poll(reader, process)
                if time.monotonic() >= due and self._read_to:
                    process = self._commit(reader, process)
                    due = time.monotonic() + COMMIT_S
        finally:
            reader.close()

    def _move(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._moved.add(partition)
            self._read_to.pop(partition, None)

    def _poll(self, reader: Reader, process: int) -> None:
        records = reader.poll()
        moved, self._moved = self._moved, set()
        if records or moved:
            where = [key(self.task.topic, partition) for partition in sorted(moved)]
            self.task.recorder.at_once(
                process, POLL, polled=polled(self.task.topic, records), rebalanced=where
            )
        self._read_to.update({partition: offset + 1 for partition, offset, _ in records})

    def _commit(self, reader: Reader, process: int) -> int:
        """Commit; return the process that continues: after an unknown result a new one."""
        offsets, self._read_to = self._read_to, {}
        named = {key(self.task.topic, partition): offset for partition, offset in offsets.items()}
        recorder = self.task.recorder
        recorder.invoke(process, COMMIT, group=self.group, offsets=named)
        try:
            reader.commit(offsets)
        except Exception as error:
            # an attempt before the one that failed may have come through
            recorder.end(process, INFO, error=repr(error)[:200])
            recorder.at_once(next_one := recorder.process(), SUBSCRIBE, keys=[])
            return next_one
        recorder.end(process, OK)
        recorder.invoke(process, FETCH_OFFSET, group=self.group)
        try:
            found = reader.committed(offsets)
        except Exception as error:
            recorder.end(process, INFO, error=repr(error)[:200])
            recorder.at_once(next_one := recorder.process(), SUBSCRIBE, keys=[])
            return next_one
        recorder.end(
            process,
            OK,
            offsets={
                key(self.task.topic, partition): offset for partition, offset in found.items()
            },
        )
        return process


def read_everything(task: Task, library: Library) -> str:
    """By a fresh consumer, from the beginning to where the partitions end now. Returns what is
    wrong; empty: nothing.
    """
    process, quiet_since = task.recorder.process(), time.monotonic()
    reached = dict.fromkeys(range(task.partitions), 0)
    ends: Mapping[int, int] = {}
    reader = library.reader(task.bootstrap, task.topic, None)
    try:
        reader.assign(reached)
        task.recorder.at_once(process, ASSIGN, keys=task.keys)
        while not ends or any(reached[partition] < end for partition, end in ends.items()):
            ends = ends or reader.ends(reached)
            if records := reader.poll():
                quiet_since = time.monotonic()
                task.recorder.at_once(process, POLL, polled=polled(task.topic, records))
                reached.update({partition: offset + 1 for partition, offset, _ in records})
            elif time.monotonic() - quiet_since > QUIET_S:
                return (
                    f"{library.name}: nothing came for {QUIET_S:g} s at {reached}, the ends are "
                    f"{dict(ends)}"
                )
    finally:
        reader.close()
    return ""
