"""CREATE OR REPLACE ... AS SELECT: the query that is replaced, and the columns that stay. Knows no
Spark.
"""

from raftka.sql.catalog import Catalog, PersistentQuery, Stream
from raftka.sql.language.errors import StatementError
from raftka.sql.language.statements import CreateAs, Format
from raftka.sql.language.types import type_text

PREFIXES = {"STREAM": "csas", "TABLE": "ctas"}  # of the names of queries that make what they write
ANEW = "Next step: TERMINATE its query and DROP it, then create it anew"


def replaced_query(catalog: Catalog, statement: CreateAs, server: str) -> PersistentQuery | None:
    """Return the query that the statement replaces; None: its name is new. `server`: the id of this
    one. Raise StatementError.
    """
    found = catalog.entries.get(statement.name.lower())
    if found is None:
        return None

    def refuse(message: str) -> StatementError:
        return StatementError(message, statement.text, statement.at)

    if not statement.is_replacing or not isinstance(found, Stream):
        raise refuse(
            f"{found.name} is there already. Next step: another name, CREATE OR REPLACE, or DROP "
            "it first"
        )
    if found.kind != statement.kind:
        raise refuse(f"{found.name} is a {found.kind.lower()}. {ANEW}")
    prefix = PREFIXES[found.kind]
    queries = [
        each
        for each in catalog.queries()
        if each.target == found.name and each.name.startswith(f"{prefix}_")
    ]
    if not queries:
        raise refuse(
            f"{found.name} has no query of its own to go on from. Next step: INSERT INTO "
            f"{found.name} SELECT, or DROP it and create it anew"
        )
    if queries[0].server != server:
        raise refuse(
            f"{queries[0].name} is run by another server, {queries[0].server}. Next step: give the "
            "statement there"
        )
    if queries[0].is_final != statement.is_final:
        raise refuse(
            f"EMIT FINAL would come or go, and rows are there that it decides about. {ANEW}"
        )
    return queries[0]


def check_replaced_stream(old: Stream, new: Stream, statement: CreateAs) -> None:
    """Raise StatementError unless the records of both go together in one topic: columns may come,
    and none goes or has another type.
    """

    def refuse(message: str) -> StatementError:
        return StatementError(f"{message}. {ANEW}", statement.text, statement.at)

    if (old.topic, old.format, old.options.delimiter) != (
        new.topic,
        new.format,
        new.options.delimiter,
    ):
        raise refuse(
            f"{old.name} is {old.format} in the topic {old.topic}, which cannot be replaced by "
            f"{new.format} in {new.topic}"
        )
    columns = {each.name.lower(): each for each in new.columns}
    for each in old.columns:
        found = columns.get(each.name.lower())
        if found is None:
            raise refuse(f"the column {each.name} of {old.name} would go")
        if (found.kind, found.role) != (each.kind, each.role):
            raise refuse(
                f"the column {each.name} of {old.name} is "
                f"{f'{type_text(each.kind)} {each.role}'.rstrip()}, and would be "
                f"{f'{type_text(found.kind)} {found.role}'.rstrip()}"
            )
    if old.format is Format.DELIMITED and new.columns[: len(old.columns)] != old.columns:
        raise refuse("the columns of delimited records have places: new ones come last")
