"""Mistakes that the clients of lives notice: one of each class is planted, and the first lives see
it. Without it they see nothing.
"""

import itertools
from collections.abc import Callable, Iterator
from heapq import heappop
from math import inf
from typing import Any

import pytest

from raftka.broker.coordinators.partition import CoordinatorPartition
from raftka.broker.fetch.fetch import Fetch
from raftka.broker.handlers import metadata
from raftka.broker.network.connection import ServerConnection
from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.clients.client import Client, Leader, NoAnswer
from raftka.chaos.simulated.faults.nemeses import OF_COORDINATORS
from raftka.chaos.simulated.scene import Scene
from raftka.chaos.simulated.workloads.compaction import CompactionWork
from raftka.chaos.simulated.workloads.consumer_group import ConsumerGroupWork
from raftka.chaos.simulated.workloads.group import GroupWork
from raftka.chaos.simulated.workloads.many_partitions import WideWork, Writer
from raftka.chaos.simulated.workloads.metadata_queries import Asker, AskingWork
from raftka.chaos.simulated.workloads.recreation import RecreationWork
from raftka.chaos.simulated.workloads.workload import Workload
from raftka.chaos.simulation import at_work
from raftka.coordinator import groups
from raftka.coordinator.classic import join as classic_join
from raftka.coordinator.consumer import reconciliation
from raftka.coordinator.consumer.decisions import ConsumerDecision
from raftka.coordinator.consumer.groups import ConsumerGroups
from raftka.coordinator.records import read_offset_key
from raftka.coordinator.timers import Timers
from raftka.log.directory import LogDirectory
from raftka.log.producers.state import ProducerState
from raftka.log.segments.segment_list import SegmentList
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.produce import PRODUCE

SEEDS = 72
FIRST = {  # the seeds that found a mistake last: a change of the code may make other lives of them
    "ids_that_nobody_joins_with_stay": 20,
    "half_of_what_a_member_gives_up_is_enough": 31,
    "what_did_not_fit_is_no_news": 6,
    "a_commit_is_in_memory_alone": 11,
}


def answers_overtake_each_other(patch: pytest.MonkeyPatch) -> None:
    answer = ServerConnection.answer

    def wrong(self: ServerConnection, parts: Any, size_bytes: int = 0) -> None:
        if len(self.slots) == 1:
            waiting, self.slots = self.slots, type(self.slots)()
            answer(self, parts, size_bytes)
            self.slots = waiting
        else:
            answer(self, parts, size_bytes)

    patch.setattr(ServerConnection, "answer", wrong)


def every_replica_is_told_to_be_in_sync(patch: pytest.MonkeyPatch) -> None:
    right = metadata._partition
    patch.setattr(
        metadata,
        "_partition",
        lambda image, index, partition: right(
            image, index, partition._replace(isr=partition.replicas)
        ),
    )


def an_earlier_epoch_of_a_producer_is_admitted(patch: pytest.MonkeyPatch) -> None:
    admit = ProducerState.admit

    def wrong(self: ProducerState, *batch: int) -> Any:
        try:
            return admit(self, *batch)
        except KafkaError as error:
            if error.code is Code.INVALID_PRODUCER_EPOCH:
                return None
            raise

    patch.setattr(ProducerState, "admit", wrong)


def a_deleted_offset_takes_the_others_of_its_topic(patch: pytest.MonkeyPatch) -> None:
    replay = groups.GroupCoordinator._replay_offset

    def wrong(self: groups.GroupCoordinator, key: bytes, value: bytes | None) -> None:
        group_id, topic, _ = read_offset_key(key)
        group = self.groups.get(group_id)
        replay(self, key, value)
        if value is None and group is not None:
            group.offsets.pop(topic, None)

    patch.setattr(groups.GroupCoordinator, "_replay_offset", wrong)


def ids_that_nobody_joins_with_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_join, "pending_over", lambda group, member_id, turn: None)


def a_heartbeat_begins_no_session(patch: pytest.MonkeyPatch) -> None:
    begin = ConsumerDecision.begin_session
    patch.setattr(
        ConsumerDecision,
        "begin_session",
        lambda self, member: begin(self, member) if self.draft.changed else None,
    )


def half_of_what_a_member_gives_up_is_enough(patch: pytest.MonkeyPatch) -> None:
    def wrong(owned: Any, revoking: Any) -> bool:
        return owned is None or all(
            not partitions.keys().isdisjoint(owned.get(topic_id, ()))
            for topic_id, partitions in revoking.items()
        )

    patch.setattr(reconciliation, "_has_any", wrong)


def a_static_member_that_restarts_has_nothing(patch: pytest.MonkeyPatch) -> None:
    replace = classic_join._replace_static

    def wrong(group: Any, old: Any, *given: Any) -> None:
        old.assignment = b""
        replace(group, old, *given)

    patch.setattr(classic_join, "_replace_static", wrong)


def followers_that_wait_hear_of_no_deletion(patch: pytest.MonkeyPatch) -> None:
    delete = Partition.delete_before

    def wrong(self: Partition, offset: int) -> int:
        with pytest.MonkeyPatch.context() as asleep:
            asleep.setattr(Partition, "wake_all", lambda self: None)
            return delete(self, offset)

    patch.setattr(Partition, "delete_before", wrong)


def what_was_written_down_of_an_earlier_topic_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirectory, "clear_offsets", lambda self, key: None)


def positions_outlive_a_cleaners_swap(patch: pytest.MonkeyPatch) -> None:
    swap = SegmentList._swapping

    def wrong(self: SegmentList, cleaned: Any) -> Iterator[None]:
        steps, before = swap(self, cleaned), self.positions
        for _ in steps:
            self.positions = before
            yield
            before = self.positions

    patch.setattr(SegmentList, "_swapping", wrong)


def a_timer_that_was_off_when_its_time_came_rings_no_more(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Timers) -> None:
        when, _, timer = heappop(self._heap)
        if when == timer._known and timer.due < inf:
            self._push(timer)

    patch.setattr(Timers, "_reschedule", wrong)


def nobody_is_watched_that_is_to_give_up_when_the_coordinator_has_moved(
    patch: pytest.MonkeyPatch,
) -> None:
    loaded = ConsumerGroups.loaded

    def wrong(self: ConsumerGroups, *given: Any) -> None:
        with pytest.MonkeyPatch.context() as asleep:
            asleep.setattr(ConsumerDecision, "watch_revoking", lambda turn, member: None)
            loaded(self, *given)

    patch.setattr(ConsumerGroups, "loaded", wrong)


def what_did_not_fit_is_no_news(patch: pytest.MonkeyPatch) -> None:
    read = Fetch._read_for_consumer

    def wrong(self: Fetch, partition: Partition, cached: Any, *given: Any) -> Any:
        row = read(self, partition, cached, *given)
        if not cached.size:
            self.session.dirty.pop(cached, None)
        return row

    patch.setattr(Fetch, "_read_for_consumer", wrong)


def a_commit_is_in_memory_alone(patch: pytest.MonkeyPatch) -> None:
    """Every thirtieth, on whichever node."""
    append, count = CoordinatorPartition._append, itertools.count(1)

    def wrong(self: CoordinatorPartition) -> None:
        if next(count) % 30 == 0:
            self._records = self._records[:-1] or self._records
        append(self)

    patch.setattr(CoordinatorPartition, "_append", wrong)


@pytest.mark.parametrize(
    ("bug", "work", "said"),
    [
        (answers_overtake_each_other, AskingWork, "due"),
        (every_replica_is_told_to_be_in_sync, AskingWork, "tells"),
        (an_earlier_epoch_of_a_producer_is_admitted, WideWork, "earlier epoch"),
        (a_deleted_offset_takes_the_others_of_its_topic, GroupWork, "has offset"),
        (ids_that_nobody_joins_with_stay, GroupWork, "members"),
        (a_heartbeat_begins_no_session, ConsumerGroupWork, ""),
        (half_of_what_a_member_gives_up_is_enough, ConsumerGroupWork, "zombie"),
        (a_static_member_that_restarts_has_nothing, GroupWork, "before it restarted"),
        (followers_that_wait_hear_of_no_deletion, RecreationWork, "it is not told where"),
        (what_was_written_down_of_an_earlier_topic_holds, RecreationWork, ""),
        (positions_outlive_a_cleaners_swap, CompactionWork, ""),
        (a_timer_that_was_off_when_its_time_came_rings_no_more, GroupWork, "will not ring"),
        (
            nobody_is_watched_that_is_to_give_up_when_the_coordinator_has_moved,
            ConsumerGroupWork,
            "without a timer",
        ),
        (what_did_not_fit_is_no_news, WideWork, "it is not looked at"),
        (a_commit_is_in_memory_alone, GroupWork, "the log says"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_mistake_is_seen(
    bug: Callable[[pytest.MonkeyPatch], None],
    work: type[Workload],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)

    seen: list[str] = []
    for seed in (FIRST.get(bug.__name__, 0), *range(SEEDS)):
        seen += _wrong(work, seed)
        if any(said in each for each in seen):
            return
    pytest.fail(f"not noticed as it should be: {seen}")


@pytest.mark.parametrize("work", [AskingWork, WideWork])
def test_without_one_nothing_is_seen(work: type[Workload]) -> None:
    assert _wrong(work, 1) == []


def test_an_answer_is_not_compared_with_the_log_of_a_broker_that_died_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World(1) as world:
        scene = Scene(world)
        scene.produce(2)
        leader, client, ask = scene.leader, scene.client, scene.client.ask
        asker = Asker(client, scene.cluster, ())

        async def ask_and_kill(*given: Any, **more: Any) -> Any:
            answer = await ask(*given, **more)
            scene.cluster.kill(leader, power_loss=False)
            return answer

        async def compare() -> None:
            with pytest.raises(NoAnswer):
                await asker._offsets(leader)

        monkeypatch.setattr(client, "ask", ask_and_kill)
        scene.cluster.do(client, compare)


@pytest.mark.parametrize("told_epochs", [True, False])
def test_a_writer_may_be_out_of_order_to_an_earlier_leader_that_it_cannot_tell_from_the_present_one(
    told_epochs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.NONE]
    with World(1) as world:
        scene = Scene(world)
        client = scene.client
        writer = Writer(client)

        async def leader(topic: str, partition: int) -> Leader:
            return Leader(("n1", 1), 0)

        async def ask(*given: Any) -> Any:
            partition = PRODUCE.response.responses.partition_responses(
                index=0, error_code=int(codes.pop(0)), base_offset=0
            )
            return PRODUCE.response(
                responses=[PRODUCE.response.responses(name="wide", partition_responses=[partition])]
            )

        monkeypatch.setattr(client, "leader", leader)
        monkeypatch.setattr(client, "ask", ask)
        monkeypatch.setattr(Client, "knows_epochs", told_epochs)
        scene.cluster.do(client, lambda: writer._send(0, writer._batch([b"x"], 7, 0, 0)))

    assert bool(writer.wrong) == told_epochs


def _wrong(work: type[Workload], seed: int) -> list[str]:
    return at_work(seed, work, OF_COORDINATORS).violations
