"""The columns of a table that a query needs, and whether its filters may be told to the reader:
from the optimized plan as Spark writes it in JSON. Knows no Spark.

Spark tells a Python reader no columns. So `raftka sql` looks at the plan, and asks again with
readers that were told. What it does not know for certain is read as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from raftka.json_values import Json

SCAN = "DataSourceV2ScanRelation"
# the columns below are those above
PASSES = {"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Sample"}
CUTS = {"Project", "Aggregate"}  # above them only columns that they name
SMALL = ("boolean", "byte", "short", "integer", "long", "date")
Names = tuple[str, ...]


class Wanted(NamedTuple):
    """Of tables with certain columns. `takes_filters`: each of them is read in one place, so a
    filter there is one of the whole query.
    """

    columns: Mapping[Names, Names]  # by all columns that a table has
    takes_filters: bool


class _Node:
    def __init__(self, told: Mapping[str, Json], parent: "_Node | None") -> None:
        self.told, self.parent = told, parent
        self.kind = str(told["class"]).rpartition(".")[2]


def wanted(plan: Sequence[Mapping[str, Json]], tables: int) -> Wanted:
    """`plan`: nodes from the top, each before its children. `tables`: so many are read."""
    nodes = list(_tree(plan))
    # their plans are not told
    if any("Subquery" in kind or "Exists" in kind for kind in _classes(plan)):
        return Wanted({}, takes_filters=False)
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
    return Wanted(
        {
            names: tuple(each for each in names if each in (some or {small[names]}))
            for names, some in found.items()
        },
        len(scans) == tables,
    )


def _tree(plan: Sequence[Mapping[str, Json]]) -> Iterator[_Node]:
    open_nodes: list[tuple[_Node, int]] = []  # with so many children to come
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
    """Identity, name and type of each column that is named in there."""
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
    """Of a table whose rows are counted: one must be read."""
    return next((name for _, name, kind in output if kind in SMALL), output[0][1])
