"""Transactions in bursts: producers of both versions of the protocol, each alone with its
transactional ids. The partitions of their topic have the same replicas, so that a request is for
many of them. In the end the logs' own markers judge: see chaos/checks/transactions.py.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar

from raftka.chaos.checks import transactions as checks
from raftka.chaos.simulated.clients.bursts import Burst
from raftka.chaos.simulated.clients.transactional import TV0, TV1, TV2, Ledger
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.transactions import (
    ALL_OVER_S,
    TransactionWork,
    coordinator_in,
    entries_of,
    unfinished,
)

TOPIC, PARTITIONS = "tx-bursts", 8


class BurstWork:
    settings: ClassVar[Mapping[str, str]] = TransactionWork.settings
    topics: Sequence[tuple[str, int]] = ((TOPIC, PARTITIONS),)

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.ledger: Ledger
        self.producers: list[Burst] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        brokers = [
            node_id for node_id in range(1, cluster.size + 1) if node_id not in cluster.controllers
        ]
        client, replicas = cluster.client(), chance.sample(brokers, min(3, len(brokers)))
        cluster.do(
            client,
            lambda: client.create_topic(
                TOPIC, PARTITIONS, 0, {"min.insync.replicas": "1"}, replicas
            ),
        )
        self.ledger = Ledger(lambda transactional_id: coordinator_in(cluster, transactional_id))
        places = [(TOPIC, partition) for partition in range(PARTITIONS)]
        for number, shape in enumerate((chance.choice((TV0, TV1)), TV2)):
            producer = Burst(
                cluster.client(f"burst{number}", shape),
                self.ledger,
                f"burst-{number}",
                places,
                self.pace,
            )
            self.producers.append(producer)
            producer.client.runtime.spawn(producer.run, "burst")

    @property
    def wrong(self) -> list[str]:
        return self.ledger.wrong

    @property
    def counts(self) -> Sequence[int]:
        """Transactions of each producer."""
        return [each.ended for each in self.producers]

    def end(self) -> None:
        for each in self.producers:
            each.over = True

    @property
    def ended(self) -> bool:
        return all(each.done for each in self.producers)

    def check(self, cluster: Cluster) -> list[str]:
        if not cluster.settled(lambda: not unfinished(cluster), ALL_OVER_S):
            return [
                f"hanging: {each}, {ALL_OVER_S} s after all have ended"
                for each in unfinished(cluster)
            ]
        spans = {}
        for partition in range(PARTITIONS):
            leader = cluster.partitions(TOPIC, partition)[cluster.leader_of(TOPIC, partition) or 0]
            spans[TOPIC, partition] = checks.spans_of(entries_of(leader))
        return checks.check_attempts(self.ledger.attempts, spans)
