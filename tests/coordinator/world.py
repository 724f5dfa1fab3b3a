"""The surroundings of coordinators in tests: topics, requests of consumers, and views of a
group.
"""

import gc
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType
from typing import Any

from raftka.broker.work.long_work import drained
from raftka.coordinator.classic.group import ClassicGroup, State
from raftka.coordinator.consumer.group import ConsumerGroup
from raftka.coordinator.groups import GroupCoordinator
from raftka.coordinator.machine import Outcome, OutcomeOrSteps
from raftka.coordinator.streams.group import StreamsGroup

LINEAR = 2.3  # times as many steps for twice as much, at most


class FakeTopics:
    """Ids are counted: a topic that is made again has another."""

    def __init__(self, partitions: dict[str, int]) -> None:
        self._made = 0
        self._topics: dict[str, tuple[bytes, int]] = {}
        self._grown: list[tuple[float, str, int]] = []
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> None:
        self._made += 1
        self._topics[name] = self._made.to_bytes(16, "big"), partitions

    def grow(self, name: str, partitions: int, now: float = -inf) -> None:
        self._grown.append((now, name, self.partition_count(name)))
        self._topics[name] = self._topics[name][0], partitions

    def delete(self, name: str) -> None:
        del self._topics[name]

    def topic_id(self, name: str) -> bytes | None:
        return self._topics[name][0] if name in self._topics else None

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (known, _) in self._topics.items() if known == topic_id), None)

    def partition_count(self, name: str) -> int:
        return self._topics[name][1] if name in self._topics else 0

    def names(self) -> Iterable[str]:
        return self._topics

    def grown_since(self, when: float) -> int:
        return len([each for each in self._grown if each[0] > when])

    def growth_after(self, name: str, when: float) -> tuple[float, int] | None:
        return next(
            ((at, before) for at, grown, before in self._grown if grown == name and at > when), None
        )


def outcome_of(found: OutcomeOrSteps) -> Outcome:
    return found if isinstance(found, Outcome) else drained(found)


def subscription(topics: Iterable[str], version: int = 0, owned: Iterable[str] = ()) -> bytes:
    """As a consumer says it, with nothing behind what all versions have, but for the partitions
    that it has (`t-0`), in version 1.
    """
    names = [name.encode() for name in topics]
    listed = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return (
        version.to_bytes(2, "big")
        + len(names).to_bytes(4, "big")
        + listed
        + b"\xff" * 4
        + _held(owned) * (version == 1)
    )


def _held(owned: Iterable[str]) -> bytes:
    held = [each.rpartition("-") for each in owned]
    topics = [
        len(name).to_bytes(2, "big") + name.encode() + b"\0\0\0\1" + int(index).to_bytes(4, "big")
        for name, _, index in held
    ]
    return len(topics).to_bytes(4, "big") + b"".join(topics)


def view(machine: GroupCoordinator, group_id: str) -> dict[str, Any] | None:
    """Return the group as its records say it: the same once it is Stable or Empty, whichever broker
    coordinates it.
    """
    group = machine.groups.get(group_id)
    if group is None:
        return None
    if isinstance(group, ConsumerGroup):
        return consumer_view(group)
    if isinstance(group, StreamsGroup):
        return streams_view(group)
    name = group.protocol_name
    members = {
        each.member_id: (
            each.instance_id,
            each.client_id,
            each.client_host,
            each.session_timeout_ms,
            each.rebalance_timeout_ms,
            each.metadata(name),
            each.assignment,
        )
        for each in group.members.values()
    }
    return {
        "state": group.state if group.members else State.EMPTY,
        "generation": group.generation_id,
        "protocol": (group.protocol_type, name),
        "leader": group.leader,
        "since": group.state_timestamp_ms,
        "members": members,
        "static": dict(group.static),
        "topics": group.subscribed,
        "offsets": {topic: dict(partitions) for topic, partitions in group.offsets.items()},
    }


def consumer_view(group: ConsumerGroup) -> dict[str, Any]:
    """All of it comes from records."""
    return {
        "state": group.state,
        "epoch": group.epoch,
        "targets": (group.targets, group.target),
        "members": {
            member_id: (member.said, member.current) for member_id, member in group.members.items()
        },
        "static": group.static,
        "owners": group.owners,
        "regexes": (group.regexes, group.regex_members),
        "offsets": {topic: dict(partitions) for topic, partitions in group.offsets.items()},
    }


def share_view(machine: GroupCoordinator, group_id: str) -> dict[str, Any]:
    """All of it comes from records."""
    group = machine.shares.groups[group_id]
    return {
        "epoch": group.epoch,
        "targets": (group.targets, group.target),
        "members": {
            member_id: (member.said, member.current) for member_id, member in group.members.items()
        },
        "names": (group.subscriptions, group.names),
        "partitions": group.partitions,
    }


def streams_view(group: StreamsGroup) -> dict[str, Any]:
    """All of it comes from records."""
    return {
        "state": group.state,
        "epoch": group.epoch,
        "topology": (group.topology, group.sources),
        "targets": (group.targets, group.target),
        "members": {
            member_id: (member.said, member.current) for member_id, member in group.members.items()
        },
        "static": group.static,
        "owners": (group.owners, group.copies),
        "offsets": {topic: dict(partitions) for topic, partitions in group.offsets.items()},
    }


def classic(machine: GroupCoordinator) -> dict[str, ClassicGroup]:
    return {
        name: group for name, group in machine.groups.items() if isinstance(group, ClassicGroup)
    }


class Steps:
    count = 0


@contextmanager
def counted() -> Iterator[Steps]:
    """Count the calls of functions, in Python and in C, and the lines that are run: a loop need not
    call anything.
    """
    steps = Steps()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        steps.count += event in ("call", "c_call")

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        steps.count += event == "line"
        return trace

    traced, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # libraries of tests have callbacks for collections, whose steps would count
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(traced)
        sys.setprofile(None)
        if collects:
            gc.enable()
