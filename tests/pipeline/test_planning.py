"""Plans, on a cluster that is a table: where batches begin and end, what of data that is gone, how
ranges become tasks.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.pipeline.errors import DataLoss, OptionRefused
from raftka.pipeline.topics import planning
from raftka.pipeline.topics.options import EARLIEST, LATEST, SourceOptions, source_options
from raftka.pipeline.topics.planning import Range, Topic
from raftka.pipeline.topics.positions import Position, Where, position
from raftka.pipeline.topics.source import Stream


class Table:
    """Topics with ids, and first and end offsets by partition; every record has its offset as its
    time.
    """

    def __init__(self, **topics: list[tuple[int, int]]) -> None:
        self.logs = topics
        self.ids = {name: f"id of {name}" for name in topics}
        # topics that the next brokers asked do not know yet, one a question
        self.hidden: list[str] = []
        self.short: dict[Where, list[int]] = {}  # ends that the next brokers asked tell instead
        self.pauses = 0

    def names(self) -> Sequence[str]:
        return [name for name in self.logs if name not in self.hidden]

    def topics(self, names: Collection[str]) -> Mapping[str, Topic]:
        found = {
            name: Topic(self.ids[name], tuple(range(len(self.logs[name]))))
            for name in self.logs
            if name in names and name not in self.hidden
        }
        self.hidden = self.hidden[1:]
        return found

    def offsets(self, asked: Mapping[Where, int]) -> Mapping[Where, int]:
        return {where: self._offset(where, time) for where, time in asked.items()}

    def _offset(self, where: Where, time: int) -> int:
        first, end = self.logs[where[0]][where[1]]
        if time == LATEST and self.short.get(where):
            return self.short[where].pop(0)
        if time < 0:
            return {LATEST: end, EARLIEST: first}[time]
        return max(first, time) if time < end else -1

    def pause(self) -> None:
        self.pauses += 1


def options(*, streaming: bool = True, **given: Any) -> SourceOptions:
    topics = {} if {"subscribePattern", "assign"} & given.keys() else {"subscribe": "t"}
    return source_options(
        {"kafka.bootstrap.servers": "a:1", **topics, **given}, streaming=streaming
    )


def ranges(table: Table, **given: str) -> list[tuple[Any, ...]]:
    return [
        (each.topic, each.partition, each.start, each.stop)
        for each in planning.batch(options(streaming=False, **given), table)
    ]


# batch queries


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [("t", 0, 10, 100), ("t", 1, 0, 50)]),
        ({"startingTimestamp": "20"}, [("t", 0, 20, 100), ("t", 1, 20, 50)]),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 99, "1": 3}}'},
            [("t", 0, 99, 100), ("t", 1, 3, 50)],
        ),
        (
            {"startingTimestamp": "60", "startingOffsetsByTimestampStrategy": "latest"},
            [("t", 0, 60, 100)],
        ),
        ({"endingTimestamp": "60"}, [("t", 0, 10, 60), ("t", 1, 0, 50)]),
        (
            {
                "startingOffsets": '{"t": {"0": 30, "1": -2}}',
                "endingOffsets": '{"t": {"0": 31, "1": -1}}',
            },
            [("t", 0, 30, 31), ("t", 1, 0, 50)],
        ),
        ({"assign": '{"t": [1]}'}, [("t", 1, 0, 50)]),
        ({"subscribePattern": "t.?"}, [("t", 0, 10, 100), ("t", 1, 0, 50), ("tt", 0, 0, 1)]),
        ({"subscribePattern": "x"}, []),
    ],
)
def test_a_batch_reads(given: dict[str, str], expected: list[tuple[Any, ...]]) -> None:
    assert ranges(Table(t=[(10, 100), (0, 50)], tt=[(0, 1)], other=[(0, 7)]), **given) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "t,no"}, "there is no topic no: `raftka topics list`"),
        ({"assign": '{"t": [0, 9]}'}, "assign: t has no partition 9"),
        ({"startingTimestamp": "60"}, "t-1 has no record from 60 ms on"),
        ({"startingOffsets": '{"t": {"0": 5}}'}, "startingOffsets does not name t-1"),
        ({"startingOffsets": '{"t": {"0": 5, "1": 5, "2": 5}}'}, "startingOffsets names t-2"),
        (
            {"startingOffsets": '{"t": {"0": 5, "1": 51}}'},
            "t-1 is to be read from 51 to 50, which is backwards",
        ),
    ],
)
def test_an_impossible_batch_is_reported(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        ranges(Table(t=[(10, 100), (0, 50)]), **given)


# streams


def planned(
    stream: Stream, start: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[tuple[str, int, int, int]]]:
    """As Spark does it, with JSON in between."""
    end = json.loads(json.dumps(stream.latest(start)))
    return end, [
        (each.topic, each.partition, each.start, each.stop)
        for task in stream.tasks(start, end)
        for each in task
    ]


def test_a_stream_goes_on_where_it_was() -> None:
    table = Table(t=[(0, 100), (0, 50)])
    stream = Stream(options(startingOffsets="earliest"), table)

    first, read = planned(stream, stream.initial())
    assert read == [("t", 0, 0, 100), ("t", 1, 0, 50)]
    assert planned(stream, first) == (first, [])
    table.logs["t"] = [(0, 110), (0, 50)]
    assert planned(stream, first)[1] == [("t", 0, 100, 110)]


def test_offsets_in_checkpoints_are_sparks() -> None:
    stream = Stream(options(startingOffsets="earliest"), Table(t=[(0, 100)] * 11))

    end = dict(stream.latest(stream.initial()))

    ours = end.pop("$raftka")
    assert end == {"t": dict.fromkeys(map(str, range(11)), 100)}
    assert list(end["t"]) == [str(number) for number in range(11)]
    assert ours["topicIds"] == {"t": "id of t"}


def test_a_checkpoint_of_the_other_source_is_understood() -> None:
    assert planned(Stream(options(), Table(t=[(0, 9)])), {"t": {"0": 4}})[1] == [("t", 0, 4, 9)]


def test_the_first_batch_is_the_same_when_it_is_replayed() -> None:
    table = Table(t=[(0, 100)])
    first = Stream(options(), table)  # from the end on
    start = first.initial()
    table.logs["t"] = [(0, 120)]
    end, read = planned(first, start)
    assert read == [("t", 0, 100, 120)]
    table.logs["t"] = [(0, 150)]

    after_a_crash = Stream(options(), table)

    assert after_a_crash.initial() != start
    assert [
        (each.start, each.stop)
        for task in after_a_crash.tasks(after_a_crash.initial(), end)
        for each in task
    ] == [(100, 120)]
    assert planned(after_a_crash, end)[1] == [("t", 0, 120, 150)]


def test_the_start_of_a_stream_does_not_move_between_two_lookups() -> None:
    table = Table(t=[(0, 100)])
    stream = Stream(options(), table)
    start = stream.initial()
    table.logs["t"] = [(0, 120)]

    assert stream.initial() == start


def test_partitions_and_topics_that_are_added_are_read_from_their_beginning() -> None:
    table = Table(t=[(0, 100)])
    stream = Stream(options(subscribePattern="t.*"), table)
    end, _ = planned(stream, stream.initial())
    table.logs.update(t=[(0, 100), (0, 7)], t2=[(0, 3)])
    table.ids["t2"] = "new"

    assert planned(stream, end)[1] == [("t", 1, 0, 7), ("t2", 0, 0, 3)]


def began(table: Table, **given: Any) -> tuple[Stream, Mapping[str, Any]]:
    """A stream that has read all there is."""
    stream = Stream(options(startingOffsets="earliest", **given), table)
    return stream, planned(stream, stream.initial())[0]


def test_a_topic_that_was_made_again_is_reported_even_if_it_is_longer() -> None:
    table = Table(t=[(0, 100)])
    stream, end = began(table)
    table.logs["t"], table.ids["t"] = [(0, 500)], "another"

    with pytest.raises(
        DataLoss, match=r"topic t was deleted and made again.*Next step: failOnDataLoss=false"
    ):
        stream.latest(end)


def test_a_recreated_topic_is_read_from_its_beginning_without_fail_on_data_loss() -> None:
    table = Table(t=[(0, 100)])
    stream, end = began(table, failOnDataLoss="false")
    table.logs["t"], table.ids["t"] = [(0, 30)], "another"

    again, read = planned(stream, end)

    assert read == [("t", 0, 0, 30)]
    assert planned(stream, again)[1] == []


@pytest.mark.parametrize("ends", [30, 500])
def test_a_topic_that_was_made_again_before_the_first_batch_is_read_from_its_beginning(
    ends: int,
) -> None:
    """The query began at the end of the first topic: that offset says nothing of the second one,
    below or beyond its end.
    """
    table = Table(t=[(0, 100)])
    stream = Stream(options(startingOffsets="latest", failOnDataLoss="false"), table)
    start = stream.initial()
    table.logs["t"], table.ids["t"] = [(0, ends)], "another"

    end, read = planned(stream, start)

    assert read == [("t", 0, 0, ends)]
    # as a replay has them
    assert stream.tasks(start, json.loads(json.dumps(end))) == stream.tasks(stream.initial(), end)


def test_a_topic_that_is_gone_is_reported_once_all_brokers_had_the_time_to_know_it() -> None:
    table = Table(t=[(0, 100)])
    stream, end = began(table)
    table.hidden = ["t", "t"]
    assert stream.latest(end) == end
    assert table.pauses == 2
    del table.logs["t"]

    with pytest.raises(DataLoss, match="t-0 is gone"):
        stream.latest(end)


def test_a_topic_that_is_gone_for_a_moment_is_not_lost_to_a_pattern() -> None:
    table = Table(t=[(0, 100)], u=[(0, 1)])
    stream, end = began(table, subscribePattern="t|u")
    table.hidden = ["t"]

    assert stream.latest(end) == end


def test_a_topic_that_is_gone_is_left_out_and_read_when_it_is_there_again() -> None:
    table = Table(t=[(0, 100)], u=[(0, 1)])
    stream, end = began(table, subscribePattern="t|u", failOnDataLoss="false")
    was = table.logs.pop("t")
    end, read = planned(stream, end)
    assert (read, "t" in end) == ([], False)
    table.logs["t"], table.ids["t"] = was, "another"

    assert planned(stream, end)[1] == [("t", 0, 0, 100)]


def test_an_end_that_moves_back_for_a_moment_is_waited_for() -> None:
    table = Table(t=[(0, 100)])
    stream, end = began(table)
    table.short["t", 0] = [90, 95]

    assert stream.latest(end) == end
    assert table.pauses == 2


def test_a_log_that_became_shorter_is_reported_and_never_read_again() -> None:
    table = Table(t=[(0, 100)])
    strict, end = began(table)
    lenient, _ = began(table, failOnDataLoss="false")
    table.logs["t"] = [(0, 80)]

    with pytest.raises(DataLoss, match="t-0 ends at offset 80, but was read up to 100"):
        strict.latest(end)
    end, read = planned(lenient, end)
    assert read == []
    table.logs["t"] = [(0, 103)]
    assert planned(lenient, end)[1] == [("t", 0, 100, 103)]


# each trigger tells each loss


def processing_time(stream: Stream) -> None:
    """Spark asks for the next batch, and freezes nothing."""


def available_now(stream: Stream) -> None:
    stream.freeze()


# `once` asks as processingTime does, once and without limits
TRIGGERS = [processing_time, available_now]


def deleted(table: Table) -> None:
    del table.logs["t"]


def made_again(table: Table) -> None:
    table.logs["t"], table.ids["t"] = [(0, 500)], "another"


def shortened(table: Table) -> None:
    table.logs["t"] = [(0, 80)]


LOSSES = [
    (deleted, "t-0 is gone"),
    (made_again, "topic t was deleted and made again"),
    (shortened, "t-0 ends at offset 80, but was read up to 100"),
]


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize(("lose", "said"), LOSSES)
def test_each_trigger_tells_a_loss_before_the_run(trigger: Any, lose: Any, said: str) -> None:
    table = Table(t=[(0, 100)], u=[(0, 1)])
    _, end = began(table, subscribePattern="t|u")
    lose(table)
    restarted = Stream(options(subscribePattern="t|u"), table)
    trigger(restarted)

    with pytest.raises(DataLoss, match=said):
        restarted.latest(end)


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize(("lose", "said"), LOSSES)
def test_each_trigger_tells_a_loss_between_two_batches(trigger: Any, lose: Any, said: str) -> None:
    table = Table(t=[(0, 100)], u=[(0, 1)])
    stream = Stream(options(startingOffsets="earliest", subscribePattern="t|u"), table)
    trigger(stream)
    end, _ = planned(stream, stream.initial())
    lose(table)

    with pytest.raises(DataLoss, match=said):
        stream.latest(end)


def test_an_available_now_run_tells_that_its_end_is_gone() -> None:
    table = Table(t=[(0, 100)])
    stream = Stream(options(startingOffsets="earliest", maxOffsetsPerTrigger="50"), table)
    stream.freeze()
    end, _ = planned(stream, stream.initial())
    table.logs["t"] = [(0, 80)]

    with pytest.raises(
        DataLoss, match="t-0 ends at offset 80, but ended at 100 when this run began"
    ):
        stream.latest(end)


def test_an_available_now_run_without_its_end_reads_what_is_left() -> None:
    table = Table(t=[(0, 100)])
    stream = Stream(
        options(startingOffsets="earliest", maxOffsetsPerTrigger="50", failOnDataLoss="false"),
        table,
    )
    stream.freeze()
    end, _ = planned(stream, stream.initial())
    table.logs["t"] = [(0, 80)]
    end, read = planned(stream, end)

    assert read == [("t", 0, 50, 80)]
    assert table.pauses == planning.DOUBTS
    assert planned(stream, end) == (end, [])
    assert table.pauses == planning.DOUBTS  # it is told once


@pytest.mark.parametrize("before", [True, False])
def test_an_available_now_run_may_skip_lost_records(before: bool) -> None:
    """A topic that was made again before the run is read by it; later, by the next one. Another one
    that was deleted is left out.
    """
    table = Table(t=[(0, 100)], u=[(0, 10)])
    given: dict[str, Any] = {
        "subscribePattern": "t|u",
        "failOnDataLoss": "false",
        "startingOffsets": "earliest",
    }
    first = Stream(options(**given), table)
    end, _ = planned(first, first.initial())
    run = Stream(options(**given), table)
    if not before:
        run.freeze()
    table.logs["t"], table.ids["t"] = [(0, 30)], "another"
    del table.logs["u"]
    if before:
        run.freeze()
    end, read = planned(run, end)
    again, more = planned(run, end)
    table.logs["t"] = [(0, 31)]
    following = Stream(options(**given), table)
    following.freeze()

    assert (read, more, again) == ([("t", 0, 0, 30)] if before else [], [], end)
    assert planned(following, end)[1] == [("t", 0, 30, 31) if before else ("t", 0, 0, 31)]


def test_a_topic_that_the_first_broker_asked_does_not_know_is_read_by_an_available_now_run() -> (
    None
):
    table = Table(t=[(0, 100)])
    _, end = began(table)
    table.logs["t"], table.hidden = [(0, 120)], ["t"]
    run = Stream(options(), table)
    run.freeze()
    end, read = planned(run, end)
    table.logs["t"] = [(0, 130)]

    assert read == [("t", 0, 100, 120)]
    assert planned(run, end) == (end, [])


# limits


def test_the_most_of_a_batch_is_shared_in_proportion_and_all_is_read_in_the_end() -> None:
    table = Table(t=[(0, 900), (0, 90), (0, 1), (5, 5)])
    stream = Stream(options(startingOffsets="earliest", maxOffsetsPerTrigger="100"), table)
    start, sizes, seen = stream.initial(), [], []
    while True:
        end, read = planned(stream, start)
        if end == start:
            break
        sizes.append(sum(stop - begin for _, _, begin, stop in read))
        seen += read
        start = end

    assert max(sizes) <= 100 + 3
    assert sum(sizes) == 991
    for partition in range(3):
        own = [(begin, stop) for _, at, begin, stop in seen if at == partition]
        assert [begin for begin, _ in own][1:] == [stop for _, stop in own][:-1]


def test_the_least_of_a_batch_is_waited_for_but_not_for_ever() -> None:
    now = [1000.0]
    table = Table(t=[(0, 1)])
    stream = Stream(
        options(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="60s"),
        table,
        lambda: now[0],
    )
    end, read = planned(stream, stream.initial())
    assert read == [("t", 0, 0, 1)]  # the first batch does not wait

    table.logs["t"] = [(0, 10)]
    assert stream.latest(end) == end
    now[0] += 59
    assert stream.latest(end) == end
    now[0] += 1
    end, read = planned(stream, end)
    assert read == [("t", 0, 1, 10)]
    table.logs["t"] = [(0, 20)]
    assert planned(stream, end)[1] == [("t", 0, 10, 20)]


def test_available_now_reads_everything_up_to_its_start() -> None:
    table = Table(t=[(0, 25)])
    stream = Stream(
        options(startingOffsets="earliest", maxOffsetsPerTrigger="10", minOffsetsPerTrigger="10"),
        table,
    )
    stream.freeze()
    table.logs["t"] = [(0, 99), (0, 99)]
    start, read = stream.initial(), []
    for _ in range(4):
        start, part = planned(stream, start)
        read += part

    assert [(begin, stop) for _, _, begin, stop in read if stop <= 25] == [
        (0, 10),
        (10, 20),
        (20, 25),
    ]
    assert all(stop <= 25 for _, at, _, stop in read if at == 0)


# tasks


RANGES = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 60_000)), min_size=1, max_size=12
).map(
    lambda found: [
        Range("t", "", at, start, start + size) for at, (start, size) in enumerate(found)
    ]
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(RANGES, st.none() | st.integers(1, 40))
def test_tasks_are_all_ranges_once_and_no_fewer_than_wanted(
    found: list[Range], least: int | None
) -> None:
    tasks = planning.tasks(found, least)

    pieces = sorted(
        (each for task in tasks for each in task), key=lambda each: (each.partition, each.start)
    )
    for whole in found:
        own = [(each.start, each.stop) for each in pieces if each.partition == whole.partition]
        assert (own[0][0], own[-1][1]) == (whole.start, whole.stop)
        assert [start for start, _ in own][1:] == [stop for _, stop in own][:-1]
    assert all(task for task in tasks)
    assert len(tasks) >= min(least or 1, sum(each.size for each in found))
    for task in tasks:
        assert len(task) == 1 or sum(each.size for each in task) <= planning.JOINED_RECORDS


def test_large_ones_are_split_and_small_ones_joined() -> None:
    small = [Range("t", "", at, 0, 3000) for at in range(5)]

    assert [len(task) for task in planning.tasks(small)] == [3, 2]
    assert [len(task) for task in planning.tasks(small, 4)] == [2, 1, 1, 1]
    assert [
        [each.size for each in task]
        for task in planning.tasks([Range("t", "", 0, 0, 90), Range("t", "", 1, 0, 10)], 4)
    ] == [
        [30],
        [30],
        [30],
        [10],
    ]
    assert planning.tasks([], 3) == []


def test_positions_keep_what_they_say_in_json() -> None:
    for each in (
        Position({("t", 0): 5}),
        Position({("t", 0): 5}, {"t": "ab"}, {("t", 0): 1}, initial=True),
        Position({}),
    ):
        assert position(json.loads(json.dumps(each.as_json()))) == each
