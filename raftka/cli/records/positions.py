"""Places in a partition as people write them: start, an offset, the last N, 2h ago, 10:42 today, an
ISO time.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from datetime import time as clock_time

from raftka.cli.output import CommandFailed
from raftka.client.blocking.positions import Position

UNIT_S = {"d": 86400, "h": 3600, "m": 60, "s": 1}
DURATION = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?")
# as kafka-consumer-groups takes them
ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+)S)?)?"
)
CLOCK = re.compile(r"\d\d?:\d\d(:\d\d(\.\d+)?)?")
FORMS = (
    "an offset, -N: the last N, 90s, 30m, 2h, 7d, 1h30m or PT1H30M: so long ago, 10:42: today, or "
    "a time like 2026-11-21T08:00 or 2026-11-21T08:00+01:00"
)


def read_position(option: str, text: str, now: float, words: Sequence[str]) -> Position:
    """Parse the value of `option`. `words`: of start, end and current, those that it may be. `now`:
    seconds since 1970. Raises CommandFailed.
    """
    if text in words:
        return Position(text)
    if re.fullmatch(r"-?\d+", text):
        number = int(text)
        return Position("back", -number) if text.startswith("-") else Position("offset", number)
    time_ms = read_time(text, now)
    if time_ms is None:
        raise CommandFailed(f"{option} {text}: it is {', '.join(words)}, {FORMS}")
    return Position("time", time_ms)


def read_time(text: str, now: float) -> int | None:
    """Return milliseconds since 1970, or None for what is no time. Times without a zone are those
    of this machine.
    """
    for pattern in (DURATION, ISO_DURATION):
        if (match := pattern.fullmatch(text)) is not None and any(match.groups()):
            parts = match.groupdict().items()
            ago_s = sum(int(count or 0) * UNIT_S[unit] for unit, count in parts)
            return round((now - ago_s) * 1000)
    try:
        if CLOCK.fullmatch(text):
            at = clock_time.fromisoformat(text.rjust(5, "0") if len(text) == 4 else text)
            found = datetime.combine(datetime.fromtimestamp(now).date(), at)
        else:
            found = datetime.fromisoformat(text)
        return round(found.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
