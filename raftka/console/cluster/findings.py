"""Findings: what is wrong in a cluster now, why that matters, and the next command. Pure."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from raftka.client.blocking.client import Where
from raftka.client.blocking.quorum import LEADER, OBSERVER, Quorum, QuorumNode
from raftka.console.cluster.partitions import Counts
from raftka.console.view.sizes import Directory
from raftka.json_values import JsonObject

SILENT_MS = 5_000  # since its last fetch, for a node of the quorum
FULL, NEARLY_FULL = 0.95, 0.85  # of a disk
NAMED = 3  # examples in a sentence
MOST_GROUPS = 5  # each with a finding of its own
BAD, WARN = "bad", "warn"


class Situation(NamedTuple):
    """`min_isr`: min.insync.replicas by topic, of those that lack replicas. `stuck_groups`: records
    of lag by group. `late_transactions`: ids that are open for longer than they may be.
    """

    controller: int
    brokers: Collection[int]  # those that are alive
    gone: Mapping[int, str]  # registered and not alive, and why
    counts: Counts
    min_isr: Mapping[str, int]
    quorum: Quorum | None
    directories: Sequence[Directory]
    late_transactions: Sequence[str]
    stuck_groups: Mapping[str, int]


class Finding(NamedTuple):
    id: str  # the same for the same problem
    level: str  # BAD or WARN
    title: str
    why: str
    command: str | None = None
    link: str | None = None  # to a page of the console

    def shown(self) -> JsonObject:
        return self._asdict()


def find_problems(now: Situation) -> list[Finding]:
    """Return the findings, the worst first."""
    found = [
        *_controller(now),
        *_brokers(now),
        *_partitions(now),
        *_quorum(now.quorum),
        *_disks(now.directories),
        *_leaders(now),
        *_transactions(now.late_transactions),
        *_groups(now.stuck_groups),
    ]
    return sorted(found, key=lambda each: each.level != BAD)


def _controller(now: Situation) -> Iterator[Finding]:
    if now.controller < 0:
        yield Finding(
            "controller",
            BAD,
            "There is no controller",
            "A majority of the voters is not there. Records can still be written and read, but no "
            "leader moves and no topic is made: start the controllers that are down.",
            "raftka cluster describe",
        )


def _brokers(now: Situation) -> Iterator[Finding]:
    for node_id, why in sorted(now.gone.items()):
        lacking, alive = now.counts.replicas[node_id], len(now.brokers)
        needed = max(
            (
                len(each.replicas)
                for _, each in now.counts.under_replicated
                if node_id in each.replicas
            ),
            default=0,
        )
        step, command = (
            "Start it again; if it does not come back, plan where its replicas shall live.",
            "raftka reassign plan " + " ".join(f"--broker {each}" for each in sorted(now.brokers)),
        )
        if needed > alive:  # no plan could be made
            step, command = (
                f"Start it again: partitions have {needed} replicas, and of the brokers "
                f"{alive} {'is' if alive == 1 else 'are'} alive.",
                "raftka cluster describe",
            )
        yield Finding(
            f"broker-{node_id}",
            BAD,
            f"Broker {node_id} is gone",
            f"{_count(lacking, 'replica')} on it: {why}. {step}",
            command,
        )


def _partitions(now: Situation) -> Iterator[Finding]:
    counts = now.counts
    if counts.offline:
        yield Finding(
            "offline",
            BAD,
            f"{_count(len(counts.offline), 'partition')} without a leader",
            f"Nothing can be written to them or read from them: {_examples(counts.offline)}. Start "
            "the brokers that have their replicas.",
            f"raftka topics describe {counts.offline[0][0]}",
            _topic_link(counts.offline[0][0]),
        )
    offline = set(counts.offline)
    below = [
        where
        for where, each in counts.under_replicated
        if where not in offline and len(each.isr) < now.min_isr.get(where[0], 1)
    ]
    if below:
        yield Finding(
            "min-isr",
            BAD,
            f"{_count(len(below), 'partition')} below min.insync.replicas",
            f"Producers with acks=all are refused: {_examples(below)}. Bring the replicas that are "
            "out of sync back.",
            f"raftka topics describe {below[0][0]}",
            _topic_link(below[0][0]),
        )
    left = {*offline, *below}
    slow = [
        (where, each)
        for where, each in counts.under_replicated
        if where not in left and not now.gone.keys() & set(each.replicas).difference(each.isr)
    ]
    if slow:
        behind = sorted({one for _, each in slow for one in set(each.replicas) - set(each.isr)})
        yield Finding(
            "under-replicated",
            WARN,
            f"{_count(len(slow), 'partition')} not in sync, though the brokers live",
            f"Replicas on {_names(behind)} lag behind: {_examples(where for where, _ in slow)}. "
            "They catch up by themselves, or their disk or network is too slow.",
            f"raftka topics describe {slow[0][0][0]}",
            _topic_link(slow[0][0][0]),
        )


def _quorum(quorum: Quorum | None) -> Iterator[Finding]:
    if quorum is None:
        return
    silent = [each.node_id for each in voters_of(quorum) if not is_current(each, quorum)]
    if silent:
        spare = may_fail(quorum)
        yield Finding(
            "voters",
            BAD if spare <= 0 else WARN,
            f"{_names(silent, 'Voter')} {'is' if len(silent) == 1 else 'are'} silent",
            "When one more fails, there is no controller: no leader moves and no topic is made."
            if spare <= 0
            else f"{_count(spare, 'more voter')} may fail before there is no controller.",
            "raftka cluster describe",
        )


def voters_of(quorum: Quorum) -> list[QuorumNode]:
    return [each for each in quorum.nodes if each.role != OBSERVER]


def is_current(node: QuorumNode, quorum: Quorum) -> bool:
    """Return whether the leader has heard the node lately. Only the leader's clock counts."""
    now_ms = max((each.fetched_ms for each in quorum.nodes if each.role == LEADER), default=-1)
    if node.role == LEADER or now_ms < 0:
        return True
    return now_ms - node.fetched_ms < SILENT_MS


def may_fail(quorum: Quorum) -> int:
    """Return how many of the voters that are there may fail: then a majority is left."""
    voters = voters_of(quorum)
    return sum(is_current(each, quorum) for each in voters) - (len(voters) // 2 + 1)


def _disks(directories: Iterable[Directory]) -> Iterator[Finding]:
    for each in directories:
        place = f"{each.path} of broker {each.node_id}"
        if each.error is not None:
            yield Finding(
                f"disk-{each.node_id}-{each.path}",
                BAD,
                f"{place} has failed",
                f"The broker cannot use it: {each.error}. Its replicas are led by others.",
                "raftka cluster describe",
            )
        elif each.total > 0 and (used := 1 - each.usable / each.total) >= NEARLY_FULL:
            yield Finding(
                f"disk-{each.node_id}-{each.path}",
                BAD if used >= FULL else WARN,
                f"{place} is {used:.0%} full",
                "A broker whose disk is full stops. Shorten the retention of the largest topics, "
                "or add brokers and move replicas there.",
                "raftka configs alter topic NAME -c retention.ms=86400000 --dry-run",
                "#/topics?sort=-size",
            )


def _leaders(now: Situation) -> Iterator[Finding]:
    """A broker that came back leads nothing until its leaders are given back."""
    idle = [
        node_id
        for node_id in sorted(now.brokers)
        if now.counts.not_preferred[node_id] and not now.counts.leaders[node_id]
    ]
    if idle:
        yield Finding(
            "leaders",
            WARN,
            f"{_names(idle)} {'leads' if len(idle) == 1 else 'lead'} no partition",
            "Its replicas are in sync, so the others work for it. Give leadership back.",
            "raftka partitions elect",
        )


def _transactions(late: Sequence[str]) -> Iterator[Finding]:
    if late:
        yield Finding(
            "transactions",
            WARN,
            f"{_count(len(late), 'transaction')} open for very long",
            "Consumers that read committed records only wait behind them: "
            f"{', '.join(late[:NAMED])}.",
            "raftka transactions find-hanging",
            "#/transactions",
        )


def _groups(stuck: Mapping[str, int]) -> Iterator[Finding]:
    most = sorted(stuck, key=lambda each: -stuck[each])
    for group_id in most[:MOST_GROUPS]:
        yield Finding(
            f"group-{group_id}",
            WARN,
            f"Group {group_id} makes no progress",
            f"{_count(stuck[group_id], 'record')} wait, and it has committed nothing for a while.",
            f"raftka groups describe {shlex.quote(group_id)}",
            f"#/groups/{quote(group_id, safe='')}",
        )


def _topic_link(topic: str) -> str:
    return f"#/topics/{quote(topic, safe='')}?tab=partitions"


def _examples(wheres: Iterable[Where]) -> str:
    names = [f"{topic}-{partition}" for topic, partition in wheres]
    return ", ".join(names[:NAMED]) + (" and others" if len(names) > NAMED else "")


def _names(ids: Sequence[int], one: str = "Broker") -> str:
    if len(ids) == 1:
        return f"{one} {ids[0]}"
    return f"{one}s {', '.join(map(str, ids[:-1]))} and {ids[-1]}"


def _count(number: int, one: str) -> str:
    return f"{number:,} {one}" + ("" if number == 1 else "s")
