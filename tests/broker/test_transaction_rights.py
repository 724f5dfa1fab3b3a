"""What a client must be allowed for each request of transactions, and what becomes of a request whose client goes while it waits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftka.broker.network.authorizer import Resource
from raftka.broker.network.session import Session
from raftka.wire.errors import Code
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.transactions import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, LIST_TRANSACTIONS
from tests.broker.stage import Stage
from tests.broker.test_transactions import Client, adding


class Deny:
    """Denies one operation on one resource."""

    def __init__(self, operation: str, *resource: str) -> None:
        self.denied = operation, resource

    def allowed(self, session: Session, operation: str, resource: Resource) -> bool:
        return (operation, tuple(resource)) != self.denied


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
    row = ADD_OFFSETS_TO_TXN.request(transactional_id="x", producer_id=client.pair[0], producer_epoch=client.pair[1], group_id="g")
    return int(client.wire.ask(ADD_OFFSETS_TO_TXN, row).error_code)


def of_brokers(client: Client) -> int:
    return int(client.wire.ask(ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN.request(), 5).error_code)


@pytest.mark.parametrize(
    ("denied", "ask", "told"),
    [
        (("WRITE", "transactional-id", "x"), lambda client: client.init().error_code, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (("WRITE", "transactional-id", "x"), lambda client: client.add(("t", 0), ("u", 0)), [Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2),
        (("WRITE", "topic", "u"), lambda client: client.add(("t", 0), ("u", 0)), [Code.OPERATION_NOT_ATTEMPTED, Code.TOPIC_AUTHORIZATION_FAILED]),
        (("WRITE", "transactional-id", "x"), add_offsets, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (("READ", "group", "g"), add_offsets, Code.GROUP_AUTHORIZATION_FAILED),
        (("WRITE", "transactional-id", "x"), lambda client: client.end(), Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (("CLUSTER_ACTION", "cluster", "kafka-cluster"), of_brokers, Code.CLUSTER_AUTHORIZATION_FAILED),
        (("DESCRIBE", "transactional-id", "x"), lambda client: client.describe().error_code, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_is_refused_and_nothing_has_changed(client: Client, denied: Any, ask: Callable[[Client], Any], told: Any) -> None:
    dispatcher = client.stage.nodes[1].dispatcher
    before, dispatcher.authorizer = dispatcher.authorizer, Deny(*denied)

    assert ask(client) == told

    dispatcher.authorizer = before
    found = client.describe()
    assert (found.transaction_state, found.producer_epoch, list(found.topics)) == ("Empty", 0, [])


def test_topics_and_ids_that_a_client_may_not_describe_are_left_out(client: Client) -> None:
    client.add(("t", 0), ("u", 0))
    dispatcher = client.stage.nodes[1].dispatcher

    dispatcher.authorizer = Deny("DESCRIBE", "topic", "u")
    assert [topic.topic for topic in client.describe().topics] == ["t"]
    dispatcher.authorizer = Deny("DESCRIBE", "transactional-id", "x")
    answer = client.wire.ask(LIST_TRANSACTIONS, LIST_TRANSACTIONS.request())
    assert (answer.error_code, list(answer.transaction_states)) == (0, [])


@pytest.mark.parametrize("api", [ADD_PARTITIONS_TO_TXN, INIT_PRODUCER_ID, END_TXN], ids=lambda api: str(api.name))
def test_what_waits_for_markers_is_dropped_when_its_client_goes(client: Client, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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
        INIT_PRODUCER_ID: INIT_PRODUCER_ID.request(transactional_id="x", transaction_timeout_ms=1000),
        END_TXN: END_TXN.request(transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=True),
    }
    wire = stage.wire()
    wire.request(api, rows[api], 3)
    stage.wait(lambda: len(machine._holds) == 1)

    (connection,) = [each for each in stage.nodes[1].dispatcher.connections if each.slots]
    stage.nodes[1].runtime.take(lambda _: connection.abort("the client is gone"), None)  # type: ignore[attr-defined]
    stage.wait(lambda: not machine._holds, at_most_s=0.5)  # it would be held for a second

    assert not machine._held
    assert not coordinator.waiting
    monkeypatch.undo()
    for markers in sent:
        stage.nodes[1].transactions.sender._spread(markers)
    stage.wait(lambda: client.describe().transaction_state == "CompleteCommit")
