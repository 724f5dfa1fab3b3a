"""Changes of groups while pages watch them: states, epochs, members, committed offsets, lag.

Kafka's protocol tells how a group is, and not how it came to be so. Readings are remembered here;
what was before the first one is not known.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import DescribedGroup, GroupMember
from raftka.console.limits import EVENTS, HISTORIES, SAMPLES

# states in which a group gives no new records to some members
REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
STABLE = "Stable"
LEAST_SAMPLE_S = 0.5  # between two readings that are kept
LIST_S = 60.0  # a list of groups is never older
NO_LAGS: Mapping[Where, int] = {}
CHURN_S = 600.0  # the time in which rebalances are counted


class Event(NamedTuple):
    """`what`: state, epoch, member joined, member left."""

    at_s: float  # seconds since 1970
    what: str
    text: str


class Sample(NamedTuple):
    at_s: float
    done: int  # the ends less the lag: for most groups the sum of the committed offsets
    ends: int  # of the partitions with a committed offset
    lag: int
    partitions: int  # with a committed offset: sums of other ones are not compared


class Since(NamedTuple):
    """`is_exact`: the change was seen; else it was so at the first reading already."""

    at_s: float
    is_exact: bool


class Awaited(NamedTuple):
    """A partition that the coordinator wants to give to a member, ids of members. `holder`: the
    member that is to give it back; None where that is not known.
    """

    waiter: str
    holder: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """A group as it was seen until now, for readers in other threads."""

    watched_s: float  # since the first reading
    state_since: Since
    still: Mapping[Where, Since]  # the committed offset is the same since then
    awaited: Mapping[Where, tuple[Awaited, Since]]
    events: Sequence[Event]
    samples: Sequence[Sample]
    rebalances: int  # of the last CHURN_S seconds


@dataclass(slots=True)
class GroupHistory:
    """One group, as it was seen."""

    first_s: float
    state: str
    state_since: Since
    described_s: float = 0.0  # when the coordinator described it last
    epoch: int | None = None
    members: dict[str, GroupMember] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS.value))
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES.value))
    # by partition: the committed offset, and since when it is the same
    offsets: dict[Where, tuple[int, Since]] = field(default_factory=dict)
    owners: dict[Where, str] = field(default_factory=dict)  # the member that had it last
    # by partition that a member waits for: its name for the reader, and since when
    awaited: dict[Where, tuple[Awaited, Since]] = field(default_factory=dict)

    def see_state(self, at_s: float, state: str) -> None:
        if state != self.state:
            self.events.append(Event(at_s, "state", f"{self.state} → {state}"))
            self.state, self.state_since = state, Since(at_s, True)

    def see_members(self, at_s: float, group: DescribedGroup) -> None:
        """Note members that came and went, the epoch, and partitions to be given back."""
        is_first = (
            not self.events and not self.members and self.epoch is None and at_s == self.first_s
        )
        now = {each.member_id: each for each in group.members}
        if not is_first:
            for gone in self.members.keys() - now.keys():
                self.events.append(Event(at_s, "member left", name_member(self.members[gone])))
            for new in now.keys() - self.members.keys():
                self.events.append(Event(at_s, "member joined", name_member(now[new])))
            if group.epoch != self.epoch:
                self.events.append(Event(at_s, "epoch", f"{self.epoch} → {group.epoch}"))
        self.members, self.epoch = now, group.epoch
        for where, member in group.owners.items():
            self.owners[where] = member.member_id
        self.awaited = {
            where: (each, self._awaited_since(where, each.waiter, at_s))
            for where, each in find_awaited(group, self.owners).items()
        }

    def _awaited_since(self, where: Where, waiter: str, at_s: float) -> Since:
        before = self.awaited.get(where)
        if before is not None and before[0].waiter == waiter:
            return before[1]
        return Since(at_s, at_s > self.first_s)

    def see_offsets(
        self,
        at_s: float,
        committed: Mapping[Where, int],
        ends: Mapping[Where, int],
        lags: Mapping[Where, int],
    ) -> None:
        """Note which committed offsets moved, and one sample of their sums."""
        for where, offset in committed.items():
            before = self.offsets.get(where)
            if before is None or before[0] != offset:
                self.offsets[where] = (offset, Since(at_s, before is not None))
        for gone in self.offsets.keys() - committed.keys():
            del self.offsets[gone]
        if not committed.keys() <= ends.keys():
            return  # a sum without some ends would be a jump
        if len(self.samples) > 1 and at_s - self.samples[-2].at_s < LEAST_SAMPLE_S:
            self.samples.pop()
        lag = sum(
            lags.get(where, max(0, ends[where] - offset)) for where, offset in committed.items()
        )
        end = sum(ends[where] for where in committed)
        self.samples.append(Sample(at_s, end - lag, end, lag, len(committed)))

    def rebalances(self, since_s: float) -> int:
        """Count the times that the group left STABLE for a rebalance since then."""
        return sum(
            1
            for event in self.events
            if event.at_s >= since_s
            and event.what == "state"
            and event.text.partition(" → ")[2] in REBALANCING
            and event.text.partition(" → ")[0] not in REBALANCING
        )


class Histories:
    """Of the groups that pages of a login have shown. For many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: OrderedDict[str, GroupHistory] = OrderedDict()

    def see_states(self, at_s: float, states: Iterable[tuple[str, str]]) -> None:
        """Note the states of a list of all groups (id, state): of those that rebalance, and of
        those that are watched already. A list may be older than what a coordinator has just said.
        """
        with self._lock:
            for group_id, state in states:
                history = self._of.get(group_id)
                if history is not None:
                    if at_s - history.described_s > LIST_S:
                        history.see_state(at_s, state)
                elif state in REBALANCING:
                    self._new(group_id, at_s, state)

    def see(
        self,
        at_s: float,
        group_id: str,
        state: str,
        group: DescribedGroup | None,
        offsets: tuple[Mapping[Where, int], Mapping[Where, int]],
        lags: Mapping[Where, int] = NO_LAGS,
    ) -> Seen:
        """Note a reading of a group, and return what was seen until now. `group`: None for a type
        that is not described. `offsets`: committed ones, and ends. `lags`: of a share group, whose
        records are done in any order; of others they are ends less committed offsets.
        """
        with self._lock:
            history = self._of.get(group_id) or self._new(group_id, at_s, state)
            self._of.move_to_end(group_id)
            history.described_s = at_s
            history.see_state(at_s, state)
            if group is not None:
                history.see_members(at_s, group)
            history.see_offsets(at_s, *offsets, lags)
            return Seen(
                at_s - history.first_s,
                history.state_since,
                {where: since for where, (_, since) in history.offsets.items()},
                dict(history.awaited),
                list(history.events),
                list(history.samples),
                history.rebalances(at_s - CHURN_S),
            )

    def _new(self, group_id: str, at_s: float, state: str) -> GroupHistory:
        history = GroupHistory(at_s, state, Since(at_s, False))
        self._of[group_id] = history
        if len(self._of) > HISTORIES.value:
            self._of.popitem(last=False)
        return history


def find_awaited(group: DescribedGroup, owners: Mapping[Where, str]) -> dict[Where, Awaited]:
    """Return the partitions that members of the new protocol are to get and have not got.

    `owners`: the members that had them last. Apache Kafka's answers leave out what a member still
    has to give back; then the last owner is the holder, if it is behind the group's epoch.
    """
    current = {where: each.member_id for where, each in group.owners.items()}
    behind = {
        each.member_id
        for each in group.members
        if each.epoch is not None
        and group.assignment_epoch is not None
        and each.epoch < group.assignment_epoch
    }
    found = {}
    for member in group.members:
        for where in set(member.target or ()) - set(member.assigned):
            holder = current.get(where) or owners.get(where)
            if holder == member.member_id or (where not in current and holder not in behind):
                holder = None
            found[where] = Awaited(member.member_id, holder)
    return found


def name_member(member: GroupMember) -> str:
    """Name a member as its operator knows it."""
    name = member.instance_id or member.client_id or member.member_id
    return f"{name} at {host_of(member)}"


def host_of(member: GroupMember) -> str:
    """Return the host as people write it; brokers put a slash before it."""
    return member.host.removeprefix("/")
