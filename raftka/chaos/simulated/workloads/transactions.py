"""Transactions at work: producers of both versions of the protocol copy input partitions into two
output topics, offsets in the transaction.

Two clients share each transactional id, one always taking over from the other, and the members of a
group share what is left, in half of the lives by the new protocol (KIP-848); readers of what is
committed watch all outputs. In the end the logs' own markers judge: see
chaos/checks/transactions.py.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

import trio

from raftka.broker.coordinators.partition import LOADED, CoordinatorPartition
from raftka.broker.coordinators.runtime import partition_for
from raftka.broker.coordinators.transaction_service import TOPIC as TRANSACTIONS
from raftka.broker.replica.partition import Partition
from raftka.chaos.checks import transactions as checks
from raftka.chaos.checks.transactions import Entry, Place, Span
from raftka.chaos.simulated.checks import verify
from raftka.chaos.simulated.clients.client import Client
from raftka.chaos.simulated.clients.copiers import (
    HEARTBEAT_MS,
    OUTPUT_PARTITIONS,
    OUTPUTS,
    SESSION_MS,
    ConsumerMember,
    Copier,
    Member,
    outputs,
)
from raftka.chaos.simulated.clients.transactional import (
    TV1,
    TV2,
    CommittedReader,
    Ledger,
    TransactionalProducer,
)
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.group import OFFSETS, move_leaders
from raftka.coordinator.transactions.coordinator import TransactionCoordinator
from raftka.coordinator.transactions.records import State
from raftka.log.producers.markers import read_marker
from raftka.wire.records import CONTROL, TRANSACTIONAL, iterate, records_of

INPUT, INPUTS = "tx-in", 4  # the first half by transactional ids, the others by members
ALONE, TOGETHER = "tx-alone", "tx-together"  # groups
TIMEOUTS_MS = (1_200, 2_500, 5_000)
FED_S = (0.02, 0.15)  # between two batches of inputs
ALL_OVER_S = 20.0  # longer than any transaction may last, and than it takes to write markers
READ_BYTES = 1 << 30


class Feeder:
    """Writes the inputs, which are no more than their offsets."""

    def __init__(self, client: Client, pace: float) -> None:
        self.client, self.pace = client, pace
        self.over = self.done = False
        self.fed = 0

    async def run(self) -> None:
        random = self.client.runtime.random("feeder")
        producer_id, sequences = await self.client.producer_id(), [0] * INPUTS
        while not self.over:
            partition, count = random.randrange(INPUTS), random.randint(1, 4)
            await self.client.produce(
                INPUT, partition, [b"input"] * count, producer_id, sequences[partition]
            )
            sequences[partition] += count
            self.fed += count
            await trio.sleep(random.uniform(*FED_S) * self.pace)
        self.done = True


class TransactionWork:
    settings: ClassVar[Mapping[str, str]] = {
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": "100",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.session.timeout.ms": str(SESSION_MS),
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",  # leaderships go back and forth
    }
    topics: Sequence[tuple[str, int]] = (
        (INPUT, INPUTS),
        *((name, OUTPUT_PARTITIONS) for name in OUTPUTS),
        (TRANSACTIONS, 2),
        (OFFSETS, 2),
    )

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.over = False
        self.ledger: Ledger
        self.feeder: Feeder
        self.copiers: list[Copier] = []
        self.readers: list[CommittedReader] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        configs = {
            "min.insync.replicas": chance.choice("122"),
            "internal.segment.bytes": chance.choice(("1500", "6000", "1000000")),
        }
        for name, count in ((INPUT, INPUTS), *((name, OUTPUT_PARTITIONS) for name in OUTPUTS)):
            cluster.do(
                client,
                lambda name=name, count=count: client.create_topic(name, count, 3, configs),  # type: ignore[misc]
            )
        self.ledger = Ledger(lambda transactional_id: coordinator_in(cluster, transactional_id))
        self.feeder = Feeder(cluster.client("feeder"), self.pace)
        half = INPUTS // 2
        for partition in range(half):
            self._add(Copier, cluster, chance, f"tx-{partition}", 2, ALONE, [(INPUT, partition)])
        kind = cluster.world.random("protocol of the members").choice((Member, ConsumerMember))
        for number in range(2):
            self._add(
                kind,
                cluster,
                chance,
                f"tx-member-{number}",
                1,
                TOGETHER,
                [(INPUT, partition) for partition in range(half, INPUTS)],
            )
        self.readers = [
            CommittedReader(cluster.client(f"committed{i}"), place, chance)
            for i, place in enumerate(outputs())
        ]
        clients: list[Feeder | Copier | CommittedReader] = [
            self.feeder,
            *self.copiers,
            *self.readers,
        ]
        for each in clients:
            each.client.runtime.spawn(each.run, type(each).__name__)
        moved = [TRANSACTIONS, TRANSACTIONS, OFFSETS, *OUTPUTS]
        move_leaders(cluster, chance, moved, lambda: self.over)

    def _add(
        self,
        kind: type[Copier],
        cluster: Cluster,
        chance: Random,
        name: str,
        clients: int,
        group: str,
        sources: Sequence[Place],
    ) -> None:
        shape, timeout_ms = chance.choice((TV1, TV2)), chance.choice(TIMEOUTS_MS)
        for number in range(clients):
            client = cluster.client(
                f"{name}-{number}", shape if chance.random() < 0.8 else chance.choice((TV1, TV2))
            )
            copier = kind(client, self.ledger, name, group, sources, timeout_ms)
            copier.pace = self.pace
            self.copiers.append(copier)

    @property
    def wrong(self) -> list[str]:
        return [*self.ledger.wrong, *(wrong for each in self.readers for wrong in each.wrong)]

    @property
    def counts(self) -> Sequence[int]:
        """Inputs, and committed transactions of each input partition."""
        return [
            self.feeder.fed,
            *(
                sum(each.copied[INPUT, partition] for each in self.copiers)
                for partition in range(INPUTS)
            ),
        ]

    def end(self) -> None:
        self.over = self.feeder.over = True
        for each in self.copiers:
            each.over = True

    @property
    def ended(self) -> bool:
        """All readers have got what there is: no transaction keeps them waiting."""
        if not (self.feeder.done and all(each.done for each in self.copiers)):
            return False
        for each in self.readers:
            each.over = True
        return all(each.done for each in self.readers)

    def check(self, cluster: Cluster) -> list[str]:
        if not cluster.settled(lambda: not unfinished(cluster), ALL_OVER_S):
            return [
                f"hanging: {each}, {ALL_OVER_S} s after all have ended"
                for each in unfinished(cluster)
            ]
        spans: dict[Place, list[Span]] = {}
        found: list[str] = []
        for place in outputs():
            replicas = cluster.partitions(*place)
            leader = cluster.leader_of(*place) or 0
            spans[place] = checks.spans_of(entries_of(replicas[leader]))
            found += verify.replicas(cluster, *place)
            for node_id, partition in sorted(replicas.items()):
                listed = [
                    each[:3]
                    for each in partition.log.aborted.find(
                        partition.log.start_offset, partition.high_watermark
                    )
                ]
                found += checks.check_aborted(f"n{node_id}", spans[place], listed)
        found += checks.check_attempts(self.ledger.attempts, spans) + checks.check_copies(
            spans, self._committed(cluster)
        )
        for reader in self.readers:
            of_place = spans[reader.place]
            found += checks.check_read(
                reader.client.shape.name, reader.place, of_place, reader.read, reader.position
            )
            found += checks.check_stable(reader.place, of_place, reader.told)
        return found

    def _committed(self, cluster: Cluster) -> dict[Place, int]:
        asker = TransactionalProducer(cluster.client("last"), self.ledger, "nobody", TIMEOUTS_MS[0])
        groups = [ALONE] * (INPUTS // 2) + [TOGETHER] * (INPUTS - INPUTS // 2)
        return {
            (INPUT, partition): cluster.do(
                asker.client,
                lambda group=group, partition=partition: asker.committed(group, (INPUT, partition)),  # type: ignore[misc]
            )
            for partition, group in enumerate(groups)
        }


def coordinator_in(cluster: Cluster, transactional_id: str) -> CoordinatorPartition | None:
    """Return the coordinator of the id. None: the leader of its partition has not loaded it.

    Until then the leader before may begin a transaction, by its own wall clock. Where that one is
    behind, the transaction is over as soon as the new leader has loaded it.
    """
    topic = cluster.newest.image.topic_named(TRANSACTIONS)
    if topic is None:
        return None
    index = partition_for(transactional_id, len(topic.partitions))
    partition = topic.partitions[index]
    node = cluster.nodes.get(partition.leader)
    if node is None or not hasattr(node, "transactions"):
        return None
    found = node.transactions.runtime.partitions.get(index)
    has_loaded = (
        found is not None and found.state in LOADED and found.epoch == partition.leader_epoch
    )
    return found if has_loaded else None


def unfinished(cluster: Cluster) -> list[str]:
    """Transactions that some coordinator or some partition has still open."""
    found = []
    for node_id, node in cluster.judged.items():
        if not hasattr(node, "transactions"):
            continue
        for coordinator in node.transactions.runtime.partitions.values():
            machine = coordinator.machine
            assert isinstance(machine, TransactionCoordinator)
            if coordinator.state in LOADED and coordinator.partition.leader is not None:
                busy = (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
                found += [
                    f"{name} is in state {its.state.name} on n{node_id}"
                    for name, its in machine.transactions.items()
                    if its.state in busy
                ]
        for partition in node.replicas.partitions.values():
            found += [
                f"a transaction is open in {partition.name} on n{node_id} at {each}"
                for each in partition.log.producers.open
            ]
    return found


def entries_of(partition: Partition) -> list[Entry]:
    """Straight from a replica's log, up to its high watermark."""
    found: list[Entry] = []
    offset, end = partition.log.start_offset, partition.high_watermark
    while offset < end:
        spans, _ = partition.log.read(offset, READ_BYTES, end)
        if not spans:
            break
        for span in spans:
            for header, batch in iterate(memoryview(span.file.read(span.position, span.size))):
                marker = read_marker(batch) if header.attributes & CONTROL else None
                if marker is not None or header.attributes & TRANSACTIONAL:
                    values = (
                        []
                        if marker is not None
                        else [each.value or b"" for each in records_of(batch)]
                    )
                    commits = marker.commit if marker is not None else None
                    found.append(
                        Entry(
                            header.base_offset,
                            header.last_offset,
                            header.producer_id,
                            header.producer_epoch,
                            values,
                            commits,
                        )
                    )
                offset = header.last_offset + 1
    return found
