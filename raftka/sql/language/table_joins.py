"""Joins with tables in a query that goes on: each becomes one view, whose rows the engine keeps up
to date, and whose two sides have the names that the query gives them.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from raftka.sql.language.joins import From, Join, Source, froms_of
from raftka.sql.language.reader import Reader
from raftka.sql.language.rewriting import Edit, Rewritten, rewrite
from raftka.sql.language.tokens import Kind, Token

VIEW, SIDE = "_joined_", "_side_"
KeysOf = Callable[[str], Sequence[str] | None]


class Shape(StrEnum):
    LOOKUP = "rows of a stream, each with the table's row at that moment"
    BY_KEY = "a table, of two that have the same key"
    FOREIGN = "a table: the rows of one, each with the row of another that it names"


class TableJoin(NamedTuple):
    view: str
    shape: Shape
    kind: str  # INNER, LEFT, RIGHT or FULL
    left: str  # the name of the stream or the table before it; of the view of a join, if in `below`
    right: str  # the table
    names: Sequence[str]  # of all sides, as the query writes them; the table's is the last
    expression: str  # of the left side: it is the key of the right one
    below: "TableJoin | None"  # a join whose rows are its left side


class Joined(NamedTuple):
    rewritten: Rewritten
    joins: Sequence[TableJoin]

    def find(self, view: str) -> TableJoin | None:
        return next((each for each in self.joins if each.view == view), None)


def join_tables(query: str, keys_of: KeysOf) -> Joined:
    """Return a query whose joins with tables are views. `keys_of`: returns the key columns of a
    table; None: the name is none of a table. Raise StatementError.
    """
    reader = Reader(query)
    edits: list[Edit] = []
    joins: list[TableJoin] = []
    for found in froms_of(query):
        if not found.joins or all(keys_of(each.name) is None for each in found.sources):
            continue
        made = _Reading(reader, found, keys_of, len(joins)).read()
        joins.append(made)
        sides = with_sides(made.view, made.names)
        edits.append(Edit(found.source.at, found.end, sides))
        all_columns = ", ".join(f"{each.alias}.*" for each in found.sources)
        edits += [
            Edit(each.token.at, each.token.end, all_columns) for each in found.stars if not each.of
        ]
    return Joined(rewrite(query, edits), joins)


def with_sides(view: str, names: Sequence[str]) -> str:
    """Return the FROM of a view whose sides have these names."""
    sides = (
        f" LATERAL VIEW inline(array({SIDE}{number})) {name}" for number, name in enumerate(names)
    )
    return view + "".join(sides)


class _Reading:
    """Reads the joins of one FROM."""

    def __init__(self, reader: Reader, found: From, keys_of: KeysOf, number: int) -> None:
        self._reader, self._from, self._keys_of = reader, found, keys_of
        self._view = f"{VIEW}{number}"

    def read(self) -> TableJoin:
        reader, found, first = self._reader, self._from, self._from.source
        if not first.name:
            reader.refuse(
                "a join with a table begins with a name. Next step: CREATE STREAM or CREATE TABLE "
                "for what stands here, and name that",
                first.at,
            )
        if self._keys_of(first.name) is not None:
            if len(found.joins) > 1:
                reader.refuse(
                    "a join of tables has two. Next step: CREATE TABLE for the first two, and join "
                    "that one",
                    found.joins[1].begin,
                )
            return self._of_tables(first, found.joins[0])
        made: TableJoin | None = None
        for number, join in enumerate(found.joins):
            self._check(join)
            view = self._view if join is found.joins[-1] else f"{self._view}_{number}"
            if join.kind not in ("INNER", "LEFT"):
                reader.refuse(
                    f"a {join.kind} JOIN of a stream and a table is not there: rows come from the "
                    "stream. Next step: JOIN or LEFT JOIN",
                    join.begin,
                )
            made = TableJoin(
                view,
                Shape.LOOKUP,
                join.kind,
                first.name,
                join.source.name,
                [each.alias for each in found.sources[: number + 2]],
                self._expression(join),
                made,
            )
        assert made is not None, "there is a join"
        return made

    def _of_tables(self, first: Source, join: Join) -> TableJoin:
        self._check(join)
        expression = self._expression(join)
        is_by_key = self._is_key(first, Reader(expression).tokens[:-1])
        kinds = ("INNER", "LEFT", "RIGHT", "FULL") if is_by_key else ("INNER", "LEFT")
        if join.kind not in kinds:
            self._reader.refuse(
                f"a {join.kind} JOIN of tables is not there"
                + ("" if is_by_key else " with a column that is no key")
                + ". Next step: JOIN or LEFT JOIN",
                join.begin,
            )
        shape = Shape.BY_KEY if is_by_key else Shape.FOREIGN
        aliases = [first.alias, join.source.alias]
        return TableJoin(
            self._view, shape, join.kind, first.name, join.source.name, aliases, expression, None
        )

    def _check(self, join: Join) -> None:
        """Refuse a join whose right side is no table with a key of one column."""
        keys = self._keys_of(join.source.name)
        if keys is None:
            self._reader.refuse(
                f"{join.source.name} is no table, and this FROM has joins with tables. Next step: "
                "CREATE STREAM for the join of streams, and join that with the table",
                join.source.at,
            )
        for each in (self._from.source, join.source):
            if len(self._keys_of(each.name) or ("",)) > 1:
                self._reader.refuse(
                    f"the key of {each.name} has several columns, and a join is by one. Next step: "
                    "a table with a key of one column",
                    each.at,
                )

    def _expression(self, join: Join) -> str:
        """Return the side of the condition that is not the key of the table."""
        tokens = list(join.on)
        while _is_in_brackets(tokens):
            tokens = tokens[1:-1]
        depth, signs = 0, []
        for at, token in enumerate(tokens):
            depth += (token.text in "([") - (token.text in ")]") if token.text else 0
            if not depth and (token.text == "=" or token.word in ("AND", "OR", "NOT")):
                signs.append(at)
        keys = self._keys_of(join.source.name) or ("",)
        if len(signs) == 1 and tokens[signs[0]].text == "=":
            sides = tokens[: signs[0]], tokens[signs[0] + 1 :]
            for side, other in (sides, sides[::-1]):
                if other and self._is_key(join.source, side) and not self._names(join, other):
                    return self._reader.text[other[0].at : other[-1].end]
        raise self._reader.error(
            f"a join with the table {join.source.name} is ON its key: ... = "
            f"{join.source.alias}.{keys[0]}. Next step: put other conditions into WHERE",
            join.on[0].at if join.on else join.begin,
        )

    def _is_key(self, source: Source, tokens: Sequence[Token]) -> bool:
        """Return whether these are the key of a table, with or without the table's name."""
        (key,) = self._keys_of(source.name) or ("",)
        names = [_name(each) for each in tokens]
        alias = source.alias.strip("`").lower()
        return names in ([key.lower()], [alias, ".", key.lower()])

    def _names(self, join: Join, tokens: Sequence[Token]) -> bool:
        """Return whether an expression has a column of the table."""
        alias = join.source.alias.strip("`").lower()
        return any(_name(one) == alias and two.text == "." for one, two in pairwise(tokens))


def _name(token: Token) -> str:
    return (token.value if token.kind is Kind.QUOTED else token.text).lower()


def _is_in_brackets(tokens: Sequence[Token]) -> bool:
    if len(tokens) < 2 or tokens[0].text != "(" or tokens[-1].text != ")":
        return False
    depth = 0
    for token in tokens[:-1]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            return False
    return True
