"""Column pruning: the columns of a table that a query needs, and if its filters may be passed to
the reader, from the optimized plan that Spark writes as JSON. Knows no Spark.

Spark passes no columns to a Python reader. So `raftka sql` reads the plan, and runs the query again
with readers that know the columns. A table of which the plan is unclear is read as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.json_values import Json

SCAN = "DataSourceV2ScanRelation"
# nodes that pass all columns on
PASSES = {"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Sample"}
CUTS = {"Project", "Aggregate"}  # nodes that pass on only columns that they name
SMALL = ("boolean", "byte", "short", "integer", "long", "date")
Names = tuple[str, ...]


class NeededColumns(NamedTuple):
    """The needed columns of each table. `takes_filters`: each table is read in one place, so a
    filter there is a filter of the whole query.
    """

    columns: Mapping[Names, Names]  # by all columns that a table has
    takes_filters: bool


class _Node:
    def __init__(self, told: Mapping[str, Json], parent: "_Node | None") -> None:
        self.told, self.parent = told, parent
        self.kind = str(told["class"]).rpartition(".")[2]


def needed_columns(plan: Sequence[Mapping[str, Json]], tables: int) -> NeededColumns:
    """Return the columns that a plan needs. `plan`: nodes from the top, each before its children.
    `tables`: the number of tables that the query reads.
    """
    nodes = list(_tree(plan))
    # the JSON leaves out the plans of subqueries
    if any("Subquery" in kind or "Exists" in kind for kind in _classes(plan)):
        return NeededColumns({}, takes_filters=False)
    used = {
        identity for node in nodes if node.kind != SCAN for identity, _, _ in _attributes(node.told)
    }
    found: dict[Names, set[str]] = {}
    small: dict[Names, str] = {}
    scans = [node for node in nodes if node.kind == SCAN]
    for scan in scans:
        output = list(_attributes(scan.told["output"]))
        names = tuple(name for _, name, _ in output)
        needed = {name for identity, name, _ in output if identity in used or not _is_cut(scan)}
        found.setdefault(names, set()).update(needed)
        small[names] = _small(output)
    return NeededColumns(
        {
            names: tuple(each for each in names if each in (some or {small[names]}))
            for names, some in found.items()
        },
        len(scans) == tables,
    )


def _tree(plan: Sequence[Mapping[str, Json]]) -> Iterator[_Node]:
    open_nodes: list[tuple[_Node, int]] = []  # with the number of children to come
    for told in plan:
        parent = None
        if open_nodes:
            parent, left = open_nodes.pop()
            if left > 1:
                open_nodes.append((parent, left - 1))
        node = _Node(told, parent)
        if told["num-children"]:
            open_nodes.append((node, told["num-children"]))
        yield node


def _is_cut(scan: _Node) -> bool:
    node = scan.parent
    while node is not None and node.kind in PASSES:
        node = node.parent
    return node is not None and node.kind in CUTS


def _attributes(told: Json) -> Iterator[tuple[Json, str, Json]]:
    """Return identity, name and type of each column that a part of the plan names."""
    if isinstance(told, Mapping):
        if str(told.get("class", "")).endswith(".AttributeReference"):
            yield told["exprId"]["id"], told["name"], told["dataType"]
        for each in told.values():
            yield from _attributes(each)
    elif isinstance(told, list):
        for each in told:
            yield from _attributes(each)


def _classes(told: Json) -> Iterator[str]:
    if isinstance(told, Mapping):
        yield str(told.get("class", ""))
        for each in told.values():
            yield from _classes(each)
    elif isinstance(told, list):
        for each in told:
            yield from _classes(each)


def _small(output: Sequence[tuple[Json, str, Json]]) -> str:
    """Return a small column: of a table whose rows are only counted, one must be read."""
    return next((name for _, name, kind in output if kind in SMALL), output[0][1])
