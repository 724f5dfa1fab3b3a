"""`raftka consume`: records of topics, a line each: all of them or those that are looked for, up to
a place or without end.
"""

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftka.cli.admin.client import connect, refusals
from raftka.cli.output import CommandFailed, command
from raftka.cli.progress import progress
from raftka.cli.records.positions import read_position
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.member import Member
from raftka.client.blocking.positions import Bounds, Position, offsets_at
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.client.json_lines import left_out_line, line_of
from raftka.wire.messages.list_offsets import EARLIEST, LATEST

POLL_S, POLL_RECORDS = 0.5, 500
INTERNAL = "__"  # topics that begin so are no match of --pattern
MS = 1000


@dataclass(frozen=True, slots=True)
class Filter:
    """The records that are looked for."""

    grep: re.Pattern[str] | None = None
    headers: tuple[tuple[str, str | None], ...] = ()  # None: any value

    @classmethod
    def of(cls, grep: str | None, headers: Sequence[str]) -> "Filter":
        """From the texts of the command line. Raises CommandFailed."""
        try:
            pattern = re.compile(grep) if grep is not None else None
        except re.error as error:
            raise CommandFailed(f"--grep {grep}: it is no regular expression: {error}") from None
        pairs = []
        for text in headers:
            name, separator, value = text.partition("=")
            if not name:
                raise CommandFailed(f"--header {text}: it is NAME=VALUE, or NAME for any value")
            pairs.append((name, value if separator else None))
        return cls(pattern, tuple(pairs))

    @property
    def is_all(self) -> bool:
        return self.grep is None and not self.headers

    def matches(self, record: FetchedRecord) -> bool:
        """Return whether key or value has a match, and the record has all the headers."""
        for name, wanted in self.headers:
            if not any(
                name == own and (wanted is None or _text(value) == wanted)
                for own, value in record.headers
            ):
                return False
        return self.grep is None or any(
            self.grep.search(_text(each)) for each in (record.value, record.key) if each is not None
        )


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


class Printer(NamedTuple):
    """The form of a record on standard output."""

    keys: bool
    output: str

    def print_all(self, records: Iterable[FetchedRecord]) -> None:
        """Print them, and pass the whole on at once."""
        out = sys.stdout.buffer
        for record in records:
            out.write(self.line(record))
        out.flush()

    def print_lost(self, offsets: int) -> None:
        """Say how many offsets were deleted before they were read: in JSON as the last line."""
        text = f"raftka: {offsets} offsets were deleted before they were read"
        print(text, file=sys.stderr, flush=True)
        if self.output == "json":
            sys.stdout.buffer.write(left_out_line({"lost": offsets}))
            sys.stdout.buffer.flush()

    def line(self, record: FetchedRecord) -> bytes:
        if self.output != "json":
            key = (record.key or b"") + b"\t" if self.keys else b""
            return key + (record.value or b"") + b"\n"
        return line_of(record)


class Stop(NamedTuple):
    """The end of a search: none, or a position, which may be a time to come."""

    at: Position | None

    def is_to_come(self, now: float) -> bool:
        return self.at is not None and self.at.kind == "time" and self.at.value > now * MS


@command
def consume(
    topics: Sequence[str],
    pattern: str | None,
    start: str | None,
    stop: str | None,
    partitions: Sequence[int],
    count: int | None,
    exit_at_end: bool,
    follow: bool,
    keys: bool,
    group: str | None,
    grep: str | None,
    headers: Sequence[str],
    quiet: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    if not topics and pattern is None:
        raise CommandFailed("name a topic, or give --pattern")
    if stop is not None and exit_at_end:
        raise CommandFailed("either --to or --exit-at-end says where to end")
    if follow and (stop is not None or exit_at_end):
        raise CommandFailed("--follow goes on behind the end: leave out --to and --exit-at-end")
    now = time.time()
    ends = stop if stop is not None else ("end" if exit_at_end else None)
    until = Stop(read_position("--to", ends, now, ("end",)) if ends is not None else None)
    looked_for, printer = Filter.of(grep, headers), Printer(keys, output)
    with connect(bootstrap_server) as client:
        names = _names(client, topics, pattern)
        if group is not None:
            if start not in (None, "start", "end") or partitions or stop is not None:
                raise CommandFailed(
                    "with --group the group decides positions and assignments: --from must be "
                    "start or end, and --partition and --to are not allowed"
                )
            reset = EARLIEST if start == "start" else LATEST
            sharing = _Sharing(client, names, group, reset, exit_at_end)
            sharing.consume(looked_for, printer, count)
            return
        # a search up to a place begins at the start, one without end with what comes
        begin = start if start is not None else ("start" if until.at is not None else "end")
        position = read_position("--from", begin, now, ("start", "end"))
        if (
            until.at is not None
            and until.at.kind == position.kind == "time"
            and until.at.value < position.value
        ):
            raise CommandFailed(f"--to {stop} is before --from {begin}")
        bounds = Bounds.of(client, _wanted(client, names, partitions))
        search = _Search(client, bounds, offsets_at(client, position, bounds), until)
        search.consume(looked_for, printer, count, quiet=quiet)


class _Search:
    """Reads partitions from given offsets, up to a place or without end."""

    def __init__(
        self, client: Client, bounds: Bounds, begins: Mapping[Where, int], until: Stop
    ) -> None:
        self._client, self._bounds, self._until = client, bounds, until
        self._begins = dict(begins)
        self._reader = Reader(client, begins)
        self._stops: dict[Where, int] | None = None  # None: there is no end, or it is to come
        self._ended: set[Where] = set()  # partitions that have reached an end to come

    def consume(
        self, looked_for: Filter, printer: Printer, count: int | None, *, quiet: bool
    ) -> None:
        """Print the records that are looked for, at most `count`."""
        self._settle_stops()
        left = count if count is not None else sys.maxsize
        beside_output = not looked_for.is_all
        with progress(
            "searching" if beside_output else "consuming",
            self._total(),
            "records",
            quiet=quiet or self._stops is None,
            beside_output=beside_output,
        ) as shown:
            read = 0
            while left and not self._is_over():
                records = self._reader.poll(POLL_S, POLL_RECORDS)
                found = [
                    each for each in records if self._is_inside(each) and looked_for.matches(each)
                ][:left]
                left -= len(found)
                if found:
                    shown.clear()
                    printer.print_all(found)
                read += len(records)
                shown.update(self._done() if self._stops is not None else read)
        self._reader.close()
        if self._reader.lost:
            printer.print_lost(self._reader.lost)

    def _settle_stops(self) -> None:
        """The end is known, unless it is a time to come."""
        if self._stops is not None or self._until.at is None:
            return
        if self._until.is_to_come(time.time()):
            return
        bounds = self._bounds
        if self._until.at.kind == "time":  # the records that have come meanwhile count
            bounds = Bounds.of(self._client, list(self._begins))
        self._stops = offsets_at(self._client, self._until.at, bounds)

    def _is_over(self) -> bool:
        self._settle_stops()
        if self._stops is None:
            return False
        for where, position in list(self._reader.positions.items()):
            if position >= self._stops[where]:
                self._reader.leave(where)
        return not self._reader.positions

    def _is_inside(self, record: FetchedRecord) -> bool:
        """Return whether it stands before the end. Of a time to come, the end of a partition is its
        first record that is not older.
        """
        where = record.topic, record.partition
        if self._stops is not None:
            return record.offset < self._stops[where]
        if self._until.at is not None and record.timestamp >= self._until.at.value:
            self._ended.add(where)
        return where not in self._ended

    def _total(self) -> int:
        if self._stops is None:
            return 0
        return sum(max(0, self._stops[where] - begin) for where, begin in self._begins.items())

    def _done(self) -> int:
        """Records up to the positions; a partition that was left counts as a whole."""
        stops = self._stops or {}
        return sum(
            max(0, min(self._reader.positions.get(where, stop), stop) - self._begins[where])
            for where, stop in stops.items()
        )


class _Sharing:
    """Reads as a member of a group.

    Each poll's records are committed after they are printed and before the next poll: when a member
    dies, at most one poll is printed again.
    """

    def __init__(
        self,
        client: Client,
        topics: Sequence[str],
        group: str,
        reset: int,
        exit_at_end: bool,
    ) -> None:
        """`reset`: EARLIEST or LATEST, for partitions without a committed offset."""
        self._client, self._topics, self._group = client, topics, group
        self._reset, self._exits_at_end = reset, exit_at_end

    def consume(self, looked_for: Filter, printer: Printer, count: int | None) -> None:
        """Print records that are looked for, at most `count`; the others are committed too."""
        client = self._client
        ends = client.offsets(dict.fromkeys(_wanted(client, self._topics, ()), LATEST))
        left = count if count is not None else sys.maxsize
        with Member(client, self._group, *self._topics) as member:
            reader = Reader(client, {})
            while left and not (
                self._exits_at_end and member.assigned and _read_up_to(reader, ends)
            ):
                if member.poll():
                    reader.close()
                    reader = self._reader_of(member)
                    continue
                # no more than are still wanted: those that were read are committed
                records = reader.poll(POLL_S, min(left, POLL_RECORDS))
                found = [each for each in records if looked_for.matches(each)]
                printer.print_all(found)
                left -= len(found)
                if records:
                    member.commit(reader.positions)
            reader.close()

    def _reader_of(self, member: Member) -> Reader:
        """Return a reader of the assigned partitions, from the group's committed offsets."""
        committed = member.committed()
        new = {where: self._reset for where in member.assigned if where not in committed}
        return Reader(self._client, committed | self._client.offsets(new), reset=self._reset)


def _read_up_to(reader: Reader, ends: Mapping[Where, int]) -> bool:
    return all(position >= ends.get(where, 0) for where, position in reader.positions.items())


def _names(client: Client, topics: Sequence[str], pattern: str | None) -> list[str]:
    """The topics that are named, and those that match the pattern. Raises CommandFailed."""
    names = dict.fromkeys(topics)
    if pattern is None:
        return list(names)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise CommandFailed(f"--pattern {pattern}: it is no regular expression: {error}") from None
    there = sorted(str(topic.name) for topic in client.metadata(None).topics)
    found = [name for name in there if wanted.fullmatch(name) and not name.startswith(INTERNAL)]
    if not found and not names:
        raise CommandFailed(f"no topic matches --pattern {pattern} as a whole")
    return list(names | dict.fromkeys(found))


def _wanted(client: Client, topics: Sequence[str], only: Sequence[int]) -> list[Where]:
    """These partitions of the topics, or all. Raises CommandFailed for one that is not there."""
    found = client.metadata(topics).topics
    if refused := refusals(found):
        raise CommandFailed("; ".join(refused))
    wanted: list[Where] = []
    for topic in sorted(found, key=lambda each: str(each.name)):
        known = {each.partition_index for each in topic.partitions}
        if missing := set(only) - known:
            raise CommandFailed(f"{topic.name} has no partition {min(missing)}")
        wanted += [(str(topic.name), index) for index in sorted(only or known)]
    return wanted
