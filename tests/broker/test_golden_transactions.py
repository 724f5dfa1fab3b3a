"""Transactions of Apache Kafka 4.3.1, recorded in golden_transactions.jsonl and asked again: the
same answers, but for what two tables tell.

Between the recorded exchanges topics were created, ids begun, most batches sent, and markers waited
for: PREPARED does it anew, as their comments say. Producer ids are inside of batches, so they must
be the recorded ones: the node gives them out in the same order. Times of the broker's clock are not
compared, those of clients are. What CONCURRENT_TRANSACTIONS refuses in Kafka waits here: HELD tells
which later exchange has that answer. A commit of nothing is sent twice (`sent_back`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftka.broker.coordinators.partition import LOADED
from raftka.coordinator.transactions.records import State
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import JOIN_GROUP, SYNC_GROUP
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT
from raftka.wire.records import build_batch, iterate
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
    recorded,
)
from tests.broker.requests import produce
from tests.broker.stage import BY_NAME, Stage, Wire
from tests.kit.broker.kafka_differences import TRANSACTIONS
from tests.kit.broker.transactions import Client, settled

EXCHANGES = recorded(Path(__file__).parent / "golden_transactions.jsonl")
BY_NUMBER = {exchange.n: exchange for exchange in EXCHANGES}
TOPICS = {  # of the recorded run
    "ta": UUID("5b3a8d42-6d31-44f8-852f-06e8e9615f27").bytes,
    "tb": UUID("149854e7-a9f6-45a2-a897-f2cacf1a4887").bytes,
    "tc": UUID("4a406b7f-deb9-43e0-b7af-acf7f873b87b").bytes,
    "il": UUID("bef436e9-e493-4b7a-b4e2-130dd9a13b15").bytes,
    "td": UUID("ccf1e256-e615-4e46-913c-ce8257997ce9").bytes,
    "tt": UUID("0759f75f-dc10-4ca6-b673-9b8c5600bc4c").bytes,
}
HELD = {154: 156, 173: 174, 190: 191}  # the later ones are not asked
CLIENT_MS = 1_795_408_201_000  # of every batch
CLOCK_MS = 1_795_408_214_000
OF_CLOCK = ("last_timestamp", "transaction_start_time_ms")
CONTROL = 0x20  # attribute of a batch


class TransactionReplay(Replay):
    sent_back = (80, 175, 193)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, EXCHANGES, TOPICS)
        self.clients: dict[str, Client] = {}
        self.parked: Wire | None = None

    def prepare(self, n: int, wire: Wire) -> int:
        if n in PREPARED:
            PREPARED[n](self)
        return CLOCK_MS + n  # some transactions have lasted for more than 0 ms

    def ask(self, exchange: Exchange, wire: Wire) -> Differences:
        if exchange.n in HELD.values():
            return {}
        if exchange.n in HELD:
            wire.send_frame(self.request(exchange))
            return self.compare(
                exchange._replace(response=BY_NUMBER[HELD[exchange.n]].response), wire.frame()
            )
        if exchange.n == 77:  # it waits since before 76
            assert self.parked is not None
            return self.compare(exchange, self.parked.frame())
        return super().ask(exchange, wire)

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name in OF_CLOCK and recorded > CLIENT_MS:
            return bool(ours >= CLOCK_MS)
        return super().same(path, name, recorded, ours)

    def content(self, records: memoryview) -> Any:
        """Markers have the broker's clock."""
        return [
            (header.base_offset, bytes(found))
            if not header.attributes & CONTROL
            else marker_of(header, found)
            for header, found in iterate(records)
        ]

    # what was done between the exchanges

    def begin(
        self, transactional_id: str, producer_id: int, epoch: int = 0, **fields: Any
    ) -> Client:
        client = self.clients.setdefault(transactional_id, Client(self.stage, transactional_id))
        assert client.init(**fields).error_code == 0
        assert client.pair == (producer_id, epoch)
        return client

    def send(self, transactional_id: str, topic: str, records: bytes, *, adds: bool = True) -> None:
        """A batch of the id's transaction, to partition 0; `adds`: as a client of transactions of
        version 1.
        """
        client = self.clients[transactional_id]
        if adds:
            assert client.add((topic, 0)) == [0]
        answer = client.wire.ask(
            PRODUCE, produce(topic, records, transactional_id=transactional_id), 11 if adds else 12
        )
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def plain(self, topic: str, records: bytes) -> None:
        answer = self.stage.wire().ask(PRODUCE, produce(topic, records), BY_NAME[PRODUCE.key])
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    def commit_in(self, transactional_id: str, group_id: str, offset: int = 1) -> None:
        client = self.clients[transactional_id]
        producer_id, epoch = client.pair
        row = ADD_OFFSETS_TO_TXN.request(
            transactional_id=client.id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=group_id,
        )
        assert client.wire.ask(ADD_OFFSETS_TO_TXN, row, 3).error_code == 0
        request = TXN_OFFSET_COMMIT.request
        asked = request.topics.partitions(
            partition_index=0, committed_offset=offset, committed_metadata="m"
        )
        given = request(
            transactional_id=client.id,
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[request.topics(name="ta", partitions=[asked])],
        )
        assert client.wire.ask(TXN_OFFSET_COMMIT, given, 3).topics[0].partitions[0].error_code == 0


def marker_of(header: Any, found: memoryview) -> tuple[int, int, int, int, bytes]:
    return (
        header.base_offset,
        header.attributes,
        header.producer_id,
        header.producer_epoch,
        bytes(found[61:]),
    )


def batch_at(n: int, offset: int) -> bytes:
    """A batch of the recorded answer to that Fetch, as its producer sent it."""
    ((partition,),) = [topic.partitions for topic in BY_NUMBER[n].answer.responses]
    (found,) = [
        bytes(each) for header, each in iterate(partition.records) if header.base_offset == offset
    ]
    return bytes(8) + found[8:12] + b"\xff" * 4 + found[16:]


def _create_topics(replay: TransactionReplay) -> None:
    """The recorded node had given out its first producer id, and its coordinators were loaded."""
    for name in TOPICS:
        replay.create(name, 3 if name == "ta" else 1)
    Client(replay.stage, "v0")
    wire = replay.stage.wire()
    answer = wire.ask(
        INIT_PRODUCER_ID,
        INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=60_000),
    )
    assert answer.producer_id == 0
    wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=0, coordinator_keys=["og"]))
    node = replay.stage.nodes[1]
    runtimes = node.transactions.runtime, node.groups.runtime
    replay.stage.wait(
        lambda: all(
            len(each.partitions) == 50
            and all(its.state in LOADED for its in each.partitions.values())
            for each in runtimes
        )
    )


def _park(replay: TransactionReplay) -> None:
    replay.parked = replay.stage.wire()
    replay.parked.send_frame(replay.request(BY_NUMBER[77]))
    replay.stage.wait(lambda: bool(replay.stage.partition("ta").idle_consumers))


def _three_open(replay: TransactionReplay) -> None:
    for producer_id, name in enumerate(("iA", "iB", "iC"), 9):
        replay.begin(name, producer_id)
    for offset, name in enumerate(("iA", "iB", "iC", "iA")):
        replay.send(name, "il", batch_at(102, offset))


def _over(transactional_id: str, state: str) -> Callable[[TransactionReplay], None]:
    """The markers are through."""

    def wait(replay: TransactionReplay) -> None:
        settled(
            replay.clients.get(transactional_id) or Client(replay.stage, transactional_id), state
        )

    return wait


def _end_of_session(replay: TransactionReplay) -> None:
    assert replay.clients["iA"].end(commit=False, version=4) == 0
    _over("iA", "CompleteAbort")(replay)


def _offsets_begin(replay: TransactionReplay) -> None:
    request = OFFSET_COMMIT.request
    topic = request.topics(
        name="ta", partitions=[request.topics.partitions(partition_index=0, committed_offset=1)]
    )
    assert (
        replay.stage.wire()
        .ask(OFFSET_COMMIT, request(group_id="og", topics=[topic]), 8)
        .topics[0]
        .partitions[0]
        .error_code
        == 0
    )
    replay.begin("to", 12)


def _member(replay: TransactionReplay) -> None:
    wire = replay.stage.wire()
    join = JOIN_GROUP.request(
        group_id="mg",
        group_instance_id="inst",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JOIN_GROUP.request.protocols(name="range", metadata=b"")],
    )
    joined = wire.ask(JOIN_GROUP, join, 7)
    sync = SYNC_GROUP.request(
        group_id="mg", generation_id=1, member_id=joined.member_id, group_instance_id="inst"
    )
    assert (joined.error_code, wire.ask(SYNC_GROUP, sync, 3).error_code) == (0, 0)
    replay.ids[b"inst-be6a7733-8e48-4d5c-a3ce-1cd58bd3b73d"] = joined.member_id.encode()
    replay.begin("tm", 13)
    row = ADD_OFFSETS_TO_TXN.request(
        transactional_id="tm", producer_id=13, producer_epoch=0, group_id="mg"
    )
    assert wire.ask(ADD_OFFSETS_TO_TXN, row, 3).error_code == 0


def _successor(replay: TransactionReplay) -> None:
    replay.begin("tf", 14)
    replay.send("tf", "ta", transactional(14, 0, 0))


def _open_again(replay: TransactionReplay) -> None:
    replay.clients["tf"].pair = (14, 3)
    assert replay.clients["tf"].add(("ta", 0)) == [0]


def _as_brokers(replay: TransactionReplay) -> None:
    replay.begin("tb1", 18)
    replay.begin("tb2", 19)
    replay.begin("tb1", 18, 1)


def _records_to_delete(replay: TransactionReplay) -> None:
    replay.begin("tdel", 20)
    replay.send("tdel", "td", transactional(20, 0, 0, b"a", b"b"))
    for _ in range(3):
        replay.plain("td", batch_at(246, 4))


def _topic_to_delete(replay: TransactionReplay) -> None:
    stage = replay.stage
    stage.create("gone")
    client = replay.begin("ttop", 21)
    assert client.add(("gone", 0), ("tb", 0)) == [0, 0]
    stage.delete("gone")
    stage.wait(lambda: stage.nodes[1].image.topic_named("gone") is None)


def _timed_out(replay: TransactionReplay) -> None:
    replay.begin("to1", 22, timeout_ms=1000)
    replay.send("to1", "tt", batch_at(250, 0))
    replay.begin("to2", 23, timeout_ms=1000)
    replay.send("to2", "tt", batch_at(250, 1), adds=False)
    for name in ("to1", "to2"):
        _over(name, "CompleteAbort")(replay)


def _epochs_run_out(replay: TransactionReplay) -> None:
    """32,766 times InitProducerId: the coordinator's memory is set instead."""
    replay.begin("e1", 24)
    replay.begin("e2", 25)
    for name, epoch in (("e1", 32765), ("e2", 32766)):
        _set_epoch(replay, name, epoch)


def _set_epoch(replay: TransactionReplay, transactional_id: str, epoch: int) -> None:
    runtime = replay.stage.nodes[1].transactions.runtime
    machine: Any = runtime.partitions[runtime.partition_for(transactional_id)].machine
    its = machine.transactions[transactional_id]
    assert its.state is State.EMPTY
    machine.transactions[transactional_id] = replace(its, epoch=epoch)


def _third_epochs(replay: TransactionReplay) -> None:
    replay.begin("e3", 27)
    _set_epoch(replay, "e3", 32766)


def transactional(producer_id: int, epoch: int, sequence: int, *values: bytes) -> bytes:
    records = [(None, value, (), CLIENT_MS) for value in values or (b"v",)]
    return bytes(
        build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )


def begins(transactional_id: str, producer_id: int) -> Callable[[TransactionReplay], None]:
    return lambda replay: void(replay.begin(transactional_id, producer_id))


def void(_: object) -> None:
    return None


PREPARED: dict[int, Callable[[TransactionReplay], None]] = {
    1: _create_topics,
    16: begins("ve", 7),
    20: _over("ve", "CompleteCommit"),
    21: begins("t1", 8),
    42: lambda replay: replay.plain("ta", batch_at(43, 4)),
    76: _park,
    78: _over("t1", "CompleteCommit"),
    89: lambda replay: replay.plain("ta", batch_at(90, 9)),
    90: _over("t1", "CompleteAbort"),
    97: _three_open,
    98: _over("iB", "CompleteAbort"),
    100: _over("iA", "CompleteCommit"),
    102: _over("iC", "CompleteAbort"),
    106: lambda replay: replay.send("iA", "il", batch_at(108, 7)),
    108: _end_of_session,
    110: _offsets_begin,
    139: _over("to", "CompleteCommit"),
    141: lambda replay: replay.commit_in("to", "og", 77),
    142: _over("to", "CompleteAbort"),
    143: lambda replay: replay.commit_in("to", "og", 78),
    145: _over("to", "CompleteCommit"),
    146: _member,
    153: _over("tm", "CompleteCommit"),
    154: _successor,
    173: _open_again,
    175: begins("t2s", 15),
    179: _over("t2s", "CompleteCommit"),
    180: begins("t2", 16),
    191: _over("t2", "CompleteCommit"),
    203: _over("t2", "CompleteAbort"),
    205: _over("t2", "CompleteAbort"),
    208: begins("t2b", 17),
    212: _over("t2b", "CompleteCommit"),
    214: _as_brokers,
    220: lambda replay: replay.send("tb1", "ta", transactional(18, 1, 0)),
    241: _records_to_delete,
    246: _over("tdel", "CompleteAbort"),
    247: _topic_to_delete,
    248: _over("ttop", "CompleteCommit"),
    249: _timed_out,
    260: _epochs_run_out,
    264: _third_epochs,
    268: _over("e2", "CompleteCommit"),
}


# the tests


@cache
def replayed() -> dict[int, Differences]:
    with Stage(transaction_max_timeout_ms="900000", group_initial_rebalance_delay_ms="0") as stage:
        return TransactionReplay(stage).run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(TRANSACTIONS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(TRANSACTIONS))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(TRANSACTIONS, n, replayed()[n])
