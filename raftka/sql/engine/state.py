"""The state of a query that is replaced: its checkpoint is kept where Spark finds in it all that
the new query looks for.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from raftka.json_values import Json, JsonObject
from raftka.sql.engine.analysis import Analyzed, Asked
from raftka.sql.engine.table_keys import AGGREGATE, WINDOWS, plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# nodes of a plan that keep rows between batches, beside groups; a join of streams does too
KEEPING = (
    ".Distinct",
    ".Deduplicate",
    ".DeduplicateWithinWatermark",
    ".GlobalLimit",
    ".Offset",
    ".Join",
)
OF_A_RUN = ("exprId", "resultId", "qualifier", "metadata", "jvmId")
FUNCTION = ".AggregateExpression"
UNSTEADY = re.compile(r"\.(First|Last|Collect\w+|Python\w+)\"")


def check_state(old: Analyzed, new: Analyzed, asked: Asked) -> None:
    """Raise StatementError unless a new query can go on from the checkpoint of an old one."""

    def refuse(cause: str) -> None:
        raise asked.error(
            f"the state cannot be kept, because {cause}. Next step: TERMINATE the query and DROP "
            "what it writes, then create it anew"
        )

    if old.joins or new.joins:
        refuse("rows of the tables that are joined are kept, which must have the same columns")
    nodes = plan_of(old.frame), plan_of(new.frame)
    for each in (*nodes[0], *nodes[1]):
        if each["class"].endswith(KEEPING):
            kind = each["class"].rpartition(".")[2]
            refuse(f"Spark keeps whole rows for {kind}, which must have the same columns")
    before, after = topics_of(old.frame), topics_of(new.frame)
    if before != after:
        refuse(
            f"the query has read {', '.join(before)} and would read {', '.join(after)}, and "
            "offsets are kept in that order"
        )
    groups, new_groups = (
        [_signature(each) for each in plan if each["class"].endswith(AGGREGATE)] for plan in nodes
    )
    if groups != new_groups or _windows(nodes[0]) != _windows(nodes[1]):
        refuse("the groups or their aggregates are other ones")


def topics_of(frame: "DataFrame") -> list[str]:
    """Return the topics that a query reads, in the order of its checkpoint."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    return [
        str(leaves.apply(at).extraOptions().get("subscribe"))
        for at in range(leaves.size())
        if leaves.apply(at).isStreaming()
    ]


def _signature(node: JsonObject) -> Json:
    """Return what the state of groups depends on: their keys, and the functions over them."""
    functions: list[Json] = []
    for each in node["aggregateExpressions"]:
        # Spark keeps equal ones once, unless their results may differ
        functions += [
            found for found in _functions(each) if found not in functions or _may_differ(found)
        ]
    return [_plain(node["groupingExpressions"]), functions]


def _windows(plan: Sequence[JsonObject]) -> Json:
    """Return how the windows of a query are made out of times."""
    found = [
        each
        for node in plan
        for each in (
            *(each for each in node.get("projectList", ()) if each[0].get("name") in WINDOWS),
            *(projection[0] for projection in node.get("projections", ())),  # of HOPPING
        )
    ]
    return _plain(found)


def _functions(expression: Sequence[JsonObject]) -> Iterator[Json]:
    """Yield the aggregates in an expression, whose nodes stand in a list, each before its parts."""
    for at, each in enumerate(expression):
        if each["class"].endswith(FUNCTION):
            yield _plain(expression[at : _end(expression, at)])


def _end(expression: Sequence[JsonObject], at: int) -> int:
    """Return the place behind a node and its parts."""
    missing = 1
    while missing:
        missing += int(expression[at]["num-children"]) - 1
        at += 1
    return at


def _may_differ(function: Json) -> bool:
    return UNSTEADY.search(json.dumps(function)) is not None


def _plain(part: Json) -> Json:
    """Return a part of a plan without what differs from run to run."""
    if isinstance(part, list):
        return [_plain(each) for each in part]
    if isinstance(part, dict):
        return {name: _plain(value) for name, value in part.items() if name not in OF_A_RUN}
    return part
