"""Texts with pieces exchanged, whose places lead back to the text before."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Edit(NamedTuple):
    """A piece of a text, from `begin` up to `end`, and the text that stands there instead."""

    begin: int
    end: int
    text: str


class Rewritten(NamedTuple):
    text: str
    starts: list[int]  # of its pieces
    places: list[int]  # of the pieces, in the text before
    ends: list[int]  # of the pieces there; a new piece has no length

    def place(self, at: int) -> int:
        """Return the place in the text before."""
        found = bisect_right(self.starts, at) - 1
        if found < 0:
            return at
        return min(self.places[found] + at - self.starts[found], self.ends[found])


def rewrite(text: str, edits: Iterable[Edit]) -> Rewritten:
    """Return a text with edits made. Those of one place stay in their order."""
    parts: list[str] = []
    starts, places, ends = [], [], []
    at = length = 0
    for begin, end, new in [*sorted(edits, key=lambda each: each[:2]), (len(text), len(text), "")]:
        for part, place, limit in ((text[at:begin], at, begin), (new, begin, begin)):
            if part:
                parts.append(part)
                starts.append(length)
                places.append(place)
                ends.append(limit)
                length += len(part)
        at = end
    return Rewritten("".join(parts), starts, places, ends)
