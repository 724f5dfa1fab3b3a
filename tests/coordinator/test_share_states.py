"""Large states of share partitions: decided in steps, in time linear but for sorting."""

from collections.abc import Sequence
from random import Random

import pytest

from raftka.coordinator.machine import Context, Outcome, Steps
from raftka.coordinator.share_state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    SummarizeState,
    WriteState,
)
from raftka.coordinator.share_state.commands import ShareStateSettings as Settings
from raftka.coordinator.share_state.coordinator import MANY_BATCHES, ShareStateCoordinator
from raftka.coordinator.share_state.records import SNAPSHOT_KEY, UPDATE_KEY
from raftka.share import batches
from raftka.share.state import NO_COUNT, NO_START, SharePartitionKey, ShareState, StateBatch
from tests.coordinator.world import LINEAR, FakeTopics, outcome_of

TOPICS = FakeTopics({"t": 10})
CONTEXT = Context(0.0, 1_000_000, Random(1), TOPICS)
KEY = SharePartitionKey("g", TOPICS.topic_id("t") or b"", 0)


class Host:
    """Decides and replays."""

    def __init__(self) -> None:
        self.machine = ShareStateCoordinator(Settings())
        self.kinds: list[int] = []  # of the records
        self.steps = 0  # of the last decision

    def ask(self, command: object) -> object:
        outcome = self.decide(command)
        for record in outcome.records:
            self.kinds.append(record.key[1])
            self.machine.replay(record)
        ((_, answer),) = outcome.replies
        return answer

    def decide(self, command: object) -> Outcome:
        found, self.steps = self.machine.decide(command, "asked", CONTEXT), 0
        while not isinstance(found, Outcome):
            try:
                next(found)
                self.steps += 1
            except StopIteration as stop:
                found = stop.value
        return found

    def write(self, *batches: StateBatch, start: int = NO_START) -> object:
        return self.ask(WriteState(KEY, 1, 0, start, NO_COUNT, batches))

    @property
    def stored(self) -> list[StateBatch]:
        answer = self.ask(ReadState(KEY, 0))
        assert isinstance(answer, ShareState)
        return list(answer.batches)


@pytest.fixture
def host() -> Host:
    host = Host()
    assert host.ask(InitializeState(KEY, 1, 0)) is None
    return host


def apart(count: int, state: int = 2, deliveries: int = 1) -> list[StateBatch]:
    """Return batches of which no two can be joined."""
    return [StateBatch(2 * at, 2 * at, state, deliveries) for at in range(count)]


def test_a_write_of_many_batches_is_a_snapshot(host: Host) -> None:
    few = apart(MANY_BATCHES)
    assert host.write(*few) is None
    assert host.write(*apart(MANY_BATCHES + 1)) is None

    assert host.kinds == [SNAPSHOT_KEY, UPDATE_KEY, SNAPSHOT_KEY]
    assert host.stored == apart(MANY_BATCHES + 1)
    assert host.machine.batches == MANY_BATCHES + 1


def test_a_write_of_many_batches_counts_as_one_of_few(host: Host) -> None:
    """Start, count and batches, stored ones too."""
    host.write(StateBatch(5, 10, 0, 1), StateBatch(3000, 3001, 4, 2))
    assert host.ask(WriteState(KEY, 1, 0, 7, 600, tuple(apart(MANY_BATCHES + 1)))) is None

    expected = Host()
    expected.ask(InitializeState(KEY, 1, 0))
    expected.write(StateBatch(5, 10, 0, 1), StateBatch(3000, 3001, 4, 2))
    for batch in apart(MANY_BATCHES + 1):
        expected.ask(WriteState(KEY, 1, 0, 7, 600, (batch,)))
    assert host.stored == expected.stored
    assert host.ask(SummarizeState(KEY)) == expected.ask(SummarizeState(KEY))


def test_twice_the_batches_are_twice_the_steps(host: Host) -> None:
    steps = []
    for count in (2_000, 4_000):
        host.write(*apart(count))
        steps.append(host.steps)

    assert 0 < steps[1] <= LINEAR * steps[0]


def test_an_update_touches_the_batches_of_its_range_alone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.write(*apart(5_000))
    touched: list[int] = []
    combine = batches.combine

    def counting(given: Sequence[StateBatch]) -> Steps[list[StateBatch]]:
        touched.append(len(given))
        return combine(given)

    monkeypatch.setattr(batches, "combine", counting)
    host.write(StateBatch(5_001, 5_001, 2, 1), StateBatch(9_990, 9_990, 2, 2))

    assert touched == [3, 2]  # each with the neighbours that it could be joined to
    assert len(host.stored) == 4_999


def test_the_batches_of_all_states_are_counted(host: Host) -> None:
    machine, other = host.machine, KEY._replace(partition=1)
    host.ask(InitializeState(other, 1, 0))
    host.write(*apart(3))
    host.ask(WriteState(other, 1, 0, 0, NO_COUNT, tuple(apart(5))))
    assert machine.batches == 8
    host.write(StateBatch(1, 1, 2, 1))
    assert machine.batches == 7
    host.write(start=3)
    assert machine.batches == 6
    host.ask(ReadState(other, 3))
    assert machine.batches == 6
    host.ask(InitializeState(KEY, 2, 0))
    assert machine.batches == 5
    host.ask(DeleteState(other))
    assert machine.batches == 0


def test_states_of_a_deleted_topic_go_in_steps(host: Host) -> None:
    for number in range(500):
        key = KEY._replace(group_id=f"g{number}")
        assert host.ask(InitializeState(key, 1, 0)) is None

    found = host.machine.on_image([(KEY.topic_id, "t")], CONTEXT)

    assert not isinstance(found, Outcome)
    outcome = outcome_of(found)
    assert not outcome.atomic
    for record in outcome.records:
        host.machine.replay(record)
    assert not host.machine.states
    assert host.machine.prunable_below() == host.machine.position
