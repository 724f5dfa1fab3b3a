"""The time line of a cluster as a client sees it: leaders, ISRs, epochs, brokers, the controller
and groups, found by comparing what the view has with what it had before. So it grows only while
somebody looks.
"""

import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from raftka.console.view.beside import Beside
from raftka.json_values import JsonObject
from raftka.limits import TIMELINE_LINES

if TYPE_CHECKING:
    from raftka.console.view.groups import Groups
    from raftka.console.view.metadata import Metadata, Partition
    from raftka.console.view.view import View

FRESH_S = 0.5  # age of metadata and groups that are compared
FIRST_S = 1.0  # for the first metadata
OLD_S = 10  # an age of metadata that is told
NAMES = 10  # partitions in one look; the rest is counted
KINDS = (  # of an event, by its text; the first that fits
    ("action", re.compile(r" (at the console|by the test)$")),
    ("fault", re.compile(r"^fault|^\d+ connections cut|^faults cleared")),
    ("leader", re.compile(r": leader -?\d+ -> |^controller ")),
    ("isr", re.compile(r": ISR |: replicas ")),
    ("group", re.compile(r"^group ")),
    ("error", re.compile(r": [A-Z][A-Z_]+ to '")),
    ("node", re.compile(r"^(node|host) ")),
    ("topic", re.compile(r"^topic ")),
)


def kind_of(text: str) -> str:
    """Return the kind of an event, for the page."""
    return next((kind for kind, pattern in KINDS if pattern.search(text)), "other")


class Watched:
    """The last events that one login could see, at most TIMELINE_LINES."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[JsonObject] = deque(maxlen=TIMELINE_LINES)
        self._metadata: Metadata | None = None
        self._groups: Groups | None = None

    def look(self, view: "View") -> tuple[list[JsonObject], str | None]:
        """Compare with the last look. Return all events, the oldest first, and why some may lack:
        brokers may be dead or stand still, and a look does not wait for them.
        """
        metadata = view.kept_metadata.peek(FRESH_S, FIRST_S)
        if metadata is None:
            return self.last(), "no broker has answered yet"
        groups = view.kept_groups.peek(FRESH_S)
        with self._lock:
            self._compare(metadata.value, groups.value if groups is not None else None)
        seconds = int(metadata.age_s) // OLD_S * OLD_S
        return self.last(), f"the brokers answered {seconds} s ago" if seconds else None

    def _compare(self, metadata: "Metadata", groups: "Groups | None") -> None:
        for text in (
            *_metadata_changes(self._metadata, metadata),
            *_group_changes(self._groups, groups),
        ):
            now = round(time.time() * 1000)
            self._events.append({"at_ms": now, "until_ms": now, "times": 1, "text": text})
        self._metadata = metadata
        self._groups = groups or self._groups

    def last(self) -> list[JsonObject]:
        """Return the events without a look."""
        with self._lock:
            return list(self._events)


TIMELINES: "Beside[View, Watched]" = Beside(lambda _: Watched())


def _metadata_changes(before: "Metadata | None", after: "Metadata") -> Iterator[str]:
    if before is None or before is after:
        return
    if before.controller != after.controller:
        yield f"controller {before.controller} -> {after.controller}"
    for node in sorted(before.brokers.keys() - after.brokers.keys()):
        yield f"node {node}: gone"
    for node in sorted(after.brokers.keys() - before.brokers.keys()):
        yield f"node {node}: there"
    for name in before.topics.keys() - after.topics.keys():
        yield f"topic {name!r} deleted"
    for name in after.topics.keys() - before.topics.keys():
        yield f"topic {name!r} created: {len(after.topics[name].partitions)} partitions"
    # users' topics first: those of the brokers themselves are many
    changes = [*_partition_changes(before, after, False), *_partition_changes(before, after, True)]
    yield from changes[:NAMES]
    if len(changes) > NAMES:
        yield f"and {len(changes) - NAMES} partitions more"


def _partition_changes(before: "Metadata", after: "Metadata", is_internal: bool) -> Iterator[str]:
    for name, topic in after.topics.items():
        was = before.topics.get(name)
        if (
            topic.internal != is_internal
            or was is None
            or was == topic
            or was.topic_id != topic.topic_id
        ):
            continue
        for old, new in zip(was.partitions, topic.partitions, strict=False):
            if old != new and (text := _change(old, new)):
                yield f"{name}-{new.index}: {text}"


def _change(was: "Partition", now: "Partition") -> str:
    changes = []
    if was.leader != now.leader:
        changes.append(f"leader {was.leader} -> {now.leader}, epoch {now.leader_epoch}")
    elif was.leader_epoch != now.leader_epoch:
        changes.append(f"epoch {was.leader_epoch} -> {now.leader_epoch}")
    if sorted(was.isr) != sorted(now.isr):
        changes.append(f"ISR {list(was.isr)} -> {list(now.isr)}")
    if list(was.replicas) != list(now.replicas):
        changes.append(f"replicas {list(was.replicas)} -> {list(now.replicas)}")
    return ", ".join(changes)


def _group_changes(before: "Groups | None", after: "Groups | None") -> Iterator[str]:
    """A group whose coordinator does not answer is not gone."""
    if before is None or after is None or before is after:
        return
    for group_id, group in after.of.items():
        was = before.of.get(group_id)
        if was is None:
            yield f"group {group_id!r}: {group.state}, coordinator {group.coordinator}"
        elif was.state != group.state:
            yield f"group {group_id!r}: {was.state} -> {group.state}"
        elif was.coordinator != group.coordinator:
            yield f"group {group_id!r}: coordinator {was.coordinator} -> {group.coordinator}"
    if not after.missing:
        for group_id in before.of.keys() - after.of.keys():
            yield f"group {group_id!r}: gone"
