"""A transactional producer on the small client, of both versions of the protocol; and a reader of
what is committed.

It repeats what was not answered, and gives up when that takes too long or a broker refuses it for
good: then it begins anew with InitProducerId. A refusal must have a cause: another client has the
id, the transaction's time is over, its coordinator has changed or changes (the next one goes by its
own wall clock), or an earlier request may have come late. Without one it is a violation.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf
from random import Random

import trio

from raftka.chaos.checks.transactions import Attempt, Place, Result
from raftka.chaos.simulated.clients.client import (
    PASSES,
    PRODUCE_TIMEOUT_MS,
    RETRY_S,
    Address,
    Client,
    NoAnswer,
    end_row,
    fetch_row,
    only_partition,
)
from raftka.chaos.simulated.clients.groups import Refused
from raftka.chaos.simulated.clients.shapes import PLAIN, Shape
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH, READ_COMMITTED, FetchRequest, PartitionData
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.list_offsets import LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.offsets import OFFSET_FETCH, OffsetFetchResponse
from raftka.wire.messages.produce import PRODUCE, PartitionProduceData
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    AddPartitionsToTxnResponse,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
)
from raftka.wire.records import CONTROL, TRANSACTIONAL, build_batch, iterate, records_of
from raftka.wire.schema import AnyApi, Api, Req, Resp

OF_GROUP, OF_TRANSACTION = 0, 1  # types of keys in FindCoordinator
LATE_S = 10.0  # for so long a request without an answer may still come
PATIENCE_S = (2.0, 8.0)  # after which a client gives up
IN_TIME = 0.9  # of a transaction's time-out: until then it is not over
MOVED = frozenset({Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE})
WAITS = MOVED | {
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.CONCURRENT_TRANSACTIONS,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.REQUEST_TIMED_OUT,
    Code.UNSTABLE_OFFSET_COMMIT,
    Code.NETWORK_EXCEPTION,
}
OF_MEMBERS = frozenset(
    {
        Code.ILLEGAL_GENERATION,
        Code.STALE_MEMBER_EPOCH,
        Code.UNKNOWN_MEMBER_ID,
        Code.REBALANCE_IN_PROGRESS,
        Code.FENCED_INSTANCE_ID,
    }
)
VERSIONS_1 = {
    ADD_PARTITIONS_TO_TXN.key: 3,
    ADD_OFFSETS_TO_TXN.key: 3,
    TXN_OFFSET_COMMIT.key: 3,
    END_TXN.key: 4,
    PRODUCE.key: 11,
}
VERSIONS_0 = {  # librdkafka's
    ADD_PARTITIONS_TO_TXN.key: 0,
    ADD_OFFSETS_TO_TXN.key: 0,
    TXN_OFFSET_COMMIT.key: 3,
    END_TXN.key: 1,
    PRODUCE.key: 10,
    INIT_PRODUCER_ID.key: 4,
}
VERSIONS_2 = {TXN_OFFSET_COMMIT.key: 5, END_TXN.key: 5, PRODUCE.key: 12}
TV1 = Shape("transactions-1", {**PLAIN.versions, **VERSIONS_1})
TV0 = Shape("transactions-0", {**PLAIN.versions, **VERSIONS_0})
TV2 = Shape("transactions-2", {**PLAIN.versions, **VERSIONS_2})


class GaveUp(Exception):
    """No answer that says anything for too long, or the client ended without a word."""


class Ledger:
    """The transactions of all clients together."""

    def __init__(self, coordinator: Callable[[str], object]) -> None:
        """`coordinator`: of a transactional id, another object after each load of its partition;
        None while that is not loaded.
        """
        self.attempts: list[Attempt] = []
        self.wrong: list[str] = []
        self.coordinator = coordinator
        # the highest producer id and epoch that InitProducerId has given out
        self._granted: dict[str, tuple[int, int]] = {}
        self._asked: dict[str, int] = defaultdict(int)  # how often it was asked for one
        self._waiting: dict[str, int] = defaultdict(int)  # how many are asking
        # from then on nothing may come late
        self._calm: dict[str, float] = defaultdict(lambda: -inf)

    def begin(self, who: str, source: Place) -> Attempt:
        self.attempts.append(attempt := Attempt(len(self.attempts), who, source))
        return attempt

    def asks(self, transactional_id: str, now: float) -> int:
        """For the id. `answered` must follow: the order of requests that overlap is unknown."""
        if self._waiting[transactional_id]:
            self.doubt(transactional_id, now)
        self._waiting[transactional_id] += 1
        self._asked[transactional_id] += 1
        return self._asked[transactional_id]

    def answered(self, transactional_id: str) -> None:
        self._waiting[transactional_id] -= 1

    def doubt(self, transactional_id: str, now: float) -> None:
        """A request was not answered, and will be repeated or forgotten."""
        self._calm[transactional_id] = now + LATE_S

    def granted(self, transactional_id: str, producer: tuple[int, int]) -> None:
        self._granted[transactional_id] = max(
            self._granted.get(transactional_id, (-1, -1)), producer
        )

    def fenced(self, transactional_id: str, producer: tuple[int, int]) -> bool:
        return producer < self._granted[transactional_id]

    def undisturbed(self, transactional_id: str, asked: int, since: float) -> bool:
        """No other client has asked for the id, and nothing of before may have come late."""
        return self._asked[transactional_id] == asked and self._calm[transactional_id] < since


class TransactionalProducer:
    def __init__(
        self, client: Client, ledger: Ledger, transactional_id: str, timeout_ms: int
    ) -> None:
        self.client = client
        self.ledger = ledger
        self.transactional_id = transactional_id
        self.before = (-1, -1)  # its pair in the transaction that it has ended
        # of version 1: a request of this epoch may come in the next transaction
        self.doubtful = False
        self._timeout_ms = timeout_ms
        self._random = client.runtime.random("transactional producer")
        self._adds_itself = client.shape.version(END_TXN) != VERSIONS_2[END_TXN.key]
        self._producer_id = self._epoch = -1
        self._sequences: dict[Place, int] = defaultdict(int)
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._asked, self._since = 0, 0.0  # the last InitProducerId
        self._began = 0.0
        self._began_with: object = None  # this coordinator

    @property
    def _now(self) -> float:
        return self.client.runtime.clock.now()

    # a session

    async def init(self) -> None:
        """Take the transactional id: earlier transactions are over, and their clients fenced.
        Raises Refused, GaveUp.
        """
        request = INIT_PRODUCER_ID.request(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        self.doubtful, self._since, self._began = False, self._now, self._now
        self._began_with = self.ledger.coordinator(self.transactional_id)

        self._asked = self.ledger.asks(self.transactional_id, self._now)
        try:
            answer = await self._ask(
                OF_TRANSACTION, INIT_PRODUCER_ID, request, lambda row: {row.error_code}
            )
        finally:
            self.ledger.answered(self.transactional_id)
        self._take(answer.producer_id, answer.producer_epoch)
        self.ledger.granted(self.transactional_id, (self._producer_id, self._epoch))

    def _take(self, producer_id: int, epoch: int) -> None:
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences.clear()

    async def begin(self, places: Sequence[Place]) -> None:
        """`places`: partitions that will be written to. Raises Refused, GaveUp."""
        self._began, self._began_with = self._now, self.ledger.coordinator(self.transactional_id)
        if not self._adds_itself:
            return
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in places:
            topics[topic].append(partition)
        request = ADD_PARTITIONS_TO_TXN.request
        rows = [
            request.v3_and_below_topics(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
        row = request(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=rows,
        )

        def codes(answer: AddPartitionsToTxnResponse) -> set[int]:
            return {
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }

        await self._ask(OF_TRANSACTION, ADD_PARTITIONS_TO_TXN, row, codes)

    async def produce(self, place: Place, values: Sequence[bytes]) -> None:
        """Returns when all in-sync replicas have the batch. Raises Refused, GaveUp."""
        now = self.client.runtime.clock.wall_ms()
        until = self._now + self._random.uniform(*PATIENCE_S)
        producer = {
            "producer_id": self._producer_id,
            "producer_epoch": self._epoch,
            "base_sequence": self._sequences[place],
        }
        batch = build_batch(
            [(None, value, (), now) for value in values], **producer, transactional=True
        )
        self._sequences[place] += len(values)
        while self._now < until:
            leader = await self.client.leader(*place)
            row = self.client.produce_row(*place, batch)
            row.transactional_id = self.transactional_id
            try:
                found = only_partition(PRODUCE, await self.client.ask(leader.address, PRODUCE, row))
            except NoAnswer:
                pass
            else:
                code = Code(found.error_code)
                if code is Code.NONE:
                    return
                if code not in PASSES and code not in WAITS:
                    raise self._refused(PRODUCE.name, code)
            await self.client.lost_leader(*place)
        self.ledger.doubt(self.transactional_id, self._now)
        raise GaveUp

    async def produce_together(self, batches: Mapping[Place, Sequence[bytes]]) -> None:
        """As `produce`, with one request for all partitions of a leader."""
        now = self.client.runtime.clock.wall_ms()
        until = self._now + self._random.uniform(*PATIENCE_S)
        left: dict[Place, bytearray] = {}
        for place, values in batches.items():
            producer = {
                "producer_id": self._producer_id,
                "producer_epoch": self._epoch,
                "base_sequence": self._sequences[place],
            }
            left[place] = build_batch(
                [(None, value, (), now) for value in values], **producer, transactional=True
            )
            self._sequences[place] += len(values)
        while left and self._now < until:
            by_leader: dict[Address, list[Place]] = defaultdict(list)
            for place in left:
                by_leader[(await self.client.leader(*place)).address].append(place)
            for address, places in by_leader.items():
                await self._produce_at(address, {place: left[place] for place in places}, left)
            if left:
                await self.client.lost_leaders(left)
        if left:
            self.ledger.doubt(self.transactional_id, self._now)
            raise GaveUp

    async def _produce_at(
        self, address: Address, batches: Mapping[Place, bytearray], left: dict[Place, bytearray]
    ) -> None:
        """Take those that are written out of `left`. Raises Refused."""
        request = PRODUCE.request
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for (topic, partition), batch in batches.items():
            topics[topic].append(request.topic_data.partition_data(index=partition, records=batch))
        rows = [
            request.topic_data(name=name, partition_data=partitions)
            for name, partitions in topics.items()
        ]
        row = request(
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            transactional_id=self.transactional_id,
            topic_data=rows,
        )
        try:
            answer = await self.client.ask(address, PRODUCE, row)
        except NoAnswer:
            return
        for of_topic in answer.responses:
            for each in of_topic.partition_responses:
                code = Code(each.error_code)
                if code is Code.NONE:
                    del left[of_topic.name, each.index]
                elif code not in PASSES and code not in WAITS:
                    raise self._refused(f"{PRODUCE.name} to {of_topic.name}-{each.index}", code)

    async def send_offsets(
        self, group: str, offsets: Mapping[Place, int], generation: int = -1, member_id: str = ""
    ) -> None:
        """Raises Refused, GaveUp."""
        if self._adds_itself:
            first = ADD_OFFSETS_TO_TXN.request(
                transactional_id=self.transactional_id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                group_id=group,
            )
            await self._ask(OF_TRANSACTION, ADD_OFFSETS_TO_TXN, first, lambda row: {row.error_code})
        request = TXN_OFFSET_COMMIT.request
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
        for (name, partition), offset in offsets.items():
            topics[name].append(
                request.topics.partitions(
                    partition_index=partition, committed_offset=offset, committed_metadata=""
                )
            )
        row = request(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                request.topics(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

        def codes(answer: TxnOffsetCommitResponse) -> set[int]:
            return {each.error_code for topic in answer.topics for each in topic.partitions}

        await self._ask(OF_GROUP, TXN_OFFSET_COMMIT, row, codes, key=group)

    async def end(self, attempt: Attempt, *, commit: bool) -> None:
        """Raises Refused, GaveUp."""
        row = END_TXN.request(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commit,
        )
        asked = [0]

        def asks() -> None:
            asked[0] += 1
            if asked[0] == 1:
                attempt.fenced = self.ledger.fenced(
                    self.transactional_id, (self._producer_id, self._epoch)
                )
            attempt.result = Result.UNKNOWN if commit else Result.ABORTED

        try:
            answer = await self._ask(
                OF_TRANSACTION, END_TXN, row, lambda row: {row.error_code}, asks
            )
        except Refused:
            if asked[0] == 1:
                attempt.result = Result.ABORTED
            raise
        attempt.result = Result.COMMITTED if commit else Result.ABORTED
        self.before = self._producer_id, self._epoch
        if not self._adds_itself:
            self._take(answer.producer_id, answer.producer_epoch)

    # what may follow an end at once, while its markers are on their way

    async def end_as(
        self, pair: tuple[int, int], expects: Code, *, commit: bool
    ) -> tuple[int, int]:
        """EndTxn of the producer `pair`; returns the pair that it answers. Raises Refused,
        GaveUp.
        """
        row = END_TXN.request(
            transactional_id=self.transactional_id,
            producer_id=pair[0],
            producer_epoch=pair[1],
            committed=commit,
        )
        answer = await self._ask(
            OF_TRANSACTION, END_TXN, row, lambda row: {row.error_code}, expects=expects
        )
        return answer.producer_id, answer.producer_epoch

    async def abort_nothing(self) -> None:
        """End the next transaction before it has begun. Raises Refused, GaveUp."""
        self._take(*await self.end_as(self.pair, Code.NONE, commit=False))

    async def init_as(self, pair: tuple[int, int]) -> tuple[int, int]:
        """InitProducerId of the producer `pair`; returns the pair that it answers. Raises Refused,
        GaveUp.
        """
        request = INIT_PRODUCER_ID.request(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=pair[0],
            producer_epoch=pair[1],
        )
        answer = await self._ask(
            OF_TRANSACTION, INIT_PRODUCER_ID, request, lambda row: {row.error_code}
        )
        self._take(answer.producer_id, answer.producer_epoch)
        self.ledger.granted(self.transactional_id, self.pair)
        return self.pair

    @property
    def pair(self) -> tuple[int, int]:
        """Its producer id and epoch."""
        return self._producer_id, self._epoch

    def wrong(self, what: str) -> None:
        """An answer is not what it must be: a violation where there is no cause."""
        if self._is_undisturbed():
            self.ledger.wrong.append(
                f"{self.transactional_id} of epoch {self._epoch}: {what}, without a cause"
            )

    async def committed(self, group: str, place: Place) -> int:
        """The offset that the group has for the partition, when no transaction is about to change
        it. Raises GaveUp.
        """
        ids = {place[0]: await self.client.topic_id(place[0])}
        row = self.client.shape.fetch_offsets(group, {place[0]: [place[1]]}, ids)
        row.require_stable = True

        def codes(answer: OffsetFetchResponse) -> set[int]:
            found = self.client.shape.offsets(answer)
            return {found.error_code} | {
                each.error_code for topic in found.topics for each in topic.partitions
            }

        answer = await self._ask(OF_GROUP, OFFSET_FETCH, row, codes, key=group)
        return int(self.client.shape.offsets(answer).topics[0].partitions[0].committed_offset)

    # asking

    async def _ask(
        self,
        kind: int,
        api: Api[Req, Resp],
        row: Req,
        codes_of: Callable[[Resp], set[int]],
        asks: Callable[[], None] = lambda: None,
        key: str = "",
        expects: Code = Code.NONE,
    ) -> Resp:
        """Ask the coordinator until it has an answer; `asks` is called before each try. `expects`:
        the right answer. Raises Refused, GaveUp.
        """
        key = key or self.transactional_id
        until, tries = self._now + self._random.uniform(*PATIENCE_S), 0
        while self._now < until or not tries:
            where, tries = await self.coordinator(kind, key), tries + 1
            asks()
            try:
                answer = await self.client.ask(where, api, row)
            except NoAnswer:
                self.doubtful = True
                self.ledger.doubt(self.transactional_id, self._now)
                self._coordinators.pop((kind, key), None)
                continue
            codes = {Code(code) for code in codes_of(answer)} - {Code.NONE}
            if codes == {expects} - {Code.NONE}:
                return answer
            if not codes:
                raise self._refused(api.name, Code.NONE)
            for code in codes - WAITS:
                raise self._refused(api.name, code)
            if codes & MOVED:
                self._coordinators.pop((kind, key), None)
            await trio.sleep(RETRY_S)
        raise GaveUp

    @property
    def is_version_2(self) -> bool:
        return not self._adds_itself

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def coordinator(self, kind: int, key: str) -> Address:
        while (kind, key) not in self._coordinators:
            row = self.client.shape.find_coordinator([key])
            row.key_type = kind
            (found,) = self.client.shape.coordinators(
                await self.client.anybody(FIND_COORDINATOR, row)
            )
            if found.error_code == Code.NONE:
                self._coordinators[kind, key] = found.host, found.port
            else:
                await trio.sleep(RETRY_S)
        return self._coordinators[kind, key]

    def _is_undisturbed(self) -> bool:
        in_time = self._now < self._began + IN_TIME * self._timeout_ms / 1000
        coordinator = self.ledger.coordinator(self.transactional_id)
        return (
            in_time
            and coordinator is not None
            and coordinator is self._began_with
            and self.ledger.undisturbed(self.transactional_id, self._asked, self._since)
        )

    def _refused(self, name: str, code: Code) -> Refused:
        if code not in OF_MEMBERS and self._is_undisturbed():
            self.ledger.wrong.append(
                f"{name} of {self.transactional_id} is refused with {code.name}, epoch "
                f"{self._epoch}, without a cause"
            )
        return Refused(code)


class CommittedReader:
    """Follows one partition at isolation level read_committed, and leaves out what was aborted as
    clients do.
    """

    def __init__(self, client: Client, place: Place, chance: Random) -> None:
        self.client = client
        self.place = place
        self.over = self.done = False
        self.wrong: list[str] = []
        self.position = 0
        self.read: list[tuple[int, bytes]] = []
        self.told: set[tuple[int, int]] = set()  # high watermark, last stable offset
        self._random = chance
        self._stable = (-1, -1)  # leader epoch, last stable offset: the last that was told
        self._least = 0  # the last stable offset is not before it

    async def run(self) -> None:
        while not (self.over and await self._at_the_end()):
            leader = await self.client.leader(*self.place)
            ends = self._random.random() < 0.15
            api: AnyApi = LIST_OFFSETS if ends else FETCH
            row: ListOffsetsRequest | FetchRequest = end_row(*self.place, leader.epoch)
            if not ends:
                row = fetch_row(*self.place, self.position, leader.epoch)
            row.isolation_level = READ_COMMITTED
            try:
                found = only_partition(api, await self.client.ask(leader.address, api, row))
            except NoAnswer:
                await self.client.lost_leader(*self.place)
                continue
            if found.error_code:
                if Code(found.error_code) not in PASSES:
                    self._wrong(f"{api.name} is refused with {Code(found.error_code).name}")
                await self.client.lost_leader(*self.place)
            elif ends:
                self._ends_at(found.offset)
            else:
                self._took(found, leader.epoch)
        self.done = True

    async def _at_the_end(self) -> bool:
        return self.position >= await self.client.end_offset(*self.place)

    def _ends_at(self, offset: int) -> None:
        if offset < max(self._least, self.position):
            self._wrong(
                f"the last stable offset was {max(self._least, self.position)}, now it is {offset}"
            )
        self._least = max(self._least, offset)

    def _took(self, answer: PartitionData, epoch: int) -> None:
        stable = answer.last_stable_offset
        if (epoch, stable) < self._stable:
            self._wrong(f"last stable offset {stable} of epoch {epoch} after {self._stable}")
        self._stable = epoch, stable
        self.told.add((answer.high_watermark, stable))
        if answer.aborted_transactions is None:
            self._wrong("is not told what was aborted")
        aborted = sorted(
            ((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()),
            reverse=True,
        )
        left_out: set[int] = set()
        for header, batch in iterate(memoryview(answer.records or b"")):
            if header.last_offset >= stable:
                self._wrong(f"is given {header.last_offset}, the last stable offset is {stable}")
            while aborted and aborted[-1][0] <= header.last_offset:
                left_out.add(aborted.pop()[1])
            if header.attributes & CONTROL:
                left_out.discard(header.producer_id)
            elif not (header.attributes & TRANSACTIONAL and header.producer_id in left_out):
                self.read += [
                    (each.offset, each.value or b"")
                    for each in records_of(batch)
                    if each.offset >= self.position
                ]
            self.position = max(self.position, header.last_offset + 1)

    def _wrong(self, what: str) -> None:
        self.wrong.append(
            f"reader of what is committed of {self.place[0]}-{self.place[1]} at {self.position}: "
            f"{what}"
        )
