"""Pages of records over several partitions, merged by time, forwards and back.

A page's place is an offset for each partition. Inside a partition the order is always that of the
offsets, whatever the times say.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where
from raftka.console.limits import BACK_ROUNDS, CURSOR_CHARACTERS, UNREADABLE_SHOWN
from raftka.console.parameters import LARGEST, refusal
from raftka.console.search.scan import Scanner, Search
from raftka.console.search.shown import row_of
from raftka.json_values import JsonObject

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
CURSOR = "at:"

Edges = Mapping[Where, int]  # offsets between two pages
MakeScanner = Callable[[], Scanner]


class Shown(NamedTuple):
    """A record as a list shows it: a large one is cut, so that a page stays small."""

    where: Where
    offset: int
    timestamp: int
    row: JsonObject


class Page(NamedTuple):
    """`before`: the edges in front of its records, `after`: those behind them. `unreadable`: what
    was left out, with the reason.
    """

    shown: Sequence[Shown]
    before: Edges
    after: Edges
    unreadable: Sequence[str]


class Reading(NamedTuple):
    """Client and scanner that pages are read with."""

    client: Client
    make_scanner: MakeScanner
    committed: bool
    is_gone: Callable[[], bool]

    def read(self, begins: Edges, stops: Edges, most: int) -> "Read":
        """Read at most `most` records of each partition, from its begin on. More may come of some.

        Raises KafkaError and Unreachable.
        """
        found: dict[Where, list[Shown]] = {}
        search = Search(self.client, begins, stops, self.make_scanner(), committed=self.committed)
        for each in search.run():
            if each is not None:
                record = each.seen.record
                shown = Shown(each.where, record.offset, record.timestamp, row_of(each))
                found.setdefault(each.where, []).append(shown)
            elif self.is_gone() or all(
                len(found.get(where, ())) >= most for where in search.positions
            ):
                break
        return Read(found, search.progress.unreadable)


class Read(NamedTuple):
    found: dict[Where, list[Shown]]
    unreadable: list[str]


def read_forward(reading: Reading, edges: Edges, ends: Edges, size: int) -> Page:
    """Return the first records behind the edges, oldest first."""
    found, unreadable = reading.read(edges, ends, size)
    shown = list(merge(found.values(), size, newest_first=False))
    after = dict(edges)
    for each in shown:
        after[each.where] = each.offset + 1
    for where, end in ends.items():
        # nothing is left there but what no consumer sees
        if after[where] == edges[where] and not found.get(where):
            after[where] = end
    return Page(shown, edges, after, unreadable)


def read_back(reading: Reading, edges: Edges, begins: Edges, size: int) -> Page:
    """Return the last records in front of the edges, newest first."""
    found: dict[Where, list[Shown]] = {where: [] for where in edges}
    unreadable: list[str] = []
    lower = dict(edges)
    width = size
    for _ in range(BACK_ROUNDS.value):
        short = [
            where for where in edges if len(found[where]) < size and lower[where] > begins[where]
        ]
        if not short or reading.is_gone():
            break
        stops = {where: lower[where] for where in short}
        for where in short:
            lower[where] = max(begins[where], lower[where] - width)
        came = reading.read({where: lower[where] for where in short}, stops, width)
        for where in short:
            found[where] = came.found.get(where, []) + found[where]
        unreadable += came.unreadable
        width *= 2
    shown = list(merge([each[::-1] for each in found.values()], size, newest_first=True))
    before = dict(edges)
    for each in shown:
        before[each.where] = each.offset
    for where in edges:
        if not found[where]:
            before[where] = lower[where]
    return Page(shown, before, edges, unreadable[: UNREADABLE_SHOWN.value])


def merge(runs: Iterable[Sequence[Shown]], size: int, *, newest_first: bool) -> Iterator[Shown]:
    """Yield up to `size` records of several partitions by time, each run in its own order."""
    sign = -1 if newest_first else 1
    heads = [(sign * run[0].timestamp, at, 0, run) for at, run in enumerate(runs) if run]
    heapq.heapify(heads)
    while heads and size:
        _, at, position, run = heads[0]
        yield run[position]
        size -= 1
        if position + 1 < len(run):
            following = sign * run[position + 1].timestamp
            heapq.heapreplace(heads, (following, at, position + 1, run))
        else:
            heapq.heappop(heads)


def write_cursor(edges: Edges) -> str | None:
    """Return the text of edges; None when they are too many for an address."""
    text = CURSOR + ".".join(_base36(edges[where]) for where in sorted(edges))
    return text if len(text) <= CURSOR_CHARACTERS.value else None


def read_cursor(text: str, wheres: Sequence[Where]) -> Edges:
    """Raise ApiError when the text is none of these partitions."""
    parts = text.removeprefix(CURSOR).split(".")
    if len(parts) != len(wheres):
        raise refusal("the place is of other partitions: begin anew")
    if not all(part.isascii() and part.isalnum() for part in parts):
        raise refusal("the place is no place of a page")
    offsets = [min(int(part, 36), LARGEST) for part in parts]
    return dict(zip(sorted(wheres), offsets, strict=True))


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text or "0"
