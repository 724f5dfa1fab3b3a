"""The sink's transaction of a batch, step by step, with each step being the last one of its run.
Needs no Spark: test_exactly_once_spark.py does.
"""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.client.blocking import transaction
from raftka.client.blocking.producer import Producer, new_identity
from raftka.client.blocking.transaction import Identity
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.topics import decisions, exactly_once
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.exactly_once import Written
from raftka.pipeline.topics.sink import Transactional
from raftka.testing import Cluster
from tests.pipeline.exactly_once import Query, committed, rows_of
from tests.pipeline.exactly_once_rules import (
    FIRST,
    SECOND,
    a_task_wrote,
    decided,
    ended,
    keys,
    test_a_batch_is_there_once_behind_whichever_step_its_first_run_ends,
    test_a_failed_task_aborts_the_batch_at_once,
    test_a_second_run_fences_the_first_one,
    test_batches_are_there_once,
    test_the_driver_aborts_a_batch_whose_tasks_did_not_all_end,
    test_the_second_attempt_of_a_task_fails_the_batch,
    test_two_tasks_that_write_to_one_partition_are_refused,
    topic,
)
from tests.pipeline.players import Player

__all__ = [
    "test_a_batch_is_there_once_behind_whichever_step_its_first_run_ends",
    "test_a_failed_task_aborts_the_batch_at_once",
    "test_a_second_run_fences_the_first_one",
    "test_batches_are_there_once",
    "test_the_driver_aborts_a_batch_whose_tasks_did_not_all_end",
    "test_the_second_attempt_of_a_task_fails_the_batch",
    "test_two_tasks_that_write_to_one_partition_are_refused",
    "topic",
]
Rule = Callable[[Cluster, str], None]


def test_queries_with_other_names_do_not_know_each_other(cluster: Cluster, topic: str) -> None:
    other = Query(cluster, topic, "other")
    handle = other.plan()
    # its transaction stays open
    decisions.decide(other.options.brokers(), handle.identity, decisions.Decision("other", 7))
    Query(cluster, topic, "q").run(0, *FIRST)
    Query(cluster, topic, "q").run(0, *FIRST)

    assert Query(cluster, topic, "q").plan().decided == ("q", 0)
    other.abort([Written(0, part=other.part(handle, 7, 0))])
    assert committed(cluster, topic) == keys(FIRST)


def test_a_new_checkpoint_under_an_old_name_begins_at_its_own_batches(
    cluster: Cluster, topic: str
) -> None:
    Query(cluster, topic, "q", **{"kafka.transactional.id": f"{topic}-x"}).run(0, *FIRST)
    Query(cluster, topic, "q2", **{"kafka.transactional.id": f"{topic}-x"}).run(0, *SECOND)

    assert committed(cluster, topic) == keys(FIRST, SECOND)


def test_a_checkpoint_that_is_older_than_the_topics_is_refused(
    cluster: Cluster, topic: str
) -> None:
    Query(cluster, topic, "q").run(5, *FIRST)

    with pytest.raises(
        PipelineError,
        match="batch 5 of this query is in its topics, but its checkpoint is at batch 4",
    ):
        Query(cluster, topic, "q").run(4, *SECOND)


def test_a_decision_is_found_behind_many_others(cluster: Cluster, topic: str) -> None:
    query = Query(cluster, topic, "q")
    query.run(3, *FIRST)
    handle = Query(cluster, topic, "other").plan()
    for attempt in range(2 * decisions.WINDOW):
        decisions.claim(query.options.brokers(), handle.identity, 0, attempt, handle.since)

    assert query.plan().decided == ("q", 3)


# tasks that are done again


def test_an_attempt_without_rows_claims_nothing(cluster: Cluster, topic: str) -> None:
    query = Query(cluster, topic, "q")
    handle = query.plan()
    query.write(handle, 0, 0, [])
    query.commit([query.write(handle, 0, 0, FIRST[0]), query.write(handle, 0, 1, [], FIRST[1])], 0)

    assert committed(cluster, topic) == keys(FIRST)


# a batch that fails


def test_a_transaction_that_timed_out_fails_the_batch(cluster: Cluster, topic: str) -> None:
    query = Query(cluster, topic, "q", **{"kafka.transaction.timeout.ms": "300"})
    handle = query.plan()
    written = [query.write(handle, 0, task, rows) for task, rows in enumerate(FIRST)]
    assert committed(cluster, topic) == []  # when the time is over

    with pytest.raises(
        PipelineError, match=r"took longer than kafka.transaction.timeout.ms=300: raise it"
    ):
        query.commit(written, 0)
    query.run(0, *FIRST)
    assert committed(cluster, topic) == keys(FIRST)


@pytest.mark.parametrize(
    "api", ["InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn", "Fetch"]
)
def test_an_answer_that_is_lost_changes_nothing(
    cluster: Cluster, player: Player, topic: str, api: str
) -> None:
    query = Query(cluster, topic, "q")
    query.run(0, *FIRST)
    cluster.lose_answers(api)
    query.run(1, *SECOND)
    query.run(2, rows_of(0, [100]))

    assert committed(cluster, topic) == sorted([*keys(FIRST, SECOND), "0-100"])


def test_coordinator_and_leaders_may_go_within_a_batch(
    cluster: Cluster, player: Player, topic: str
) -> None:
    query = Query(cluster, topic, "q")
    query.run(0, *FIRST)
    handle = query.plan()
    written: list[Written | None] = [query.write(handle, 1, 0, SECOND[0])]
    cluster.kill(cluster.leader(decisions.TOPIC))
    written.append(query.write(handle, 1, 1, SECOND[1]))
    query.commit(written, 1)
    query.run(1, *SECOND)

    cluster.heal()
    assert committed(cluster, topic) == keys(FIRST, SECOND)


# planted bugs: a rule above finds each of them


def decision_is_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "decide", lambda brokers, identity, decision: None)


def decision_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "last_decision", lambda brokers, name: decisions.Found(None, 0))


def decision_of_an_aborted_batch_counts(patch: pytest.MonkeyPatch) -> None:
    decided = decisions._decided

    def bug(
        brokers: Brokers, key: bytes, start: int, end: int
    ) -> tuple[decisions.Decision | None, bool]:
        patch.setattr(decisions, "COMMIT_MARKER", b"\0\0\0\0")
        aborted, _ = decided(brokers, key, start, end)
        patch.setattr(decisions, "COMMIT_MARKER", b"\0\0\0\1")
        found, is_open = decided(brokers, key, start, end)
        return aborted or found, is_open

    patch.setattr(decisions, "_decided", bug)


def decision_is_apart_from_the_batch(patch: pytest.MonkeyPatch) -> None:
    """It counts before the rows do."""

    def bug(brokers: Brokers, identity: Identity, decision: decisions.Decision) -> None:
        its_own = transaction.begin(brokers, f"{identity.transactional_id}-decisions", 60_000)
        producer = Producer(brokers, identity=its_own)
        producer.add(
            decisions.LOG,
            (
                str(identity.transactional_id).encode(),
                json.dumps(decision._asdict()).encode(),
                (),
                0,
            ),
        )
        producer.flush()
        transaction.end(brokers, its_own, commit=True)

    patch.setattr(decisions, "decide", bug)


def every_attempt_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "claim", lambda *_: True)


def writers_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(exactly_once, "_check_writers", lambda done: None)


def rows_are_of_no_transaction(patch: pytest.MonkeyPatch) -> None:
    def bug(brokers: Brokers, name: str, timeout_ms: int) -> Identity:
        return new_identity(brokers)

    patch.setattr(transaction, "begin", bug)


def nothing_fences(patch: pytest.MonkeyPatch) -> None:
    """A run goes on with the epoch of the run before."""
    begin, known = transaction.begin, dict[str, Identity]()

    def bug(brokers: Brokers, name: str, timeout_ms: int) -> Identity:
        return known.setdefault(
            name, begin(brokers, name, timeout_ms) if name not in known else known[name]
        )

    patch.setattr(transaction, "begin", bug)


def failed_batch_is_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        transaction,
        "give_up",
        lambda brokers, identity, timeout_ms: transaction.end(brokers, identity, commit=True),
    )


def behind(step: Callable[[Query], object]) -> Rule:
    return lambda cluster, topic: (
        test_a_batch_is_there_once_behind_whichever_step_its_first_run_ends(cluster, topic, step)
    )


def two_writers(cluster: Cluster, topic: str) -> None:
    test_two_tasks_that_write_to_one_partition_are_refused(
        cluster, topic, rows_of(0, range(40, 80))
    )


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Rule]] = [
    (decision_is_left_out, behind(ended)),
    (decision_is_not_looked_at, behind(ended)),
    (decision_of_an_aborted_batch_counts, behind(decided)),
    (decision_is_apart_from_the_batch, behind(decided)),
    (every_attempt_writes, test_the_second_attempt_of_a_task_fails_the_batch),
    (writers_are_not_compared, two_writers),
    (rows_are_of_no_transaction, behind(a_task_wrote)),
    (nothing_fences, test_a_second_run_fences_the_first_one),
    (failed_batch_is_committed, test_a_failed_task_aborts_the_batch_at_once),
]


@pytest.mark.parametrize(("plant", "rule"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_found(
    cluster: Cluster, topic: str, plant: Callable[[pytest.MonkeyPatch], None], rule: Rule
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, PipelineError, pytest.fail.Exception)):
            rule(cluster, topic)


@pytest.mark.parametrize("name", ["plain", "with a space", "with,commas", "50%", "a%2Cb"])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_query_has_its_name_from_its_checkpoint_however_spark_writes_the_folder(
    tmp_path: Path, name: str, times: int
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "metadata").write_text('{"id": "7"}')
    told = str(folder)
    for _ in range(times):
        told = quote(told)

    assert (
        Transactional(None, told if times == 0 else f"file:{told}").transactional_id
        == "raftka-spark-7"
    )


def test_a_checkpoint_that_the_driver_cannot_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionRefused, match="needs a name that is the query's alone"):
        Transactional(None, f"file:{tmp_path}").transactional_id  # noqa: B018
