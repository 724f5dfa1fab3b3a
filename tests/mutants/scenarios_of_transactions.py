"""Directed simulations of transaction coordinators, and scripts of theirs that a planted bug
changes: see directed.py.
"""

from collections.abc import Callable

from raftka.log.producers.markers import Marker
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code
from raftka.wire.messages.transactions import END_TXN
from tests.broker.stage import Stage
from tests.broker.test_marker_sender import test_a_partition_that_has_nothing_to_end_is_passed_over
from tests.broker.test_transactional_partition import (
    test_a_leader_that_was_truncated_meanwhile_has_the_producer_ask_again,
)
from tests.broker.test_transactions import test_a_deleted_topic_holds_no_transaction_up
from tests.kit.broker.markers import Scene
from tests.kit.broker.transactional_partition import Scene as Partitioned
from tests.kit.broker.transactions import TOPIC, Client, settled
from tests.mutants.directed import finds
from tests.scenario import scripts


def _plays_as_written(name: str) -> None:
    """That script of the coordinator."""
    (script,) = [
        each for each in scripts() if (each.folder, each.path.stem) == ("transactions", name)
    ]
    assert script.play() == script.path.read_text(), f"script {name} comes out otherwise"


@finds
def epoch_is_kept_at_a_time_out() -> None:
    _plays_as_written("timeouts")


@finds
def fenced_producers_wait_for_markers() -> None:
    _plays_as_written("partitions")


@finds
def the_next_end_is_fenced_by_the_last_one() -> None:
    _plays_as_written("end")


@finds
def a_fenced_producer_asks_again() -> None:
    _plays_as_written("end")


@finds
def a_commit_ahead_of_its_batches_is_refused() -> None:
    _plays_as_written("end")


@finds
def every_commit_of_nothing_is_sent_back() -> None:
    _plays_as_written("end")


@finds
def the_next_producer_id_is_a_strangers() -> None:
    _plays_as_written("epochs")


@finds
def last_epoch_is_not_stored() -> None:
    _plays_as_written("fencing")


@finds
def next_producer_id_is_not_stored() -> None:
    _plays_as_written("epochs")


@finds
def nothing_waits_for_markers() -> None:
    _plays_as_written("fencing")


@finds
def topics_of_a_transaction_are_known_by_name_alone() -> None:
    with Stage() as stage:
        stage.create("t", 3)
        test_a_deleted_topic_holds_no_transaction_up(stage)


@finds
def a_refused_marker_stops_all_others() -> None:
    with World(1) as world:
        test_a_partition_that_has_nothing_to_end_is_passed_over(
            Scene(world), Code.INVALID_PRODUCER_EPOCH
        )


@finds
def markers_leave_before_the_end_is_committed() -> None:
    """The coordinator, which leads the transaction's partition too, is cut off: it must not commit
    there what the next one aborts.
    """
    with Stage(3, transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 3, replication_factor=1)
        client = Client(stage)
        client.init()
        first = client.coordinator()
        index = next(index for index in range(3) if stage.leader("t", index) == first)
        assert client.add(("t", index)) == [0]
        assert client.produce("t", index) == 0
        for other in {1, 2, 3} - {first}:
            stage.world.network.cut(f"n{first}", f"n{other}")
        row = END_TXN.request(
            transactional_id="x",
            producer_id=client.pair[0],
            producer_epoch=client.pair[1],
            committed=True,
        )
        client.wire.request(END_TXN, row, 3)
        stage.world.run(stage.world.now + 1.0)
        end = stage.nodes[first].replicas.partitions["t", index].log.end_offset
        assert end == 1, "a marker is written, and the end of its transaction is not committed"


@finds
def markers_have_no_version() -> None:
    """A marker whose answer was lost comes again when the next transaction is open."""
    with Stage() as stage:
        stage.create("t")
        writer = stage.nodes[1].transactions.sender._writer
        write = writer.write
        written: list[Marker] = []

        def noted(marker: Marker, topic: str, partition: int, done: Callable[[Code], None]) -> None:
            written.append(marker)
            write(marker, topic, partition, done)

        writer.write = noted  # type: ignore[method-assign]
        client = Client(stage)
        client.init()
        assert client.produce("t", version=12) == 0
        assert client.end() == 0
        settled(client, "CompleteCommit")
        assert client.produce("t", version=12) == 0
        codes: list[Code] = []
        stage.nodes[1].runtime.take(lambda _: write(written[0], "t", 0, codes.append), None)  # type: ignore[attr-defined]
        stage.wait(lambda: bool(codes))
        log = stage.partition("t").log
        assert log.end_offset == 3, "the marker of one transaction has ended the next one"


@finds
def a_new_coordinator_sends_no_markers() -> None:
    with Stage(3, transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 3)
        client = Client(stage)
        client.init()
        assert client.add(("t", 0), ("t", 1)) == [0, 0]
        first = stage.leader(TOPIC)
        stage.nodes[first].transactions.sender._spread = lambda markers: None  # type: ignore[method-assign]
        assert client.end(version=3) == 0
        stage.kill(first)
        stage.wait(lambda: stage.leader(TOPIC) in stage.nodes)
        settled(Client(stage), "CompleteCommit")


@finds
def answers_outlive_a_truncation() -> None:
    with Stage() as stage:
        stage.create("t", 3)
        test_a_leader_that_was_truncated_meanwhile_has_the_producer_ask_again(
            Partitioned(stage), 10
        )
