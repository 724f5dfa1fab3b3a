"""A query from the words of a statement to those that Spark gets: rows that leave tables, ksqlDB's
words, joins with tables. Places of errors are those in the query as it was written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from raftka.sql.language.changes import (
    changes_of_groups,
    changes_of_table,
    first_source,
    with_bounds,
)
from raftka.sql.language.dialect import Translated, translate
from raftka.sql.language.errors import StatementError
from raftka.sql.language.joins import DEFAULT_GRACE
from raftka.sql.language.rewriting import Rewritten, rewrite
from raftka.sql.language.table_joins import Joined, KeysOf, TableJoin, join_tables


class Prepared(NamedTuple):
    """A query in Spark's words."""

    changes: Rewritten
    translated: Translated
    joined: Joined
    has_changes: bool

    @property
    def text(self) -> str:
        return self.joined.rewritten.text

    @property
    def joins(self) -> Sequence[TableJoin]:
        return self.joined.joins

    @property
    def delays(self) -> Mapping[str, str]:
        """Return how late records may be, as the query says it, by streams in lower case."""
        return self.translated.delays

    def all_delays(self, delay_of: Callable[[str], str | None]) -> Mapping[str, str]:
        """Return how late records may be, with ksqlDB's 24 hours where nothing says it.
        `delay_of`: returns that of a stream. Raise StatementError.
        """
        found = dict(self.delays)
        joined = self.translated.joined
        for name, place in joined.outer.items():
            if name not in found and delay_of(name) is None:
                raise StatementError(
                    "a row without another one is written when no other can come any more. Next "
                    "step: GRACE PERIOD 1 MINUTE behind WITHIN, or create the streams WITH "
                    "(WATERMARK='1 minute')",
                    "",
                    self.changes.place(place),
                )
        defaults = [*joined.streams, *(self.translated.windowed if self.has_changes else ())]
        for name in defaults:
            if delay_of(name) is None:
                found.setdefault(name, DEFAULT_GRACE)
        return found

    @property
    def unjoined(self) -> str:
        """Return the query with all that stands in it, also behind ON of joins with tables."""
        return self.translated.text

    def place(self, at: int) -> int:
        """Return the place in the query as it was written of one in the text."""
        return self.place_of_unjoined(self.joined.rewritten.place(at))

    def place_of_unjoined(self, at: int) -> int:
        """Return the place in the query as it was written of one in `unjoined`."""
        return self.changes.place(self.translated.place(at))


def prepare(
    query: str, keys_of: KeysOf, *, goes_on: bool, has_changes: bool, is_final: bool = False
) -> Prepared:
    """Return a query in Spark's words. `keys_of`: returns the key columns of a table, None for
    other names. `has_changes`: rows that leave are among its rows. `is_final`: they are the rows
    of a table that change no more. Raise StatementError.
    """
    changes = rewrite(query, [])
    if has_changes and keys_of(first_source(query)) is not None:
        changes = changes_of_table(query)
    elif has_changes:
        changes = changes_of_groups(query)
    elif is_final:
        changes = with_bounds(query)
    try:
        translated = translate(changes.text)
    except StatementError as error:
        raise StatementError(error.message, query, changes.place(error.at or 0)) from None
    for name, place in translated.joined.streams.items():
        if keys_of(name) is not None:
            raise StatementError(
                f"WITHIN is of two streams, and {name} is a table: a row is joined with its newest "
                "one. Next step: leave WITHIN out",
                query,
                changes.place(place),
            )
    if not goes_on:
        return Prepared(changes, translated, Joined(rewrite(translated.text, []), ()), has_changes)
    try:
        joined = join_tables(translated.text, keys_of)
    except StatementError as error:
        place = changes.place(translated.place(error.at or 0))
        raise StatementError(error.message, query, place) from None
    return Prepared(changes, translated, joined, has_changes)
