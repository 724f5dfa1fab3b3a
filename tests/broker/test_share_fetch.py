"""ShareFetch and ShareAcknowledge on the leader of a partition, in the simulation."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.network.access.authorizer import GROUP, TOPIC, AllowAll, Resource
from raftka.broker.network.session import Session
from raftka.broker.share.share_fetch import ShareFetch
from raftka.limits import (
    PARKED_SHARE_FETCHES,
    SHARE_PARTITIONS,
    SHARE_SESSION_PARTITIONS,
    SHARE_SESSIONS,
)
from raftka.wire.errors import Code
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from tests.broker.conftest import Lower
from tests.broker.stage import Stage
from tests.kit.broker.share import (
    ShareMember,
    acknowledgement,
    configure,
    fill,
    found,
    initialise,
    persisted,
    set_up,
    shares,
)
from tests.kit.broker.transactions import Client, settled

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Place = tuple[bytes, int]
SHORT: dict[str, Any] = {"group_share_min_record_lock_duration_ms": "1000"}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with shares(), Stage(**SHORT) as stage:
        yield stage
        assert not stage.world.failures


@pytest.fixture
def place(stage: Stage) -> Place:
    """Partition 0 of a topic with four batches of five records, for group g from its beginning."""
    topic_id = stage.create("t", partitions=2)
    configure(stage, "g", share_auto_offset_reset="earliest")
    fill(stage, "t", 5, 5, 5, 5)
    initialise(stage, "g", (topic_id, 0), (topic_id, 1))
    return topic_id, 0


def test_records_are_acquired_and_accepted(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    (first,) = member.fetch(place).values()
    assert first.acquired == [(0, 19, 1)]
    assert first.batches == [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert member.done(place, 0, 9) is Code.NONE
    assert persisted(stage, "g", place).batches == ((0, 9, 2, 1),)
    assert member.done(place, 10, 19) is Code.NONE
    state = persisted(stage, "g", place)
    assert (state.start, state.batches) == (10, ((10, 19, 2, 1),))


# starting


def test_latest_begins_at_the_end_and_persists_nothing(stage: Stage, place: Place) -> None:
    initialise(stage, "late", place)
    member = ShareMember(stage, "late")
    assert member.acquire(place) == []
    fill(stage, "t", 2)
    assert member.acquire(place) == [(20, 21, 1)]
    assert persisted(stage, "late", place).start == -1


def test_by_duration_begins_with_records_that_are_young_enough(stage: Stage, place: Place) -> None:
    for group, age in (("young", "PT0.05S"), ("all", "P36500D")):
        configure(stage, group, share_auto_offset_reset=f"by_duration:{age}")
        initialise(stage, group, place)
    (none,) = ShareMember(stage, "young").fetch(place).values()
    assert none.code is Code.OFFSET_NOT_AVAILABLE
    assert ShareMember(stage, "all").acquire(place) == [(0, 19, 1)]


def test_a_share_partition_that_is_not_initialised_is_refused_after_the_wait(
    stage: Stage, place: Place
) -> None:
    began = stage.world.now
    (none,) = ShareMember(stage, "unknown").fetch(place, max_wait_ms=700).values()
    assert none.code is Code.UNKNOWN_SERVER_ERROR
    assert stage.world.now - began >= 0.7
    initialise(stage, "unknown", place, start=10)
    assert ShareMember(stage, "unknown", "B").acquire(place) == [(10, 19, 1)]


def test_records_deleted_from_the_log_are_passed_over(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    assert member.acquire(place, max_records=5) == [(0, 4, 1)]
    stage.partition("t").delete_before(7)
    assert member.done(place, 0, 4) is Code.NONE
    assert member.acquire(place) == [(7, 19, 1)]
    assert member.done(place, 2, 9) is Code.NONE
    assert persisted(stage, "g", place).start == 7


# limits of a fetch


@pytest.mark.parametrize("batch_size", [500, 5, 7, 1, 0])
def test_record_limit_and_batch_size(stage: Stage, place: Place, batch_size: int) -> None:
    member = ShareMember(stage, "g")
    given = {"share_acquire_mode": 1, "batch_size": batch_size}
    assert member.acquire(place, max_records=3, **given) == [(0, 2, 1)]
    (more,) = member.fetch(max_records=4, **given).values()
    assert more.acquired == [(3, 4, 1), (5, 6, 1)]
    assert more.batches == [(0, 4), (5, 9)]


def test_whole_batches_exceed_max_records(stage: Stage, place: Place) -> None:
    assert ShareMember(stage, "g").acquire(place, max_records=3) == [(0, 4, 1)]
    (more,) = ShareMember(stage, "g", "B").fetch(place, max_records=7).values()
    assert more.acquired == [(5, 14, 1)]
    assert more.batches == [(5, 9), (10, 14)]


def test_max_bytes_has_one_batch_at_least(stage: Stage, place: Place) -> None:
    assert ShareMember(stage, "g").acquire(place, max_bytes=1) == [(0, 4, 1)]


@pytest.mark.parametrize("given", [{"max_records": 0}, {"max_bytes": 0}, {"max_wait_ms": -1}])
def test_a_fetch_of_nothing_is_answered_at_once(
    stage: Stage, place: Place, given: dict[str, int]
) -> None:
    assert ShareMember(stage, "g").fetch(place, **given) == {}


def test_negative_limits(stage: Stage, place: Place) -> None:
    (row,) = ShareMember(stage, "g").fetch(place, max_records=-1).values()
    assert (row.code, row.acquired) == (Code.NONE, [])
    (row,) = ShareMember(stage, "g", "B").fetch(place, max_bytes=-1).values()
    assert row.code is Code.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("mode", [2, -1])
def test_unknown_acquire_modes_are_refused(stage: Stage, place: Place, mode: int) -> None:
    member = ShareMember(stage, "g")
    member.ask(place, share_acquire_mode=mode)
    assert member.answer().error_code == Code.UNKNOWN_SERVER_ERROR
    assert not stage.nodes[1].share_sessions.by_key


def test_min_bytes_waits_then_gives_what_there_is(stage: Stage, place: Place) -> None:
    began = stage.world.now
    assert ShareMember(stage, "g").acquire(place, min_bytes=100_000) == [(0, 19, 1)]
    assert stage.world.now - began >= 0.5


# waiting


def parked(stage: Stage, *members: ShareMember) -> None:
    """Let fetches wait for records."""
    for member in members:
        member.ask(max_wait_ms=30_000)
    metrics = stage.nodes[1].metrics
    stage.wait(lambda: metrics.parked_share_fetches == len(members))


def test_new_records_wake_a_parked_fetch(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    parked(stage, member)
    fill(stage, "t", 1)
    assert found(member.answer())[place].acquired == [(20, 20, 1)]
    assert stage.nodes[1].metrics.parked_share_fetches == 0


def test_released_records_wake_a_parked_fetch(stage: Stage, place: Place) -> None:
    first, second = ShareMember(stage, "g"), ShareMember(stage, "g", "B")
    first.acquire(place)
    second.acquire(place)
    parked(stage, second)
    assert first.done(place, 0, 2, RELEASE) is Code.NONE
    assert found(second.answer())[place].acquired == [(0, 2, 2)]


def test_parked_fetches_look_while_there_is_something_for_the_next_one(
    stage: Stage, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [ShareMember(stage, "g", each) for each in "ABC"]
    members[0].acquire(place)
    for member in members[1:]:
        member.acquire(place, max_wait_ms=1)
    looks: list[ShareFetch] = []
    look = ShareFetch.records_arrived

    def counted(fetch: ShareFetch) -> None:
        looks.append(fetch)
        look(fetch)

    parked(stage, *members)
    monkeypatch.setattr(ShareFetch, "records_arrived", counted)
    metrics = stage.nodes[1].metrics
    fill(stage, "t", 1)
    stage.wait(lambda: metrics.parked_share_fetches == 2)
    assert len(looks) == 1
    fill(stage, "t", 1)
    stage.wait(lambda: metrics.parked_share_fetches == 1)
    assert len(looks) == 2


def test_a_parked_fetch_that_did_not_look_hears_of_the_next_change(stage: Stage) -> None:
    """Records come while none may be acquired; then the log begins behind all that is held."""
    place = set_up(stage)
    configure(stage, "g", share_partition_max_record_locks="100")
    first, second = ShareMember(stage, "g"), ShareMember(stage, "g", "B")
    fill(stage, "t", *[10] * 9)
    assert first.acquire(place) == [(0, 99, 1)]
    second.acquire(place, max_wait_ms=1)
    parked(stage, second)
    fill(stage, "t", 1)
    assert stage.nodes[1].metrics.parked_share_fetches == 1
    began = stage.world.now
    stage.partition("t").delete_before(100)
    assert found(second.answer())[place].acquired == [(100, 100, 1)]
    assert stage.world.now - began < 1


def test_expired_locks_wake_a_parked_fetch(stage: Stage, place: Place) -> None:
    configure(stage, "g", share_record_lock_duration_ms="1500")
    first, second = ShareMember(stage, "g"), ShareMember(stage, "g", "B")
    first.ask(place)
    answer = first.answer()
    assert answer.acquisition_lock_timeout_ms == 1500
    first.epoch += 1
    second.acquire(place, max_wait_ms=1)
    began = stage.world.now
    parked(stage, second)
    assert found(second.answer())[place].acquired == [(0, 19, 2)]
    assert 1.0 < stage.world.now - began < 2.0
    assert first.done(place, 0, 19) is Code.INVALID_RECORD_STATE
    assert persisted(stage, "g", place).batches == ((0, 19, 0, 1),)


def test_a_request_behind_a_parked_fetch_ends_its_wait(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    parked(stage, member)
    member.epoch += 1
    member.wire.request(SHARE_ACKNOWLEDGE, acknowledgement(member, place, 0, 0, ACCEPT))
    answer = member.answer()
    assert (answer.error_code, found(answer)) == (0, {})


def test_a_session_that_goes_on_elsewhere_ends_a_parked_fetch(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    parked(stage, member)
    elsewhere = ShareMember(stage, "g")
    elsewhere.epoch = member.epoch + 1
    assert elsewhere.done(place, 10, 11, RELEASE) is Code.NONE
    assert member.answer().error_code == Code.INVALID_SHARE_SESSION_EPOCH


def test_a_client_that_goes_away_acquires_nothing(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    parked(stage, member)
    member.close()
    stage.wait(lambda: not stage.nodes[1].share_sessions.by_key)
    assert stage.nodes[1].metrics.parked_share_fetches == 0
    assert ShareMember(stage, "g", "B").acquire(place) == [(0, 19, 2)]


# acknowledging


def test_acknowledgements_in_a_fetch_are_written_first(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    (row,) = member.fetch(acks={place: [(0, 4, [RELEASE])]}).values()
    assert (row.acknowledged, row.acquired) == (Code.NONE, [(0, 4, 2)])
    (row,) = member.fetch(acks={place: [(38, 37, [ACCEPT])]}).values()
    assert (row.code, row.acknowledged) == (Code.NONE, Code.INVALID_REQUEST)


def test_renewing_needs_its_flag_and_a_request_of_nothing_else(stage: Stage, place: Place) -> None:
    configure(stage, "g", share_record_lock_duration_ms="2000")
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done(place, 0, 2, RENEW) is Code.INVALID_REQUEST
    stage.world.run(stage.world.now + 1.5)
    assert member.done(place, 0, 2, RENEW, renews=True) is Code.NONE
    stage.world.run(stage.world.now + 1.0)
    assert member.done(place, 0, 2) is Code.NONE
    assert member.done(place, 3, 3) is Code.INVALID_RECORD_STATE
    member.ask(acks={place: [(4, 4, [RENEW])]}, is_renew_ack=True)
    assert member.answer().error_code == Code.INVALID_REQUEST
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    (row,) = member.fetch(acks={place: [(4, 4, [RENEW])]}, is_renew_ack=True, **nothing).values()
    assert row.acknowledged is Code.INVALID_RECORD_STATE


def test_unknown_partitions_and_partitions_without_state(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    assert member.done((place[0], 9), 0, 0) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert member.done((bytes(16), 0), 0, 0) is Code.UNKNOWN_TOPIC_ID
    assert member.done((place[0], 1), 0, 0) is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert member.acknowledge({}).responses == []
    assert member.acknowledge({place: []}).responses == []


def test_a_state_that_was_initialised_anew_fences_the_leader(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    initialise(stage, "g", place, start=3, epoch=6)
    answer = member.acknowledge({place: [(13, 13, [ACCEPT])]})
    (row,) = answer.responses[0].partitions
    assert row.error_code == Code.NOT_LEADER_OR_FOLLOWER
    assert row.error_message == (
        "Error in write state RPC. The coordinator rejected the request because the state epoch "
        "did not match."
    )
    assert (row.current_leader.leader_id, answer.node_endpoints[0].node_id) == (1, 1)
    assert member.acquire(place) == [(3, 19, 1)]


# sessions


def test_epochs_of_a_session(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")

    def refused(epoch: int, **given: Any) -> Code:
        member.epoch = epoch
        member.ask(**given)
        return Code(member.answer().error_code)

    assert member.acknowledge({}, epoch=0).error_code == Code.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge({}, epoch=1).error_code == Code.SHARE_SESSION_NOT_FOUND
    for epoch in (1, -1, -2):
        assert refused(epoch) is Code.SHARE_SESSION_NOT_FOUND
    assert refused(0, acks={place: [(0, 0, [ACCEPT])]}) is Code.INVALID_REQUEST
    member.epoch = 0
    assert member.fetch() == {}
    assert refused(3) is Code.INVALID_SHARE_SESSION_EPOCH
    member.epoch = 1
    assert member.fetch(place)[place].acquired == [(0, 19, 1)]
    assert refused(1) is Code.INVALID_SHARE_SESSION_EPOCH
    member.epoch = 2
    assert member.fetch() == {}


@pytest.mark.parametrize(
    ("group", "member"), [(None, "m"), ("g", None), ("g", ""), ("g", "x" * 37)]
)
def test_ids_that_no_member_can_have(stage: Stage, group: Any, member: Any) -> None:
    asks = ShareMember(stage, group, member)
    asks.ask()
    assert asks.answer().error_code == Code.INVALID_REQUEST


def test_closing_a_session_releases_what_its_member_holds(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    member.epoch = -1
    member.ask(acks={place: [(0, 4, [ACCEPT])]})
    answer = member.answer()
    assert (answer.error_code, found(answer)[place].acknowledged) == (0, Code.NONE)
    assert persisted(stage, "g", place).batches == ((0, 4, 2, 1), (5, 19, 0, 1))
    member.ask()
    assert member.answer().error_code == Code.SHARE_SESSION_NOT_FOUND
    assert ShareMember(stage, "g", "B").acquire(place) == [(5, 19, 2)]


def test_a_closed_connection_ends_its_last_session_and_no_other_that_is_used(
    stage: Stage, place: Place
) -> None:
    first, second = ShareMember(stage, "g"), ShareMember(stage, "g", "B")
    first.acquire(place, max_records=5)
    shared, first.wire = first.wire, stage.wire()
    assert first.fetch(max_wait_ms=1, max_records=0) == {}
    second.wire = shared
    second.acquire(place, max_records=5)
    second.close()
    stage.wait(lambda: len(stage.nodes[1].share_sessions.by_key) == 1)
    assert first.done(place, 0, 4) is Code.NONE
    assert ShareMember(stage, "g", "C").acquire(place, max_records=5) == [(5, 9, 2)]


def test_a_client_leaves_no_sessions_behind(stage: Stage) -> None:
    members = [ShareMember(stage, "g", f"m{number}") for number in range(3)]
    for member in members:
        member.wire = members[0].wire
        member.fetch()
    members[0].close()
    sessions = stage.nodes[1].share_sessions
    stage.wait(lambda: not sessions.by_key)
    assert not sessions._by_connection


def test_opening_anew_keeps_locks_and_forgets_partitions(stage: Stage, place: Place) -> None:
    member, other = ShareMember(stage, "g"), (place[0], 1)
    fill(stage, "t", 3, partition=1)
    member.acquire(place)
    member.epoch = 0
    assert member.fetch(other)[other].acquired == [(0, 2, 1)]
    assert member.fetch(place, forget=[other]) == {}
    fill(stage, "t", 1, partition=1)
    fill(stage, "t", 1)
    assert member.fetch() == {place: ([(20, 20, 1)], [(20, 20)], Code.NONE, Code.NONE)}
    assert member.done(place, 0, 19) is Code.NONE
    assert member.done(other, 0, 2) is Code.NONE


def test_more_sessions_than_allowed_are_refused_after_the_wait() -> None:
    with shares(), Stage(group_share_max_size="2", group_share_max_share_sessions="2") as stage:
        for member in ("a", "b"):
            assert ShareMember(stage, "g", member).fetch() == {}
        began = stage.world.now
        third = ShareMember(stage, "g", "c")
        third.ask(max_wait_ms=1200)
        assert third.answer().error_code == Code.SHARE_SESSION_LIMIT_REACHED
        assert stage.world.now - began >= 1.2
        assert ShareMember(stage, "g", "a").fetch() == {}


# topics, leaders, the level


def test_a_deleted_topic(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    member.acquire(place)
    stage.delete("t")
    assert member.done(place, 0, 0) is Code.UNKNOWN_TOPIC_ID
    (row,) = member.fetch().values()
    assert row.code is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.nodes[1].share_leader.count == 0
    (row,) = ShareMember(stage, "g", "B").fetch(place).values()
    assert row.code is Code.UNKNOWN_TOPIC_ID


def test_a_lower_level_of_the_feature_refuses_all() -> None:
    with shares(0), Stage() as stage:
        member = ShareMember(stage, "g")
        member.ask()
        assert member.answer().error_code == Code.UNSUPPORTED_VERSION
        assert member.acknowledge({}, epoch=1).error_code == Code.UNSUPPORTED_VERSION


# transactions


def test_read_committed_gives_no_aborted_and_no_open_records(stage: Stage) -> None:
    """0 committed, 1 marker, 2 aborted, 3 marker, 4 plain, 5 open, 6 its marker."""
    topic_id = stage.create("tx")
    configure(
        stage, "c", share_auto_offset_reset="earliest", share_isolation_level="read_committed"
    )
    configure(stage, "u", share_auto_offset_reset="earliest")
    place = topic_id, 0
    for group in ("c", "u"):
        initialise(stage, group, place)
    producer = Client(stage)
    producer.init()
    for is_committed in (True, False):
        assert producer.add(("tx", 0)) == [0]
        assert producer.produce("tx") == 0
        assert producer.end(commit=is_committed) == 0
        settled(producer, "CompleteCommit" if is_committed else "CompleteAbort")
    fill(stage, "tx", 1)
    assert producer.add(("tx", 0)) == [0]
    assert producer.produce("tx") == 0
    assert ShareMember(stage, "u").acquire(place) == [(0, 5, 1)]

    member = ShareMember(stage, "c")
    (row,) = member.fetch(place).values()
    assert row.acquired == [(0, 1, 1), (3, 4, 1)]
    assert row.batches == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert member.done(place, 2, 2) is Code.INVALID_RECORD_STATE
    assert member.done(place, 0, 1) is Code.NONE
    assert persisted(stage, "c", place).batches == ((0, 1, 2, 1),)
    parked(stage, member)
    assert producer.end(commit=True) == 0
    answer = member.answer()
    assert found(answer)[place].acquired[0][0] == 5


# rights


class DenyResource(AllowAll):
    """Denies one resource."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return resource != self.resource


def test_rights_to_the_group_and_the_topic(stage: Stage, place: Place) -> None:
    member = ShareMember(stage, "g")
    stage.nodes[1].dispatcher.authorizer = DenyResource((TOPIC, "t"))
    (row,) = member.fetch(place).values()
    assert row.code is Code.TOPIC_AUTHORIZATION_FAILED
    assert member.done(place, 0, 0) is Code.TOPIC_AUTHORIZATION_FAILED
    stage.nodes[1].dispatcher.authorizer = DenyResource((GROUP, "g"))
    member.ask()
    assert member.answer().error_code == Code.GROUP_AUTHORIZATION_FAILED
    assert member.acknowledge({}).error_code == Code.GROUP_AUTHORIZATION_FAILED


# limits


def test_share_sessions(stage: Stage, lowered: Lower) -> None:
    lowered(SHARE_SESSIONS, 1)
    ShareMember(stage, "g", "a").fetch()
    refused = ShareMember(stage, "g", "b")
    refused.ask()
    assert refused.answer().error_code == Code.SHARE_SESSION_LIMIT_REACHED
    assert stage.counted(SHARE_SESSIONS.metric) == 1


def test_share_session_partitions(stage: Stage, place: Place, lowered: Lower) -> None:
    lowered(SHARE_SESSION_PARTITIONS, 2)
    kept = ShareMember(stage, "g", "a")
    kept.fetch(place)
    many = ShareMember(stage, "g", "b")
    many.ask(place, (place[0], 1))
    assert many.answer().error_code == Code.SHARE_SESSION_LIMIT_REACHED
    assert stage.counted(SHARE_SESSION_PARTITIONS.metric) == 1
    assert kept.fetch() == {}
    assert stage.nodes[1].share_sessions.partitions == 1


def test_share_partitions(stage: Stage, place: Place, lowered: Lower) -> None:
    lowered(SHARE_PARTITIONS, 1)
    assert ShareMember(stage, "g", "a").acquire(place) == [(0, 19, 1)]
    other = place[0], 1
    (row,) = ShareMember(stage, "g", "b").fetch(other).values()
    assert row.code is Code.UNKNOWN_SERVER_ERROR
    assert stage.counted(SHARE_PARTITIONS.metric) >= 1


def test_parked_share_fetches(stage: Stage, place: Place, lowered: Lower) -> None:
    first, second = ShareMember(stage, "g"), ShareMember(stage, "g", "B")
    first.acquire(place)
    second.acquire(place)
    lowered(PARKED_SHARE_FETCHES, 1)
    parked(stage, first)
    began = stage.world.now
    assert second.fetch(max_wait_ms=5000) == {}
    assert stage.world.now - began < 1.0
    assert stage.counted(PARKED_SHARE_FETCHES.metric) == 1
