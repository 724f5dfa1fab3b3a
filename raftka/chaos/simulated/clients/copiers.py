"""Clients that consume, transform and produce in transactions: each record of an input partition
becomes one in every output topic, exactly once.

Several copiers have the same transactional id, and the last that has asked for it goes on. A
`Member` reads what its group gives it, and is fenced by the group's generation (KIP-447), a
`ConsumerMember` by its own epoch. All abort, sleep for longer than their transactions may last, and
end without a word.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import trio

from raftka.chaos.checks.transactions import Attempt, Place
from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer, batches_of, fetch_row
from raftka.chaos.simulated.clients.groups import Refused
from raftka.chaos.simulated.clients.transactional import (
    OF_GROUP,
    OF_MEMBERS,
    GaveUp,
    Ledger,
    TransactionalProducer,
)
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED
from raftka.wire.messages.groups import HEARTBEAT, JOIN_GROUP, SYNC_GROUP

OUTPUTS = ("tx-a", "tx-b")
OUTPUT_PARTITIONS = 2
SESSION_MS, HEARTBEAT_MS = 1200, 100
JOINS, LEAVES = 0, -1  # as an epoch
PAUSE_S = (0.0, 0.1)
IDLE_S = (0.5, 3.0)  # before a copier takes its id back
PADDING_BYTES = (0, 200)
RECORDS = (1, 4)
TRANSACTIONS = (3, 30)  # after which it begins anew, or leaves the work to another
ABORTS, ENDS_SILENTLY, ONE_BY_ONE, ABORTS_AFTER_ALL = 0.2, 0.03, 0.5, 0.3  # chances
LONGER = (0.5, 1.6)  # than a transaction may last: how long it sleeps


class Copier:
    sleeps = 0.04  # chance, of a transaction

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        transactional_id: str,
        group: str,
        sources: Sequence[Place],
        timeout_ms: int,
    ) -> None:
        self.client = client
        self.over = self.done = False
        # transactions that were committed, by input partition
        self.copied: Counter[Place] = Counter()
        self.pace = 1.0
        self.producer = TransactionalProducer(client, ledger, transactional_id, timeout_ms)
        self._ledger, self._group, self._sources = ledger, group, sources
        self._timeout_ms = timeout_ms
        self._random = client.runtime.random("copier")
        self._positions: dict[Place, int] = {}
        self._generation, self._member_id = -1, ""

    async def run(self) -> None:
        while not self.over:
            try:
                await self.producer.init()
                await self._work()
            except (Refused, GaveUp, NoAnswer):
                pass
            await self._rest()
        await self._leave()
        self.done = True

    async def _leave(self) -> None:
        """Leave the group once all is over."""

    async def _rest(self) -> None:
        await trio.sleep(self._random.uniform(*IDLE_S))

    async def _work(self) -> None:
        """Until the work is left to another client. Raises Refused, GaveUp: nothing more may be
        done before the id is taken again.
        """
        for source in self._sources:
            self._positions[source] = max(0, await self.producer.committed(self._group, source))
        for _ in range(self._random.randint(*TRANSACTIONS)):
            if self.over or not self._sources:
                return
            await self._copy(self._random.choice(self._sources))
            await trio.sleep(self._random.uniform(*PAUSE_S) * self.pace)

    async def _copy(self, source: Place) -> None:
        """In one transaction. One that is aborted leaves the position where it was."""
        offsets = await self._read(source)
        if not offsets:
            return
        random = self._random
        aborts = random.random() < ABORTS
        asleep_at = random.choice((0, 1, 2)) if random.random() < self.sleeps else -1
        attempt = self._ledger.begin(self.producer.transactional_id, source)
        batches = self._transformed(attempt, offsets)
        await self.producer.begin(list(batches))
        try:
            await self._sleep(asleep_at == 0)
            await self._produce(
                attempt, batches, random.randint(1, len(batches)) if aborts else len(batches)
            )
            await self._sleep(asleep_at == 1)
            if not aborts or random.random() < ABORTS_AFTER_ALL:
                await self.producer.send_offsets(
                    self._group, {source: offsets[-1] + 1}, self._generation, self._member_id
                )
            await self._sleep(asleep_at == 2)
        except Refused as refused:
            # an error after which a client may go on
            if refused.code in OF_MEMBERS or random.random() < ABORTS:
                await self.producer.end(attempt, commit=False)
            raise
        if random.random() < ENDS_SILENTLY:
            raise GaveUp
        await self.producer.end(attempt, commit=not aborts)
        if not aborts:
            self._positions[source] = offsets[-1] + 1
            self.copied[source] += 1
        if self.producer.doubtful and not self.producer.is_version_2:
            raise GaveUp  # a late request of this transaction would count in the next one

    async def _sleep(self, now: bool) -> None:
        if now:
            await trio.sleep(self._random.uniform(*LONGER) * self._timeout_ms / 1000)

    async def _read(self, source: Place) -> list[int]:
        """Offsets of the next records, a few; none when there are no more for now."""
        position = self._positions[source]
        row = fetch_row(*source, position)
        row.isolation_level, row.max_wait_ms = READ_COMMITTED, 200
        answer = await self.client.ask_leader(*source, FETCH, row)
        found = [offset for batch in batches_of(answer, position) for offset, _ in batch.records]
        return found[: self._random.randint(*RECORDS)]

    def _transformed(self, attempt: Attempt, offsets: Sequence[int]) -> dict[Place, list[bytes]]:
        found: dict[Place, list[bytes]] = {}
        for offset in offsets:
            for topic in OUTPUTS:
                place = topic, hash((attempt.source[1], offset // 3)) % OUTPUT_PARTITIONS
                found.setdefault(place, []).append(
                    attempt.value(offset, self._random.randint(*PADDING_BYTES))
                )
        return found

    async def _produce(
        self, attempt: Attempt, batches: dict[Place, list[bytes]], count: int
    ) -> None:
        """The first `count` of the batches, one after the other or all at once."""
        chosen = dict(list(batches.items())[:count])
        attempt.sent.update(chosen)
        if self._random.random() < ONE_BY_ONE:
            for place, values in chosen.items():
                await self.producer.produce(place, values)
            return
        failed: list[Exception] = []

        async def produce(place: Place, values: list[bytes]) -> None:
            try:
                await self.producer.produce(place, values)
            except (Refused, GaveUp) as error:
                failed.append(error)

        async with trio.open_nursery() as nursery:
            for place, values in chosen.items():
                nursery.start_soon(produce, place, values)
        if failed:
            raise failed[0]


class Member(Copier):
    """Of a classic group, whose leader shares out the input partitions; it sleeps often, and the
    others go on without it.
    """

    sleeps = 0.15

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        transactional_id: str,
        group: str,
        sources: Sequence[Place],
        timeout_ms: int,
    ) -> None:
        super().__init__(client, ledger, transactional_id, group, (), timeout_ms)
        self._all = sources

    async def _rest(self) -> None:
        await trio.sleep(self._random.uniform(*PAUSE_S))

    async def _work(self) -> None:
        where = await self.producer.coordinator(OF_GROUP, self._group)
        try:
            await self._join(where)
            await super()._work()
        except NoAnswer:
            self.producer.forget_coordinator(OF_GROUP, self._group)
            raise
        except Refused as refused:
            if refused.code in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE):
                self.producer.forget_coordinator(OF_GROUP, self._group)
            elif refused.code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
                self._member_id = ""
            raise

    async def _copy(self, source: Place) -> None:
        row = HEARTBEAT.request(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        _check(
            (
                await self.client.ask(
                    await self.producer.coordinator(OF_GROUP, self._group), HEARTBEAT, row
                )
            ).error_code
        )
        await super()._copy(source)

    async def _join(self, where: Address) -> None:
        request = JOIN_GROUP.request
        row = request(
            group_id=self._group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type="copy",
            protocols=[request.protocols(name="share", metadata=b"")],
        )
        joined = await self.client.ask(where, JOIN_GROUP, row, 2 * SESSION_MS / 1000)
        if joined.error_code == Code.MEMBER_ID_REQUIRED:
            self._member_id = row.member_id = joined.member_id
            joined = await self.client.ask(where, JOIN_GROUP, row, 2 * SESSION_MS / 1000)
        _check(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        members = (
            [each.member_id for each in joined.members] if joined.leader == self._member_id else []
        )
        shares = {
            each: bytes(p for p in range(len(self._all)) if p % len(members) == place)
            for place, each in enumerate(members)
        }
        sync = SYNC_GROUP.request
        asked = sync(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="copy",
            protocol_name="share",
            assignments=[
                sync.assignments(member_id=each, assignment=share) for each, share in shares.items()
            ],
        )
        synced = await self.client.ask(where, SYNC_GROUP, asked, 2 * SESSION_MS / 1000)
        _check(synced.error_code)
        self._sources = [self._all[p] for p in bytes(synced.assignment)]


class ConsumerMember(Member):
    """Of a group of the new protocol: the coordinator shares out all partitions of the topic, and
    it copies those that are the group's.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        transactional_id: str,
        group: str,
        sources: Sequence[Place],
        timeout_ms: int,
    ) -> None:
        super().__init__(client, ledger, transactional_id, group, sources, timeout_ms)
        self._topic = sources[0][0]
        self._owned: list[int] = []  # partitions

    async def _leave(self) -> None:
        try:
            await self._ask(LEAVES, whole=False)
        except (Refused, GaveUp, NoAnswer):
            pass  # its session will be over

    async def _copy(self, source: Place) -> None:
        await self._heartbeat(whole=False)
        if source in self._sources:
            await Copier._copy(self, source)

    async def _join(self, where: Address) -> None:
        """Until it has something to copy."""
        self._member_id = self._member_id or str(UUID(bytes=self._random.randbytes(16)))
        self._generation, self._owned, self._sources = JOINS, [], []
        await self._heartbeat(whole=True)
        while not self._sources and not self.over:
            await trio.sleep(HEARTBEAT_MS / 1000)
            await self._heartbeat(whole=False)

    async def _heartbeat(self, *, whole: bool) -> None:
        """Take and give up what the coordinator says, and tell it so. No transaction is open
        meanwhile.
        """
        while (
            assigned := await self._ask(self._generation, whole=whole)
        ) is not None and assigned != self._owned:
            for partition in set(assigned) - set(self._owned):
                if (source := (self._topic, partition)) in self._all:
                    self._positions[source] = max(
                        0, await self.producer.committed(self._group, source)
                    )
            self._owned, whole = assigned, True
            self._sources = [source for source in self._all if source[1] in assigned]

    async def _ask(self, epoch: int, *, whole: bool) -> list[int] | None:
        """A heartbeat; returns the partitions that it is to have, None: as before."""
        request = CONSUMER_GROUP_HEARTBEAT.request
        topic_id = await self.client.topic_id(self._topic)
        owned = (
            [request.topic_partitions(topic_id=topic_id, partitions=self._owned)]
            if self._owned
            else []
        )
        row = request(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=SESSION_MS if whole else -1,
            subscribed_topic_names=[self._topic] if whole else None,
            topic_partitions=owned if whole else None,
        )
        answer = await self.client.ask(
            await self.producer.coordinator(OF_GROUP, self._group), CONSUMER_GROUP_HEARTBEAT, row
        )
        _check(answer.error_code)
        self._generation = answer.member_epoch
        if answer.assignment is None:
            return None
        return sorted(
            p
            for each in answer.assignment.topic_partitions
            if bytes(each.topic_id) == topic_id
            for p in each.partitions
        )


def _check(code: int) -> None:
    if code:
        raise Refused(Code(code))


def outputs() -> list[Place]:
    return [(topic, partition) for topic in OUTPUTS for partition in range(OUTPUT_PARTITIONS)]
