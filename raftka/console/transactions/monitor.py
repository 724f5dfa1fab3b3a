"""The state of a cluster for the page of transactions: transactional ids with their states, and
the partitions whose readers of committed records are held back, by which transactions and for which
groups.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, list_offsets_request
from raftka.client.blocking.every_broker import ask_brokers
from raftka.client.blocking.transaction_admin import (
    OPEN,
    ListedId,
    OpenTransaction,
    find_hanging,
    list_transactions,
    open_in_partitions,
)
from raftka.console.limits import DESCRIBED_TRANSACTIONS, HELD_PARTITIONS
from raftka.console.sessions import Session
from raftka.console.view.beside import Beside
from raftka.console.view.cached import Cached, Effort
from raftka.console.view.view import View
from raftka.wire.messages.fetch import READ_COMMITTED, READ_UNCOMMITTED
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS
from raftka.wire.messages.transactions import (
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    DescribedTransactionState,
)

IDS_S, HELD_S, METADATA_S, GROUPS_S = 2.0, 5.0, 2.0, 5.0  # ages that serve
HANGING, UNKNOWN = "hanging", "unknown"  # UNKNOWN: a coordinator that may know it is silent


class Ids(NamedTuple):
    """All transactional ids that the user may see; those with an open transaction described."""

    listed: Sequence[ListedId]
    described: Mapping[str, DescribedTransactionState]
    missing: Mapping[int, str]
    is_cut: bool  # more are open than were described


class Holder(NamedTuple):
    """An open transaction in a partition."""

    transaction: OpenTransaction
    state: str  # at its coordinator, or HANGING, UNKNOWN
    transactional_id: str | None  # None: no coordinator knows it
    timeout_ms: int | None
    started_ms: int | None


@dataclass(slots=True)
class HeldPartition:
    """A partition with records that readers of committed records do not see yet."""

    where: Where
    stable: int  # last stable offset
    end: int  # high watermark
    holders: list[Holder] = field(default_factory=list)  # the one that holds it back first
    waiting: list[str] = field(default_factory=list)  # groups that have read up to there


class Held(NamedTuple):
    partitions: Sequence[HeldPartition]
    missing: Mapping[int, str]
    is_cut: bool  # more partitions are held back than were looked at


class TransactionMonitor:
    """For many threads."""

    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session
        self._ids: Cached[Ids] = Cached(self._read_ids)
        self._held: Cached[Held] = Cached(self._read_held)

    def ids(self) -> Ids:
        """Raises OSError, ClientError and KafkaError, as `held` does."""
        return self._ids.get(IDS_S).value

    def held(self) -> Held:
        return self._held.get(HELD_S).value

    def forget(self) -> None:
        """Read anew: a transaction has been ended."""
        self._ids.forget()
        self._held.forget()

    def _read_ids(self, _: Effort) -> Ids:
        with self._session().client() as client:
            found = list_transactions(client, LIST_TRANSACTIONS.request())
            opened = [each for each in found.ids if each.state in OPEN]
            most = DESCRIBED_TRANSACTIONS.value
            described, missing = describe_listed(client, opened[:most])
        return Ids(found.ids, described, {**found.missing, **missing}, len(opened) > most)

    def _read_held(self, _: Effort) -> Held:
        view: View = self._session().view
        metadata = view.metadata(METADATA_S)
        with self._session().client() as client:
            client.brokers = dict(metadata.addresses)
            # in this order: what is committed between the two is not held back
            ends, missing = _ends(client, metadata.led, READ_UNCOMMITTED)
            answering = {
                node_id: own for node_id, own in metadata.led.items() if node_id not in missing
            }
            stable, more = _ends(client, answering, READ_COMMITTED)
            held = sorted(
                (where for where, end in ends.items() if stable.get(where, end) < end),
                key=lambda where: stable[where] - ends[where],
            )
            looked_at = held[: HELD_PARTITIONS.value]
            if looked_at:
                client.refresh({topic for topic, _ in looked_at})  # the leaders, all at once
            looked = open_in_partitions(client, looked_at)
            holders, silent = _holders(client, looked.found)
        found = {
            where: HeldPartition(where, stable[where], ends[where], holders.get(where, []))
            for where in looked_at
        }
        # one without a transaction has ended it meanwhile
        found = {where: each for where, each in found.items() if each.holders}
        if found:
            _add_groups(view, found)
        return Held(
            list(found.values()),
            {**missing, **more, **looked.missing, **silent},
            len(held) > len(looked_at),
        )


def describe_listed(
    client: Client, ids: Iterable[ListedId]
) -> tuple[dict[str, DescribedTransactionState], Mapping[int, str]]:
    """Describe ids at the brokers that listed them; return why brokers have not answered, too. An
    id that has gone meanwhile is left out.
    """
    by_broker: dict[int, list[str]] = {}
    for each in ids:
        by_broker.setdefault(each.coordinator, []).append(each.transactional_id)
    request = DESCRIBE_TRANSACTIONS.request
    answers = ask_brokers(
        client,
        DESCRIBE_TRANSACTIONS,
        {node_id: request(transactional_ids=own) for node_id, own in by_broker.items()},
    )
    found = {
        each.transactional_id: each
        for answer in answers.of.values()
        for each in answer.transaction_states
        if not each.error_code
    }
    return found, answers.missing


def _ends(
    client: Client, led: Mapping[int, Sequence[Where]], isolation: int
) -> tuple[dict[Where, int], Mapping[int, str]]:
    """Return the ends of all partitions that have a leader, for readers with this isolation."""
    rows = {
        node_id: list_offsets_request(dict.fromkeys(own, LATEST), isolation)
        for node_id, own in led.items()
        if node_id >= 0
    }
    answers = ask_brokers(client, LIST_OFFSETS, rows)
    found = {
        (topic.name, each.partition_index): each.offset
        for answer in answers.of.values()
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }
    return found, answers.missing


def _holders(
    client: Client, transactions: Sequence[OpenTransaction]
) -> tuple[dict[Where, list[Holder]], Mapping[int, str]]:
    """Return what the coordinators know of the transactions, by partition, the first ones first."""
    hanging, known = find_hanging(client, transactions)
    unknown = {each.identity for each in hanging}
    found: dict[Where, list[Holder]] = {}
    for each in sorted(transactions, key=lambda each: each.start_offset):
        row = known.by_identity.get(each.identity)
        if row is not None:
            started = row.transaction_start_time_ms
            holder = Holder(
                each,
                row.transaction_state,
                row.transactional_id,
                row.transaction_timeout_ms,
                started if started >= 0 else None,
            )
        elif each.identity in unknown:
            holder = Holder(each, HANGING if known.is_complete else UNKNOWN, None, None, None)
        else:
            continue  # it has ended meanwhile
        found.setdefault(each.where, []).append(holder)
    return found, known.missing


def _add_groups(view: View, found: Mapping[Where, HeldPartition]) -> None:
    """A group that has committed exactly the last stable offset has read all that it can."""
    committed = view.committed(list(view.groups(GROUPS_S).of), GROUPS_S)
    for group_id, offsets in sorted(committed.items()):
        for where, each in found.items():
            if offsets.get(where) == each.stable:
                each.waiting.append(group_id)


MONITORS: Beside[Session, TransactionMonitor] = Beside(TransactionMonitor)


def age_ms(started_ms: int | None, now: float | None = None) -> int | None:
    """Return milliseconds since then; None where the start is not known."""
    if started_ms is None or started_ms < 0:
        return None
    return max(0, round((now if now is not None else time.time()) * 1000) - started_ms)
