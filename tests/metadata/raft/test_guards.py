"""Every guard of ours is noticed when it is taken out: what it guards against happens, or something
stops.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from raftka.metadata.quorum import raft_messages
from raftka.metadata.quorum.journal import Journal, Standing
from raftka.metadata.quorum.raft import MalformedMessage, RaftConfig, RaftCore
from raftka.metadata.quorum.raft_engine import LEADER, Engine
from raftka.metadata.quorum.raft_membership import Membership
from raftka.metadata.quorum.raft_snapshots import SnapshotReceiver
from raftka.metadata.quorum.raft_types import Snapshot
from raftka.metadata.quorum.raft_voter import Voter
from tests.metadata.raft import cases, hazards, hazards_of_callers
from tests.metadata.raft.bench import Harm

CASES = {
    name: case
    for name, case in vars(cases).items()
    if isinstance(case, FunctionType)
    and case.__module__ == cases.__name__
    and not case.__code__.co_argcount
}


@pytest.mark.parametrize("name", CASES)
def test_the_guard_prevents_the_violation(name: str) -> None:
    CASES[name]()


def hazard(name: str) -> Callable[[], None]:
    return lambda: hazards.play_ours(name)


def counts_every_ack(self: Voter, node: Any, message: Any) -> bool:
    self._echoed[node.id] = max(self._echoed.get(node.id, 0), message["seq"])
    return True


def follow_and_commit(self: Voter, node: Any, message: Any) -> None:
    self.stock_receive(
        node, {"type": "append_entries", "term": message["term"], "commit_index": 99}
    )


def add_without_checking(self: SnapshotReceiver, message: Any) -> Snapshot | None:
    return Snapshot(message["index"], message["of_term"], message["data"])


def answers_forgotten(self: RaftCore) -> None:
    answers, self._voter.answers = self._voter.answers, []
    for done, index in answers:
        done(index)


def pieces_without_end(self: Engine, node: Any, message: Any) -> None:
    if len(self.outbox) > 100:
        raise Harm("a flood")
    self.outbox.append((node.id, message | {"type": "heartbeat", "seq": 1, "promote": []}))


def small_batches_conf(self: Engine, config: RaftConfig) -> Any:
    conf = ORIGINAL_CONF(self, config)
    conf.appendEntriesBatchSizeBytes = config.batch_bytes
    return conf


def release_without_flush(self: RaftCore, now: float) -> None:
    ORIGINAL_STEP(self, now)
    self._release()


def count_what_is_not_flushed(self: RaftCore) -> None:
    ORIGINAL_EARLY(self)
    self._owes_flush, self.journal.flushed_index = False, 1 << 40


def promise_without_vote(self: Voter, node: Any, message: Any) -> None:
    if message["promote"] and not self.membership.votes and self._verified >= message["promote"][1]:
        self.membership.promoted()


def settle_at_once(self: Membership) -> None:
    if self._journal.standing == Standing.EMPTY:
        self._become(Standing.VOTER)


ORIGINAL_CONF, ORIGINAL_STEP = Engine._conf_for, RaftCore.step
ORIGINAL_EARLY = RaftCore._release_early


def every_answer_is_a_round(self: Engine, node: Any, index: int, sent_up_to: int) -> None:
    self.more_to_send(node)


MUTANTS: dict[str, tuple[Any, str, Any, Callable[[], None]]] = {
    # without it: where it is, what is in its place, what notices
    "term in acknowledgements": (
        Voter,
        "_of_this_term",
        lambda self, node, message: self.state == LEADER,
        hazard("H1"),
    ),
    "equal entries are skipped": (
        Voter,
        "_unless_equal",
        lambda self, message: dict(message),
        hazard("H2"),
    ),
    "stale answers do not send again": (
        Engine,
        "is_stale",
        lambda self, node, sequence: False,
        cases.answers_make_floods,
    ),
    "answers cause no rounds": (
        Engine,
        "acknowledged",
        every_answer_is_a_round,
        cases.rounds_without_end,
    ),
    "no commit by snapshot": (Voter, "_follow", follow_and_commit, hazard("H3")),
    "commit up to the verified index": (
        Voter,
        "_cap_commit",
        lambda self, index: index,
        cases.divergent_tail_committed,
    ),
    "no older snapshot": (Voter, "_has_already", lambda self, index: False, hazard("H4")),
    "checksum of a snapshot": (SnapshotReceiver, "add", add_without_checking, hazard("H5")),
    "each entry once": (
        RaftCore,
        "take_committed",
        lambda self: self.observe(1),
        hazards_of_callers.failing_command_ours,
    ),
    "every reader is answered": (
        RaftCore,
        "_give_answers",
        answers_forgotten,
        hazards_of_callers.failing_callback_ours,
    ),
    "kinds of entries": (
        raft_messages,
        "_check_entries",
        lambda message: None,
        hazards_of_callers.newer_code_version_ours,
    ),
    "reads are confirmed": (Voter, "confirmed", lambda self, sequence: True, hazard("H9")),
    "ask before standing": (
        Engine,
        "_SyncObj__connectedToAnyone",
        lambda self: True,
        hazard("H10"),
    ),
    "leader stickiness": (Engine, "follows_live_leader", lambda self: False, hazard("H10")),
    "back to what is known": (
        Voter,
        "_restart_at",
        lambda self: self.journal.last.index + 1,
        hazard("H11"),
    ),
    "voters are counted": (
        Engine,
        "on_response_vote",
        lambda self, node, message: self.stock_receive(node, message),
        hazard("H12"),
    ),
    "one piece a round": (Engine, "ship", pieces_without_end, hazards_of_callers.flood_ours),
    "no pickled pieces": (Engine, "_conf_for", small_batches_conf, hazard("H14")),
    "readers of a deposed leader": (
        Voter,
        "lost_leadership",
        lambda self: None,
        hazards_of_callers.waiting_caller_ours,
    ),
    "votes are written": (
        Journal,
        "set_vote",
        lambda self, term, vote: self.__dict__.update(term=term, vote=vote),
        cases.vote_forgotten,
    ),
    "nothing before the flush": (
        RaftCore,
        "step",
        release_without_flush,
        cases.shown_before_flushed,
    ),
    "one's own disk before others' acknowledgements": (
        RaftCore,
        "_release_early",
        count_what_is_not_flushed,
        cases.counted_before_flushed,
    ),
    "what is committed stays": (
        Engine,
        "forbid",
        lambda self, what: None,
        cases.committed_entry_replaced,
    ),
    "one leader in a term": (
        Engine,
        "forbid",
        lambda self, what: None,
        cases.two_leaders_of_a_term,
    ),
    "window": (Engine, "_window_full", lambda self, node: False, cases.paused_voter_fills_memory),
    "transfer overrides stickiness": (
        Engine,
        "on_request_vote",
        lambda self, node, message: None,
        cases.transfer_refused,
    ),
    "without memory no vote": (
        Membership,
        "votes",
        property(lambda self: True),
        cases.lost_disk_votes,
    ),
    "a lost disk is not new": (
        Membership,
        "_meets_member",
        lambda self: False,
        cases.lost_disk_takes_itself_for_new,
    ),
    "joining is no acknowledgement": (
        Voter,
        "_counts",
        counts_every_ack,
        cases.lost_disk_acknowledges,
    ),
    "promotion is confirmed": (
        Voter,
        "confirmed",
        lambda self, sequence: True,
        cases.lost_disk_believes_a_deposed_leader,
    ),
    "promotion votes for the leader": (
        Voter,
        "_take_promise",
        promise_without_vote,
        cases.promoted_votes_again,
    ),
    "formation needs everyone": (
        Membership,
        "_settle",
        settle_at_once,
        cases.formed_without_everyone,
    ),
    "formation is noted by all": (
        Membership,
        "may_stand",
        property(lambda self: self.votes),
        cases.stands_before_everyone_noted,
    ),
    "other clusters": (
        Membership,
        "check",
        lambda self, sender, hello: None,
        cases.two_clusters_meet,
    ),
    "introduction": (Membership, "introduced", lambda self, peer: True, cases.strangers_are_heard),
}


@pytest.mark.parametrize("guard", MUTANTS)
def test_a_guard_taken_out_is_noticed(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, replacement, notices = MUTANTS[guard]
    notices()

    monkeypatch.setattr(where, name, replacement)

    with pytest.raises((AssertionError, MalformedMessage)):
        notices()
