"""Facts about one group: members, committed offsets, partitions, transactions that hold it back."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raftka.client.blocking.client import Client, Where, list_offsets_request
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.groups import (
    CLASSIC,
    DESCRIPTIONS,
    SHARE,
    DescribedGroup,
    GroupMember,
    describe_groups,
)
from raftka.client.blocking.share_groups import ShareOffset, share_offsets
from raftka.client.blocking.transaction_admin import (
    OpenTransaction,
    known_to_coordinators,
    open_in_partitions,
)
from raftka.console.groups.history import Histories, Seen, Since
from raftka.console.groups.next_records import FETCH_BY_NAME, NextRecord, RecordTimes
from raftka.console.limits import HELD_BACK
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED, READ_UNCOMMITTED
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS

if TYPE_CHECKING:
    from raftka.console.view.metadata import Metadata
    from raftka.console.view.view import View

COMMITTED_S, STARTS_S, METADATA_S = 1.0, 5.0, 2.0  # how old a kept value of the view may be here
NO_LEADER = -1
UNKNOWN_TYPE = "unknown"
DESCRIBED = (CLASSIC, *(each.type for each in DESCRIPTIONS))  # types


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    where: Where
    committed: int | None  # of a share group its start offset: the first record that is not done
    lag: int | None = None  # records that are not done
    start: int | None = None
    end: int | None = None
    stable: int | None = None  # the last stable offset: where readers of committed records stop
    leader: int | None = None  # NO_LEADER; None: there is no such partition
    error: str = ""  # Kafka's name of the error, if the end is not known
    # the members that have it: one, or several of a share group
    readers: Sequence[GroupMember] = ()
    still: Since | None = None  # since when the committed offset is the same
    next_record: NextRecord | None = None  # None: not looked for, or nothing is left

    @property
    def owner(self) -> GroupMember | None:
        return self.readers[0] if self.readers else None

    @property
    def done_ahead(self) -> int | None:
        """Records behind the committed offset that are done: a share group acknowledges each by
        itself.
        """
        if self.lag is None or self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed - self.lag)

    @property
    def is_held_back(self) -> bool:
        """Return whether an open transaction keeps readers of committed records from all that is
        left.
        """
        if self.committed is None or self.stable is None or self.end is None:
            return False
        if self.stable >= self.end or self.committed > self.stable:
            return False
        upcoming = self.next_record.offset if self.next_record is not None else None
        return self.committed == self.stable or (upcoming is not None and upcoming >= self.stable)

    def seconds(self, now_s: float) -> float | None:
        """Return the exact lag in seconds; None: not known, `next_record` may say why."""
        if self.lag == 0 or (self.next_record is not None and self.next_record.is_none):
            return 0.0
        if self.next_record is None or self.next_record.time_ms is None:
            return None
        return max(0.0, now_s - self.next_record.time_ms / 1000)


@dataclass(frozen=True, slots=True)
class Blocking:
    """An open transaction behind which a partition of the group is held back."""

    found: OpenTransaction
    transactional_id: str | None  # None: no coordinator knows it
    state: str | None
    age_s: float | None
    hangs: bool  # no coordinator knows it, and all of them have answered


@dataclass(frozen=True, slots=True)
class Facts:
    group_id: str
    type: str  # classic, consumer, share, streams
    state: str
    coordinator: int | None
    described: DescribedGroup | None  # None: of a type that this version does not describe
    partitions: Sequence[PartitionFacts]
    blocking: Sequence[Blocking]
    now_s: float  # seconds since 1970
    seen: Seen
    missing: Mapping[int, str]
    missing_topics: Sequence[str] = ()  # that the topology of a streams group needs

    @property
    def is_share(self) -> bool:
        return self.type == SHARE

    @property
    def members(self) -> Sequence[GroupMember]:
        return self.described.members if self.described is not None else ()

    @property
    def lag(self) -> int:
        return sum(each.lag or 0 for each in self.partitions)


def read_facts(
    view: "View",
    client: Client,
    group_id: str,
    histories: Histories,
    times: RecordTimes,
    now: Callable[[], float] = time.time,
) -> Facts:
    """Read all facts about a group. Raises KafkaError for a group that does not exist, OSError when
    its coordinator does not answer.
    """
    groups = view.groups()
    listed = groups.of.get(group_id)
    described, lost = describe_groups(client, [group_id])
    group = described.get(group_id)
    if group is None and group_id in lost:
        raise OSError(f"{group_id}: {lost[group_id]}")
    if group is None and (listed is None or listed.type in DESCRIBED):
        raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
    shares = None
    if group is not None and group.type == SHARE:
        shares = share_offsets(client, group_id)
        starts = ((where, each.start) for where, each in shares.items())
        committed = {where: start for where, start in starts if start is not None}
    else:
        committed = dict(view.committed([group_id], COMMITTED_S).get(group_id, {}))
    readers = group.readers if group is not None else {}
    metadata = view.metadata(METADATA_S)
    bounds = _Bounds(view, metadata, {*committed, *readers})
    now_s = now()
    state = group.state if group is not None else listed.state if listed is not None else ""
    lags = {where: each.lag for where, each in (shares or {}).items() if each.lag is not None}
    seen = histories.see(now_s, group_id, state, group, (committed, bounds.ends), lags)
    partitions = [
        bounds.facts(where, committed.get(where), readers.get(where, ()), seen.still.get(where))
        for where in sorted({*committed, *readers})
    ]
    if shares is not None:
        partitions = [_of_share(each, shares.get(each.where)) for each in partitions]
    partitions, missing = _with_next(view, metadata, times, partitions)
    return Facts(
        group_id,
        group.type if group is not None else listed.type if listed is not None else UNKNOWN_TYPE,
        state,
        group.coordinator if group is not None else listed.coordinator if listed else None,
        group,
        partitions,
        _read_blocking(client, [each.where for each in partitions if each.is_held_back], now_s),
        now_s,
        seen,
        {**groups.missing, **bounds.missing, **missing},
        _missing_topics(group, metadata) if group is not None else (),
    )


def _of_share(partition: PartitionFacts, offset: ShareOffset | None) -> PartitionFacts:
    """Return the facts with the lag that the share coordinator knows. Members of a share group may
    read what is not committed: open transactions hold them back only where they choose so.
    """
    return replace(partition, lag=offset.lag if offset is not None else None, stable=None)


def _missing_topics(group: DescribedGroup, metadata: "Metadata") -> list[str]:
    named = {
        name for each in group.topology for name in (*each.sources, *each.sinks, *each.changelogs)
    }
    return sorted(named - metadata.topics.keys())


class _Bounds:
    """Offsets of partitions. Their leaders are asked after the committed offsets were read, so the
    ends are not older than those.
    """

    def __init__(self, view: "View", metadata: "Metadata", wheres: Iterable[Where]) -> None:
        self._metadata = metadata
        wheres = sorted(wheres)
        self._failed: dict[Where, str] = {}
        self.missing: dict[int, str] = {}
        self.starts = view.starts(wheres, STARTS_S)
        self.stables = self._ask(view, wheres, READ_COMMITTED)
        self.ends = self._ask(view, wheres, READ_UNCOMMITTED)

    def _ask(self, view: "View", wheres: Iterable[Where], isolation: int) -> dict[Where, int]:
        rows = {
            node_id: list_offsets_request(dict.fromkeys(own, LATEST), isolation)
            for node_id, own in self._metadata.by_leader(wheres).items()
        }
        answers = view.ask(LIST_OFFSETS, rows)
        self.missing |= answers.missing
        found = {}
        for answer in answers.of.values():
            for topic in answer.topics:
                for each in topic.partitions:
                    where = (topic.name, each.partition_index)
                    if each.error_code:
                        self._failed[where] = name_of_code(each.error_code)
                    else:
                        found[where] = each.offset
        return found

    def facts(
        self,
        where: Where,
        committed: int | None,
        readers: Sequence[GroupMember],
        still: Since | None,
    ) -> PartitionFacts:
        there, end = self._metadata.partition(where), self.ends.get(where)
        return PartitionFacts(
            where,
            committed,
            max(0, end - committed) if committed is not None and end is not None else None,
            self.starts.get(where),
            end,
            self.stables.get(where),
            there.leader if there is not None else None,
            self._failed.get(where, ""),
            readers,
            still,
        )


def next_records(
    view: "View", metadata: "Metadata", times: RecordTimes, offsets: Mapping[Where, int]
) -> tuple[dict[Where, NextRecord], dict[int, str]]:
    """Read the first records at these offsets, and name brokers that have not answered."""
    return times.read(
        offsets,
        metadata.by_leader(offsets),
        lambda rows: view.ask(FETCH, rows, FETCH_BY_NAME),
    )


def with_times(
    view: "View", times: RecordTimes, partitions: Sequence[PartitionFacts]
) -> tuple[list[PartitionFacts], dict[int, str]]:
    """Return these partitions with the times of their next records."""
    return _filled(view, view.metadata(METADATA_S), times, partitions, partitions)


def _with_next(
    view: "View", metadata: "Metadata", times: RecordTimes, partitions: Sequence[PartitionFacts]
) -> tuple[list[PartitionFacts], dict[int, str]]:
    """Look at those that a transaction may hold back: only markers may be left before it."""
    suspects = [
        each
        for each in partitions
        if None not in (each.committed, each.stable, each.end)
        and (each.committed or 0) < (each.stable or 0) < (each.end or 0)
    ]
    return _filled(view, metadata, times, partitions, suspects[: HELD_BACK.value])


def _filled(
    view: "View",
    metadata: "Metadata",
    times: RecordTimes,
    partitions: Sequence[PartitionFacts],
    chosen: Iterable[PartitionFacts],
) -> tuple[list[PartitionFacts], dict[int, str]]:
    offsets = {
        each.where: each.committed
        for each in chosen
        if each.committed is not None and each.lag and each.leader not in (None, NO_LEADER)
    }
    found, missing = next_records(view, metadata, times, offsets)
    return [
        replace(each, next_record=found[each.where]) if each.where in found else each
        for each in partitions
    ], missing


def _read_blocking(client: Client, wheres: Sequence[Where], now_s: float) -> list[Blocking]:
    """Name the open transactions that begin first in these partitions, and what the coordinators
    know of them. Empty where brokers do not answer, or may not be asked by this login.
    """
    if not wheres:
        return []
    try:
        looked = open_in_partitions(client, wheres[: HELD_BACK.value])
        first: dict[Where, OpenTransaction] = {}
        for each in sorted(looked.found, key=lambda each: each.start_offset):
            first.setdefault(each.where, each)
        known = known_to_coordinators(client, list(first.values()))
    except (KafkaError, ClientError, OSError):
        return []
    found = []
    for each in first.values():
        row = known.by_identity.get(each.identity)
        start_ms = row.transaction_start_time_ms if row is not None else each.last_timestamp_ms
        found.append(
            Blocking(
                each,
                row.transactional_id if row is not None else None,
                row.transaction_state if row is not None else None,
                max(0.0, now_s - start_ms / 1000) if start_ms >= 0 else None,
                row is None and known.is_complete,
            )
        )
    return found
