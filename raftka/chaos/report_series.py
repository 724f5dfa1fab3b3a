"""Numbers of a run by time, for its page: how much, how slow, what failed, who led. Pure; draws
nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from raftka.chaos.history import FAIL, INFO, OK, PRODUCE, TRANSACTION, History, Operation
from raftka.json_values import Json

BINS = 240
AROUND = 3  # offsets to each side of one that is wrong
WRITES = (PRODUCE, TRANSACTION)

Points = Sequence[tuple[float, float | None]]  # seconds, value; None: nothing was known


@dataclass(frozen=True, slots=True)
class Span:
    """Something that was so from then to then."""

    from_s: float
    to_s: float
    what: Json


@dataclass(slots=True)
class Series:
    seconds: float
    acknowledged: Points = ()  # records a second
    read: Points = ()
    # operations a second that failed, or of which nobody knows
    troubles: Mapping[str, Points] = field(default_factory=dict)
    latency_ms: Mapping[str, Points] = field(default_factory=dict)  # of writes: worst, 99 %, median

    @property
    def usual_top(self) -> float:
        """A little more than what was usual: reading everything in the end would make all else a
        line on the ground.
        """
        rates = sorted(value for _, value in self.read if value)
        usual = rates[int(0.95 * (len(rates) - 1))] if rates else 0.0
        return max(
            1.0,
            1.3 * usual,
            1.1 * max((value or 0.0 for _, value in self.acknowledged), default=0.0),
        )


def series_of(history: History, seconds: float) -> Series:
    seconds = max(
        seconds,
        1e-3,
        *(
            each.ended_s
            for each in history.operations
            if each.outcome != INFO and each.ended_s < float("inf")
        ),
        1e-3,
    )
    width = seconds / BINS
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    latencies: dict[int, list[float]] = defaultdict(list)
    for each in history.operations:
        at = min(
            BINS - 1, int((each.ended_s if each.ended_s < float("inf") else each.began_s) / width)
        )
        if each.outcome == OK:
            counts["acknowledged"][at] += len(each.sends)
            counts["read"][at] += sum(map(len, each.polled.values()))
            if each.verb in WRITES:
                latencies[at].append(1000 * (each.ended_s - each.began_s))
        else:
            counts[each.outcome][at] += 1

    def rate(name: str) -> Points:
        return [((i + 0.5) * width, counts[name][i] / width) for i in range(BINS)]

    def share(of: float) -> Points:
        found = {i: sorted(values) for i, values in latencies.items()}
        return [
            (
                (i + 0.5) * width,
                found[i][min(len(found[i]) - 1, int(of * len(found[i])))] if i in found else None,
            )
            for i in range(BINS)
        ]

    troubles = {"failed": rate(FAIL), "nobody knows": rate(INFO)}
    return Series(
        seconds,
        rate("acknowledged"),
        rate("read"),
        troubles,
        {"worst": share(1.0), "99 %": share(0.99), "median": share(0.5)},
    )


def spans(samples: Sequence[Mapping[str, Json]], value: Json, end_s: float) -> list[Span]:
    """Split the samples into spans of equal values. `value` takes a sample."""
    found: list[Span] = []
    for i, sample in enumerate(samples):
        what = value(sample)
        until = samples[i + 1]["at_s"] if i + 1 < len(samples) else end_s
        if found and found[-1].what == what:
            found[-1] = Span(found[-1].from_s, until, what)
        else:
            found.append(Span(sample["at_s"], until, what))
    return found


def keys_of(samples: Iterable[Mapping[str, Json]], name: str) -> list[str]:
    """The partitions that any sample names, in their order."""
    found = {key for sample in samples for key in sample.get(name, {})}
    return sorted(
        found,
        key=lambda key: (
            key.rpartition("-")[0],
            int(tail) if (tail := key.rpartition("-")[2]).isdigit() else -1,
            key,
        ),
    )


def lines_of(samples: Sequence[Mapping[str, Json]], name: str) -> Mapping[str, Points]:
    """By partition, thinned out to what can be seen."""
    step = max(1, len(samples) // (2 * BINS))
    return {
        key: [(each["at_s"], each.get(name, {}).get(key)) for each in samples[::step]]
        for key in keys_of(samples, name)
    }


class Witnesses:
    """The operations that saw records around an offset."""

    def __init__(self, history: History) -> None:
        self._by_key: dict[str, list[Operation]] = defaultdict(list)
        for each in history.operations:
            for key in {*each.polled, *(send[0] for send in each.sends)}:
                self._by_key[key].append(each)

    def around(
        self, key: str, offsets: Sequence[int]
    ) -> tuple[list[int], list[tuple[str, list[str]]]]:
        """The offsets that are shown, and rows: who, and the value that it knows at each of
        them.
        """
        shown = sorted(
            {
                offset
                for centre in offsets[:2]
                for offset in range(max(0, centre - AROUND), centre + AROUND + 1)
            }
        )
        wanted, rows = set(shown), dict[str, dict[int, set[str]]]()
        for each in self._by_key[key]:
            for offset, value in each.polled.get(key, ()):
                if offset in wanted:
                    rows.setdefault(f"read by {each.process}", {}).setdefault(offset, set()).add(
                        str(value)
                    )
            for where, value, place in each.sends:
                if where == key and place in wanted:
                    rows.setdefault("acknowledged", {}).setdefault(place, set()).add(str(value))
        told = [
            (who, [" ".join(sorted(cells.get(offset, ()))) for offset in shown])
            for who, cells in sorted(rows.items())
        ]
        return shown, told

    @staticmethod
    def offsets_in(operation: Operation, key: str) -> list[int]:
        """The offsets where the operation touched a partition: its ends."""
        found = [send[2] for send in operation.sends if send[0] == key and send[2] is not None]
        records = operation.polled.get(key, ())
        return found + [record[0] for record in (*records[:1], *records[-1:])]
