"""A share group at work: members share two partitions, and finish each record in one of all ways,
while the leaders of the partitions and of both coordinators' logs move and die.

In the end all records are done: the share coordinator says so, and its state, the log and the
members' story must agree (chaos/checks/shares.py).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import inf
from random import Random
from typing import ClassVar

import trio

from raftka.broker.coordinators import share_persister
from raftka.broker.share.dead_letters import COPIES as WITH_COPIES
from raftka.broker.share.dead_letters import TAKES_LETTERS, TOPIC_OF_GROUP
from raftka.chaos.checks.shares import (
    Final,
    Promises,
    check_committed,
    check_ends,
    check_story,
)
from raftka.chaos.checks.transactions import Span, spans_of
from raftka.chaos.simulated.clients.client import RETRY_S, Address, Client, NoAnswer
from raftka.chaos.simulated.clients.groups import Refused
from raftka.chaos.simulated.clients.share_offsets import REWOUND, OffsetsAdministrator
from raftka.chaos.simulated.clients.share_states import StateReader, configure, letters_of
from raftka.chaos.simulated.clients.sharing import GROUP, JOBS, Notes, ShareMember
from raftka.chaos.simulated.clients.transactional import (
    TV2,
    GaveUp,
    Ledger,
    TransactionalProducer,
)
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.group import OFFSETS, move_leaders
from raftka.chaos.simulated.workloads.transactions import coordinator_in, entries_of

RESET, ISOLATION = "share.auto.offset.reset", "share.isolation.level"
STATES = "__share_group_state"
PARTITIONS, MEMBERS = 2, 4
LOCK_MS, MARGIN_S = 1000, 0.01  # clocks of machines differ
LIMITS = (2, 3, 5)  # of deliveries
TRIES = (1, 1, 10)  # of a request to a share coordinator: with one of them writes fail
FED_S = (0.02, 0.15)  # between two batches
LOOKS_EVERY_S = 0.3
TIMEOUT_MS = 2500  # of a transaction
ABORTS = 0.3  # chance
IN_TRANSACTIONS, READS_COMMITTED, HAS_LETTERS, COPIES = 0.5, 0.8, 0.6, 0.5  # chances, of a life
LETTERS, LETTER_PARTITIONS = "dlq.jobs", 2


class Feeder:
    """Writes the records, each with a value of its own."""

    def __init__(self, client: Client, fed: list[int], pace: float) -> None:
        """`fed`: the number of records of each partition that are surely there."""
        self.client, self.fed, self.pace = client, fed, pace
        self.over = self.done = False

    async def run(self) -> None:
        random = self.client.runtime.random("feeder")
        producer_id = await self.client.producer_id()
        while not self.over:
            partition, count = random.randrange(PARTITIONS), random.randint(1, 4)
            fed = self.fed[partition]
            values = [b"job %d-%d" % (partition, fed + number) for number in range(count)]
            await self.client.produce(JOBS, partition, values, producer_id, fed)
            self.fed[partition] += count
            await trio.sleep(random.uniform(*FED_S) * self.pace)
        self.done = True


class TransactionalFeeder(Feeder):
    """Writes the records in transactions, of which it aborts some."""

    def __init__(self, client: Client, fed: list[int], pace: float, ledger: Ledger) -> None:
        super().__init__(client, fed, pace)
        # when it asked for a commit, by number of the transaction, with which its values end
        self.committed_at: dict[int, float] = {}
        self._ledger = ledger
        self._random = client.runtime.random("feeder")
        self._written = 0

    async def run(self) -> None:
        producer = TransactionalProducer(self.client, self._ledger, "feeder", TIMEOUT_MS)
        begins_anew = True
        while not self.over:
            try:
                if begins_anew:
                    await producer.init()
                begins_anew = False
                await self._transact(producer)
            except (Refused, GaveUp):
                begins_anew = True
            await trio.sleep(self._random.uniform(*FED_S) * self.pace)
        while not self.done:
            # the answer to InitProducerId waits for the markers of the last transaction
            try:
                await producer.init()
                self.done = True
            except (Refused, GaveUp):
                await trio.sleep(RETRY_S)

    async def _transact(self, producer: TransactionalProducer) -> None:
        attempt = self._ledger.begin("feeder", (JOBS, 0))
        written = [0] * PARTITIONS
        partitions = self._random.sample(range(PARTITIONS), self._random.randint(1, PARTITIONS))
        await producer.begin([(JOBS, partition) for partition in partitions])
        for _ in range(self._random.randint(1, 3)):
            partition, count = self._random.choice(partitions), self._random.randint(1, 4)
            values = [b"job %d of %d" % (self._written + i, attempt.number) for i in range(count)]
            self._written += count
            await producer.produce((JOBS, partition), values)
            written[partition] += count
            await trio.sleep(self._random.uniform(*FED_S) * self.pace)
        commits = self._random.random() >= ABORTS
        if commits:
            self.committed_at[attempt.number] = self.client.runtime.clock.now()
        await producer.end(attempt, commit=commits)
        if commits:
            self.fed[:] = [before + more for before, more in zip(self.fed, written, strict=True)]


class ShareWork:
    settings: ClassVar[Mapping[str, str]] = {
        "offsets.topic.num.partitions": "2",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.snapshot.update.records.per.snapshot": "10",
        "group.share.session.timeout.ms": "1000",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.heartbeat.interval.ms": "100",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.assignment.interval.ms": "100",
        "group.share.initialize.retry.interval.ms": "500",
        "group.share.min.record.lock.duration.ms": str(LOCK_MS),
        "transaction.state.log.num.partitions": "2",
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",  # leaderships go back and forth
    }
    topics: Sequence[tuple[str, int]] = (
        (JOBS, PARTITIONS),
        (LETTERS, LETTER_PARTITIONS),
        (STATES, 2),
        (OFFSETS, 2),
    )

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.over = False
        self.limit = LIMITS[0]
        self.notes = Notes(LOCK_MS)
        self.fed = [0] * PARTITIONS
        self.feeder: Feeder
        self.ledger: Ledger
        self.config: dict[str, str] = {}  # of the group
        self.members: list[ShareMember] = []
        self.administrator: OffsetsAdministrator

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        configs = {"min.insync.replicas": "2"}
        cluster.do(client, lambda: client.create_topic(JOBS, PARTITIONS, 3, configs))
        # with more than one replica that must be in sync a leader gives up a letter at once
        configs = {TAKES_LETTERS: "true", "min.insync.replicas": "1"}
        cluster.do(client, lambda: client.create_topic(LETTERS, LETTER_PARTITIONS, 3, configs))
        self.limit = chance.choice(LIMITS)
        share_persister.TRIES = chance.choice(TRIES)  # until the life's end (restored())
        more = cluster.world.random("records of the share group")
        self.config = self._config(more)
        cluster.do(client, lambda: configure(client, GROUP, self.config))
        cluster.do(client, lambda: configure(client, REWOUND, {RESET: "earliest"}))
        self.notes.term_of = lambda address, partition: term(cluster, address, partition)
        self.ledger = Ledger(lambda transactional_id: coordinator_in(cluster, transactional_id))
        self._begin_clients(cluster, in_transactions=more.random() < IN_TRANSACTIONS)
        cluster.settled(lambda: len(self.notes.accepted) == PARTITIONS, 20.0)
        moved = [JOBS, JOBS, STATES, OFFSETS, LETTERS]
        move_leaders(cluster, chance, moved, lambda: self.over)
        reader = cluster.client("reader of states")
        reader.runtime.spawn(lambda: self._watch(cluster, StateReader(reader)), "watch")

    def _config(self, chance: Random) -> dict[str, str]:
        found = {
            RESET: "earliest",
            "share.record.lock.duration.ms": str(LOCK_MS),
            "share.delivery.count.limit": str(self.limit),
        }
        if chance.random() < READS_COMMITTED:
            found[ISOLATION] = "read_committed"
        if chance.random() < HAS_LETTERS:
            found[TOPIC_OF_GROUP] = LETTERS
            found[WITH_COPIES] = "true" if chance.random() < COPIES else "false"
        return found

    def _begin_clients(self, cluster: Cluster, *, in_transactions: bool) -> None:
        self.feeder = (
            TransactionalFeeder(cluster.client("feeder", TV2), self.fed, self.pace, self.ledger)
            if in_transactions
            else Feeder(cluster.client("feeder"), self.fed, self.pace)
        )
        self.members = [
            ShareMember(cluster.client(f"share{number}"), self.notes) for number in range(MEMBERS)
        ]
        self.administrator = OffsetsAdministrator(cluster.client("administrator of offsets"))
        self.administrator.pace = self.pace
        clients: list[Feeder | ShareMember | OffsetsAdministrator] = [
            self.feeder,
            *self.members,
            self.administrator,
        ]
        for each in clients:
            each.client.runtime.spawn(each.run, type(each).__name__)
        for member in self.members:
            member.pace = self.pace
            member.client.runtime.spawn(member.keep_in_group, "heartbeats")

    def _spans(self, cluster: Cluster, partition: int) -> list[Span]:
        """Return the transactions in this partition, as its leader's log has them."""
        leader = cluster.partitions(JOBS, partition).get(cluster.leader_of(JOBS, partition) or 0)
        return spans_of(entries_of(leader)) if leader is not None else []

    def _aborted(self, cluster: Cluster, partition: int) -> frozenset[int]:
        """Return the offsets that the group leaves out."""
        if ISOLATION not in self.config:
            return frozenset()
        spans = self._spans(cluster, partition)
        return frozenset(
            offset for span in spans if not span.committed for offset, _ in span.values
        )

    async def _watch(self, cluster: Cluster, reader: StateReader) -> None:
        """Let the members go when all records are done."""
        while not self.notes.is_finished:
            await trio.sleep(LOOKS_EVERY_S)
            try:
                self.notes.is_finished = self.feeder.done and all(
                    [
                        await reader.is_finished(partition, fed, self._aborted(cluster, partition))
                        for partition, fed in enumerate(self.fed)
                    ]
                )
            except NoAnswer:
                continue

    @property
    def promises(self) -> Promises:
        return Promises(self.limit, LOCK_MS / 1000 - MARGIN_S)

    @property
    def wrong(self) -> list[str]:
        return [*self.notes.wrong, *self.administrator.wrong, *self.ledger.wrong]

    @property
    def counts(self) -> Sequence[int]:
        """Records written, and records accepted, of each partition."""
        return [*self.fed, *(self.notes.accepted[each] for each in range(PARTITIONS))]

    def end(self) -> None:
        if self.over:
            return
        # before the rest: a life that does not come to its end shows why
        self.notes.wrong.extend(check_story(self.notes.story, self.promises))
        self.over = self.feeder.over = self.administrator.over = True
        for each in self.members:
            each.over = True

    @property
    def ended(self) -> bool:
        return self.feeder.done and all(each.done for each in (*self.members, self.administrator))

    def check(self, cluster: Cluster) -> list[str]:
        reader, found = StateReader(cluster.client("last")), []
        finals, visible_at = {}, {}
        topic = cluster.newest.image.topic_named(JOBS)
        assert topic is not None
        letters = cluster.do(
            reader.client, lambda: letters_of(reader.client, LETTERS, LETTER_PARTITIONS, GROUP)
        )
        for partition, image in enumerate(topic.partitions):
            state, records = cluster.do(
                reader.client, partial(reader.final, partition, image.leader_epoch)
            )
            markers = {span.marker for span in self._spans(cluster, partition)}
            finals[JOBS, partition] = Final(
                state,
                len(records),
                is_drained=True,
                letters=frozenset(letters[partition]) if TOPIC_OF_GROUP in self.config else None,
                letters_lost=_letters_lost(cluster, partition),
                aborted=self._aborted(cluster, partition),
            )
            visible_at[JOBS, partition] = self._visible_at(cluster, partition)
            found += [
                f"another record: {JOBS}-{partition} at {offset} is delivered as "
                f"{self.notes.values[partition, offset]!r}"
                for offset, value in records
                if self.notes.values.get((partition, offset), value) != value
            ]
            if self.config.get(WITH_COPIES) == "true":
                found += _copies(dict(records), markers, letters[partition], partition)
        story, promises = self.notes.story, self.promises
        if ISOLATION in self.config:
            found += check_committed(story, visible_at)
        return found + check_story(story, promises) + check_ends(story, promises, finals)

    def _visible_at(self, cluster: Cluster, partition: int) -> dict[int, float]:
        """Return when each record's transaction was asked to commit; infinity: it was aborted."""
        feeder = self.feeder
        if not isinstance(feeder, TransactionalFeeder):
            return {}
        return {
            offset: feeder.committed_at[int(value.split()[-1])] if span.committed else inf
            for span in self._spans(cluster, partition)
            for offset, value in span.values
        }


def _copies(
    records: Mapping[int, bytes],
    markers: Collection[float],
    letters: Mapping[int, bytes | None],
    partition: int,
) -> list[str]:
    """Compare the values of dead letters with those of their records."""
    return [
        f"another letter: {JOBS}-{partition} at {offset} has {value!r} in {LETTERS}"
        for offset, value in letters.items()
        if offset not in markers and value != records[offset]
    ]


def _letters_lost(cluster: Cluster, partition: int) -> int:
    """Return how many records brokers say to have archived without a letter."""
    said = [
        re.findall(r"(?:partition|records)=(\d+)", line)
        for line in cluster.log.saying("share_dead_letters_lost")
    ]
    return sum(int(records) for index, records in said if int(index) == partition)


def term(cluster: Cluster, address: Address, partition: int) -> object:
    """Return the share partition at this broker, which stays the same while the broker keeps its
    state. None: it has none, or another broker leads, of which it may not have heard.
    """
    node = next(
        (node for node_id, node in cluster.judged.items() if f"n{node_id}" == address[0]), None
    )
    newest = cluster.newest.image.topic_named(JOBS)
    if node is None or newest is None:
        return None
    share = node.share_leader._places.get((newest.topic_id, partition), {}).get(GROUP)
    if share is None or share.leadership.leader_epoch != newest.partitions[partition].leader_epoch:
        return None
    return share
