"""No false alarm over histories of a broker that is right, and each anomaly found where it is
planted.
"""

import re
from pathlib import Path
from random import Random

import pytest

import raftka.chaos
from raftka.chaos.checker import check
from raftka.chaos.checks import progress
from raftka.chaos.checks.cycles import circles
from raftka.chaos.checks.metadata import LeaderSeen, PartitionSeen
from raftka.chaos.checks.versions import versions_of
from raftka.chaos.history import (
    ASSIGN,
    COMMIT,
    FAIL,
    FETCH_OFFSET,
    INFO,
    OK,
    POLL,
    PRODUCE,
    SUBSCRIBE,
    TRANSACTION,
    History,
    Told,
)
from raftka.chaos.verdict import KEPT_OF_A_KIND, Findings, Outcome, Rules
from tests.chaos.plants import PLANTS, WITHOUT_TRANSACTIONS, Plant, Unfit, wide_gap
from tests.kit.toy_kafka import Toy

EXACT = Rules(repeated_markers=0)  # the toy writes a transaction's end once


@pytest.mark.parametrize("decade", range(20))
def test_a_correct_history_raises_no_alarm(decade: int) -> None:
    for seed in range(10 * decade, 10 * decade + 10):
        toy = Toy(seed, transactions=seed % 3 > 0, retention=seed % 4 == 3)

        verdict = check(toy.run(500), EXACT, toy.seen)

        assert (verdict.outcome, seed, list(verdict.anomalies)) == (Outcome.VALID, seed, [])


@pytest.mark.parametrize("kind", PLANTS)
def test_planted_anomalies_are_found(kind: str) -> None:
    found = sum(
        _planted(PLANTS[kind], seed, kind, Rules(), kind not in WITHOUT_TRANSACTIONS)
        for seed in range(8)
    )

    assert found >= 4  # the others had no place for it


def test_a_hole_larger_than_transactions_leave_is_found() -> None:
    assert sum(_planted(wide_gap, seed, "offset-gap", EXACT, True) for seed in range(8)) >= 4


def _planted(plant: Plant, seed: int, kind: str, rules: Rules, transactions: bool) -> bool:
    history = Toy(seed, transactions=transactions).run(600)
    try:
        plant(history, Random(seed))
    except Unfit:
        return False
    verdict = check(history, rules)
    assert verdict.outcome is Outcome.VIOLATED
    assert kind in verdict.kinds, (seed, str(verdict))
    assert all(anomaly.operations for anomaly in verdict.anomalies)
    return True


BEFORE = PartitionSeen(5, "n1", "t-0", 1, 3, 7, (1, 2, 3), (1, 2))
METADATA = {
    "metadata-diverged": BEFORE._replace(observer="n2", isr=(1, 2, 3)),
    "metadata-back": BEFORE._replace(offset=4),
    "bad-replicas": BEFORE._replace(offset=6, partition_epoch=8, replicas=(1, 2, 2)),
    "bad-isr": BEFORE._replace(offset=6, partition_epoch=8, isr=(1, 4)),
    "leader-outside-isr": BEFORE._replace(offset=6, partition_epoch=8, isr=(2,)),
    "bad-elr": BEFORE._replace(offset=6, partition_epoch=8, elr=(2, 3)),
    "leader-offline": BEFORE._replace(offset=6, partition_epoch=8, offline=(1,)),
    "leader-epoch-back": BEFORE._replace(offset=6, partition_epoch=8, leader_epoch=2),
    "partition-epoch-back": BEFORE._replace(offset=6, partition_epoch=6),
    "partition-epoch-reused": BEFORE._replace(offset=6, isr=(1,)),
    "two-leaders-of-an-epoch": BEFORE._replace(offset=6, partition_epoch=8, leader=2),
    "unclean-election": BEFORE._replace(
        offset=6, partition_epoch=8, leader_epoch=4, leader=3, isr=(3,)
    ),
}


@pytest.mark.parametrize("kind", METADATA)
def test_metadata_that_cannot_be_is_found(kind: str) -> None:
    findings = check(History(), seen=[BEFORE, METADATA[kind]])

    assert findings.kinds == {kind}


def test_an_eligible_replica_may_lead() -> None:
    eligible = BEFORE._replace(offset=6, partition_epoch=8, isr=(1,), elr=(2,))
    leaderless = eligible._replace(
        offset=7, partition_epoch=9, leader_epoch=4, leader=-1, isr=(), elr=(1, 2)
    )
    led = leaderless._replace(offset=8, partition_epoch=10, leader_epoch=5, leader=2, isr=(2,))

    assert not check(History(), seen=[BEFORE, eligible, leaderless, led._replace(elr=(1,))]).counts


def test_two_leaders_of_a_term() -> None:
    verdict = check(
        History(), seen=[LeaderSeen(3, "n1", 1), LeaderSeen(4, "n1", 2), LeaderSeen(3, "n2", 2)]
    )

    assert [str(anomaly) for anomaly in verdict.anomalies] == [
        "two-leaders-of-a-term: term 3: n1 says that 1 leads, n2 that 2 does"
    ]


def test_an_unclean_election_that_is_allowed() -> None:
    assert not check(
        History(), Rules(unclean_elections=True), [BEFORE, METADATA["unclean-election"]]
    ).counts


def test_every_kind_that_the_source_names_is_planted() -> None:
    sources = [path.read_text() for path in Path(raftka.chaos.__path__[0]).rglob("*.py")]
    named = {
        kind for source in sources for kind in re.findall(r'findings\.wrong\("([\w-]+)"', source)
    }

    assert named <= PLANTS.keys() | METADATA.keys() | {"two-leaders-of-a-term"}


class Story:
    """A short history: each operation ends before the next begins."""

    def __init__(self) -> None:
        self.history = History()

    def tell(self, process: int, verb: str, outcome: str = OK, **body: object) -> "Story":
        now = float(len(self.history.events))
        self.history.invoke(process, verb, now, **body)
        self.history.end(process, outcome, now + 1)
        return self


WRITTEN = [("a", value, offset) for offset, value in enumerate("xyz")]
READ_ALL = {"a": [(0, "x"), (1, "y"), (2, "z")]}


def test_too_little_traffic_shows_nothing() -> None:
    story = Story().tell(1, PRODUCE, sends=WRITTEN).tell(2, POLL, polled=READ_ALL)

    assert check(story.history).outcome is Outcome.VALID
    assert (
        check(story.history, Rules(least_acknowledged=4)).reason
        == "3 records were acknowledged, it takes 4"
    )
    assert check(story.history, Rules(least_polled=4)).outcome is Outcome.INCONCLUSIVE
    assert check(History()).outcome is Outcome.INCONCLUSIVE


def test_a_subscribed_reader_may_skip_and_an_assigned_one_may_not() -> None:
    for verb, outcome in ((SUBSCRIBE, Outcome.VALID), (ASSIGN, Outcome.VIOLATED)):
        story = (
            Story()
            .tell(1, PRODUCE, sends=WRITTEN)
            .tell(3, POLL, polled=READ_ALL)
            .tell(2, verb, keys=["a"])
        )
        story.tell(2, POLL, polled={"a": [(0, "x")]}).tell(2, POLL, polled={"a": [(2, "z")]})

        verdict = check(story.history)

        assert verdict.outcome is outcome
        assert verdict.notes["poll-skip"] + verdict.counts["poll-skip"] == 1


def test_a_readers_position_is_unknown_after_a_time_out() -> None:
    for outcome, verdict in ((INFO, Outcome.VALID), (FAIL, Outcome.VIOLATED)):
        story = (
            Story()
            .tell(1, PRODUCE, sends=WRITTEN)
            .tell(2, POLL, polled=READ_ALL)
            .tell(3, POLL, polled={"a": [(0, "x")]})
        )
        story.tell(3, POLL, outcome).tell(3, TRANSACTION, outcome, polled={"a": [(1, "y")]}).tell(
            3, POLL, polled={"a": [(2, "z")]}
        )

        assert check(story.history).outcome is verdict


def test_a_reader_may_continue_anywhere_after_a_rebalance() -> None:
    story = Story().tell(1, PRODUCE, sends=WRITTEN).tell(2, POLL, polled=READ_ALL)
    story.tell(3, POLL, polled={"a": [(2, "z"), (0, "x")]}, rebalanced=["a"]).tell(
        3, POLL, polled={"a": [(2, "z")]}
    )

    verdict = check(story.history)

    assert (verdict.outcome, verdict.notes) == (Outcome.VALID, {})


def test_deleted_records_are_no_gap() -> None:
    for log_start, outcome in ((5, Outcome.VALID), (4, Outcome.VIOLATED)):
        story = Story().tell(1, PRODUCE, sends=[("a", "x", 0), ("a", "y", 5)])
        story.tell(
            2, POLL, polled={"a": [(0, "x"), (5, "y")]}, told={"a": Told(1, log_start, 6, 6)}
        )

        assert check(story.history).outcome is outcome


def test_a_commit_that_was_seen_does_not_come_again() -> None:
    """Its answer never came, so it might happen late: but it has happened, for somebody read it,
    and another has replaced it.
    """
    early = (
        Story()
        .tell(1, COMMIT, INFO, group="g", offsets={"a": 5})
        .tell(2, FETCH_OFFSET, group="g", offsets={"a": 5})
    )
    late = Story().tell(1, COMMIT, INFO, group="g", offsets={"a": 5})
    for story in (early, late):
        story.tell(2, COMMIT, group="g", offsets={"a": 9}).tell(
            2, FETCH_OFFSET, group="g", offsets={"a": 5}
        )

    assert check(early.history).kinds == {"commit-lost"}
    assert not check(late.history).counts


def test_a_commit_of_an_earlier_generation_does_not_happen_late() -> None:
    for generations, kinds in (((1, 2), {"commit-lost"}), ((1, 1), set()), ((-1, -1), set())):
        story = Story().tell(
            1, COMMIT, INFO, group="g", generation=generations[0], offsets={"a": 5}
        )
        story.tell(2, COMMIT, group="g", generation=generations[1], offsets={"a": 9}).tell(
            2, FETCH_OFFSET, group="g", offsets={"a": 5}
        )

        assert check(story.history).kinds == kinds


def test_a_write_with_unknown_result_may_be_read_or_not() -> None:
    story = (
        Story()
        .tell(1, PRODUCE, INFO, sends=[("a", "x", None)])
        .tell(2, PRODUCE, INFO, sends=[("a", "never", None)])
    )
    story.tell(1, PRODUCE, sends=[("a", "y", 1)]).tell(3, POLL, polled={"a": [(0, "x"), (1, "y")]})

    assert check(story.history).outcome is Outcome.VALID


def test_an_open_transaction_is_there_as_a_whole_or_not_at_all() -> None:
    sends = [("a", "x", None), ("b", "y", None)]
    whole = Story().tell(1, TRANSACTION, INFO, sends=sends).tell(1, PRODUCE, sends=[("a", "z", 5)])
    whole.tell(2, POLL, polled={"a": [(5, "z")]})
    torn = Story().tell(1, TRANSACTION, INFO, sends=sends).tell(2, POLL, polled={"a": [(0, "x")]})

    assert check(whole.history).outcome is Outcome.VALID
    assert check(torn.history).kinds == {"torn-transaction"}


def test_read_uncommitted_may_show_aborted_records() -> None:
    story = (
        Story()
        .tell(1, TRANSACTION, FAIL, sends=[("a", "x", None)])
        .tell(1, PRODUCE, sends=[("a", "y", 2)])
    )
    story.tell(2, POLL, polled={"a": [(0, "x"), (2, "y")]})

    assert check(story.history).kinds == {"aborted-read"}
    assert check(story.history, Rules(read_committed=False)).notes == {"read uncommitted": 1}


def test_producers_that_are_not_idempotent_may_write_twice() -> None:
    story = (
        Story()
        .tell(1, PRODUCE, sends=[("a", "x", 1)])
        .tell(2, POLL, polled={"a": [(0, "x"), (1, "x")]})
    )

    assert check(story.history).kinds == {"duplicate"}
    assert check(story.history, Rules(idempotent=False)).notes == {"duplicate": 1}


def test_without_final_reads_nothing_is_lost() -> None:
    story = Story().tell(1, PRODUCE, sends=WRITTEN).tell(2, POLL, polled={"a": [(2, "z")]})

    assert check(story.history).kinds == {"lost-write"}
    assert check(story.history, Rules(final_reads=False)).outcome is Outcome.VALID


def test_the_first_of_many_anomalies_are_kept() -> None:
    sends = [("a", value, value) for value in range(1000)]
    verdict = check(
        Story().tell(1, PRODUCE, sends=sends).tell(2, POLL, polled={"a": [(999, 999)]}).history
    )

    assert verdict.counts == {"lost-write": 999}
    assert len(verdict.anomalies) == KEPT_OF_A_KIND
    assert str(verdict) == "violated: 999 lost-write"


def test_lag_counts_from_the_first_later_record() -> None:
    story = (
        Story()
        .tell(1, PRODUCE, sends=[("a", "x", 0), ("a", "z", 2)])
        .tell(2, POLL, polled={"a": [(0, "x")]})
        .tell(1, PRODUCE, sends=[("a", "y", 1)])
    )

    # since z was there, not y
    assert (
        progress.lags(story.history, versions_of(story.history, Rules(), Findings()))[0].lag_s
        == 1.0
    )


def test_circles_are_found_whole() -> None:
    graph = {1: [2], 2: [3, 5], 3: [4], 4: [2], 5: [6], 6: [], 7: [1, 8], 8: [7]}

    assert sorted(map(sorted, circles(graph))) == [[2, 3, 4], [7, 8]]
    assert [len(each) for each in circles({node: [(node + 1) % 5000] for node in range(5000)})] == [
        5000
    ]


def test_readers_lag() -> None:
    story = (
        Story()
        .tell(1, PRODUCE, sends=WRITTEN)
        .tell(2, POLL, polled={"a": [(0, "x")]})
        .tell(2, POLL, polled={"a": [(1, "y"), (2, "z")]})
    )
    lags = progress.lags(story.history, versions_of(story.history, Rules(), Findings()))

    # at 2 s it had read one of three that were there at 1 s
    assert [lag.lag_s for lag in lags] == [1.0, 0.0]
