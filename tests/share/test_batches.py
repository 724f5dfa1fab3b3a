"""Combining batches of states: as Apache Kafka was seen to do it, and against a model with one
entry an offset.
"""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.broker.work.long_work import drained
from raftka.share.batches import combine, complete_count, cut_below, merge
from raftka.share.state import StateBatch

EXAMPLES = settings(max_examples=300, deadline=None, derandomize=True, database=None)
STORED = [StateBatch(10, 14, 0, 1), StateBatch(15, 15, 2, 1), StateBatch(16, 20, 4, 5)]
Model = dict[int, tuple[int, int]]  # by offset: count, state

batches = st.lists(
    st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from([0, 2, 3, 4]),
        st.integers(-1, 3),
    ),
    max_size=12,
)


def spread(*lists: Sequence[StateBatch]) -> Model:
    model: Model = {}
    for each in lists:
        for first, last, state, count in each:
            for offset in range(first, last + 1):
                model[offset] = max(model.get(offset, (-9, -9)), (count, state))
    return model


def assert_is_combined(found: Sequence[StateBatch]) -> None:
    """In order, without overlaps, and no two batches that could be one."""
    for before, after in pairwise(found):
        assert before.first <= before.last < after.first <= after.last
        assert before.last + 1 < after.first or before[2:] != after[2:]


def test_more_deliveries_win_where_batches_overlap() -> None:
    stored = [*STORED]

    merge(stored, [StateBatch(12, 17, 0, 2)])

    assert stored == [
        StateBatch(10, 11, 0, 1),
        StateBatch(12, 15, 0, 2),
        StateBatch(16, 20, 4, 5),
    ]


def test_the_higher_state_wins_among_equally_many_deliveries() -> None:
    assert drained(combine([StateBatch(0, 9, 2, 1), StateBatch(5, 6, 0, 1)])) == [
        StateBatch(0, 9, 2, 1)
    ]


def test_equal_neighbours_are_joined() -> None:
    stored = [*STORED]

    merge(stored, [StateBatch(21, 25, 4, 5), StateBatch(9, 9, 0, 1)])

    assert stored == [StateBatch(9, 14, 0, 1), StateBatch(15, 15, 2, 1), StateBatch(16, 25, 4, 5)]


def test_offsets_below_the_start_go() -> None:
    stored = [*STORED]

    cut_below(stored, 13)

    assert stored == [StateBatch(13, 14, 0, 1), *STORED[1:]]
    cut_below(stored, 21)
    assert stored == []


def test_the_count_is_that_of_the_later_start() -> None:
    assert complete_count((7, 2), (10, 6)) == 6
    assert complete_count((10, 6), (-1, 9)) == 6
    assert complete_count((10, 6), (10, 5)) == complete_count((10, 5), (10, 6)) == 6
    assert complete_count((-1, -1), (-1, 3)) == 3


@EXAMPLES
@given(batches)
def test_combined_batches_are_those_of_the_model(given: list[StateBatch]) -> None:
    found = drained(combine(given))

    assert_is_combined(found)
    assert spread(found) == spread(given)


@EXAMPLES
@given(batches, batches, st.integers(-1, 50))
def test_merged_batches_are_those_of_the_model(
    one: list[StateBatch], other: list[StateBatch], start: int
) -> None:
    stored = drained(combine(one))

    merge(stored, drained(combine(other)))

    assert_is_combined(stored)
    assert spread(stored) == spread(one, other)
    cut_below(stored, start)
    assert_is_combined(stored)
    assert spread(stored) == {
        offset: found for offset, found in spread(one, other).items() if offset >= start
    }


def test_the_time_is_linear_but_for_the_sorting() -> None:
    """Of batches that all overlap, too."""
    for count in (1_000, 2_000):
        nested = [StateBatch(at, 10_000 - at, 0, at % 3) for at in range(count)]
        steps = 0
        for _ in combine(nested):
            steps += 1
        assert steps <= 2 * count + 1
