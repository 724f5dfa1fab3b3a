"""The cost of single decisions of a group coordinator: CPU time of this process to decide, to
replay, and to make batches. No node, no disk.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

from raftka.broker.coordinators.partition import AT_ONCE, PART_BYTES, RECORD_OVERHEAD_BYTES, parts
from raftka.broker.work.long_work import STEPS
from raftka.coordinator.commands import (
    CommitOffsets,
    CommitPartition,
    CommitTopic,
    DeleteGroup,
    DescribeGroup,
    FetchOffsets,
    GroupSettings,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    ListGroups,
    Protocol,
    Sync,
)
from raftka.coordinator.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroup
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Context, Outcome, OutcomeOrSteps, Record, Steps, T
from raftka.coordinator.protocol import write_assignment
from raftka.wire.errors import KafkaError
from raftka.wire.records import build_batch

BATCH_BYTES = 1024 * 1024
LEAST_MS = 5.0  # what is shown
PARTITIONS = 10  # of each topic


class Topics:
    def __init__(self, count: int) -> None:
        self._ids = {
            f"topic-{number:05}": number.to_bytes(16, "big") for number in range(1, count + 1)
        }
        self._names = {topic_id: name for name, topic_id in self._ids.items()}

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition_count(self, name: str) -> int:
        return PARTITIONS if name in self._ids else 0

    def names(self) -> Iterable[str]:
        return self._ids

    def grown_since(self, when: float) -> int:
        return 0

    def growth_after(self, name: str, when: float) -> tuple[float, int] | None:
        return None


class Pieces:
    """CPU seconds of long work: together, and of the longest piece that nothing can come
    between.
    """

    def __init__(self) -> None:
        self.total = self.longest = 0.0

    def take(self, steps: Steps[T]) -> T:
        while True:
            began = time.thread_time()
            try:
                for _ in range(STEPS):
                    next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                took = time.thread_time() - began
                self.total += took
                self.longest = max(self.longest, took)


class Coordinator:
    """One partition's coordinator with its log in memory; `longest` has CPU seconds by what was
    asked: all of it, and its longest piece.
    """

    def __init__(self, members: int, topics: int) -> None:
        self.topics = Topics(topics)
        self.members = [
            f"consumer-app-{number:05}-8a1c3f0e-52de-4c1b-9f1a" for number in range(members)
        ]
        self.now = 100.0
        self.random = Random(1)
        self.log: list[Record] = []
        self.answers: dict[str, Any] = {}
        self.settings = GroupSettings(initial_rebalance_delay_ms=1000)
        self.machine = GroupCoordinator(self.settings)
        self.longest: dict[str, tuple[float, float]] = {}

    def ask(self, name: str, who: str, command: Any) -> Any:
        self._decided(name, lambda: self.machine.decide(command, who, self._context()), who)
        return self.answers.get(who)

    def wait(self, name: str, seconds: float) -> None:
        until = self.now + seconds
        while (when := max(self.machine.deadline(), self.now)) <= until:
            self.now = when
            self._decided(name, lambda: self.machine.tick(self._context()))
        self.now = until

    def load(self, name: str) -> None:
        """Another coordinator reads the log and begins."""
        self.machine = GroupCoordinator(self.settings)
        for record in self.log:
            self.machine.replay(record)
        self._decided(name, lambda: self.machine.loaded(self._context()))

    def on_image(self, name: str, deleted: list[tuple[bytes, str]]) -> None:
        self._decided(name, lambda: self.machine.on_image(deleted, self._context()))

    def _context(self) -> Context:
        return Context(self.now, round(self.now * 1000), self.random, self.topics)

    def _decided(self, name: str, decide: Callable[[], OutcomeOrSteps], who: str = "") -> None:
        pieces = Pieces()
        try:
            replies = pieces.take(self._carried_out(decide))
        except KafkaError as error:
            replies = ((who, error),)
        self.longest[name] = max(self.longest.get(name, (0.0, 0.0)), (pieces.total, pieces.longest))
        self.answers.update({str(ticket): answer for ticket, answer in replies})

    def _carried_out(self, decide: Callable[[], OutcomeOrSteps]) -> Steps[Sequence[Any]]:
        """As a partition's coordinator does it, without a log."""
        found = decide()
        outcome = found if isinstance(found, Outcome) else (yield from found)
        sizes = [
            len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in outcome.records
        ]
        whole = outcome.atomic or sum(sizes) <= BATCH_BYTES
        if whole and sum(sizes) > BATCH_BYTES:
            return [(ticket, "too large") for ticket, _ in outcome.replies]
        for first, last, _ in ((0, len(sizes), 0),) if whole else parts(sizes, PART_BYTES):
            records = outcome.records[first:last]
            for number, record in enumerate(records, first):
                self.machine.replay(record)
                if number >= AT_ONCE:
                    yield
            if records:
                build_batch([(key, value, (), 0) for key, value in records])
            self.log += records
            if last < len(sizes):
                yield
        return outcome.replies

    # classic members

    def join(self, name: str, member_id: str, who: str) -> Any:
        times = 30_000, 60_000
        command = Join(
            "g",
            member_id,
            None,
            "consumer-app",
            "/10.0.0.1",
            *times,
            "consumer",
            self.protocols(who),
            needs_member_id=False,
        )
        return self.ask(name, who, command)

    def protocols(self, who: str) -> tuple[Protocol, ...]:
        """Objects of their own: each member sends its own bytes."""
        names = [name.encode() for name in self.topics.names()]
        data = b"".join(
            [
                b"\0\0",
                len(names).to_bytes(4, "big"),
                *[len(name).to_bytes(2, "big") + name for name in names],
                b"\xff" * 4,
            ]
        )
        return (Protocol("range", data),)

    def form(self) -> list[str]:
        for member_id in self.members:
            self.join("JoinGroup, one of all members that come", "", member_id)
        self.wait("end of the join phase", 5.0)
        ids = [self.answers[member_id].member_id for member_id in self.members]
        leader = self.answers[self.members[0]].leader
        self.sync("SyncGroup", 1, ids, leader)
        return ids

    def sync(self, name: str, generation: int, ids: list[str], leader: str) -> None:
        """The leader comes last: all others wait for it."""
        names = list(self.topics.names())
        share = {
            each: write_assignment({names[place % len(names)]: (place % PARTITIONS,)}, 0)
            for place, each in enumerate(ids)
        }
        for member_id in sorted(ids, key=lambda each: each == leader):
            leads = member_id == leader
            assignments = tuple(share.items()) if leads else ()
            self.ask(
                f"{name} of {'the leader' if leads else 'a follower'}",
                member_id,
                Sync("g", generation, member_id, None, None, None, assignments, False),
            )

    # consumers

    def beat(self, name: str, member_id: str, epoch: int, owned: Any = None) -> Any:
        topics = tuple(self.topics.names()) if epoch == 0 else None
        said = (60_000, topics, None, None, {} if epoch == 0 else owned)
        return self.ask(
            name,
            member_id,
            ConsumerHeartbeat(
                "g", member_id, epoch, None, None, "consumer-app", "/10.0.0.1", *said
            ),
        )

    def gather(self) -> None:
        for member_id in self.members:
            self.beat("ConsumerGroupHeartbeat that joins", member_id, 0)
            self.now += 0.001
        self.settle()

    def settle(self) -> None:
        for _ in range(3):
            self.now += 1.0
            for member_id in self.members:
                answer = self.answers[member_id]
                owned = (
                    None
                    if answer.assignment is None
                    else {topic_id: frozenset(each) for topic_id, each in answer.assignment.items()}
                )
                self.beat(
                    "ConsumerGroupHeartbeat that gives up or gets", member_id, answer.epoch, owned
                )

    # offsets

    def commit(self, group_id: str, partitions: int) -> None:
        for name in list(self.topics.names())[: max(1, partitions // PARTITIONS)]:
            offsets = tuple(
                [
                    CommitPartition(each, 1000, 1, None)
                    for each in range(min(partitions, PARTITIONS))
                ]
            )
            self.ask(
                "OffsetCommit",
                "",
                CommitOffsets(group_id, -1, "", None, (CommitTopic(name, offsets),)),
            )


def classic(members: int, topics: int) -> Iterator[Coordinator]:
    coordinator = Coordinator(members, topics)
    yield coordinator
    ids = coordinator.form()
    for each in ids:
        coordinator.ask("Heartbeat", each, Heartbeat("g", 1, each, None))
    coordinator.ask("DescribeGroups", "admin", DescribeGroup("g"))
    for each in ids:
        coordinator.join("JoinGroup of a rebalance, the last one ends the phase", each, each)
    leader = next(
        (each for each in ids if getattr(coordinator.answers[each], "leader", "") == each), ids[0]
    )
    coordinator.sync("SyncGroup", 2, ids, leader)
    coordinator.load("loaded: sessions begin")
    coordinator.ask(
        "LeaveGroup of half the members",
        "admin",
        Leave("g", tuple([LeavingMember(each, None) for each in ids[: members // 2]])),
    )
    coordinator.wait("all sessions end", 400.0)


def migration(members: int, topics: int) -> Iterator[Coordinator]:
    coordinator = Coordinator(members, topics)
    yield coordinator
    ids = coordinator.form()
    coordinator.beat("upgrade: a consumer joins a classic group", "new", 0)
    coordinator.now += 1.0
    for each in ids:
        coordinator.join("JoinGroup of a classic member of a consumer group", each, each)
    coordinator.beat("downgrade: the last consumer leaves", "new", -1)
    coordinator.wait("after a downgrade: the classic group goes on", 0.1)


def consumer(members: int, topics: int) -> Iterator[Coordinator]:
    coordinator = Coordinator(members, topics)
    yield coordinator
    coordinator.gather()
    for each in coordinator.members:
        coordinator.beat(
            "ConsumerGroupHeartbeat of a stable group", each, coordinator.answers[each].epoch
        )
    coordinator.ask("ConsumerGroupDescribe", "admin", DescribeConsumerGroup("g"))
    coordinator.now += 1.0
    coordinator.beat("one more consumer joins: targets", "new", 0)
    coordinator.load("loaded: sessions begin")
    coordinator.ask(
        "LeaveGroup of half the members",
        "admin",
        Leave(
            "g", tuple([LeavingMember(each, None) for each in coordinator.members[: members // 2]])
        ),
    )
    coordinator.wait("all sessions end", 100.0)
    coordinator.ask("DeleteGroups of one group", "admin", DeleteGroup("g"))


def many_groups(groups: int, offsets: int) -> Iterator[Coordinator]:
    coordinator = Coordinator(0, 100)
    yield coordinator
    for number in range(groups):
        coordinator.commit(f"group-{number:05}", offsets)
    coordinator.ask("ListGroups", "admin", ListGroups())
    coordinator.load("loaded: sessions begin")
    coordinator.on_image("topics change", [])
    name = next(iter(coordinator.topics.names()))
    coordinator.on_image(
        "a topic is deleted that all groups have read",
        [(coordinator.topics.topic_id(name) or b"", name)],
    )
    coordinator.now += 8 * 24 * 3600.0
    coordinator.wait("a part of the sweep for expired offsets", 60.0)


def many_offsets(offsets: int) -> Iterator[Coordinator]:
    coordinator = Coordinator(0, offsets // PARTITIONS)
    yield coordinator
    coordinator.commit("g", offsets)
    coordinator.ask("OffsetFetch of all", "admin", FetchOffsets("g", None))
    log = list(coordinator.log)
    coordinator.ask("DeleteGroups of one group", "admin", DeleteGroup("g"))
    coordinator.log = log
    coordinator.load("loaded: sessions begin")
    coordinator.now += 8 * 24 * 3600.0
    coordinator.wait("a part of the sweep for expired offsets", 60.0)


def many_protocols(protocols: int) -> Iterator[Coordinator]:
    coordinator = Coordinator(0, 1)
    yield coordinator
    said = tuple([Protocol(f"{number:x}", b"") for number in range(protocols)])
    command = Join(
        "g", "", "instance", "app", "/h", 30_000, 60_000, "consumer", said, needs_member_id=False
    )
    coordinator.ask("JoinGroup", "", command)
    few = command._replace(protocols=(Protocol("range", b""),))
    coordinator.ask("JoinGroup, another member", "", few)
    coordinator.ask("JoinGroup, refused", "", command._replace(instance_id="other"))


SCENES: dict[str, Callable[[], Iterator[Coordinator]]] = {
    "classic group, 1,000 members, 30 topics": lambda: classic(1_000, 30),
    "classic group, 5,000 members, 1 topic": lambda: classic(5_000, 1),
    "classic group, 1,000 members, 1,000 topics": lambda: classic(1_000, 1_000),
    "migration, 1,000 members, 10 topics": lambda: migration(1_000, 10),
    "migration, 3,000 members, 10 topics": lambda: migration(3_000, 10),
    "consumer group, 1,000 members, 10 topics": lambda: consumer(1_000, 10),
    "consumer group, 1,000 members, 1,000 topics": lambda: consumer(1_000, 1_000),
    "consumer group, 3,000 members, 300 topics": lambda: consumer(3_000, 300),
    "20,000 groups, one offset each": lambda: many_groups(20_000, 1),
    "members with 17,000 protocols": lambda: many_protocols(17_000),
    "a request for 300,000 protocols": lambda: many_protocols(300_000),
    "one group, 100,000 offsets": lambda: many_offsets(100_000),
}


def rows(runs: int) -> Iterator[str]:
    for title, scene in SCENES.items():
        for name, (total, longest) in measured(scene, runs).items():
            if total * 1000 >= LEAST_MS:
                yield f"| {title}: {name} | {total * 1000:.0f} | {longest * 1000:.0f} |"


def measured(
    scene: Callable[[], Iterator[Coordinator]], runs: int
) -> dict[str, tuple[float, float]]:
    """The longest of each kind, in the best of some runs."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(runs):
        gc.collect()
        gc.disable()
        steps = scene()
        coordinator = next(steps)
        for _ in steps:
            pass
        gc.enable()
        for name, seconds in coordinator.longest.items():
            best[name] = min(best.get(name, seconds), seconds)
    return best
