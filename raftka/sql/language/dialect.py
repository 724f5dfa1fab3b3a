"""Words of ksqlDB in a query as Spark's: windows, the bounds of a window, functions.

They are rewritten on tokens, so never in texts and comments. Places of the result lead back to
the query.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.sql.language.errors import StatementError
from raftka.sql.language.functions import (
    ALIASES,
    ARGUMENT,
    FLAGGED,
    FORMATS,
    LAMBDAS,
    OTHERS,
    arguments_of,
    call_of,
    shown,
    strange_letter,
)
from raftka.sql.language.joins import Bounded, bounded
from raftka.sql.language.reader import DEEPEST, Reader
from raftka.sql.language.times import take_duration
from raftka.sql.language.tokens import LONGEST, Kind, Token

WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
NAMES = ALIASES.keys() | OTHERS.keys()
BOUNDS = ("WINDOWSTART", "WINDOWEND")


class Piece(NamedTuple):
    text: str
    at: int  # its place in the query
    is_own: bool  # it stands so in the query


class Translated(NamedTuple):
    text: str
    delays: Mapping[str, str]  # how late records may be, by the name of a stream in lower case
    windowed: Mapping[str, int]  # streams of a WINDOW without GRACE PERIOD, with its place
    starts: list[int]  # of the pieces, in the text
    pieces: list[Piece]
    joined: Bounded  # the query without WITHIN: its text has the places of the pieces

    def place(self, at: int) -> int:
        """Return the place in the query of a place in the text."""
        found = bisect_right(self.starts, at) - 1
        if found >= 0:
            piece = self.pieces[found]
            at = piece.at + (at - self.starts[found] if piece.is_own else 0)
        return self.joined.rewritten.place(at)


def translate(query: str) -> Translated:
    """Return a query in Spark's words. Raise StatementError, with its place in the query, for words
    of ksqlDB that have no such.
    """
    joined = bounded(query)
    try:
        return _translate(joined)
    except StatementError as error:
        place = joined.rewritten.place(error.at or 0)
        raise StatementError(error.message, query, place) from None


def _translate(joined: Bounded) -> Translated:
    reader = Reader(joined.rewritten.text)
    edits = _Selects(reader).edits()
    pieces = _Calls(reader, edits).pieces()
    starts, end = [], 0
    for piece in pieces:
        starts.append(end)
        end += len(piece.text)
    delays = {**joined.delays, **edits.delays}
    text = "".join(piece.text for piece in pieces)
    return Translated(text, delays, edits.windowed, starts, pieces, joined)


# windows


class Window(NamedTuple):
    call: str
    bounds: Mapping[str, str]
    grace: str | None
    begin: Token


@dataclass
class Select:
    """One SELECT, while its words are read."""

    depth: int  # of the brackets around it
    source: Token | None = None  # behind FROM
    is_joined: bool = False
    window: Window | None = None
    by: Token | None = None  # of GROUP BY
    group: Token | None = None  # the first one behind it
    bounds: list[tuple[Token, str]] = field(default_factory=list)  # with their names in the result


@dataclass
class Edits:
    """Changes, by the places of tokens."""

    instead: dict[int, str] = field(default_factory=dict)
    after: dict[int, str] = field(default_factory=dict)
    delays: dict[str, str] = field(default_factory=dict)
    windowed: dict[str, int] = field(default_factory=dict)


class _Selects:
    """Reads each SELECT of a query, and the ones in it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._open: list[Select] = []
        self._edits = Edits()

    def edits(self) -> Edits:
        """Raises StatementError."""
        reader, depth = self._reader, 0
        last = reader.next
        while reader.next.kind is not Kind.END:
            token = reader.take()
            if token.text == "(":
                depth += 1
            elif token.text == ")":
                depth -= 1
                self._close(depth + 1)
            elif token.word == "SELECT":
                self._close(depth)
                self._open.append(Select(depth))
            elif self._open:
                self._read(self._open[-1], token, last, depth)
            last = token
        self._close(0)
        return self._edits

    def _read(self, select: Select, token: Token, last: Token, depth: int) -> None:
        """Read a word of a SELECT. `last`: the token before it."""
        reader = self._reader
        if token.word in BOUNDS and last.text != ".":
            is_column = (
                depth == select.depth
                and select.source is None
                and (last.word == "SELECT" or last.text == ",")
                and (reader.sees(",") or reader.sees("FROM"))
            )
            select.bounds.append((token, f" AS {token.text}" if is_column else ""))
        if depth != select.depth:
            return
        if token.word == "FROM" and last.word != "DISTINCT":
            select.source = reader.next
        elif token.word == "JOIN" or (token.text == "," and select.source and not select.by):
            select.is_joined = True
        elif token.word == "BY" and last.word == "GROUP":
            select.by, select.group = token, reader.next
        elif token.word == "WINDOW" and reader.next.word in WINDOWS:
            if select.window is not None:
                reader.refuse("this SELECT has a second WINDOW. Next step: leave one out", token.at)
            select.window = self._window(token)

    def _window(self, begin: Token) -> Window:
        reader = self._reader
        kind = reader.one_of(*WINDOWS)
        reader.expect("(")
        if kind != "SESSION":
            reader.expect("SIZE")
        times = [take_duration(reader)]
        if kind == "HOPPING":
            reader.expect(",", "ADVANCE", "BY")
            times.append(take_duration(reader))
        grace = None
        while reader.skip(","):
            if reader.sees("RETENTION"):
                reader.refuse(
                    "RETENTION is not there: a window is kept until it is closed. Next step: leave "
                    "it out"
                )
            reader.expect("GRACE", "PERIOD")
            grace, _ = take_duration(reader, least=0)
        reader.expect(")")
        self._edits.instead |= dict.fromkeys(reader.places_since(begin), "")
        column = "session_window" if kind == "SESSION" else "window"
        spans = ", ".join(f"'{each}'" for each, _ in times)
        bounds = {
            "WINDOWSTART": f"unix_millis({column}.start)",
            "WINDOWEND": f"unix_millis({column}.end)",
        }
        if kind == "SESSION":  # ksqlDB's ends with its last record, Spark's a gap later
            bounds["WINDOWEND"] = f"({bounds['WINDOWEND']} - {times[0][1]})"
        return Window(f"{column}(_timestamp, {spans})", bounds, grace, begin)

    def _close(self, depth: int) -> None:
        """End the SELECTs of a depth and of deeper ones."""
        while self._open and self._open[-1].depth >= depth:
            select = self._open.pop()
            if select.window is not None:
                self._end(select, select.window)

    def _end(self, select: Select, window: Window) -> None:
        reader, edits = self._reader, self._edits
        if select.by is None or select.group is None or select.group.word == "ALL":
            reader.refuse(
                "WINDOW needs a GROUP BY that names its columns. Next step: GROUP BY the key",
                window.begin.at,
            )
        if select.is_joined:
            reader.refuse(
                "WINDOW is of one stream, and a join has a time for each. Next step: leave it out, "
                f"and add {window.call.replace('_timestamp', 'a._timestamp')} to the GROUP BY, for "
                "a stream a",
                window.begin.at,
            )
        edits.after[select.by.at] = f" {window.call},"
        for token, name in select.bounds:
            edits.instead[token.at] = window.bounds[token.word] + name
        if window.grace is not None:
            self._delay(select, window, window.grace)
        elif select.source is not None and select.source.kind in (Kind.WORD, Kind.QUOTED):
            self._edits.windowed[_name(select.source)] = window.begin.at

    def _delay(self, select: Select, window: Window, grace: str) -> None:
        source = select.source
        if source is None or source.kind not in (Kind.WORD, Kind.QUOTED):
            self._reader.refuse(
                "GRACE PERIOD is of a stream. Next step: FROM the stream itself", window.begin.at
            )
        name = _name(source)
        if self._edits.delays.setdefault(name, grace) != grace:
            self._reader.refuse(
                f"{source.text} has two GRACE PERIODs. Next step: give one for both",
                window.begin.at,
            )


def _name(source: Token) -> str:
    return (source.value if source.kind is Kind.QUOTED else source.text).lower()


# functions


class _Calls:
    """Writes the tokens anew, with Spark's functions."""

    def __init__(self, reader: Reader, edits: Edits) -> None:
        self._reader, self._edits = reader, edits
        self._tokens = reader.tokens
        self._ends: dict[int, int] = {}  # positions of closing brackets, by the opening ones
        opened: list[int] = []
        for position, token in enumerate(self._tokens):
            if token.text in ("(", "["):
                opened.append(position)
            elif token.text == "=>" and opened and self._tokens[opened[-1] - 1].word in LAMBDAS:
                edits.instead[token.at] = "->"
            elif token.text in (")", "]") and opened:
                self._ends[opened.pop()] = position

    def pieces(self) -> list[Piece]:
        """Raises StatementError."""
        text, count = self._reader.text, len(self._tokens) - 1
        if not count:
            return [Piece(text, 0, is_own=True)]
        first, last = self._tokens[0], self._tokens[count - 1]
        return [
            Piece(text[: first.at], 0, is_own=True),
            *self._written(0, count, 0),
            Piece(text[last.end :], last.end, is_own=True),
        ]

    def _written(self, begin: int, end: int, depth: int) -> Iterator[Piece]:
        """Yield the tokens at these positions. `depth`: of calls of other functions."""
        position = begin
        while position < end:
            token = self._tokens[position]
            if position > begin:
                before = self._tokens[position - 1].end
                yield Piece(self._reader.text[before : token.at], before, is_own=True)
            if self._is_call(position):
                yield from self._call(position, depth + 1)
                position = self._ends[position + 1]
            elif token.at in self._edits.instead:
                yield Piece(self._edits.instead[token.at], token.at, is_own=False)
            else:
                yield Piece(token.text, token.at, is_own=True)
            if token.at in self._edits.after:
                yield Piece(self._edits.after[token.at], token.at, is_own=False)
            position += 1

    def _is_call(self, position: int) -> bool:
        return (
            self._tokens[position].word in NAMES
            and position + 1 in self._ends
            and (not position or self._tokens[position - 1].text != ".")
        )

    def _call(self, position: int, depth: int) -> list[Piece]:
        token, reader = self._tokens[position], self._reader
        name = token.word
        if name in OTHERS:
            reader.refuse(f"{name} is not there. Next step: {OTHERS[name]}", token.at)
        if depth > DEEPEST:
            reader.refuse(
                f"calls stand in each other more than {DEEPEST} deep. Next step: "
                "name parts in a WITH",
                token.at,
            )
        arguments = self._arguments(position + 1)
        form = next((each for each in ALIASES[name] if arguments_of(each) == len(arguments)), None)
        if len(arguments) == 2 and self._tokens[arguments[1][0]].word in ("TRUE", "FALSE"):
            form = FLAGGED.get(name, form)
        if form is None:
            reader.refuse(
                f"{name} has other arguments here. Next step: "
                + " or ".join(
                    f"{call_of(name, each)}, which is {shown(each)}" for each in ALIASES[name]
                ),
                token.at,
            )
        if name in FORMATS:
            self._check_format(name, *arguments[1])
        written = [list(self._written(*each, depth)) for each in arguments]
        made: list[Piece] = []
        for at, part in enumerate(ARGUMENT.split(form)):
            made += written[int(part)] if at % 2 else [Piece(part, token.at, is_own=False)]
        if sum(len(each.text) for each in made) > LONGEST:
            reader.refuse(
                f"{name} is more than {LONGEST} characters in Spark's words. Next step: "
                "name parts in a WITH",
                token.at,
            )
        return made

    def _arguments(self, position: int) -> list[tuple[int, int]]:
        """Return where the arguments of a call begin and end. `position`: of its bracket."""
        end = self._ends[position]
        found, begin = [], position + 1
        at = begin
        while at < end:
            if self._tokens[at].text == ",":
                found.append((begin, at))
                begin = at + 1
            at = self._ends.get(at, at) + 1
        return [*found, (begin, end)] if end > position + 1 else []

    def _check_format(self, name: str, begin: int, end: int) -> None:
        token = self._tokens[begin]
        if end - begin != 1 or token.kind is not Kind.TEXT:
            self._reader.refuse(f"the format of {name} should be here, in single quotes", token.at)
        letter = strange_letter(name, token.value)
        if letter is not None:
            self._reader.refuse(
                f"{letter} in a format may mean something else in Spark. Next step: use "
                f"{', '.join(FORMATS[name])}",
                token.at,
            )
