"""Reasons why a group does not move: findings from facts, each with a next step. Pure."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import GroupMember, name_some
from raftka.console.groups.facts import NO_LEADER, Blocking, Facts, PartitionFacts
from raftka.console.groups.history import REBALANCING, STABLE, Since, name_member

AWAY_EPOCH = -2  # of a static member that has left and may come back (KIP-848)
MOST_MEMBERS = 5  # that have a finding of their own
MOST_TOPICS = 5  # of a sentence
NOT_READY = "NotReady"  # a streams group that lacks topics

# levels, the worst first
STUCK, SLOW, NOTE, FINE = "stuck", "slow", "note", "fine"
LEVELS = (STUCK, SLOW, NOTE, FINE)


@dataclass(frozen=True, slots=True)
class Finding:
    cause: str  # for programs, such as no_leader
    level: str
    text: str  # what is so, and since when
    next_step: str
    command: str | None = None  # that shows more, or ends it
    partitions: Sequence[Where] = ()
    since_s: float | None = None  # seconds since 1970


class Thresholds(NamedTuple):
    """Seconds; `churn` in rebalances of the last ten minutes."""

    still: float = 30.0  # without a commit while records wait
    trend: float = 15.0  # the shortest time from which rates are told
    window: float = 120.0  # the longest
    churn: int = 4


THRESHOLDS = Thresholds()


def diagnose(facts: Facts, thresholds: Thresholds = THRESHOLDS) -> list[Finding]:
    """Return what holds the group up, the worst first, or that nothing does."""
    if facts.described is None:
        return [
            Finding(
                "not_described",
                NOTE,
                f"It is a group of type {facts.type}: this version shows its state and no members.",
                "Use the tools of Apache Kafka for this type.",
            )
        ]
    found = [finding for cause in CAUSES for finding in cause(facts, thresholds)]
    if any(each.cause == "member_holds" for each in found):
        found = [each for each in found if each.cause != "rebalancing"]  # it says why
    blocked = {where for each in found if each.level == STUCK for where in each.partitions}
    found += _silent_members(facts, thresholds, blocked)
    found += _trend(facts, thresholds, is_blocked=any(each.level == STUCK for each in found))
    if not found:
        found.append(
            Finding("moving", FINE, "Nothing holds the group up, as far as is seen.", "Go on.")
        )
    return sorted(found, key=lambda each: LEVELS.index(each.level))


def command(*words: str) -> str:
    return shlex.join(["raftka", *words])


def _describe(facts: Facts) -> str:
    return command("groups", "describe", facts.group_id)


# the group


def _no_members(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    if facts.members:
        return
    lag = facts.lag
    waiting = f" {_counted(lag, 'record')} {'waits' if lag == 1 else 'wait'}." if lag else ""
    text = f"No consumer is a member.{waiting}"
    yield Finding(
        "no_members",
        STUCK if lag else NOTE,
        text,
        "Start the consumers of the group; without them its offsets may be moved or deleted.",
        _describe(facts),
        [each.where for each in facts.partitions if each.lag],
    )


def _rebalancing(facts: Facts, thresholds: Thresholds) -> Iterator[Finding]:
    if facts.state in REBALANCING and facts.members:
        since = _since(facts.seen.state_since, facts.now_s)
        waits = {
            "PreparingRebalance": "it waits until all members have joined again",
            "CompletingRebalance": "its leader has not sent the assignment yet",
            "Assigning": "the coordinator makes a new assignment",
            "Reconciling": "members have to give back partitions, or to take new ones",
        }[facts.state]
        behind = ", ".join(
            name_member(each)
            for each in facts.members
            if None not in (each.epoch, facts.described and facts.described.assignment_epoch)
            and each.epoch < facts.described.assignment_epoch  # type: ignore[operator, union-attr]
        )
        yield Finding(
            "rebalancing",
            STUCK,
            f"The group rebalances {since} ({facts.state}): {waits}."
            + (f" Behind: {behind}." if behind else ""),
            "A member that does not poll is waited for until its max.poll.interval.ms is over: "
            "look at the members that are behind.",
            _describe(facts),
            since_s=facts.seen.state_since.at_s,
        )
    if facts.seen.rebalances >= thresholds.churn:
        yield Finding(
            "rebalances_again",
            SLOW,
            f"The group has rebalanced {facts.seen.rebalances} times within ten minutes. Last: "
            + "; ".join(
                f"{each.what} {each.text}" for each in list(facts.seen.events)[-3:] if each.text
            ),
            "Members that come and go, or poll too late, cause it: look at their logs for "
            "max.poll.interval.ms and session.timeout.ms.",
            _describe(facts),
        )


def _not_ready(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    if facts.state != NOT_READY or not facts.members:
        return
    missing = facts.missing_topics
    named = ", ".join(missing[:MOST_TOPICS])
    if len(missing) > MOST_TOPICS:
        named += f" and {len(missing) - MOST_TOPICS} more"
    yield Finding(
        "not_ready",
        STUCK,
        f"The topology needs topics that are not there: {named}."
        if missing
        else "Topics of the topology have another number of partitions than it needs.",
        "Create the source topics. Brokers create the others, if the application may: its log says "
        "why not.",
        command("topics", "create", missing[0]) if missing else None,
        since_s=facts.seen.state_since.at_s,
    )


def _held_by_member(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    members = {each.member_id: each for each in facts.members}
    by_pair: dict[tuple[str, str | None], list[Where]] = {}
    for where, (each, _since_then) in facts.seen.awaited.items():
        by_pair.setdefault((each.waiter, each.holder), []).append(where)
    for (waiter, holder), wheres in sorted(by_pair.items(), key=lambda pair: min(pair[1])):
        if holder is None or holder not in members:
            continue  # the waiter takes it with its next heartbeat
        first = min((facts.seen.awaited[where][1] for where in wheres), key=lambda each: each.at_s)
        yield Finding(
            "member_holds",
            STUCK,
            f"{name_member(members[holder])} has not given back {name_some(wheres)}, for which "
            f"{name_member(members[waiter])} waits {_since(first, facts.now_s)}.",
            f"Look at {name_member(members[holder])}: it has to poll. When its rebalance time-out "
            "(max.poll.interval.ms) is over, the coordinator removes it.",
            _describe(facts),
            sorted(wheres),
            first.at_s,
        )


def _static_member_away(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    for each in facts.members:
        if each.epoch == AWAY_EPOCH and each.instance_id is not None:
            kept = list(each.assigned) or list(each.target or ())
            yield Finding(
                "static_member_away",
                STUCK,
                f"The static member {each.instance_id} has left. {name_some(kept) or 'Nothing'} "
                "stays with it until its session time-out.",
                f"Start the consumer with group.instance.id={each.instance_id} again, or wait for "
                "the time-out: then others get its partitions.",
                _describe(facts),
                sorted(kept),
            )


# partitions


def _no_leader(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    wheres = [each.where for each in facts.partitions if each.leader == NO_LEADER]
    if wheres:
        topic, _partition = min(wheres)
        yield Finding(
            "no_leader",
            STUCK,
            f"{name_some(wheres)}: no broker leads, so nothing can be read.",
            "Start a broker that has a replica of it.",
            command("topics", "describe", topic),
            wheres,
        )
    gone = [each.where for each in facts.partitions if each.leader is None]
    if gone:
        topic, _partition = min(gone)
        yield Finding(
            "no_partition",
            NOTE,
            f"{name_some(gone)}: there is no such partition, or this login may not see it.",
            "Delete the offsets, if the topic is gone.",
            command("offsets", "delete", facts.group_id, topic),
            gone,
        )


def _held_by_transaction(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    named: dict[Where, Blocking] = {each.found.where: each for each in facts.blocking}
    for each in facts.partitions:
        if not each.is_held_back:
            continue
        blocking = named.get(each.where)
        name, waiting = name_some([each.where]), (each.end or 0) - (each.stable or 0)
        if blocking is None:
            yield Finding(
                "open_transaction",
                STUCK,
                f"{name}: an open transaction holds back {_counted(waiting, 'offset')} from "
                f"readers of committed records, from offset {each.stable} on.",
                "Find its producer.",
                command("transactions", "find-hanging", "--topic", each.where[0]),
                [each.where],
            )
            continue
        found, age = blocking.found, _age(blocking.age_s)
        producer = f"producer {found.producer_id} (epoch {found.epoch})"
        if blocking.hangs:
            text = f"a hanging transaction of {producer}, {age} old, which no coordinator knows,"
            step = "Abort it: no coordinator will end it."
            words = ["transactions", "abort", "--topic", each.where[0]]
            words += ["--partition", str(each.where[1])]
            words += ["--start-offset", str(found.start_offset)]
        elif blocking.transactional_id is None:
            text = f"a transaction of {producer}, {age} old,"
            step = "Ask again when all brokers answer: its coordinator is not known."
            words = ["transactions", "find-hanging", "--topic", each.where[0]]
        else:
            text = f"the open transaction {blocking.transactional_id} of {producer}, {age} old,"
            step = "Its producer has to commit or abort it; fencing aborts it and shuts it out."
            words = ["transactions", "fence", blocking.transactional_id]
        yield Finding(
            "hanging_transaction" if blocking.hangs else "open_transaction",
            STUCK,
            f"{name}: {text} holds back {_counted(waiting, 'offset')} from readers of committed "
            f"records, from offset {each.stable} on.",
            step,
            command(*words),
            [each.where],
            facts.now_s - blocking.age_s if blocking.age_s is not None else None,
        )


def _offset_out_of_range(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    if facts.is_share:
        return  # the leader of a share partition moves its start offset into the log
    before = [
        each
        for each in facts.partitions
        if None not in (each.committed, each.start) and (each.committed or 0) < (each.start or 0)
    ]
    past = [
        each
        for each in facts.partitions
        if None not in (each.committed, each.end) and (each.committed or 0) > (each.end or 0)
    ]
    if before:
        lost = sum((each.start or 0) - (each.committed or 0) for each in before)
        yield _reset(
            facts,
            before,
            "offset_before_start",
            f"the log begins behind the committed offset: {_counted(lost, 'offset')} of it "
            f"{'was' if lost == 1 else 'were'} deleted before "
            "the group read them. A consumer goes on as its auto.offset.reset says",
            "start",
        )
    if past:
        yield _reset(
            facts,
            past,
            "offset_past_end",
            "the committed offset is behind the end of the log: the topic was made anew, or "
            "records were lost. A consumer goes on as its auto.offset.reset says",
            "end",
        )


def _reset(
    facts: Facts, partitions: Sequence[PartitionFacts], cause: str, text: str, to: str
) -> Finding:
    wheres = [each.where for each in partitions]
    topic = wheres[0][0]
    words = ["groups", "reset-offsets", facts.group_id, topic]
    for name, partition in wheres:
        words += ["--partition", str(partition)] if name == topic else []
    return Finding(
        cause,
        STUCK,
        f"{name_some(wheres)}: {text}.",
        "Stop the consumers and move the offsets.",
        command(*words, "--to", to),
        wheres,
    )


def _nobody_reads(facts: Facts, _: Thresholds) -> Iterator[Finding]:
    if not facts.members or facts.state != STABLE:
        return
    wheres = [
        each.where
        for each in facts.partitions
        if each.lag and each.owner is None and each.where not in facts.seen.awaited
    ]
    if wheres:
        topic = min(wheres)[0]
        yield Finding(
            "nobody_reads",
            NOTE,
            f"{name_some(wheres)}: the group has offsets and no member reads it.",
            "Delete the offsets, if the group does not read the topic any more.",
            command("offsets", "delete", facts.group_id, topic),
            wheres,
        )


def _share_stands_still(facts: Facts, thresholds: Thresholds) -> Iterator[Finding]:
    """Share partitions in which no further record is done: members share them, so none is named."""
    still = [
        each
        for each in facts.partitions
        if each.lag and each.readers and each.still is not None
        if facts.is_share and facts.now_s - each.still.at_s >= thresholds.still
    ]
    if still:
        since = max((each.still for each in still if each.still), key=lambda each: each.at_s)
        wheres = [each.where for each in still]
        yield Finding(
            "share_stands_still",
            STUCK,
            f"{name_some(wheres)}: the first record is not done {_since(since, facts.now_s)}.",
            "Look at the consumers: they do not poll or acknowledge, or release the record again "
            "and again, until group.share.delivery.count.limit.",
            _describe(facts),
            wheres,
            since.at_s,
        )


CAUSES: Sequence[Callable[[Facts, Thresholds], Iterable[Finding]]] = (
    _no_members,
    _rebalancing,
    _not_ready,
    _held_by_member,
    _static_member_away,
    _no_leader,
    _held_by_transaction,
    _offset_out_of_range,
    _nobody_reads,
    _share_stands_still,
)


# consumers


def _silent_members(facts: Facts, thresholds: Thresholds, blocked: set[Where]) -> Iterator[Finding]:
    """Members whose committed offsets do not move while records wait. `blocked`: partitions that
    have another reason.
    """
    if facts.state in REBALANCING or facts.is_share:
        return
    silent: dict[str, list[PartitionFacts]] = {}
    members: dict[str, GroupMember] = {}
    for each in facts.partitions:
        if each.owner is None or each.where in blocked or each.owner.epoch == AWAY_EPOCH:
            continue
        waits = each.lag if each.committed is not None else (each.end or 0) - (each.start or 0)
        still_s = facts.now_s - each.still.at_s if each.still is not None else facts.seen.watched_s
        if waits and still_s >= thresholds.still:
            silent.setdefault(each.owner.member_id, []).append(each)
            members[each.owner.member_id] = each.owner
    for member_id in list(silent)[:MOST_MEMBERS]:
        member, partitions = members[member_id], silent[member_id]
        stills = [each.still for each in partitions if each.still is not None]
        since = max(stills, key=lambda each: each.at_s) if stills else None
        text = (
            f"commits nothing {_since(since, facts.now_s)} for"
            if since is not None
            else "has committed nothing yet for"
        )
        static = (
            f" It is static: when it is gone, {member.instance_id} keeps them until its session "
            "time-out."
            if member.instance_id is not None
            else ""
        )
        yield Finding(
            "member_does_not_commit",
            STUCK,
            f"{name_member(member)} {text} {name_some([each.where for each in partitions])}, "
            f"where records wait.{static}",
            "Look at this consumer: it does not poll, it fails at a record, or it does not commit.",
            _describe(facts),
            [each.where for each in partitions],
            since.at_s if since is not None else None,
        )
    if len(silent) > MOST_MEMBERS:
        yield Finding(
            "member_does_not_commit",
            STUCK,
            f"{len(silent) - MOST_MEMBERS} further members commit nothing while records wait.",
            "Look at these consumers.",
            _describe(facts),
        )


def _trend(facts: Facts, thresholds: Thresholds, *, is_blocked: bool) -> Iterator[Finding]:
    """Compare how fast records come and are consumed, from the samples of the last time."""
    unknown = any(
        each.committed is None and (each.end or 0) > (each.start or 0) for each in facts.partitions
    )
    if not facts.seen.samples or not facts.members or unknown:
        return
    last = facts.seen.samples[-1]
    if last.lag == 0:
        if not is_blocked:
            yield _all_read(facts, thresholds)
        return
    first = last
    for each in reversed(facts.seen.samples):
        if each.at_s < last.at_s - thresholds.window or each.partitions != last.partitions:
            break
        first = each
    passed_s = last.at_s - first.at_s
    if passed_s < thresholds.trend:
        return
    come, read = (last.ends - first.ends) / passed_s, (last.done - first.done) / passed_s
    if read > 0 and last.lag > first.lag:
        yield Finding(
            "falls_behind",
            SLOW,
            f"{come:,.1f} records a second come and {read:,.1f} are consumed: the lag has grown by "
            f"{last.lag - first.lag:,} in {_age(passed_s)}.",
            _more_consumers(facts),
            _describe(facts),
        )
    elif read > come and last.lag:
        yield Finding(
            "catches_up",
            FINE,
            f"{come:,.1f} records a second come and {read:,.1f} are consumed: the lag is gone in "
            f"about {_age(last.lag / (read - come))}.",
            "Wait.",
        )


def _all_read(facts: Facts, thresholds: Thresholds) -> Finding:
    """Say too when no record has come for a while."""
    last = facts.seen.samples[-1]
    still = last
    for each in reversed(facts.seen.samples):
        if each.ends != last.ends:
            break
        still = each
    still_s = facts.now_s - still.at_s
    if still_s < thresholds.trend:
        return Finding("all_read", FINE, "All records are read as they come.", "Go on.")
    topics = sorted({each.where[0] for each in facts.partitions})
    return Finding(
        "nothing_is_produced",
        FINE,
        f"All records are read, and no record has come for {_age(still_s)} or longer.",
        "Look at the producers, if records are expected.",
        command("topics", "describe", *topics[:1]),
        since_s=still.at_s,
    )


def _more_consumers(facts: Facts) -> str:
    if facts.is_share:
        return "Add consumers: several may read one partition. Or make them handle records faster."
    busy = sum(1 for each in facts.members if each.assigned)
    partitions = sum(len(each.assigned) for each in facts.members)
    if busy < partitions:
        return (
            f"Add consumers ({busy} read {partitions} partitions), or make them handle records "
            "faster."
        )
    return (
        "Each partition has a consumer of its own already: make them handle records faster, or "
        "add partitions."
    )


# words


def _since(since: Since, now_s: float) -> str:
    passed = _age(now_s - since.at_s)
    return f"for {passed}" if since.is_exact else f"for {passed} or longer"


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}{'s' * (number != 1)}"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "of unknown age"
    whole = max(0, round(seconds))
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= 2 * unit_s:
            return f"{whole // unit_s} {unit}"
    return f"{whole} s"
