"""Column pruning: a plan reads no fewer columns than it needs, whatever the plan looks like."""

from typing import Any

import pytest

from raftka.pipeline.column_pruning import needed_columns

CATALYST = "org.apache.spark.sql.catalyst.expressions."
Plan = list[dict[str, Any]]


def column(identity: int, name: str, kind: Any = "string") -> list[dict[str, Any]]:
    return [
        {
            "class": f"{CATALYST}AttributeReference",
            "num-children": 0,
            "name": name,
            "dataType": kind,
            "exprId": {"id": identity, "jvmId": "j"},
        }
    ]


def node(kind: str, children: int = 1, **told: Any) -> dict[str, Any]:
    return {"class": f"org.apache.spark.sql.{kind}", "num-children": children, **told}


def scan(*columns: list[dict[str, Any]]) -> dict[str, Any]:
    return node(
        "DataSourceV2ScanRelation",
        0,
        output=list(columns),
        relation=[node("DataSourceV2Relation", 0, output=list(columns))],
    )


LAKE = scan(
    column(1, "id", "long"),
    column(2, "name"),
    column(3, "day", "date"),
    column(4, "s", {"type": "struct"}),
)
AGAIN = scan(
    column(11, "id", "long"),
    column(12, "name"),
    column(13, "day", "date"),
    column(14, "s", {"type": "struct"}),
)
OTHER = scan(column(5, "id", "long"), column(6, "x"))
ALL = ("id", "name", "day", "s")
NAME, DAY = column(2, "name"), column(3, "day", "date")
ON_DAY = node("Filter", condition=DAY)


@pytest.mark.parametrize(
    ("plan", "columns", "takes_filters"),
    [
        ([node("Project", projectList=[NAME]), ON_DAY, LAKE], {ALL: ("name", "day")}, True),
        (
            [
                node("Aggregate", aggregateExpressions=[[node("Count", 0)]]),
                node("Project", projectList=[]),
                LAKE,
            ],
            {ALL: ("id",)},
            True,
        ),
        ([LAKE], {ALL: ALL}, True),
        ([ON_DAY, LAKE], {ALL: ALL}, True),
        ([node("Union", 2), node("Project", projectList=[NAME]), LAKE, AGAIN], {ALL: ALL}, False),
        (
            [
                node("Union", 2),
                node("Project", projectList=[NAME]),
                LAKE,
                node("Project", projectList=[column(13, "day")]),
                AGAIN,
            ],
            {ALL: ("name", "day")},
            False,
        ),
        (
            [
                node("Project", projectList=[NAME]),
                node("Join", 2, condition=DAY),
                ON_DAY,
                LAKE,
                AGAIN,
            ],
            {ALL: ("name", "day")},
            False,
        ),
        ([node("Project", projectList=[NAME]), node("Window", x=[DAY]), LAKE], {ALL: ALL}, True),
        ([node("Project", projectList=[NAME, [node("ScalarSubquery", 0)]]), LAKE], {}, False),
        ([node("Project", projectList=[NAME, [node("Exists", 0)]]), LAKE], {}, False),
    ],
)
def test_columns_of_a_plan(
    plan: Plan, columns: dict[tuple[str, ...], tuple[str, ...]], takes_filters: bool
) -> None:
    assert needed_columns(plan, 1) == (columns, takes_filters)


def test_two_tables_have_their_own_columns() -> None:
    plan = [
        node("Project", projectList=[NAME, column(6, "x")]),
        node("Join", 2, condition=[*column(1, "id"), *column(5, "id")]),
        ON_DAY,
        LAKE,
        OTHER,
    ]

    assert needed_columns(plan, 2) == ({ALL: ("id", "name", "day"), ("id", "x"): ("id", "x")}, True)
    assert not needed_columns(plan, 3).takes_filters
