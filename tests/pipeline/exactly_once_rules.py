"""Rules of transactional batches that hold on raftka and on Apache Kafka. test_exactly_once.py and
test_exactly_once_kafka.py import them, so pytest runs them on both.
"""

from collections.abc import Callable

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics import decisions
from raftka.pipeline.topics.exactly_once import Handle, Written
from raftka.testing import Cluster
from tests.pipeline.exactly_once import Query, Rows, committed, rows_of
from tests.pipeline.players import Player

FIRST: list[Rows] = [rows_of(0, range(40)), rows_of(1, range(30))]
SECOND: list[Rows] = [rows_of(0, range(40, 90)), rows_of(1, range(30, 50))]


def keys(*batches: list[Rows]) -> list[str]:
    return sorted(key for tasks in batches for rows in tasks for _, key in rows)


@pytest.fixture
def topic(cluster: Cluster, player: Player) -> str:
    return cluster.create_topic(partitions=2)


def test_batches_are_there_once(cluster: Cluster, topic: str) -> None:
    query = Query(cluster, topic, "q")
    query.run(0, *FIRST)
    query.run(1, *SECOND)

    assert committed(cluster, topic) == keys(FIRST, SECOND)
    names = query.options.brokers().names()
    assert topic in names
    assert decisions.TOPIC not in names  # no pattern matches it


# Steps behind which the first run of a batch ends; the next run writes the batch again.


def planned(query: Query) -> None:
    query.plan()


def a_task_wrote(query: Query) -> None:
    query.write(query.plan(), 1, 0, SECOND[0])


def all_wrote(query: Query) -> tuple[Handle, list[Written | None]]:
    handle = query.plan()
    return handle, [query.write(handle, 1, task, rows) for task, rows in enumerate(SECOND)]


def decided(query: Query) -> None:
    handle, written = all_wrote(query)
    part = written[0].part if written[0] else None
    assert part is not None
    decisions.decide(query.options.brokers(), handle.identity, part.batch)


def ended(query: Query) -> None:
    _, written = all_wrote(query)
    query.commit(written, 1)


STEPS: list[Callable[[Query], object]] = [planned, a_task_wrote, all_wrote, decided, ended]


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_is_there_once_behind_whichever_step_its_first_run_ends(
    cluster: Cluster, topic: str, step: Callable[[Query], object]
) -> None:
    query = Query(cluster, topic, "q")
    query.run(0, *FIRST)
    step(query)

    Query(cluster, topic, "q").run(1, *SECOND)
    Query(cluster, topic, "q").run(2, rows_of(0, [100]), rows_of(1, [100]))

    assert committed(cluster, topic) == sorted([*keys(FIRST, SECOND), "0-100", "1-100"])


def test_a_second_run_fences_the_first_one(cluster: Cluster, topic: str) -> None:
    first, second = Query(cluster, topic, "q"), Query(cluster, topic, "q")
    handle = first.plan()
    written: list[Written | None] = [first.write(handle, 0, 0, FIRST[0])]
    later = second.plan()

    with pytest.raises(
        PipelineError, match="another run of this query has begun, with the same checkpoint"
    ):
        first.write(handle, 0, 1, FIRST[1])
    with pytest.raises(PipelineError, match="another run of this query has begun"):
        first.commit(written, 0)
    first.abort(written)
    second.commit([second.write(later, 0, task, rows) for task, rows in enumerate(FIRST)], 0)
    assert committed(cluster, topic) == keys(FIRST)


def test_the_second_attempt_of_a_task_fails_the_batch(cluster: Cluster, topic: str) -> None:
    query = Query(cluster, topic, "q")
    handle = query.plan()
    assert query.write(handle, 0, 0, FIRST[0]).records == len(FIRST[0])

    with pytest.raises(PipelineError, match="task 0 of batch 0 was begun before"):
        query.write(handle, 0, 0, FIRST[0])


@pytest.mark.parametrize(
    "other",
    [rows_of(0, range(40, 80)), rows_of(0, range(40, 41))],
    ids=["as many rows", "fewer rows"],
)
def test_two_tasks_that_write_to_one_partition_are_refused(
    cluster: Cluster, topic: str, other: Rows
) -> None:
    """As many rows are numbered alike: the broker takes them for sent again."""
    query = Query(cluster, topic, "q")
    handle = query.plan()
    with pytest.raises(
        PipelineError, match=r"each partition of a topic is written by one .*repartition\(1\)"
    ):
        query.commit(
            [query.write(handle, 0, 0, rows_of(0, range(40))), query.write(handle, 0, 1, other)], 0
        )

    Query(cluster, topic, "q").run(0, rows_of(0, range(80)))
    assert committed(cluster, topic) == keys([rows_of(0, range(80))])


def test_a_failed_task_aborts_the_batch_at_once(cluster: Cluster, topic: str) -> None:
    query = Query(cluster, topic, "q")
    handle = query.plan()
    query.write(handle, 0, 0, FIRST[0])

    with pytest.raises(PipelineError, match="a row is for partition 9"):
        query.write(handle, 0, 1, FIRST[1], rows_of(9, [1]))
    assert committed(cluster, topic) == []
    with pytest.raises(PipelineError, match="ended by others"):
        query.write(handle, 0, 2, rows_of(0, range(3)))
    Query(cluster, topic, "q").run(0, *FIRST)
    assert committed(cluster, topic) == keys(FIRST)


def test_the_driver_aborts_a_batch_whose_tasks_did_not_all_end(
    cluster: Cluster, topic: str
) -> None:
    query = Query(cluster, topic, "q")
    query.abort([query.write(query.plan(), 0, 0, FIRST[0]), None])

    assert committed(cluster, topic) == []
