"""The rights that each request of transactions needs, and the end of a request whose client goes
while it waits.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from raftka.broker.controller.producer_ids import ProducerIds
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    LIST_TRANSACTIONS,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from tests.broker.requests import batch
from tests.broker.stage import Stage
from tests.kit.broker.transactions import Client, DenyOnResource, adding, write


@pytest.fixture
def client() -> Iterator[Client]:
    with Stage(transaction_state_log_num_partitions="1") as stage:
        stage.create("t", 2)
        stage.create("u")
        client = Client(stage)
        assert client.init().error_code == 0
        yield client
        assert not stage.world.failures


def add_offsets(client: Client) -> int:
    row = ADD_OFFSETS_TO_TXN.request(
        transactional_id="x",
        producer_id=client.pair[0],
        producer_epoch=client.pair[1],
        group_id="g",
    )
    return int(client.wire.ask(ADD_OFFSETS_TO_TXN, row).error_code)


def of_brokers(client: Client) -> int:
    return int(
        client.wire.ask(ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN.request(), 5).error_code
    )


def commit_offsets(client: Client) -> list[int]:
    request = TXN_OFFSET_COMMIT.request
    topics = [
        request.topics(
            name=name, partitions=[request.topics.partitions(partition_index=0, committed_offset=1)]
        )
        for name in ("t", "u")
    ]
    row = request(
        transactional_id="x",
        group_id="g",
        producer_id=client.pair[0],
        producer_epoch=client.pair[1],
        topics=topics,
    )
    return [
        each.error_code
        for topic in client.wire.ask(TXN_OFFSET_COMMIT, row, 5).topics
        for each in topic.partitions
    ]


def write_markers(client: Client) -> list[int]:
    request = WRITE_TXN_MARKERS.request
    topic = request.markers.topics(name="t", partition_indexes=[0])
    marker = request.markers(
        producer_id=client.pair[0],
        producer_epoch=client.pair[1],
        transaction_result=True,
        topics=[topic],
    )
    (answer,) = client.wire.ask(WRITE_TXN_MARKERS, request(markers=[marker]), 1).markers
    return [each.error_code for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize(
    ("denied", "ask", "told"),
    [
        (
            ("WRITE", "transactional-id", "x"),
            lambda client: client.init().error_code,
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            ("WRITE", "transactional-id", "x"),
            lambda client: client.add(("t", 0), ("u", 0)),
            [Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2,
        ),
        (
            ("WRITE", "topic", "u"),
            lambda client: client.add(("t", 0), ("u", 0)),
            [Code.OPERATION_NOT_ATTEMPTED, Code.TOPIC_AUTHORIZATION_FAILED],
        ),
        (
            ("WRITE", "transactional-id", "x"),
            add_offsets,
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (("READ", "group", "g"), add_offsets, Code.GROUP_AUTHORIZATION_FAILED),
        (
            ("WRITE", "transactional-id", "x"),
            lambda client: client.end(),
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (
            ("CLUSTER_ACTION", "cluster", "kafka-cluster"),
            of_brokers,
            Code.CLUSTER_AUTHORIZATION_FAILED,
        ),
        (
            ("WRITE", "transactional-id", "x"),
            commit_offsets,
            [Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2,
        ),
        (("READ", "group", "g"), commit_offsets, [Code.GROUP_AUTHORIZATION_FAILED] * 2),
        (
            ("ALTER,CLUSTER_ACTION", "cluster", "kafka-cluster"),
            write_markers,
            [Code.CLUSTER_AUTHORIZATION_FAILED],
        ),
        (
            ("DESCRIBE", "transactional-id", "x"),
            lambda client: client.describe().error_code,
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_who_may_not_is_refused_and_nothing_has_changed(
    client: Client, denied: Any, ask: Callable[[Client], Any], told: Any
) -> None:
    dispatcher = client.stage.nodes[1].dispatcher
    before, dispatcher.authorizer = dispatcher.authorizer, DenyOnResource(*denied)

    assert ask(client) == told

    dispatcher.authorizer = before
    found = client.describe()
    assert (found.transaction_state, found.producer_epoch, list(found.topics)) == ("Empty", 0, [])


def test_topics_and_ids_that_a_client_may_not_describe_are_left_out(client: Client) -> None:
    client.add(("t", 0), ("u", 0))
    dispatcher = client.stage.nodes[1].dispatcher

    dispatcher.authorizer = DenyOnResource("DESCRIBE", "topic", "u")
    assert [topic.topic for topic in client.describe().topics] == ["t"]
    dispatcher.authorizer = DenyOnResource("DESCRIBE", "transactional-id", "x")
    answer = client.wire.ask(LIST_TRANSACTIONS, LIST_TRANSACTIONS.request())
    assert (answer.error_code, list(answer.transaction_states)) == (0, [])


@pytest.mark.parametrize(
    ("api", "goes_first"),
    [
        (ADD_PARTITIONS_TO_TXN, False),
        (INIT_PRODUCER_ID, False),
        (INIT_PRODUCER_ID, True),
        (END_TXN, False),
    ],
    ids=lambda given: str(getattr(given, "name", given)),
)
def test_what_waits_for_markers_is_dropped_when_its_client_goes(
    client: Client, api: Any, goes_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`goes_first`: before the request comes to the coordinator, as when InitProducerId waits for a
    block of producer ids.
    """
    stage = client.stage
    (coordinator,) = stage.nodes[1].transactions.runtime.partitions.values()
    machine: Any = coordinator.machine
    assert client.add(("t", 0)) == [0]
    sent: list[Any] = []
    monkeypatch.setattr(stage.nodes[1].transactions.sender, "_spread", sent.append)
    assert client.end(version=3) == 0
    producer_id, epoch = client.pair
    rows = {
        ADD_PARTITIONS_TO_TXN: adding("x", client.pair, ("t", 1)),
        INIT_PRODUCER_ID: INIT_PRODUCER_ID.request(
            transactional_id="x", transaction_timeout_ms=1000
        ),
        END_TXN: END_TXN.request(
            transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=True
        ),
    }
    may_come = trio.Event()
    if not goes_first:
        may_come.set()
    asked: list[ProducerIds] = []
    taken: list[int] = []
    take = ProducerIds.next

    async def late(self: ProducerIds) -> int:
        asked.append(self)
        await may_come.wait()
        taken.append(await take(self))
        return taken[-1]

    monkeypatch.setattr(ProducerIds, "next", late)
    wire = stage.wire()
    wire.request(api, rows[api], 3)
    stage.wait(lambda: bool(asked) if goes_first else len(machine._holds) == 1)

    (connection,) = [each for each in stage.nodes[1].dispatcher.connections if each.slots]
    stage.nodes[1].runtime.take(lambda _: connection.abort("the client is gone"), None)  # type: ignore[attr-defined]
    stage.wait(lambda: connection.gone)
    stage.nodes[1].runtime.take(lambda _: may_come.set(), None)  # type: ignore[attr-defined]
    # it would be held for a second
    stage.wait(lambda: not machine._holds and (not goes_first or bool(taken)), at_most_s=0.5)

    assert not machine._held
    assert not coordinator.waiting
    monkeypatch.undo()
    for markers in sent:
        stage.nodes[1].transactions.sender._spread(markers)
    stage.wait(lambda: client.describe().transaction_state == "CompleteCommit")


def test_offsets_of_a_topic_that_a_client_may_not_read_are_refused_and_the_others_are_committed(
    client: Client,
) -> None:
    asked = FIND_COORDINATOR.request(coordinator_keys=["g"])
    client.stage.wait(
        lambda: client.wire.ask(FIND_COORDINATOR, asked).coordinators[0].error_code == Code.NONE
    )
    client.stage.nodes[1].dispatcher.authorizer = DenyOnResource("READ", "topic", "u")

    assert commit_offsets(client) == [Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("other", ["ALTER", "CLUSTER_ACTION"])
def test_who_has_one_of_the_two_rights_may_write_markers(client: Client, other: str) -> None:
    client.stage.nodes[1].dispatcher.authorizer = DenyOnResource(other, "cluster", "kafka-cluster")

    assert write_markers(client) == [Code.NONE]


@pytest.mark.parametrize("acks", [1, -1])
def test_right_on_an_id_that_is_taken_away_counts_for_the_next_transactional_batch(
    client: Client, acks: int
) -> None:
    """Also where requests that look alike are answered the short way."""
    assert client.add(("t", 0)) == [0]
    wire = client.stage.wire()
    assert [write(client, wire, sequence, acks=acks) for sequence in range(5)] == [0] * 5
    assert PRODUCE.key in client.stage.server_side().plans
    dispatcher = client.stage.nodes[1].dispatcher
    before, dispatcher.authorizer = (
        dispatcher.authorizer,
        DenyOnResource("WRITE", "transactional-id", "x"),
    )

    assert write(client, wire, 5, acks=acks) == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    dispatcher.authorizer = before
    assert write(client, wire, 5, acks=acks) == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_an_id_needs_no_right_where_no_batch_is_transactional(client: Client, acks: int) -> None:
    assert client.add(("t", 0)) == [0]
    wire = client.stage.wire()
    client.stage.nodes[1].dispatcher.authorizer = DenyOnResource("WRITE", "transactional-id", "x")

    assert [write(client, wire, 0, transactional=False, acks=acks) for _ in range(5)] == [0] * 5
    assert PRODUCE.key in client.stage.server_side().plans
    assert write(client, wire, 0, acks=acks) == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert write(client, wire, 0, transactional=False, acks=acks) == 0


def test_one_transactional_batch_of_several_asks_for_the_right(client: Client) -> None:
    assert client.add(("t", 0)) == [0]
    client.stage.nodes[1].dispatcher.authorizer = DenyOnResource("WRITE", "transactional-id", "x")
    row = PRODUCE.request.topic_data
    transactional = batch(
        b"v",
        producer_id=client.pair[0],
        producer_epoch=client.pair[1],
        base_sequence=0,
        transactional=True,
    )
    partitions = [
        row.partition_data(index=index, records=records)
        for index, records in enumerate((batch(b"v"), transactional))
    ]
    request = PRODUCE.request(
        transactional_id="x",
        acks=-1,
        timeout_ms=1000,
        topic_data=[row(name="t", partition_data=partitions)],
    )

    (answer,) = client.stage.wire().ask(PRODUCE, request, 12).responses

    assert [each.error_code for each in answer.partition_responses] == [
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ] * 2
