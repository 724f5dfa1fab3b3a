"""The key of a table that a query writes: the columns of its GROUP BY, or the key of the table that
it reads. Reads Spark's plan.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile

from pyspark.sql import DataFrame

from raftka.json_values import Json, JsonObject
from raftka.sql.catalog import Catalog, Stream
from raftka.sql.engine.analysis import Analyzed, Asked
from raftka.sql.language.changes import HIDDEN
from raftka.sql.language.table_joins import Shape, TableJoin

AGGREGATE, PROJECT, FILTER, ALIAS = ".Aggregate", ".Project", ".Filter", ".Alias"
ATTRIBUTE, COALESCE, FIELD = ".AttributeReference", ".Coalesce", ".GetStructField"
WINDOWS = ("window", "session_window")
UNIX_MILLIS = ".UnixMillis"
CALL = "resultId"
# nodes of a plan that make other rows than those of the table
OTHERS = (AGGREGATE, ".Distinct", ".Join", ".Union", ".Sort", ".Window", ".GlobalLimit")
GENERATE, TASK = ".Generate", ".MapInArrow"


def plan_of(frame: DataFrame) -> list[JsonObject]:
    """Return the nodes of the analyzed plan, the root first."""
    found: list[JsonObject] = json.loads(frame._jdf.queryExecution().analyzed().toJSON())
    return found


def groups_of(frame: DataFrame) -> JsonObject | None:
    """Return the node of GROUP BY whose rows the frame has; None: it has others."""
    for node in plan_of(frame):
        if node["class"].endswith(AGGREGATE):
            return node
        if not node["class"].endswith((PROJECT, FILTER)):  # a filter is HAVING
            return None
    return None


def keys_of(found: Analyzed, asked: Asked, catalog: Catalog) -> tuple[str, ...]:
    """Return the columns that are the key of a table with these rows. Raise StatementError."""
    if changing_tables(found, catalog):
        return _keys_of_changes(found, asked, catalog)
    return keys_of_groups(found.frame, asked)


def changing_tables(found: Analyzed, catalog: Catalog) -> list[str]:
    """Return tables whose changes are the rows of a query: not those joined with a stream."""
    joined = [
        name
        for each in found.joins
        if each.shape is not Shape.LOOKUP
        for name in (each.left.lower(), each.right.lower())
    ]
    return [*joined, *(each for each in found.alone if catalog.keys_of_table(each) is not None)]


def check_tables(found: Analyzed, asked: Asked, catalog: Catalog, *, has_changes: bool) -> None:
    """Refuse tables in a query that writes, where their old rows would stay. `has_changes`: rows
    that leave are written. Raise StatementError.
    """
    tables = changing_tables(found, catalog)
    if tables and not has_changes:
        table = catalog.stream(tables[0])
        assert table is not None, "the catalog has it"
        raise asked.error(
            f"{table.name} is a table: a query that writes to a stream reads streams and topics, "
            "and joins them with tables. Next step: CREATE TABLE ... AS SELECT, or CREATE STREAM "
            f"over its topic {table.topic}"
        )
    if has_changes and has_sessions(found.frame):
        raise asked.error(
            "a session changes its bounds until it is closed. Next step: EMIT FINAL behind the "
            "query, with a GRACE PERIOD: a row of each session that is closed",
        )


def check_keys(keys: Sequence[str], target: Stream, asked: Asked) -> None:
    """Raise StatementError for rows whose key is not that of the table."""
    wanted = [each.name for each in target.keys]
    if {each.lower() for each in keys} != {each.lower() for each in wanted}:
        raise asked.error(
            f"the key of the rows is {', '.join(keys)}, and the key of the table is "
            f"{', '.join(wanted)}. Next step: GROUP BY {', '.join(wanted)}"
        )


# GROUP BY


def keys_of_groups(frame: DataFrame, asked: Asked) -> tuple[str, ...]:
    """Return the columns of GROUP BY; of a WINDOW its start. Raise StatementError."""
    root = groups_of(frame)
    if root is None:
        raise asked.error(
            "a table has the newest row of each group, or of each key of another table: its query "
            "ends with GROUP BY, or its FROM is a table. Next step: GROUP BY the key"
        )
    columns = _columns(frame, root)
    found = []
    for group in root["groupingExpressions"]:
        is_window = group[0].get("name") in WINDOWS
        name = next(
            (
                name
                for name, each in columns.items()
                if (_is_start(each) if is_window else _same(each, group))
            ),
            None,
        )
        if name is None:
            raise asked.error(
                "the expressions of GROUP BY are the table's key. Next step: SELECT "
                + ("WINDOWSTART" if is_window else "each of them")
                + " too"
            )
        found.append((is_window, name))
    if not found:
        raise asked.error("GROUP BY names no column. Next step: name the key")
    return tuple(name for _, name in sorted(found, key=lambda each: each[0]))


def has_sessions(frame: DataFrame) -> bool:
    """Return whether the groups are sessions, whose bounds change."""
    root = groups_of(frame)
    groups = [] if root is None else root["groupingExpressions"]
    return any(each[0].get("name") == WINDOWS[1] for each in groups)


def _columns(frame: DataFrame, root: JsonObject) -> Mapping[str, Sequence[JsonObject]]:
    """Return the expression of each column that comes from the node of GROUP BY as it is."""
    made = root["aggregateExpressions"]
    named = {_id(each[0]): _bare(each) for each in made}
    top = next(each for each in plan_of(frame) if not each["class"].endswith(FILTER))
    shown = map(_bare, made if top == root else top["projectList"])
    return {
        name: each if top == root else named.get(_id(each[0]), each)
        for name, each in zip(frame.columns, shown, strict=True)
    }


def _bare(expression: Sequence[JsonObject]) -> Sequence[JsonObject]:
    """Return an expression without the name that AS gives it."""
    return expression[1:] if expression[0]["class"].endswith(ALIAS) else expression


def _id(node: JsonObject) -> Json:
    found = node.get("exprId")
    return None if found is None else found["id"]


def _same(one: Sequence[JsonObject], other: Sequence[JsonObject]) -> bool:
    """Return whether two expressions are one. Each call of a function in Python has an id."""
    return [{**each, CALL: None} for each in one] == [{**each, CALL: None} for each in other]


def _is_start(expression: Sequence[JsonObject]) -> bool:
    """Return whether an expression is the start of a window: as a time, or in milliseconds."""
    nodes = list(expression)
    if nodes[0]["class"].endswith(UNIX_MILLIS):
        nodes = nodes[1:]
    return (
        len(nodes) == 2
        and nodes[0]["class"].endswith(FIELD)
        and nodes[0]["ordinal"] == 0
        and nodes[1].get("name") in WINDOWS
    )


# tables


def _keys_of_changes(found: Analyzed, asked: Asked, catalog: Catalog) -> tuple[str, ...]:
    """Return the columns that are the key of the table, or of the tables, that a query reads."""
    plan = plan_of(found.frame)
    joins = [each for each in found.joins if each.shape is not Shape.LOOKUP]
    # a join of tables ends in a task of Python
    classes = [
        each["class"] for each in takewhile(lambda node: not node["class"].endswith(TASK), plan)
    ]
    generated = 2 * len(joins)
    if (
        any(each.endswith(OTHERS) for each in classes)
        or not classes[0].endswith(PROJECT)
        or sum(each.endswith(GENERATE) for each in classes) != generated
        or len(changing_tables(found, catalog)) != max(1, generated)
    ):
        raise asked.error(
            "a table of a table has its rows, of those in WHERE: SELECT ... FROM one table, or two "
            "with JOIN. Next step: leave other words out"
        )
    if joins:
        return (_column_of(_keys_of_join(joins[0], catalog), found, asked),)
    names = catalog.keys_of_table(found.alone[0]) or ()
    return tuple(_column_of([("", name.lower())], found, asked) for name in names)


def _column_of(keys: Sequence[tuple[str, str]], found: Analyzed, asked: Asked) -> str:
    """Return the column that is one of these keys, each with the name of its side."""
    items = plan_of(found.frame)[0]["projectList"]
    for name, each in zip(found.frame.columns, items, strict=True):
        nodes = _bare(each)
        names = [node for node in nodes if node["class"].endswith(ATTRIBUTE)]
        is_plain = all(node["class"].endswith((ATTRIBUTE, COALESCE)) for node in nodes)
        if name not in HIDDEN and is_plain and all(_is_in(node, keys) for node in names):
            return str(name)
    wanted = ".".join(filter(None, keys[0]))
    raise asked.error(f"the key of the table is {wanted}. Next step: SELECT it too")


def _key(table: str, catalog: Catalog) -> str:
    return (catalog.keys_of_table(table) or ("",))[0].lower()


def _keys_of_join(join: TableJoin, catalog: Catalog) -> list[tuple[str, str]]:
    """Return the keys, each with the name of its side."""
    left, right = (
        (alias.strip("`").lower(), _key(table, catalog))
        for alias, table in zip(join.names, (join.left, join.right), strict=True)
    )
    if join.shape is Shape.FOREIGN or join.kind == "LEFT":
        return [left]
    return [right] if join.kind == "RIGHT" else [left, right]


def _is_in(node: JsonObject, keys: Sequence[tuple[str, str]]) -> bool:
    name = str(node["name"]).lower()
    side = str(node["qualifier"]).strip("[]").split(", ")[-1].lower()
    return any(name == key and of in ("", side) for of, key in keys)
