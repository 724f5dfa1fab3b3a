"""Fences: the trucks inside of each, and those that came in or went out. No Spark."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.flows.fences import NOWHERE, Fence, Position, Whereabouts, load_fences, moves
from raftka.pipeline.project import PROJECTS

SQUARE = ((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0), (0.0, 0.0))
HOLE = ((4.0, 4.0), (6.0, 4.0), (6.0, 6.0), (4.0, 6.0))
YARD = Fence("yard", (SQUARE,))


def at(second: int, x: float, y: float = 5.0) -> Position:
    return Position(second * 1_000_000, y, x)


def test_inside_and_outside() -> None:
    assert YARD.holds(5, 5)
    assert not YARD.holds(11, 5)
    assert not YARD.holds(5, -1)
    assert Fence("ring", (SQUARE, HOLE)).holds(2, 5)
    assert not Fence("ring", (SQUARE, HOLE)).holds(5, 5)


def test_a_truck_comes_in_and_goes_out() -> None:
    found, known = moves([YARD], NOWHERE, [at(1, -5), at(2, 5), at(3, 6), at(4, 15), at(5, 5)])

    assert [(each.event, each.position.at_us // 1_000_000) for each in found] == [
        ("ENTER", 2),
        ("LEAVE", 4),
        ("ENTER", 5),
    ]
    assert known == Whereabouts(5_000_000, frozenset({"yard"}))


def test_from_one_fence_into_the_next_it_leaves_first() -> None:
    found, _ = moves(
        [YARD, Fence("field", (tuple((x + 10, y) for x, y in SQUARE),))],
        NOWHERE,
        [at(1, 5), at(2, 15)],
    )

    assert [(each.event, each.fence) for each in found] == [
        ("ENTER", "yard"),
        ("LEAVE", "yard"),
        ("ENTER", "field"),
    ]


def test_a_late_position_moves_nothing() -> None:
    _, known = moves([YARD], NOWHERE, [at(10, 5)])

    assert moves([YARD], known, [at(9, 15), at(10, 15)]) == ([], known)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(-5, 15))),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_moves_do_not_depend_on_the_cut_into_batches(
    way: list[tuple[int, float]], cuts: list[int]
) -> None:
    positions = sorted({second: at(second, x) for second, x in way}.values())
    whole, end = moves([YARD], NOWHERE, positions)

    known, found = NOWHERE, []
    for begin, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 61], strict=True):
        some, known = moves(
            [YARD],
            known,
            [
                each
                for each in reversed(positions)
                if begin * 1_000_000 <= each.at_us < stop * 1_000_000
            ],
        )
        found += some

    assert (found, known) == (whole, end)


def test_the_trucks_fences_can_be_read(tmp_path: Path) -> None:
    assert [each.name for each in load_fences(PROJECTS / "trucks" / "fences.geojson")] == [
        "north depot",
        "eastern gate",
        "south market",
    ]
    (tmp_path / "bad").write_text('{"features": [{"geometry": {"type": "Point"}}]}')
    with pytest.raises(
        OptionRefused, match="is no GeoJSON of polygons with names: ValueError a Point"
    ):
        load_fences(tmp_path / "bad")
