"""Operations from the output of Java's verifiable clients: a producer, a member of a group that
comes back again and again, a reader of everything.

They tell what has happened, and a history wants to know of it before. So what a producer may send
is written down ahead of it: its values are numbers in their order, its throughput says how many
there can be by now, its keys say where they belong. A record that was sent before that all the same
(we stood still meanwhile) ends as one of which nobody knows. What a group has committed is asked
for when none of its members lives.
"""

import itertools
import random
import time
from collections import deque
from collections.abc import Mapping

from raftka.chaos.history import (
    ASSIGN,
    COMMIT,
    FAIL,
    FETCH_OFFSET,
    INFO,
    OK,
    POLL,
    PRODUCE,
    SUBSCRIBE,
)
from raftka.chaos.live.clients.clients import GIVE_UP_MS
from raftka.chaos.live.clients.copying import Ledger, target
from raftka.chaos.live.clients.java import CLASSIC, CONSUMER, NAME, Event, Kafka, Tool, partition_of
from raftka.chaos.live.clients.roles import AGAIN_S, QUIET_S, UNTOLD, Task
from raftka.chaos.live.clients.wire import NoAnswer, Wire, WireCommitting
from raftka.chaos.live.recorder import Recorder, key, polled, value_of

KEYS = 64  # so that some belong to each partition
TICK_S = 0.05
AHEAD_S = 1.0  # so long may we stand still before a record is sent that was not written down
# at most, between the moment from which the tool counts and the one in which it notes that it has
# begun: it says so much later
MARGIN_S = 0.3
MARGIN = 3  # records that its throttle lets through
END_S = GIVE_UP_MS / 1000 + 20.0
ASK_S = 15.0
LIFE_S = (10.0, 25.0)  # of a member
KILLED = 0.5  # how often its end is SIGKILL


class Sends:
    """One producer's. Times are of time.monotonic."""

    def __init__(self, task: Task, prefix: int, per_s: int, now: float) -> None:
        self._task, self._prefix, self._per_s = task, prefix, per_s
        self._recorder: Recorder = task.recorder
        self._began, self._started = now, False  # it counts from no earlier time
        self._next = 0
        self._free: deque[int] = deque()
        # by number: process, whether it may have been sent before
        self._under_way: dict[int, tuple[int, bool]] = {}
        self._sent: int | None = None  # as it says in the end
        self.failed = False

    def announce(self, now: float) -> None:
        while self._next < self._most(now + AHEAD_S):
            self._begin(late=self._next < self._most(now))

    def _most(self, now: float) -> int:
        """The most records that it can have sent by then."""
        return int(self._per_s * (now - self._began)) + MARGIN if now > self._began else 0

    def _begin(self, *, late: bool) -> None:
        number, self._next = self._next, self._next + 1
        process = self._free.popleft() if self._free else self._recorder.process()
        self._under_way[number] = (process, late)
        where = key(self._task.topic, partition_of(str(number % KEYS), self._task.partitions))
        # it is sent soon after
        at = (
            self._began + MARGIN_S + max(0, number - MARGIN) / self._per_s
            if self._started
            else None
        )
        self._recorder.invoke(
            process,
            PRODUCE,
            at=at,
            sends=[[where, self._value(number), None]],
            producer=f"{NAME}-{self._prefix}",
            epoch=0,
        )

    def _value(self, number: int) -> int | str:
        return value_of(f"{self._prefix}.{number}".encode())

    def heard(self, event: Event, ahead_s: float) -> None:
        """`ahead_s`: so much the clock on the wall, by which it notes what it says, is ahead of
        ours.
        """
        if event["name"] == "startup_complete":
            self._began = max(self._began, event["timestamp"] / 1000 - ahead_s - MARGIN_S)
            self._started = True
        elif event["name"] == "producer_send_success":
            self._told(event, int(event["offset"]))
        elif event["name"] == "producer_send_error":
            self.failed = True
            self._told(event, None)
        elif event["name"] == "tool_data":
            self._sent = int(event["sent"])

    def _told(self, event: Event, offset: int | None) -> None:
        prefix, _, text = event["value"].partition(".")
        number = int(text)
        assert int(prefix) == self._prefix, event
        while self._next <= number:
            self._begin(late=True)
        process, late = self._under_way.pop(number)
        if offset is None or offset < 0 or late:
            error = (
                "sent before it was written down"
                if offset is not None
                else f"{event['exception']}: {event['message']}"
            )
            self._recorder.end(process, INFO, error=error[:200])  # of this process nothing more
            return
        self._recorder.end(
            process,
            OK,
            sends=[[key(event["topic"], event["partition"]), self._value(number), offset]],
        )
        self._free.append(process)

    def over(self) -> None:
        """The process has ended: records that it has not reported as sent were never sent."""
        while self._sent is not None and self._next < self._sent:
            self._begin(late=True)
        for number, (process, _) in self._under_way.items():
            if self._sent is not None and number >= self._sent:
                self._recorder.end(process, FAIL, error="it was not sent")
            else:
                self._recorder.end(process, INFO, error=UNTOLD)
        self._under_way.clear()


class Polls:
    """One member's."""

    def __init__(self, task: Task, group: str, verb: str = SUBSCRIBE) -> None:
        self._task, self._group = task, group
        self._process = self._join(verb, task.keys if verb == ASSIGN else [])
        self._records: list[tuple[int, int, bytes | None]] = []
        self._moved: set[int] = set()
        self._commits = False  # it is under way
        self.next: dict[int, int] = dict.fromkeys(range(task.partitions), 0)

    def _join(self, verb: str, keys: list[str]) -> int:
        process = self._task.recorder.process()
        self._task.recorder.at_once(process, verb, keys=keys)
        return process

    def heard(self, event: Event) -> None:
        if event["name"] in ("partitions_assigned", "partitions_revoked"):
            self._moved |= {each["partition"] for each in event["partitions"]}
        elif event["name"] == "record_data":
            value = event["value"]
            self._records.append(
                (event["partition"], event["offset"], None if value is None else value.encode())
            )
        elif event["name"] == "records_consumed":
            self._polled()
        elif event["name"] == "offsets_committed" and self._commits:
            self._committed("" if event["success"] else str(event.get("error")))

    def _polled(self) -> None:
        """The tool commits the last poll, and no earlier one. It does not always report the
        result.
        """
        if self._commits:
            self._committed(UNTOLD)
        records, self._records = self._records, []
        moved, self._moved = self._moved, set()
        topic, recorder = self._task.topic, self._task.recorder
        if records or moved:
            recorder.at_once(
                self._process,
                POLL,
                polled=polled(topic, records),
                rebalanced=[key(topic, each) for each in sorted(moved)],
            )
        reached = {partition: offset + 1 for partition, offset, _ in records}
        self.next.update(reached)
        if reached:
            self._commits = True
            offsets = {key(topic, partition): offset for partition, offset in reached.items()}
            recorder.invoke(self._process, COMMIT, group=self._group, offsets=offsets)

    def _committed(self, error: str) -> None:
        self._commits = False
        if not error:
            self._task.recorder.end(self._process, OK)
        else:
            self._task.recorder.end(self._process, INFO, error=error[:200])
            self._process = self._join(SUBSCRIBE, [])

    def over(self) -> None:
        if self._commits:
            self._commits = False
            self._task.recorder.end(self._process, INFO, error=UNTOLD)


class JavaProducing:
    """A producer after the other: one that was not acknowledged something is done with."""

    def __init__(self, task: Task, kafka: Kafka) -> None:
        self.task, self.kafka = task, kafka
        self._per_s = max(1, round(task.per_s))

    def run(self) -> None:
        while not self.task.over.is_set():
            prefix, now = self.task.recorder.process(), time.monotonic()
            sends = Sends(self.task, prefix, self._per_s, now)
            sends.announce(now)
            with self.kafka.producer(
                self.task.bootstrap, self.task.topic, self._per_s, prefix, KEYS
            ) as tool:
                self._follow(tool, sends)
            sends.over()
            self.task.over.wait(AGAIN_S)

    def _follow(self, tool: Tool, sends: Sends) -> None:
        end = float("inf")
        while not tool.ended:
            looked = time.monotonic()
            sends.announce(looked)
            for event in tool.events(TICK_S):
                sends.heard(event, time.time() - time.monotonic())
            if end == float("inf") and (sends.failed or self.task.over.is_set()):
                tool.ask_to_end()
                end = looked + END_S
            if looked > end:
                tool.kill()


class JavaSharing:
    """The only member of its group, and of the other protocol's every other time. Some leave, some
    are killed; the next goes on where it was.
    """

    def __init__(self, task: Task, kafka: Kafka, seed: int) -> None:
        self.task, self.kafka = task, kafka
        self._random = random.Random(seed)
        self._asks = {
            each: WireCommitting(task, seed, f"{NAME}-{each}") for each in (CLASSIC, CONSUMER)
        }

    def run(self) -> None:
        for protocol in itertools.cycle((CLASSIC, CONSUMER)):
            if self.task.over.is_set():
                return
            asks = self._asks[protocol]
            polls = Polls(self.task, asks.group)
            with self.kafka.consumer(
                self.task.bootstrap, self.task.topic, asks.group, protocol
            ) as tool:
                self._follow(tool, polls)
            polls.over()
            self._ask(asks)
            self.task.over.wait(AGAIN_S)

    def _follow(self, tool: Tool, polls: Polls) -> None:
        life_ends = time.monotonic() + self._random.uniform(*LIFE_S)
        end, killed = float("inf"), self._random.random() < KILLED
        while not tool.ended:
            for event in tool.events(TICK_S):
                polls.heard(event)
            now = time.monotonic()
            if end == float("inf") and (now > life_ends or self.task.over.is_set()):
                tool.ask_to_end()
                end = now if killed and not self.task.over.is_set() else now + END_S
            if now > end:
                tool.kill()

    def _ask(self, asks: WireCommitting) -> None:
        """By our own client: the tool shows nobody what is committed."""
        process = self.task.recorder.process()
        self.task.recorder.invoke(process, FETCH_OFFSET, group=asks.group)
        end = time.monotonic() + ASK_S
        while True:
            try:
                found = {
                    key(self.task.topic, partition): asks.committed(partition)
                    for partition in range(self.task.partitions)
                }
            except NoAnswer as error:
                asks.lost()
                if time.monotonic() > end:
                    self.task.recorder.end(process, INFO, error=str(error)[:200])
                    return
                time.sleep(AGAIN_S)  # also when all is over: then it is the last word
            else:
                self.task.recorder.end(process, OK, offsets=found)
                return


class JavaCopying:
    """Copies one partition in transactions; what it is killed in, the next one of the transactional
    id ends. Its tool knows no TLS.
    """

    def __init__(self, task: Task, kafka: Kafka, seed: int, ledger: Ledger) -> None:
        self.task, self.kafka, self.ledger = task, kafka, ledger
        self._random = random.Random(seed)
        self._group = WireCommitting(task, seed, f"{NAME}-copies")

    def run(self) -> None:
        while not self.task.over.is_set():
            with self._tool() as tool:
                killed_at = time.monotonic() + self._random.uniform(*LIFE_S)
                while (
                    not tool.ended and not self.task.over.is_set() and time.monotonic() < killed_at
                ):
                    tool.events(TICK_S)
            self.task.over.wait(AGAIN_S)

    def _tool(self) -> Tool:
        return self.kafka.copier(
            self.task.bootstrap,
            self.task.topic,
            0,
            target(self.task.topic, NAME),
            self._group.group,
        )

    def finish(self) -> None:
        """The last one copies all that is left. Raises NoAnswer."""
        end = time.monotonic() + END_S
        with self._tool() as tool:
            while not tool.ended and time.monotonic() < end:
                tool.events(TICK_S)
        self.ledger.write(
            who=NAME, committed={0: max(0, self._group.wire.again(self._committed, ASK_S))}
        )

    def _committed(self) -> int:
        try:
            return self._group.committed(0)
        except NoAnswer:
            self._group.lost()
            raise


def read_everything(task: Task, kafka: Kafka, seed: int) -> str:
    """As `roles.read_everything`; a group of its own has no one who takes anything from it."""
    wire = Wire(task, seed)
    try:
        ends = {
            each: wire.again(lambda each=each: wire.end(each)[0], QUIET_S, each)  # type: ignore[misc]
            for each in range(task.partitions)
        }
    except NoAnswer as error:
        return f"{NAME}: {error}"
    group = f"{NAME}-everything-{task.recorder.process()}"
    polls = Polls(task, group, ASSIGN)
    with kafka.consumer(task.bootstrap, task.topic, group) as tool:
        said = _read(tool, polls, ends)
    polls.over()
    return said


def _read(tool: Tool, polls: Polls, ends: Mapping[int, int]) -> str:
    quiet_since = time.monotonic()
    while any(polls.next[partition] < end for partition, end in ends.items()):
        events = tool.events(TICK_S)
        for event in events:
            polls.heard(event)
        if events:
            quiet_since = time.monotonic()
        elif tool.ended:
            return f"{NAME}: it ended at {polls.next}, the ends are {dict(ends)}"
        elif time.monotonic() - quiet_since > QUIET_S:
            return (
                f"{NAME}: nothing came for {QUIET_S:g} s at {polls.next}, the ends are {dict(ends)}"
            )
    return ""
