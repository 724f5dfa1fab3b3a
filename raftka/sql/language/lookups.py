"""Questions for rows of a table by their keys: SELECT ... FROM t WHERE key = value, and further
conditions that are compared with a value.
"""

from dataclasses import dataclass
from typing import NamedTuple

from raftka.sql.language.errors import StatementError
from raftka.sql.language.reader import Reader
from raftka.sql.language.statements import Query
from raftka.sql.language.tokens import Kind

MOST_KEYS = 100  # of one question
MOST_CONDITIONS = 20
SIGNS = ("=", "<", "<=", ">", ">=")


class Condition(NamedTuple):
    """A column that is compared with a value."""

    column: str
    sign: str  # one of SIGNS
    value: str | int


@dataclass(frozen=True, slots=True)
class Lookup:
    """Names are as the question writes them."""

    table: str
    columns: tuple[str, ...] | None  # None: all
    key: str  # the column of WHERE
    values: tuple[str | int, ...]  # each once
    more: tuple[Condition, ...] = ()


def lookup_of(query: Query) -> Lookup | None:
    """Return the lookup that a question is; None: it is none, or Spark might read it otherwise."""
    if query.is_push:
        return None
    try:
        return _lookup(Reader(query.query))
    except StatementError:  # of any word that a lookup does not have
        return None


def _lookup(reader: Reader) -> Lookup:
    reader.expect("SELECT")
    columns = None
    if not reader.skip("*"):
        columns = [reader.name("a column")]
        while reader.skip(","):
            columns.append(reader.name("a column"))
    reader.expect("FROM")
    table = reader.name("a table")
    reader.expect("WHERE")
    key = reader.name("the key")
    if reader.skip("="):
        values = [_literal(reader)]
    else:
        reader.expect("IN", "(")
        values = reader.in_brackets(lambda: _literal(reader))
    more = []
    while reader.skip("AND"):
        more.append(_condition(reader))
    reader.end()
    if len(more) > MOST_CONDITIONS:
        reader.refuse(f"there are more than {MOST_CONDITIONS} conditions")
    if len(values) > MOST_KEYS:
        reader.refuse(f"there are more than {MOST_KEYS} keys")
    found = None if columns is None else tuple(columns)
    return Lookup(table, found, key, tuple(dict.fromkeys(values)), tuple(more))


def _condition(reader: Reader) -> Condition:
    column = reader.name("a column")
    return Condition(column, reader.one_of(*SIGNS), _literal(reader))


def _literal(reader: Reader) -> str | int:
    """Take a whole number, or a text that Spark reads in the same way: one without escapes."""
    is_negative = reader.skip("-")
    token = reader.take()
    if token.kind is Kind.NUMBER and token.text.isascii() and token.text.isdecimal():
        return -int(token.text) if is_negative else int(token.text)
    inside = token.text[1:-1]
    is_plain = token.text[:1] == "'" and "'" not in inside and "\\" not in inside
    if token.kind is not Kind.TEXT or is_negative or not is_plain:
        reader.refuse("a whole number or a text should be here", token.at)
    return inside
