"""Lag of readers, as curves for a report: no anomalies here.

lag: how long, at least, what a poll had read to was no longer the newest.
"""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from raftka.chaos.checks.versions import Versions
from raftka.chaos.history import OK, History


class Lag(NamedTuple):
    at_s: float
    process: int
    key: str
    lag_s: float


def lags(history: History, versions: Mapping[str, Versions]) -> list[Lag]:
    """The lag of each ok poll, for each key in it."""
    known = _known(history, versions)
    reached: dict[tuple[int, str], int] = {}
    found = []
    for operation in history.operations:
        if operation.outcome != OK:
            continue
        for key in dict.fromkeys([*operation.polled, *operation.told]):
            index = reached.get((operation.process, key), -1)
            for offset, _ in operation.polled.get(key, ())[-1:]:
                index = max(index, versions[key].index[offset])
            reached[operation.process, key] = index
            since = known[key][index + 1] if index + 1 < len(known[key]) else inf
            found.append(
                Lag(operation.began_s, operation.process, key, max(0.0, operation.began_s - since))
            )
    return found


def _known(history: History, versions: Mapping[str, Versions]) -> dict[str, list[float]]:
    """By key and index: since when it is certain that there is a record as far as that."""
    since = {key: [inf] * len(each.offsets) for key, each in versions.items()}
    for operation in history.operations:
        if operation.outcome != OK:
            continue
        offsets = [
            (key, offset) for key, records in operation.polled.items() for offset, _ in records
        ]
        offsets += [(key, offset) for key, _, offset in operation.sends if offset is not None]
        for key, offset in offsets:
            index = versions[key].index[offset]
            since[key][index] = min(since[key][index], operation.ended_s)
    for times in since.values():
        for index in range(len(times) - 2, -1, -1):
            times[index] = min(times[index], times[index + 1])
    return since
