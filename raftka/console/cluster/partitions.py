"""All partitions of a cluster at one time as counts, and their leaders and in-sync replicas as they
move between two times.
"""

from collections import Counter, deque
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.console.limits import MOVES
from raftka.console.view.metadata import Metadata, Partition, Topic
from raftka.json_values import JsonObject

BAR_MS, BARS = 10_000, 60
SPAN_MS = BAR_MS * BARS
LEADER, SHRUNK, GROWN = "leader", "shrunk", "grown"
KINDS = (LEADER, SHRUNK, GROWN)


class Counts(NamedTuple):
    """`lagging`: replicas that are not in sync, by broker. `not_preferred`: partitions that
    another broker leads than their first replica, by that replica, which is in sync.
    """

    total: int
    offline: list[Where]
    under_replicated: list[tuple[Where, Partition]]
    leaders: Counter[int]
    replicas: Counter[int]
    lagging: Counter[int]
    not_preferred: Counter[int]


def count_partitions(metadata: Metadata) -> Counts:
    found = [(name, each) for name, topic in metadata.topics.items() for each in topic.partitions]
    under = [
        ((name, each.index), each) for name, each in found if len(each.isr) < len(each.replicas)
    ]
    moved = [each for _, each in found if each.replicas and each.leader != each.replicas[0]]
    return Counts(
        len(found),
        [(name, each.index) for name, each in found if each.leader < 0],
        under,
        Counter([each.leader for _, each in found]),
        Counter(chain.from_iterable([each.replicas for _, each in found])),
        Counter([one for _, each in under for one in each.replicas if one not in each.isr]),
        Counter([each.replicas[0] for each in moved if each.replicas[0] in each.isr]),
    )


class Move(NamedTuple):
    number: int  # counts all moves
    at_ms: int  # since 1970: when it was seen
    kind: str  # one of KINDS
    where: Where
    text: str


class Moves:
    """The moves that successive metadata show, for SPAN_MS. Not for several threads at once."""

    def __init__(self) -> None:
        self._last: Metadata | None = None
        self._last_ms = 0
        self._number = 0
        self._latest: deque[Move] = deque(maxlen=MOVES.value)
        self._bars: dict[int, Counter[str]] = {}  # by time in units of BAR_MS

    def observe(self, metadata: Metadata, now_ms: int) -> None:
        """Compare with the metadata that were seen before. Those from before a long pause say
        nothing about the time of a move.
        """
        before, self._last = self._last, metadata
        is_recent = now_ms - self._last_ms < SPAN_MS
        self._last_ms = now_ms
        if before is None or before is metadata or not is_recent:
            return
        seen: Counter[str] = Counter()
        for name, topic in metadata.topics.items():
            old = before.topics.get(name)
            if old is None or old.topic_id != topic.topic_id or old.partitions == topic.partitions:
                continue
            for index, kind, node_id in _moves_of_topic(old, topic):
                seen[kind] += 1
                if seen.total() <= MOVES.value:  # further ones are counted
                    self._number += 1
                    text = _text(kind, node_id, old.partitions[index], topic.partitions[index])
                    move = Move(self._number, now_ms, kind, (name, index), text)
                    self._latest.appendleft(move)
        self._bars.setdefault(now_ms // BAR_MS, Counter()).update(seen)
        for bar in [each for each in self._bars if each <= now_ms // BAR_MS - BARS]:
            del self._bars[bar]

    def shown(self, now_ms: int) -> JsonObject:
        """Return the bars, the oldest first and with a number for each kind, and the latest moves,
        the newest first.
        """
        last = now_ms // BAR_MS
        empty: Counter[str] = Counter()
        bars = [self._bars.get(each, empty) for each in range(last - BARS + 1, last + 1)]
        return {
            "span_ms": SPAN_MS,
            "kinds": KINDS,
            "bars": [[bar[kind] for kind in KINDS] for bar in bars],
            "latest": [
                {
                    "id": each.number,
                    "kind": each.kind,
                    "topic": each.where[0],
                    "partition": each.where[1],
                    "text": each.text,
                    "at_ms": each.at_ms,
                }
                for each in self._latest
                if each.at_ms > now_ms - SPAN_MS
            ],
        }


def _moves_of_topic(old: Topic, new: Topic) -> Iterator[tuple[int, str, int]]:
    """Yield partition, kind and broker of each move. Partitions of the two stand by index."""
    for before, now in zip(old.partitions, new.partitions, strict=False):
        if before == now:
            continue
        if before.leader != now.leader:
            yield now.index, LEADER, now.leader
        if before.isr != now.isr:
            for node_id in sorted(set(before.isr).difference(now.isr)):
                yield now.index, SHRUNK, node_id
            for node_id in sorted(set(now.isr).difference(before.isr)):
                yield now.index, GROWN, node_id


def _text(kind: str, node_id: int, before: Partition, now: Partition) -> str:
    if kind == LEADER:
        return f"leader {_name(before.leader)} → {_name(now.leader)}, epoch {now.leader_epoch}"
    return f"broker {node_id} {'fell out' if kind == SHRUNK else 'came back'}, {_in_sync(now)}"


def _in_sync(partition: Partition) -> str:
    return f"{len(partition.isr)} of {len(partition.replicas)} in sync"


def _name(node_id: int) -> str:
    return "none" if node_id < 0 else str(node_id)
