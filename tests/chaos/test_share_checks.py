"""The checks of share groups: a sound history is let pass, and each anomaly is named."""

from collections.abc import Sequence
from math import inf

import pytest

from raftka.chaos.checks.shares import (
    Acknowledgement,
    Acquired,
    Fetch,
    Final,
    Kind,
    Outcome,
    Place,
    Promises,
    Session,
    Story,
    check_committed,
    check_ends,
    check_story,
)
from raftka.share.state import NO_COUNT, ShareState, StateBatch

PLACE: Place = ("jobs", 0)
PROMISES = Promises(limit=3, lock_s=10.0)
TAKEN, REFUSED, UNKNOWN = Outcome


class Scene:
    """Members, and what they do one after the other: each step takes a second."""

    def __init__(self) -> None:
        self.story = Story()
        self.now = 0.0
        self.sessions = {name: Session(name) for name in ("ann", "bob")}

    def fetch(
        self, member: str, *acquired: tuple[int, int, int], term: object = 1, answered: bool = True
    ) -> Fetch:
        asked_at, self.now = self.now, self.now + 1
        found = Fetch(self.sessions[member], PLACE, asked_at)
        if answered:
            found.answered_at, found.term = self.now, term
            found.acquired = [Acquired(*each) for each in acquired]
            found.session.alive_at = self.now
        self.story.fetches.append(found)
        return found

    def acknowledge(
        self,
        member: str,
        kind: Kind,
        first: int = 0,
        last: int | None = None,
        outcome: Outcome = TAKEN,
    ) -> None:
        found = Acknowledgement(
            self.sessions[member], PLACE, kind, first, first if last is None else last, self.now
        )
        self.now += 1
        found.outcome = outcome
        if outcome is not UNKNOWN:
            found.answered_at = found.session.alive_at = self.now
        self.story.acknowledgements.append(found)

    def check(self) -> list[str]:
        return check_story(self.story, PROMISES)

    def end(
        self,
        *batches: tuple[int, int, int, int],
        start: int = 0,
        log_end: int = 1,
        done: int = NO_COUNT,
        drained: bool = False,
        letters: frozenset[int] | None = None,
        letters_lost: int = 0,
        aborted: frozenset[int] = frozenset(),
    ) -> list[str]:
        state = ShareState(0, 0, start, done, tuple(StateBatch(*each) for each in batches))
        final = Final(state, log_end, drained, letters, letters_lost, aborted)
        return check_ends(self.story, PROMISES, {PLACE: final})


@pytest.fixture
def scene() -> Scene:
    return Scene()


def said(found: Sequence[str]) -> str:
    """The kind of the only violation."""
    (only,) = found
    return only.partition(":")[0]


def test_a_sound_history_is_let_pass(scene: Scene) -> None:
    scene.fetch("ann", (0, 4, 1))
    scene.fetch("bob", (5, 9, 1))
    scene.acknowledge("ann", Kind.ACCEPT, 0, 1)
    scene.acknowledge("ann", Kind.RELEASE, 2, 3)
    scene.acknowledge("ann", Kind.REJECT, 4)
    scene.fetch("bob", (2, 3, 2))
    scene.acknowledge("bob", Kind.RENEW, 5, 9)
    scene.acknowledge("bob", Kind.ACCEPT, 2, 3)

    assert scene.check() == []
    assert scene.end((4, 4, 4, 1), start=4, log_end=10, done=1) == []


def test_ranges_of_an_answer_come_in_the_order_of_offsets(scene: Scene) -> None:
    scene.fetch("ann", (3, 4, 1), (0, 1, 1))
    assert said(scene.check()) == "out of order"


@pytest.mark.parametrize("second", [(1, 3, 1), (5, 4, 1)], ids=["overlapping", "backwards"])
def test_ranges_of_an_answer_are_apart(scene: Scene, second: tuple[int, int, int]) -> None:
    scene.fetch("ann", (0, 1, 1), second)
    assert "out of order" in {each.partition(":")[0] for each in scene.check()}


def test_no_record_is_delivered_above_the_limit(scene: Scene) -> None:
    for count in (1, 2, 3, 4):
        scene.fetch("ann", (0, 0, count))
        scene.acknowledge("ann", Kind.RELEASE)
    assert said(scene.check()) == "delivery limit"


def test_a_record_has_no_second_member_while_it_is_locked(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.fetch("bob", (0, 0, 2))
    assert said(scene.check()) == "two locks"


def test_a_lock_may_have_ended(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.now += PROMISES.lock_s
    scene.fetch("bob", (0, 0, 2))
    assert scene.check() == []


def test_a_renewed_lock_holds_on(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.now = 8.0
    scene.acknowledge("ann", Kind.RENEW)
    scene.now = 15.0
    scene.fetch("bob", (0, 0, 2))
    assert said(scene.check()) == "two locks"


def test_a_lock_may_end_with_its_session(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.sessions["ann"].is_over = True
    scene.fetch("bob", (0, 0, 2))
    assert scene.check() == []


def test_a_new_leader_knows_no_locks(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1), term=1)
    scene.fetch("bob", (0, 0, 1), term=2)
    assert scene.check() == []


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("kind", [Kind.ACCEPT, Kind.REJECT])
def test_a_finished_record_is_not_delivered_again(
    scene: Scene, kind: Kind, outcome: Outcome
) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", kind, outcome=outcome)
    scene.fetch("bob", (0, 0, 2), term=2)
    assert scene.check() == [] if outcome is not TAKEN else said(scene.check()) == "delivered again"


def test_a_leader_that_is_none_any_more_delivers_what_it_remembers(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.ACCEPT)
    scene.fetch("bob", (0, 0, 2), term=None)
    assert scene.check() == []


def test_a_late_acknowledgement_of_a_record_that_may_be_used_up_proves_nothing(
    scene: Scene,
) -> None:
    for count in (1, 2):
        scene.fetch("ann", (0, 0, count))
        scene.acknowledge("ann", Kind.RELEASE)
    scene.fetch("ann", (0, 0, 3))
    scene.now += PROMISES.lock_s
    scene.acknowledge("ann", Kind.ACCEPT)
    scene.fetch("bob", (0, 0, 3), term=2)
    assert scene.check() == []
    assert scene.end((0, 0, 0, 2)) == []


def test_each_delivery_raises_the_count(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.RELEASE, outcome=UNKNOWN)
    scene.fetch("bob", (0, 0, 1))
    assert said(scene.check()) == "count back"


def test_a_released_count_outlives_the_leader(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.RELEASE)
    scene.fetch("bob", (0, 0, 1), term=2)
    assert said(scene.check()) == "count back"


def test_a_count_rises_by_one(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.RELEASE)
    scene.fetch("bob", (0, 0, 3))
    assert said(scene.check()) == "count skips"


def test_a_fetch_without_an_answer_may_have_raised_the_count(scene: Scene) -> None:
    scene.fetch("ann", answered=False)
    scene.fetch("bob", (0, 0, 2))
    assert scene.check() == []


def test_only_the_owner_acknowledges(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.now += PROMISES.lock_s
    scene.fetch("bob", (0, 0, 2))
    scene.acknowledge("ann", Kind.ACCEPT)
    assert said(scene.check()) == "not the owner"


def test_a_member_that_never_had_a_record_does_not_acknowledge_it(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("bob", Kind.RELEASE)
    assert said(scene.check()) == "not the owner"


def test_a_released_record_has_no_owner(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.RELEASE)
    scene.acknowledge("ann", Kind.ACCEPT)
    assert said(scene.check()) == "not the owner"


def test_a_finished_record_may_be_acknowledged_by_all(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.now += PROMISES.lock_s
    scene.fetch("bob", (0, 0, 2))
    scene.acknowledge("bob", Kind.ACCEPT, outcome=UNKNOWN)
    scene.acknowledge("ann", Kind.ACCEPT)
    assert scene.check() == []


def test_an_answered_acknowledgement_is_persisted(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.ACCEPT)
    assert said(scene.end()) == "acknowledgement lost"
    assert scene.end((0, 0, 2, 1), done=1) == scene.end(start=1) == []


def test_no_record_is_lost(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.ACCEPT, outcome=REFUSED)
    assert said(scene.end(start=1)) == "record lost"
    assert said(scene.end((0, 0, 2, 1))) == "done by nobody"
    assert said(scene.end((0, 0, 4, 1))) == "done by nobody"
    assert scene.end((0, 0, 0, 1)) == []


def test_a_record_may_be_archived_by_its_count(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 3))
    assert scene.end(start=1) == scene.end((0, 0, 4, 3)) == []
    assert said(scene.end((0, 0, 2, 3))) == "done by nobody"
    assert said(scene.end((0, 0, 0, 3))) == "delivery limit"


def test_a_released_count_is_persisted(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 2))
    scene.acknowledge("ann", Kind.RELEASE)
    assert said(scene.end((0, 0, 0, 1))) == "count back"
    assert scene.end((0, 0, 0, 2)) == []


def test_nothing_is_left_over_when_all_are_at_rest(scene: Scene) -> None:
    assert said(scene.end(drained=True)) == "left over"
    assert scene.end() == []


def test_batches_of_a_state_are_in_order_and_within_the_log(scene: Scene) -> None:
    assert "batches out of order" in scene.end((1, 1, 0, 1), (0, 0, 0, 1), log_end=2)[0]
    assert "past the end" in scene.end((0, 4, 0, 1))[0]


def test_the_count_of_finished_records_is_right(scene: Scene) -> None:
    scene.fetch("ann", (0, 2, 1))
    scene.acknowledge("ann", Kind.ACCEPT, 1, 2)
    batches = ((0, 0, 0, 1), (1, 2, 2, 1))
    assert said(scene.end(*batches, log_end=3, done=1)) == "complete count"
    assert scene.end(*batches, log_end=3, done=2) == []


def test_a_rejected_record_has_a_dead_letter(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.REJECT)

    assert scene.end((0, 0, 4, 1), letters=frozenset({0})) == []
    assert said(scene.end((0, 0, 4, 1), letters=frozenset())) == "dead letter lost"
    assert said(scene.end(start=1, letters=frozenset())) == "dead letter lost"
    assert scene.end((0, 0, 4, 1), letters=frozenset(), letters_lost=1) == []
    assert scene.end((0, 0, 4, 1), letters=None) == [], "the group has no such topic"


def test_a_gap_needs_no_dead_letter(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.GAP)
    assert scene.end((0, 0, 4, 1), letters=frozenset()) == []


@pytest.mark.parametrize("state", [2, 3], ids=["acknowledged", "below the limit"])
def test_a_dead_letter_has_a_cause(scene: Scene, state: int) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.ACCEPT if state == 2 else Kind.GAP)
    assert said(scene.end((0, 0, state, 1), letters=frozenset({0}))) == "dead letter"


def test_a_group_that_reads_what_is_committed_is_given_nothing_else(scene: Scene) -> None:
    scene.fetch("ann", (0, 1, 1))
    at = scene.now

    assert check_committed(scene.story, {PLACE: {0: at - 0.5, 1: at}}) == []
    assert said(check_committed(scene.story, {PLACE: {0: at + 0.1}})) == "not committed yet"
    assert said(check_committed(scene.story, {PLACE: {1: inf}})) == "aborted"


def test_aborted_records_are_left_out_and_nobody_writes_that_down(scene: Scene) -> None:
    scene.fetch("ann", (0, 0, 1))
    scene.acknowledge("ann", Kind.ACCEPT)
    aborted = frozenset({1, 2})

    assert scene.end((0, 0, 2, 1), log_end=3, drained=True, aborted=aborted) == []
    assert scene.end(start=3, log_end=3, aborted=aborted) == []
    assert scene.end((0, 0, 2, 1), log_end=3, done=2, aborted=aborted) == []
    assert said(scene.end((0, 0, 2, 1), log_end=3, done=4, aborted=aborted)) == "complete count"
    assert said(scene.end(start=2, log_end=2)) == "record lost"
