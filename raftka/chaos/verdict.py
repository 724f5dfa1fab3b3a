"""The result of a check: valid, violated, or inconclusive, with the anomalies as sentences. Finds
nothing itself.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from raftka.chaos.history import Operation

KEPT_OF_A_KIND = 100  # more are counted only: a log that is lost whole has a million


class Outcome(StrEnum):
    VALID = "valid"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"


class Anomaly(NamedTuple):
    kind: str
    key: str
    sentence: str
    operations: Sequence[int]  # where they began in the history; of metadata: offsets

    def __str__(self) -> str:
        return f"{self.kind}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The promises of the workload."""

    read_committed: bool = True  # all consumers; False: they may see what is aborted later
    # all producers; False: retries may write twice, and overtake each other
    idempotent: bool = True
    final_reads: bool = True  # at the end a client has read every key from its beginning to its end
    unclean_elections: bool = False  # True: they are allowed
    # how often a transaction's end may have been written again; None: not known, and its holes are
    # not judged
    repeated_markers: int | None = None
    least_acknowledged: int = 1  # records; with fewer the run shows nothing
    least_polled: int = 1
    linearizable_steps: int = 1_000_000  # of a register's check, before it is given up


@dataclass(slots=True)
class Findings:
    """Anomalies and notes that the checks gather while they run."""

    anomalies: list[Anomaly] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # anomalies by kind
    # things that Kafka allows, and that a reader of the report may want to know
    notes: Counter[str] = field(default_factory=Counter)

    def wrong(
        self, kind: str, key: str, sentence: str, operations: Iterable[Operation | int | None] = ()
    ) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= KEPT_OF_A_KIND:
            places = [
                each.began if isinstance(each, Operation) else each
                for each in operations
                if each is not None
            ]
            self.anomalies.append(Anomaly(kind, key, f"{key}: {sentence}", places))

    def note(self, kind: str, count: int = 1) -> None:
        self.notes[kind] += count


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    anomalies: Sequence[Anomaly]
    counts: Counter[str]
    notes: Counter[str]
    reason: str = ""  # why it is inconclusive

    @property
    def kinds(self) -> set[str]:
        return set(self.counts)

    def __str__(self) -> str:
        if self.outcome is not Outcome.VIOLATED:
            return self.outcome + (f": {self.reason}" if self.reason else "")
        return f"{self.outcome}: " + ", ".join(
            f"{count} {kind}" for kind, count in sorted(self.counts.items())
        )
