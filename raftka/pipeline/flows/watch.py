"""Trucks that go too fast, or are not heard of: plain functions over readings in the order of their time. Spark's side is in moves.py.

What is found does not depend on how readings come in batches, nor on when Spark's timers fire: silence is found by the timer, or by the
reading that ends it.
"""

from collections.abc import Iterable
from typing import NamedTuple

SPEEDING, SILENT, HEARD = "SPEEDING", "SILENT", "HEARD"


class Rules(NamedTuple):
    speed_kmh: float | None = None  # faster than this is too fast; None: anything goes
    silent_us: int | None = None  # so long without a reading is silence; None: silence does not matter


class Reading(NamedTuple):
    at_us: int
    latitude: float
    longitude: float
    speed_kmh: float | None


class Watched(NamedTuple):
    """The last reading of a truck, and what has been reported of it."""

    at_us: int
    latitude: float
    longitude: float
    is_fast: bool
    is_silent: bool


class Alarm(NamedTuple):
    event: str
    at_us: int
    latitude: float
    longitude: float
    speed_kmh: float | None = None


def watch(rules: Rules, known: Watched | None, readings: Iterable[Reading]) -> tuple[list[Alarm], Watched | None]:
    """A reading that is not later than the last known one is skipped, and one that comes when the silence that it would have ended is reported: it is
    too late. SPEEDING is found once until a reading is not too fast any more; a reading
    without a speed changes nothing of that."""
    found: list[Alarm] = []
    for each in sorted(readings, key=lambda reading: reading.at_us):
        if known is not None and each.at_us <= known.at_us:
            continue
        if known is not None and known.is_silent and (silence_us := silent_at(rules, known)) is not None and each.at_us < silence_us:
            continue
        if known is not None:
            some, known = expired(rules, known, each.at_us)
            found += some
            if known.is_silent:
                found.append(Alarm(HEARD, each.at_us, each.latitude, each.longitude, each.speed_kmh))
        was_fast = known is not None and known.is_fast
        is_fast = was_fast if each.speed_kmh is None or rules.speed_kmh is None else each.speed_kmh > rules.speed_kmh
        if is_fast and not was_fast:
            found.append(Alarm(SPEEDING, each.at_us, each.latitude, each.longitude, each.speed_kmh))
        known = Watched(each.at_us, each.latitude, each.longitude, is_fast, False)
    return found, known


def expired(rules: Rules, known: Watched, now_us: int) -> tuple[list[Alarm], Watched]:
    """Time has come to `now_us` without a reading: SILENT, where it was last heard of, once."""
    at_us = silent_at(rules, known)
    if at_us is None or known.is_silent or now_us < at_us:
        return [], known
    return [Alarm(SILENT, at_us, known.latitude, known.longitude)], known._replace(is_silent=True)


def silent_at(rules: Rules, known: Watched) -> int | None:
    """When it is silent, unless it is heard of before."""
    return None if rules.silent_us is None else known.at_us + rules.silent_us
