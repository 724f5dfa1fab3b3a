"""The FROM of each SELECT: its streams and tables, and how they are joined.

WITHIN of ksqlDB becomes a condition on the times of two streams.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.sql.language.reader import Reader
from raftka.sql.language.rewriting import Edit, Rewritten, rewrite
from raftka.sql.language.times import take_duration
from raftka.sql.language.tokens import Kind, Token

KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "SEMI", "ANTI", "NATURAL")
CLAUSES = (
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "WINDOW",
    "LATERAL",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "SORT",
    "CLUSTER",
    "DISTRIBUTE",
    "PIVOT",
    "UNPIVOT",
    "QUALIFY",
    "TABLESAMPLE",
)
NOT_ALIASES = (*KINDS, *CLAUSES, "JOIN", "ON", "USING", "WITHIN", "AS")
DEFAULT_GRACE = "24 hours"  # ksqlDB's, of a join and of a window
TIME = "_timestamp"


class Source(NamedTuple):
    """One name of a FROM."""

    name: str  # "" of a query in brackets
    alias: str  # as it is written, with backticks
    at: int


class Within(NamedTuple):
    """The time between two rows that are joined, as Spark writes times."""

    before: str
    after: str
    grace: str | None
    begin: int
    end: int


class Join(NamedTuple):
    kind: str  # INNER, LEFT, RIGHT, FULL, or other words of Spark
    source: Source
    within: Within | None
    on: tuple[Token, ...]  # the condition; empty without ON
    begin: int


class Star(NamedTuple):
    """A * in the list of a SELECT. `of`: the name before it; empty: none."""

    token: Token
    of: str


@dataclass
class From:
    """The FROM of a SELECT, with the list of the SELECT."""

    source: Source
    joins: list[Join] = field(default_factory=list)
    stars: list[Star] = field(default_factory=list)
    end: int = 0  # of its last token

    @property
    def sources(self) -> list[Source]:
        return [self.source, *(each.source for each in self.joins)]


def froms_of(query: str) -> list[From]:
    """Return each FROM of a query that names its sources. Raise StatementError for a WITHIN that
    cannot be read.
    """
    return list(_Froms(Reader(query)).found())


class _Froms:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last = reader.next  # the token that was taken last

    def _take(self) -> Token:
        self._last = self._reader.take()
        return self._last

    def found(self) -> Iterator[From]:
        reader, depth = self._reader, 0
        selects: list[tuple[int, list[Star]]] = []  # with their depths
        name = ""  # the one before a point
        while reader.next.kind is not Kind.END:
            before, token = self._last, self._take()
            depth += (token.text == "(") - (token.text == ")")
            while selects and selects[-1][0] > depth:
                selects.pop()
            if token.word == "SELECT":
                if selects and selects[-1][0] == depth:  # behind UNION
                    selects.pop()
                selects.append((depth, []))
            elif selects and selects[-1][0] == depth:
                _, stars = selects[-1]
                is_item = before.text == "," or before.word in ("SELECT", "DISTINCT", "ALL")
                if token.text == ".":
                    name = before.text
                elif token.text == "*" and (is_item or before.text == "."):
                    stars.append(Star(token, "" if is_item else name))
                elif token.word == "FROM" and before.word != "DISTINCT":
                    found = From(self._source(), stars=stars)
                    yield self._with_joins(found)
                elif token.word == "JOIN":  # its left side is a query in brackets, or a list
                    found = From(Source("", "", token.at), stars=stars)
                    join = self._joined([before.word], token)
                    found.joins += [] if join is None else [join]
                    yield self._with_joins(found)

    def _with_joins(self, found: From) -> From:
        while (join := self._join()) is not None:
            found.joins.append(join)
        found.end = self._last.end
        return found

    def _source(self) -> Source:
        reader = self._reader
        at, name = reader.next.at, ""
        if reader.next.text == "(":
            return Source("", "", at)  # its SELECT is read next
        if reader.next.kind in (Kind.WORD, Kind.QUOTED):
            token = self._take()
            name = token.value if token.kind is Kind.QUOTED else token.text
            alias = token.text
            if reader.next.text in (".", "("):  # of another catalog, or a function
                return Source("", alias, at)
            if reader.next.word == "AS":
                self._take()
            if reader.next.kind is Kind.QUOTED or (
                reader.next.kind is Kind.WORD and reader.next.word not in NOT_ALIASES
            ):
                alias = self._take().text
            return Source(name, alias, at)
        return Source("", "", at)

    def _join(self) -> Join | None:
        """Take a join; None: something else comes."""
        reader = self._reader
        begin = reader.next
        kinds = []
        while reader.next.word in KINDS:
            kinds.append(self._take().word)
        if reader.next.word != "JOIN":
            return None
        self._take()
        return self._joined(kinds, begin)

    def _joined(self, kinds: list[str], begin: Token) -> Join | None:
        """Take what stands behind JOIN; None: a query in brackets. `kinds`: words before it."""
        reader = self._reader
        source = self._source()
        if not source.name:
            return None
        within = self._within() if reader.next.word == "WITHIN" else None
        on: list[Token] = []
        if reader.next.word == "ON":
            self._take()
            on = self._condition()
        elif within is not None:
            reader.refuse("ON should be here, behind WITHIN")
        kind = " ".join(each for each in kinds if each in KINDS and each != "OUTER") or "INNER"
        return Join(kind, source, within, tuple(on), begin.at)

    def _within(self) -> Within:
        reader = self._reader
        begin = self._take()
        if reader.skip("("):
            before, _ = take_duration(reader, least=0)
            reader.expect(",")
            after, _ = take_duration(reader, least=0)
            reader.expect(")")
        else:
            before, _ = take_duration(reader)
            after = before
        grace = take_duration(reader, least=0)[0] if reader.skip("GRACE", "PERIOD") else None
        return Within(before, after, grace, begin.at, reader.next.at)

    def _condition(self) -> list[Token]:
        reader, depth = self._reader, 0
        found: list[Token] = []
        while reader.next.kind is not Kind.END:
            token = reader.next
            is_end = token.word in (*CLAUSES, *KINDS, "JOIN") or token.text in (",", ")")
            is_call = token.word in ("LEFT", "RIGHT") and self._is_call()
            if not depth and is_end and not is_call:
                break
            depth += (token.text in "([") - (token.text in ")]") if token.text else 0
            found.append(self._take())
        return found

    def _is_call(self) -> bool:
        """Return whether the next word is a function's."""
        reader = self._reader
        return reader.sees(reader.next.word, "(")


# WITHIN


class Bounded(NamedTuple):
    """A query without WITHIN."""

    rewritten: Rewritten
    delays: Mapping[str, str]  # how late records may be, by the name of a stream in lower case
    outer: Mapping[str, int]  # streams that need a delay, with their places
    streams: Mapping[str, int]  # all that are joined so


def bounded(query: str) -> Bounded:
    """Return a query with conditions on times in place of WITHIN. Raise StatementError."""
    edits: list[Edit] = []
    delays: dict[str, str] = {}
    outer: dict[str, int] = {}
    streams: dict[str, int] = {}
    reader = Reader(query)
    has_time = any(each.text.lower().strip("`") == TIME for each in reader.tokens)
    for found in froms_of(query):
        left = found.source
        joins = [(each, each.within) for each in found.joins]
        for join, within in joins:
            if within is None:
                continue
            if not left.name:
                reader.refuse(
                    "WITHIN is of two streams. Next step: FROM a stream by its name", within.begin
                )
            edits += _edits(left.alias, join, within)
            for each in (left, join.source):
                name = each.name.lower()
                streams.setdefault(name, each.at)
                if within.grace is not None:
                    if delays.setdefault(name, within.grace) != within.grace:
                        reader.refuse(
                            f"{each.name} has two GRACE PERIODs. Next step: give one for both",
                            within.begin,
                        )
                elif join.kind != "INNER":
                    outer.setdefault(name, within.begin)
        if any(within for _, within in joins) and not has_time:
            names = ", ".join(f"{each.alias}.{TIME}" for each in found.sources)
            edits += [
                Edit(each.token.end, each.token.end, f" EXCEPT ({TIME if each.of else names})")
                for each in found.stars
            ]
    return Bounded(rewrite(query, edits), delays, outer, streams)


def _edits(left: str, join: Join, within: Within) -> list[Edit]:
    """Return the edits of one join. `left`: the alias of the stream before it."""
    first, last, right = join.on[0], join.on[-1], join.source.alias
    return [
        Edit(within.begin, within.end, ""),
        Edit(first.at, first.at, "("),
        Edit(
            last.end,
            last.end,
            f") AND {right}.{TIME} BETWEEN {left}.{TIME} - INTERVAL {within.before} "
            f"AND {left}.{TIME} + INTERVAL {within.after}",
        ),
    ]
