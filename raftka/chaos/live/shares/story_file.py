"""The story of share consumers in one file that several processes append to: a line is written
before a request is sent and after it is answered, so a killed process leaves what it had asked for.

A line is a JSON list; its first item says which:

- `asked`: number, session, member, broker, time, partitions that are fetched, acknowledgements
- `answered`: the number, time, ranges of each fetched partition, outcomes of the acknowledgements
- `leaders`: time, and of each partition the address and epoch of its leader
- `wrong`: a sentence
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from zlib import crc32

from raftka.chaos.checks.shares import (
    Acknowledgement,
    Acquired,
    Fetch,
    Kind,
    Outcome,
    Session,
    Story,
)
from raftka.chaos.simulated.clients.client import Address
from raftka.chaos.simulated.clients.sharing import Notes

# A leader is known only where it led so long before and after: brokers hear of it with a delay.
SURELY_S = 1.5
OUTCOMES = {each.name: each for each in Outcome}


class StoryFile:
    """Appends lines; whole ones, whichever process writes."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, *items: object) -> None:
        line = json.dumps(items, separators=(",", ":")).encode() + b"\n"
        if os.write(self._fd, line) != len(line):
            raise OSError("the story could not be written")

    def close(self) -> None:
        os.close(self._fd)


class StoryWriter:
    """Writes the story of the members of one group in one process."""

    def __init__(self, file: StoryFile, group: str, process: str) -> None:
        """`process`: names it; no other process of the run has this name."""
        self._file, self._group, self._process = file, group, process
        self._numbers = count()
        self._asked: dict[Session, str] = {}  # the number of its last request
        self._sessions: dict[Session, str] = {}  # the number of its first request
        self._told = 0  # sentences that stand in the file

    def on_asked(self, fetches: Sequence[Fetch], told: Sequence[Acknowledgement]) -> None:
        both: list[Fetch | Acknowledgement] = [*fetches, *told]
        if not both:
            return
        session = both[0].session
        number = self._asked[session] = f"{self._process}.{next(self._numbers)}"
        self._file.write(
            "asked",
            self._group,
            number,
            self._sessions.setdefault(session, number),
            session.member,
            session.broker,
            round(both[0].asked_at, 4),
            [fetch.place[1] for fetch in fetches],
            [(each.place[1], int(each.kind), each.first, each.last) for each in told],
        )

    def on_answered(
        self, fetches: Sequence[Fetch], told: Sequence[Acknowledgement], notes: Notes
    ) -> None:
        both: list[Fetch | Acknowledgement] = [*fetches, *told]
        if not both:
            return
        self._file.write(
            "answered",
            self._group,
            self._asked[both[0].session],
            round(monotonic(), 4),
            [_ranges(fetch, notes) if fetch.answered_at < inf else None for fetch in fetches],
            [each.outcome.name for each in told],
        )
        for sentence in notes.wrong[self._told :]:
            self._file.write("wrong", self._group, sentence)
        self._told = len(notes.wrong)


def _ranges(fetch: Fetch, notes: Notes) -> list[tuple[int, int, int, list[int]]]:
    """First, last and count of each range, and the checksums of its values."""
    partition = fetch.place[1]
    return [
        (
            first,
            last,
            delivery_count,
            [
                crc32(notes.values.get((partition, offset), b""))
                for offset in range(first, last + 1)
            ],
        )
        for first, last, delivery_count in fetch.acquired
    ]


class Told(NamedTuple):
    """The story of one group."""

    story: Story
    wrong: list[str]
    values: dict[tuple[int, int], set[int]]  # partition and offset -> checksums, as delivered

    @classmethod
    def new(cls) -> "Told":
        return cls(Story(), [], defaultdict(set))


class _Led(NamedTuple):
    """A time in which a partition surely had one leader."""

    since: float
    until: float
    broker: Address
    epoch: int


def load(path: Path, topic: str) -> dict[str, Told]:
    """Read the story of each group. The last line may be cut short: its process was killed."""
    loader = _Loader(topic)
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                kind, *items = json.loads(line)
                loader.take[kind](*items)
    loader.find_terms()
    return loader.told


class _Loader:
    def __init__(self, topic: str) -> None:
        self.told: dict[str, Told] = defaultdict(Told.new)
        self.take: Mapping[str, Callable[..., None]] = {
            "asked": self._asked,
            "answered": self._answered,
            "leaders": self._leaders,
            "wrong": lambda group, sentence: self.told[group].wrong.append(sentence),
        }
        self._topic = topic
        self._sessions: dict[tuple[str, str], Session] = {}
        # requests without an answer
        self._open: dict[tuple[str, str], tuple[list[Fetch], list[Acknowledgement]]] = {}
        self._samples: dict[int, list[tuple[float, Address, int]]] = defaultdict(list)

    def _asked(
        self,
        group: str,
        number: str,
        session_number: str,
        member: str,
        broker: tuple[str, int],
        at: float,
        fetched: Sequence[int],
        acknowledged: Sequence[tuple[int, int, int, int]],
    ) -> None:
        # its process may have been killed after its last answer
        session = self._sessions.setdefault(
            (group, session_number), Session(member, (broker[0], broker[1]), is_over=True)
        )
        fetches = [Fetch(session, (self._topic, each), at) for each in fetched]
        told = [
            Acknowledgement(session, (self._topic, each), Kind(kind), first, last, at)
            for each, kind, first, last in acknowledged
        ]
        story = self.told[group].story
        story.fetches += fetches
        story.acknowledgements += told
        self._open[group, number] = fetches, told

    def _answered(
        self,
        group: str,
        number: str,
        at: float,
        found: Sequence[Sequence[tuple[int, int, int, list[int]]] | None],
        outcomes: Sequence[str],
    ) -> None:
        fetches, told = self._open.pop((group, number))
        for fetch, ranges in zip(fetches, found, strict=True):
            if ranges is None:
                continue
            fetch.answered_at = fetch.session.alive_at = at
            fetch.acquired = [Acquired(first, last, often) for first, last, often, _ in ranges]
            for first, _, _, checksums in ranges:
                for offset, checksum in enumerate(checksums, first):
                    self.told[group].values[fetch.place[1], offset].add(checksum)
        for each, name in zip(told, outcomes, strict=True):
            each.outcome, each.answered_at = OUTCOMES[name], at
            each.session.alive_at = at

    def _leaders(self, at: float, leaders: Mapping[str, tuple[Address, int]]) -> None:
        for partition, ((host, port), epoch) in leaders.items():
            self._samples[int(partition)].append((at, (host, port), epoch))

    def find_terms(self) -> None:
        """Find the leader that gave each answer."""
        led = {partition: _led(samples) for partition, samples in self._samples.items()}
        for told_ in self.told.values():
            for fetch in told_.story.fetches:
                fetch.term = next(
                    (
                        (each.broker, each.epoch)
                        for each in led.get(fetch.place[1], ())
                        if each.since <= fetch.asked_at
                        and fetch.answered_at <= each.until
                        and each.broker == fetch.session.broker
                    ),
                    None,
                )


def _led(samples: Sequence[tuple[float, Address, int]]) -> list[_Led]:
    found: list[_Led] = []
    begun, last = 0.0, (("", 0), -1)
    for at, broker, epoch in samples:
        if (broker, epoch) != last:
            begun, last = at, (broker, epoch)
        elif found and (found[-1].broker, found[-1].epoch) == last:
            found[-1] = found[-1]._replace(until=at - SURELY_S)
        elif begun + 2 * SURELY_S < at:
            found.append(_Led(begun + SURELY_S, at - SURELY_S, broker, epoch))
    return found
