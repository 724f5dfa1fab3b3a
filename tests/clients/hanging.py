"""Transactions in a live cluster, made request by request: one that its coordinator knows, and one
that nobody will end.
"""

import time
from typing import NamedTuple

from raftka.client.blocking.client import TRANSACTION, Client, is_retriable
from raftka.wire.errors import Code
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT
from raftka.wire.records import build_batch
from tests.broker.requests import produce

# with it a leader believes producers before KIP-890
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
BEFORE_KIP_890 = 11  # version of Produce


class Producer(NamedTuple):
    client: Client
    transactional_id: str
    producer_id: int
    epoch: int

    def add(self, topic: str, partition: int) -> None:
        request = ADD_PARTITIONS_TO_TXN.request
        row = request(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[request.v3_and_below_topics(name=topic, partitions=[partition])],
        )
        answer = self.client.ask_coordinator(
            self.transactional_id,
            ADD_PARTITIONS_TO_TXN,
            row,
            3,
            kind=TRANSACTION,
            passing=is_retriable,
        )
        assert [
            each.partition_error_code
            for of in answer.results_by_topic_v3_and_below
            for each in of.results_by_partition
        ] == [0]

    def send(self, topic: str, partition: int, *, age_ms: int = 0) -> int:
        """A record with a timestamp of so long ago; its offset."""
        record = (None, b"v", (), round(time.time() * 1000) - age_ms)
        data = bytes(
            build_batch(
                [record],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=0,
                transactional=True,
            )
        )
        request = produce(topic, data, partition, transactional_id=self.transactional_id)
        (row,) = (
            self.client.ask_leader((topic, partition), PRODUCE, request, BEFORE_KIP_890)
            .responses[0]
            .partition_responses
        )
        assert Code(row.error_code) is Code.NONE
        return row.base_offset

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """In the transaction."""
        row = TXN_OFFSET_COMMIT.request.topics
        request = TXN_OFFSET_COMMIT.request(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                row(
                    name=topic,
                    partitions=[row.partitions(partition_index=partition, committed_offset=offset)],
                )
            ],
        )
        answer = self.client.ask_coordinator(group, TXN_OFFSET_COMMIT, request, 3)
        assert [each.error_code for of in answer.topics for each in of.partitions] == [0]

    def end(self, *, commit: bool) -> int:
        """The error code."""
        row = END_TXN.request(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        return self.client.ask_coordinator(
            self.transactional_id, END_TXN, row, 4, kind=TRANSACTION, passing=is_retriable
        ).error_code


def begin(client: Client, transactional_id: str) -> Producer:
    row = INIT_PRODUCER_ID.request(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    answer = client.ask_coordinator(
        transactional_id, INIT_PRODUCER_ID, row, kind=TRANSACTION, passing=is_retriable
    )
    assert answer.error_code == 0
    return Producer(client, transactional_id, answer.producer_id, answer.producer_epoch)


def hang(client: Client, topic: str, partition: int, *, age_ms: int = 0) -> tuple[Producer, int]:
    """Open a transaction that no coordinator knows; its producer, and its first offset. The
    brokers' settings have UNVERIFIED.
    """
    producer = unknown(client)
    return producer, producer.send(topic, partition, age_ms=age_ms)


def unknown(client: Client) -> Producer:
    """With an id that no coordinator knows."""
    row = INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=60_000)
    answer = client.ask(INIT_PRODUCER_ID, row, passing=is_retriable)
    return Producer(client, "nobody-knows", answer.producer_id, answer.producer_epoch)
