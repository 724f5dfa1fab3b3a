"""Queries of tables, as queries of changes: a row that leaves is said to leave, in place of a WHERE
or a HAVING that would hide it.
"""

from raftka.sql.language.joins import froms_of
from raftka.sql.language.reader import Reader
from raftka.sql.language.rewriting import Edit, Rewritten, rewrite
from raftka.sql.language.tokens import Token

# Columns of a changed row of a table: whether it is there, its key, its order.
IS_PRESENT, CHANGED_KEY, CHANGED_AT = CHANGE = ("_is_present", "_changed_key", "_changed_at")
# The same of a row of a query.
IS_ROW, ROW_KEY, ROW_ORDER = HIDDEN = ("_is_row", "_row_key", "_row_order")
ENDS = ("GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "MINUS")
BOUNDS = ("WINDOWSTART", "WINDOWEND")
KINDS_OF_WINDOW = ("TUMBLING", "HOPPING", "SESSION")


def first_source(query: str) -> str:
    """Return the name behind the first FROM; empty: there is none."""
    if Reader(query).next.word != "SELECT":
        return ""
    return next((each.source.name for each in froms_of(query)), "")


def changes_of_table(query: str) -> Rewritten:
    """Return a query whose FROM is a table, or tables, as one of all changed rows. Raise
    StatementError for groups.
    """
    reader = Reader(query)
    if (group := reader.find("GROUP", "BY")) is not None:
        reader.refuse(
            "GROUP BY of a table is not there: a change would be counted, and its old row not "
            "taken back. Next step: ask with SELECT ... GROUP BY, or CREATE STREAM over the "
            "table's topic to count changes",
            group.at,
        )
    condition, edits = _clause(Reader(query), "WHERE")
    first = froms_of(query)[0]
    if not first.joins:
        edits += [
            Edit(each.token.end, each.token.end, f" EXCEPT ({', '.join(CHANGE)})")
            for each in first.stars
        ]
    is_row = f"{IS_PRESENT} AND coalesce(({condition}), false)" if condition else IS_PRESENT
    return _with_items(
        query,
        edits,
        f", {is_row} AS {IS_ROW}, {CHANGED_KEY} AS {ROW_KEY}, {CHANGED_AT} AS {ROW_ORDER}",
    )


def changes_of_groups(query: str) -> Rewritten:
    """Return a query with GROUP BY as one of all changed groups. One with a WINDOW has its bounds
    as columns.
    """
    items = _missing_bounds(query)
    condition, edits = _clause(Reader(query), "HAVING")
    if condition:
        items += f", coalesce(({condition}), false) AS {IS_ROW}"
    return _with_items(query, edits, items)


def with_bounds(query: str) -> Rewritten:
    """Return a query of a table whose windows, if it has any, have their bounds as columns."""
    return _with_items(query, [], _missing_bounds(query))


def _missing_bounds(query: str) -> str:
    """Return the bounds of a WINDOW that the query does not name, as more columns."""
    reader = Reader(query)
    if not _has_window(reader):
        return ""
    named = _words_of_list(reader)
    return "".join(f", {each}" for each in BOUNDS if each not in named)


def _clause(reader: Reader, word: str) -> tuple[str, list[Edit]]:
    """Return the condition behind a word, and the edit that removes it."""
    begin = reader.find(word)
    if begin is None:
        return "", []
    reader.jump(begin)
    reader.take()
    ends = [found for each in ENDS if (found := reader.find(each)) is not None]
    end = min(ends, key=lambda token: token.at, default=reader.tokens[-1])
    inside = [each for each in reader.tokens if begin.at < each.at < end.at]
    condition = reader.text[inside[0].at : inside[-1].end] if inside else ""
    return condition, [Edit(begin.at, end.at, "")]


def _with_items(query: str, edits: list[Edit], items: str) -> Rewritten:
    """Return a query with more columns behind those that its SELECT has."""
    before = None
    reader = Reader(query)
    end = _from(reader)
    for token in reader.tokens:
        if end is None or token.at >= end.at:
            break
        before = token
    if before is None or not items:
        return rewrite(query, edits)
    return rewrite(query, [*edits, Edit(before.end, before.end, items)])


def _from(reader: Reader) -> Token | None:
    """Return the FROM of the query itself."""
    last = reader.next
    depth = 0
    for token in reader.tokens:
        depth += (token.text in "([{") - (token.text in ")]}") if token.text else 0
        if not depth and token.word == "FROM" and last.word != "DISTINCT":
            return token
        last = token
    return None


def _has_window(reader: Reader) -> bool:
    """Return whether the query itself has a WINDOW of ksqlDB."""
    return any(reader.find("WINDOW", kind) is not None for kind in KINDS_OF_WINDOW)


def _words_of_list(reader: Reader) -> list[str]:
    end = _from(reader)
    return [each.word for each in reader.tokens if end is not None and each.at < end.at]
