"""The progress of long work: one line on standard error, drawn anew in place. It is there only
where that is a terminal, and from the first second on.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

AFTER_S, EVERY_S = 1.0, 0.2
CLEAR = "\r\033[K"


class Progress:
    """A line with the share that is done, the rate and the time that is left."""

    def __init__(
        self,
        label: str,
        total: int,
        unit: str,
        *,
        stream: TextIO | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total`: 0 where it is not known. `unit`: of the numbers, in the plural. `stream`: a
        terminal, or None for no line.
        """
        self._label, self._total, self._unit = label, total, unit
        self._stream, self._clock = stream, clock
        self._began = clock()
        self._next = self._began + AFTER_S  # when the line is drawn again
        self._is_drawn = False

    def update(self, done: int, note: str = "") -> None:
        """`done`: so much from the beginning. `note`: shown behind the numbers."""
        now = self._clock()
        if self._stream is None or now < self._next:
            return
        self._next = now + EVERY_S
        self._is_drawn = True
        line = self.line(done, now - self._began) + (f"  {note}" if note else "")
        self._stream.write(f"{CLEAR}{line}")
        self._stream.flush()

    def line(self, done: int, seconds: float) -> str:
        rate = done / max(seconds, 1e-9)
        if not self._total:
            return f"{self._label}  {_count(done, self._unit)}  {_count(rate, self._unit)}/s"
        share = min(1.0, done / self._total)
        left = f"  {_duration((self._total - done) / rate)} left" if 0 < done < self._total else ""
        numbers = f"{_count(done)} of {_count(self._total, self._unit)}"
        return f"{self._label}  {share:4.0%}  {numbers}  {_count(rate, self._unit)}/s{left}"

    def clear(self) -> None:
        """Take the line away, before something else is written to the terminal."""
        if self._is_drawn and self._stream is not None:
            self._is_drawn = False
            self._stream.write(CLEAR)
            self._stream.flush()


def _count(number: float, unit: str = "") -> str:
    """Bytes as MB, others with commas."""
    if unit == "bytes":
        return f"{number / 1e6:,.1f} MB"
    return f"{number:,.0f}" + (f" {unit}" if unit else "")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def progress(
    label: str, total: int, unit: str, *, quiet: bool = False, beside_output: bool = True
) -> Iterator[Progress]:
    """Show the progress of what happens inside. `beside_output`: False hides it where standard
    output is a terminal too.
    """
    is_shown = not quiet and sys.stderr.isatty() and (beside_output or not sys.stdout.isatty())
    shown = Progress(label, total, unit, stream=sys.stderr if is_shown else None)
    try:
        yield shown
    finally:
        shown.clear()
