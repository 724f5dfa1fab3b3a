"""Nodes' metadata of partitions and of the quorum, each at an offset of the metadata log: equal at
equal offsets, with epochs that rise, and ISRs of which each follows from the one before. Knows of
nodes only what was observed.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from raftka.chaos.verdict import Findings

NO_LEADER = -1


class PartitionSeen(NamedTuple):
    offset: int  # of the last entry that the observer had applied
    observer: str  # a node, since it was started: one that starts again may know less
    key: str  # with the topic's id, where topics are made anew
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()  # replicas whose directory failed
    elr: tuple[int, ...] = ()  # eligible leader replicas
    last_leader: tuple[int, ...] = ()  # without a leader: who leads when none is eligible

    @property
    def may_lead(self) -> tuple[int, ...]:
        """The change that ends the eligibility of the last one may elect the last leader."""
        return self.isr + self.elr + self.last_leader

    @property
    def state(self) -> tuple[object, ...]:
        return self[3:]


class LeaderSeen(NamedTuple):
    """A node says who leads the quorum."""

    term: int
    observer: str
    leader: int


Seen = PartitionSeen | LeaderSeen


def check(seen: Iterable[Seen], unclean_elections: bool, findings: Findings) -> None:
    """In the order in which each observer saw it."""
    partitions: dict[str, list[PartitionSeen]] = defaultdict(list)
    terms: dict[int, LeaderSeen] = {}
    applied: dict[str, int] = {}
    for each in seen:
        if isinstance(each, LeaderSeen):
            before = terms.setdefault(each.term, each)
            if before.leader != each.leader:
                said = (
                    f"{before.observer} says that {before.leader} leads, {each.observer} that "
                    f"{each.leader} does"
                )
                findings.wrong("two-leaders-of-a-term", f"term {each.term}", said)
            continue
        if each.offset < applied.get(each.observer, each.offset):
            findings.wrong(
                "metadata-back",
                each.observer,
                f"was at offset {applied[each.observer]}, then at {each.offset}",
                (each.offset,),
            )
        applied[each.observer] = each.offset
        partitions[each.key].append(each)
    for key, states in partitions.items():
        _partition(key, sorted(states, key=lambda state: state.offset), unclean_elections, findings)


def _partition(
    key: str, states: Sequence[PartitionSeen], unclean_elections: bool, findings: Findings
) -> None:
    before: PartitionSeen | None = None
    for state in states:
        if before is not None and state.state == before.state:
            continue
        _alone(key, state, findings)
        if before is not None and state.offset == before.offset:
            said = (
                f"{before.observer} and {state.observer} know different things of offset "
                f"{state.offset}"
            )
            findings.wrong("metadata-diverged", key, said, (state.offset,))
        elif before is not None:
            _step(key, before, state, unclean_elections, findings)
        before = state


def _alone(key: str, state: PartitionSeen, findings: Findings) -> None:
    at = (state.offset,)
    if len(set(state.replicas)) < len(state.replicas) or not state.replicas:
        findings.wrong("bad-replicas", key, f"the replicas are {state.replicas}", at)
    if len(set(state.isr)) < len(state.isr) or set(state.isr) - set(state.replicas):
        findings.wrong(
            "bad-isr", key, f"the ISR is {state.isr}, the replicas are {state.replicas}", at
        )
    if state.leader != NO_LEADER and state.leader not in state.isr:
        findings.wrong(
            "leader-outside-isr", key, f"{state.leader} leads, the ISR is {state.isr}", at
        )
    if (set(state.elr) & set(state.isr)) or set(state.elr) - set(state.replicas):
        findings.wrong("bad-elr", key, f"{state.elr} are eligible beside the ISR {state.isr}", at)
    if state.leader in state.offline:
        findings.wrong("leader-offline", key, f"{state.leader} leads, whose directory failed", at)


def _step(
    key: str,
    before: PartitionSeen,
    after: PartitionSeen,
    unclean_elections: bool,
    findings: Findings,
) -> None:
    at = (before.offset, after.offset)
    if after.leader_epoch < before.leader_epoch:
        findings.wrong(
            "leader-epoch-back",
            key,
            f"leader epoch {after.leader_epoch} follows {before.leader_epoch}",
            at,
        )
    if after.partition_epoch < before.partition_epoch:
        findings.wrong(
            "partition-epoch-back",
            key,
            f"partition epoch {after.partition_epoch} follows {before.partition_epoch}",
            at,
        )
    if after.partition_epoch == before.partition_epoch:
        findings.wrong(
            "partition-epoch-reused",
            key,
            f"it changed within partition epoch {after.partition_epoch}",
            at,
        )
    if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
        findings.wrong(
            "two-leaders-of-an-epoch",
            key,
            f"{before.leader} and {after.leader} lead in epoch {after.leader_epoch}",
            at,
        )
    next_to_it = after.partition_epoch == before.partition_epoch + 1
    # a reassignment: who joins the ISR with it was waited for, and may lead at once
    completed = after.replicas != before.replicas
    if (
        next_to_it
        and not completed
        and not unclean_elections
        and after.leader not in (NO_LEADER, before.leader, *before.may_lead)
    ):
        findings.wrong(
            "unclean-election",
            key,
            f"{after.leader} leads after an ISR of {before.isr}, {before.elr} were eligible",
            at,
        )
