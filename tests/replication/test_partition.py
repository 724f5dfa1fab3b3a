"""Rules that no script can show: the hot path allocates nothing, and that no order of events
commits what is not on every disk of the ISR.
"""

from random import Random
from types import SimpleNamespace

import pytest

from raftka.replication.partition import (
    NOTHING,
    AdvanceHighWatermark,
    Altered,
    AlterIsr,
    Effects,
    LeaderState,
)
from raftka.wire.errors import Code

LIVE = {1: 11, 2: 12, 3: 13}


def leader_of_three() -> LeaderState:
    return LeaderState(
        1, 5, 0, [1, 2, 3], [1, 2, 3], 0, 0, 0, now=0.0, lag_time_max_s=1.0, live=LIVE
    )


def test_nothing_changes_is_the_shared_empty_tuple() -> None:
    state = leader_of_three()
    state.fetched(2, 0, 0.1, 12)

    assert state.appended(10) is NOTHING
    assert state.flushed(10) is NOTHING
    assert state.flushed(10) is NOTHING
    assert state.fetched(2, 0, 0.2, 12) is NOTHING


def test_the_low_watermark_is_the_least_log_start_of_those_that_live() -> None:
    state = leader_of_three()
    assert state.low_watermark(7) == -1, "nobody has told"
    for replica, log_start in ((2, 5), (3, 6)):
        state.fetched(replica, 0, 0.1, LIVE[replica])
        assert state.start_told(replica, log_start)
    assert not state.start_told(3, 6)

    assert (state.low_watermark(7), state.low_watermark(4)) == (5, 4)
    state.on_image(
        SimpleNamespace(
            replicas=[1, 2, 3], isr=[1, 2, 3], leader_epoch=5, partition_epoch=0, elr=()
        ),
        {1: 11, 3: 13},
        0.2,
    )
    assert state.low_watermark(7) == 6, "2 is dead: it follows when it is back"


class Model:
    """A controller and three disks that the leader state cannot see; what is committed must be on
    every disk of the true ISR.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.state = leader_of_three()
        self.now = 0.0
        self.disk = {1: 0, 2: 0, 3: 0}
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.elr: tuple[int, ...] = ()
        self.partition_epoch = 0
        self.requests: list[AlterIsr] = []
        self.answers: list[tuple[AlterIsr, Altered | Code]] = []
        self.committed = 0

    def took(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, AlterIsr):
                self.requests.append(effect)
            elif isinstance(effect, AdvanceHighWatermark):
                assert effect.offset > self.committed
                self.committed = effect.offset
                assert all(self.disk[i] >= effect.offset for i in self.isr + self.elr), (
                    effect,
                    self.isr,
                    self.elr,
                    self.disk,
                )

    def step(self) -> None:
        act = self.random.choice(
            [
                self.append,
                self.flush,
                self.fetch,
                self.fetch,
                self.fetch,
                self.tick,
                self.decide,
                self.answer,
                self.lose,
                self.image,
            ]
        )
        act()

    def append(self) -> None:
        self.took(self.state.appended(self.state.log_end_offset + self.random.randrange(5)))

    def flush(self) -> None:
        self.disk[1] = self.state.log_end_offset
        self.took(self.state.flushed(self.disk[1]))

    def fetch(self) -> None:
        follower = self.random.choice([2, 3])
        self.disk[follower] = max(
            self.disk[follower], self.random.randint(self.disk[follower], self.state.log_end_offset)
        )
        self.took(self.state.fetched(follower, self.disk[follower], self.now, LIVE[follower]))

    def tick(self) -> None:
        self.now += self.random.random()
        self.took(self.state.tick(self.now))

    def decide(self) -> None:
        """The controller carries out a request, or finds it out of date; the answer is under
        way.
        """
        if self.requests:
            request = self.requests.pop(0)
            if request.partition_epoch != self.partition_epoch:
                self.answers.append((request, Code.INVALID_UPDATE_VERSION))
                return
            if self.random.random() < 0.2:
                self.answers.append((request, Code.INELIGIBLE_REPLICA))
                return
            before, self.isr = self.isr, tuple(i for i, _ in request.isr)
            # the controller knows that min.insync.replicas is 2; the leader does not
            eligible = set(before + self.elr).difference(self.isr)
            self.elr = tuple(eligible) if len(self.isr) < 2 else ()
            self.partition_epoch = self.partition_epoch + 1
            self.answers.append((request, Altered(self.isr, self.partition_epoch, self.elr)))

    def answer(self) -> None:
        if self.answers:
            self.took(self.state.alter_answered(*self.answers.pop(0), self.now))

    def lose(self) -> None:
        """The answer gets lost after the controller has decided: the request is repeated."""
        if self.answers and self.random.random() < 0.3:
            request, _ = self.answers.pop(0)
            self.took(self.state.alter_answered(request, Code.REQUEST_TIMED_OUT, self.now))

    def image(self) -> None:
        if self.random.random() < 0.3:
            view = SimpleNamespace(
                replicas=[1, 2, 3],
                isr=self.isr,
                leader_epoch=5,
                partition_epoch=self.partition_epoch,
                elr=self.elr,
            )
            self.took(self.state.on_image(view, LIVE, self.now))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_committed_is_on_every_disk_of_the_isr(seed: int) -> None:
    model = Model(seed)

    for _ in range(400):
        model.step()

    assert model.committed > 0


def test_the_model_catches_a_leader_that_does_not_wait_for_whom_it_has_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def durable_in_isr(self: LeaderState) -> int:
        return min(
            [self.flushed_offset, *(self.follower_offset(i) for i in self.isr if i != self.me)]
        )

    monkeypatch.setattr(LeaderState, "_durable_everywhere", durable_in_isr)

    def all_seeds() -> None:
        for seed in range(40):
            test_what_is_committed_is_on_every_disk_of_the_isr(seed)

    with pytest.raises(AssertionError):
        all_seeds()
