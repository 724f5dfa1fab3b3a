"""Transactions in /metrics: those without an end, transactional ids by state, markers that wait,
questions that were refused.
"""

from collections.abc import Iterator

import pytest

from raftka.wire.errors import Code
from tests.broker.stage import Stage
from tests.kit.broker.http import PORT, scraped
from tests.kit.broker.transactional_partition import Scene
from tests.kit.broker.transactions import Client

LATE = "kafka_server_replicamanager_partitionswithlatetransactionscount"
MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
LOAD_TIME = "kafka_server_transaction_coordinator_metrics_partition_load_time_"
MAX_TIMEOUT_S, BUFFER_S = 10, 300


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(
        metrics_port=str(PORT), transaction_max_timeout_ms=str(MAX_TIMEOUT_S * 1000)
    ) as stage:
        stage.create("t", 3)
        yield stage


def wait(stage: Stage, seconds: float) -> None:
    stage.world.run(stage.world.now + seconds)


def late(stage: Stage) -> float:
    return scraped(stage).sum(LATE)


def test_a_transaction_is_late_when_no_coordinator_can_be_about_to_end_it(stage: Stage) -> None:
    """Its records have old timestamps, as copied ones do: these say nothing."""
    scene = Scene(stage)
    scene.send(b"a", partition=1)
    wait(stage, MAX_TIMEOUT_S + BUFFER_S - 5)
    scene.send(b"b", partition=1, sequence=1)
    scene.send(b"c", partition=2)
    assert late(stage) == 0

    wait(stage, 10)
    assert late(stage) == 1

    scene.mark(commit=False, partitions=[1])
    assert late(stage) == 0


def test_the_oldest_open_transaction_of_a_partition_counts(stage: Stage) -> None:
    scene = Scene(stage)
    for producer_id in (7, 8):
        wait(stage, MAX_TIMEOUT_S + BUFFER_S - 5)
        scene.send(b"a", producer_id=producer_id)
    wait(stage, 10)
    assert late(stage) == 1

    scene.mark(commit=False)
    assert late(stage) == 0


def test_a_restarted_broker_counts_from_its_start(stage: Stage) -> None:
    scene = Scene(stage)
    scene.send(b"a")
    wait(stage, MAX_TIMEOUT_S + BUFFER_S + 5)
    assert late(stage) == 1

    stage.kill(1)
    stage.start(1)
    stage.wait(lambda: stage.nodes[1].ready.is_set() and stage.partition("t").leader is not None)
    assert late(stage) == 0

    wait(stage, MAX_TIMEOUT_S + BUFFER_S + 5)
    assert late(stage) == 1


def test_a_late_transaction_is_counted_by_the_leader_alone() -> None:
    with Stage(nodes=3, metrics_port=str(PORT), transaction_max_timeout_ms="10000") as stage:
        stage.create("t", replication_factor=3)
        scene = Scene(stage, stage.leader("t"))
        scene.send(b"a")
        wait(stage, MAX_TIMEOUT_S + BUFFER_S + 5)
        assert scraped(stage).of(LATE).count(1) == 1
        assert late(stage) == 1


def test_transactional_ids_are_counted_by_state(stage: Stage) -> None:
    idle, busy = Client(stage, "idle"), Client(stage, "busy")
    for each in (idle, busy):
        assert each.init(timeout_ms=5000).error_code == 0
    assert busy.add(("t", 0)) == [0]

    samples = scraped(stage)
    found = {
        each.labels["state"]: each.value
        for each in samples
        if each.name == "raftka_transactional_ids"
    }
    assert found == {
        "Empty": 1,
        "Ongoing": 1,
        "PrepareCommit": 0,
        "PrepareAbort": 0,
        "CompleteCommit": 0,
        "CompleteAbort": 0,
    }


def test_markers_that_no_leader_takes_are_counted() -> None:
    with Stage(nodes=3, metrics_port=str(PORT)) as stage:
        stage.create("t", 3, replication_factor=1)
        producer = Client(stage)
        producer.init()
        partition = next(
            index for index in range(3) if stage.leader("t", index) != producer.coordinator()
        )
        assert producer.add(("t", partition)) == [0]
        gone = stage.leader("t", partition)
        stage.kill(gone)
        stage.wait(lambda: not any(node.image.alive(gone) for node in stage.nodes.values()))
        producer = _again(stage, producer)
        assert producer.end(version=4) == 0
        wait(stage, 1)
        assert scraped(stage).sum(f"{MARKERS}unknowndestinationqueuesize") == 1

        stage.start(gone)
        stage.wait(lambda: producer.describe().transaction_state == "CompleteCommit")
        samples = scraped(stage)
        assert samples.sum(f"{MARKERS}unknowndestinationqueuesize") == 0
        assert samples.sum(f"{MARKERS}logappendretryqueuesize") == 0


def _again(stage: Stage, producer: Client) -> Client:
    """At its coordinator as it is now."""
    found = Client(stage, producer.id)
    found.pair = producer.pair
    return found


def test_questions_that_the_coordinator_refuses_are_counted(stage: Stage) -> None:
    scene = Scene(stage)
    scene.send(b"a")
    scene.coordinator.code = Code.INVALID_TXN_STATE
    assert scene.send(b"b", partition=1).error_code == Code.INVALID_TXN_STATE
    assert (
        scraped(stage).sum("kafka_server_addpartitionstotxnmanager_verificationfailurerate_total")
        == 1
    )


def test_load_times_are_those_of_the_coordinators_that_serve_here(stage: Stage) -> None:
    Client(stage).init()
    coordinators = list(stage.nodes[1].services.transactions.runtime.partitions.values())
    for load_ms, coordinator in enumerate(coordinators):
        coordinator.load_ms = load_ms
    samples = scraped(stage)
    assert samples.sum(f"{LOAD_TIME}max") == len(coordinators) - 1 > 0
    assert samples.sum(f"{LOAD_TIME}avg") == (len(coordinators) - 1) / 2
