"""Questions of every API to the authorizer: without rights it is refused in the right place, with
exactly these it is not, and none is asked in vain.

The requests are those that a recorded client without rights had sent (golden_security.jsonl), in
the last version of each API.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.broker.network.access.authorizer import AllowAll
from raftka.broker.network.dispatch import HANDLERS
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.rows import Row
from tests.broker.golden import RECORDED_IDS, Exchange, recorded
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, Wire, decoded
from tests.kit.broker.grants import Grants, Right

OF_TOPIC, OF_GROUP, OF_CLUSTER, OF_ID = 29, 30, 31, 53
REFUSALS = {OF_TOPIC, OF_GROUP, OF_CLUSTER, OF_ID}
CLUSTER = ("cluster", "kafka-cluster")
ALTER, DESCRIBE = ("ALTER", *CLUSTER), ("DESCRIBE", *CLUSTER)
ACTION = ("CLUSTER_ACTION", *CLUSTER)
READ_GROUP, READ_TOPIC = ("READ", "group", "secret-g"), ("READ", "topic", "secret")
DESCRIBE_GROUP, DESCRIBE_TOPIC = ("DESCRIBE", "group", "secret-g"), ("DESCRIBE", "topic", "secret")
WRITE_ID, WRITE_TOPIC = ("WRITE", "transactional-id", "secret-t"), ("WRITE", "topic", "secret")
# by API: the codes of a client without rights; the rights that it needs
RIGHTS: dict[int, tuple[set[int], tuple[Right, ...]]] = {
    0: ({OF_TOPIC}, (WRITE_TOPIC,)),
    1: ({OF_TOPIC}, (READ_TOPIC,)),
    2: ({OF_TOPIC}, (DESCRIBE_TOPIC,)),
    3: ({OF_TOPIC}, (DESCRIBE_TOPIC,)),
    8: ({OF_GROUP}, (READ_GROUP, READ_TOPIC)),
    9: ({OF_GROUP}, (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    10: ({OF_GROUP}, (DESCRIBE_GROUP,)),
    11: ({OF_GROUP}, (READ_GROUP,)),
    12: ({OF_GROUP}, (READ_GROUP,)),
    13: ({OF_GROUP}, (READ_GROUP,)),
    14: ({OF_GROUP}, (READ_GROUP,)),
    15: ({OF_GROUP}, (DESCRIBE_GROUP,)),
    16: (set(), ()),
    19: ({OF_TOPIC}, (("CREATE", "topic", "new-one"), ("DESCRIBE_CONFIGS", "topic", "new-one"))),
    20: ({OF_TOPIC}, (("DELETE", "topic", "secret"),)),
    21: ({OF_TOPIC}, (("DELETE", "topic", "secret"),)),
    22: ({OF_CLUSTER}, (("IDEMPOTENT_WRITE", *CLUSTER),)),
    23: ({OF_TOPIC}, (DESCRIBE_TOPIC,)),
    24: ({OF_CLUSTER}, (ACTION,)),
    25: ({OF_ID}, (WRITE_ID, READ_GROUP)),
    26: ({OF_ID}, (WRITE_ID,)),
    27: ({OF_CLUSTER}, (ACTION,)),
    28: ({OF_ID}, (WRITE_ID, READ_GROUP, READ_TOPIC)),
    32: (
        {OF_TOPIC, OF_GROUP, OF_CLUSTER},
        (
            ("DESCRIBE_CONFIGS", "topic", "secret"),
            ("DESCRIBE_CONFIGS", "group", "secret-g"),
            ("DESCRIBE_CONFIGS", *CLUSTER),
        ),
    ),
    33: (
        {OF_TOPIC, OF_CLUSTER},
        (("ALTER_CONFIGS", "topic", "secret"), ("ALTER_CONFIGS", *CLUSTER)),
    ),
    34: ({OF_CLUSTER}, (ALTER,)),
    35: ({OF_CLUSTER}, (DESCRIBE,)),
    37: ({OF_TOPIC}, (("ALTER", "topic", "secret"),)),
    42: ({OF_GROUP}, (("DELETE", "group", "secret-g"),)),
    43: ({OF_CLUSTER}, (ALTER,)),
    44: (
        {OF_TOPIC, OF_GROUP, OF_CLUSTER},
        (
            ("ALTER_CONFIGS", "topic", "secret"),
            ("ALTER_CONFIGS", "group", "secret-g"),
            ("ALTER_CONFIGS", *CLUSTER),
        ),
    ),
    45: ({OF_CLUSTER}, (ALTER,)),
    46: ({OF_CLUSTER}, (DESCRIBE,)),
    47: ({OF_GROUP}, (("DELETE", "group", "secret-g"), READ_TOPIC)),
    50: ({OF_CLUSTER}, (DESCRIBE,)),
    51: ({OF_CLUSTER}, (ALTER,)),
    55: ({OF_CLUSTER}, (DESCRIBE,)),
    57: ({OF_CLUSTER}, (ALTER,)),
    60: (set(), ()),
    61: ({OF_TOPIC}, (READ_TOPIC,)),
    64: ({OF_CLUSTER}, (ALTER,)),
    65: ({OF_ID}, (("DESCRIBE", "transactional-id", "secret-t"),)),
    66: (set(), ()),
    68: ({OF_GROUP}, (READ_GROUP, DESCRIBE_TOPIC)),
    69: ({OF_GROUP}, (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    74: ({OF_CLUSTER}, (("DESCRIBE_CONFIGS", *CLUSTER),)),
    75: ({OF_TOPIC}, (DESCRIBE_TOPIC,)),
}
GROUP_HEARTBEAT, GROUP_DESCRIBE = 68, 69
EVERYBODYS = {17, 18, 36, 71, 72}  # what a login consists of; clients' metrics
# ACLs are asked for with the authorizer that has them, below; the others have tests of their own
ELSEWHERE = {*(29, 30, 31, 38, 39, 40, 41, 48, 49), *range(76, 82), *range(83, 95)}
REQUESTS = {
    each.key: each
    for each in recorded(Path(__file__).parent / "golden_security.jsonl")
    if 307 <= each.n <= 434
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        for kind in (0, 1):
            stage.wire().ask(
                FIND_COORDINATOR, FIND_COORDINATOR.request(key_type=kind, coordinator_keys=["any"])
            )
        node = stage.nodes[1]
        stage.wait(
            lambda: (
                len(node.groups.runtime.partitions)
                == len(node.transactions.runtime.partitions)
                == 50
            )
        )
        yield stage
        assert not stage.world.failures


def codes(row: Any) -> set[int]:
    """All error codes of an answer that are refusals."""
    found: set[int] = set()
    if isinstance(row, Row):
        for field in row.struct.fields:
            value = getattr(row, field.name)
            found |= {value} if field.name.endswith("error_code") else codes(value)
    elif isinstance(row, list | tuple):
        found = found.union(*map(codes, row))
    return found & REFUSALS


def refusals(stage: Stage, exchange: Exchange, *rights: Right) -> set[int]:
    """The codes with these rights and no others."""
    node = stage.nodes[1]
    node.dispatcher.authorizer = AllowAll()
    for name in set(node.image.topic_ids) - {"secret", "__consumer_offsets", "__transaction_state"}:
        stage.delete(name)
    topic_id = node.image.topic_ids.get("secret") or stage.create("secret")
    if exchange.key == GROUP_DESCRIBE:  # of a group with a member to which the topic is assigned
        asked(stage, REQUESTS[GROUP_HEARTBEAT], topic_id)
    node.dispatcher.authorizer = Grants(*rights)
    return codes(asked(stage, exchange, topic_id))


def asked(stage: Stage, exchange: Exchange, topic_id: bytes) -> Row:
    wire = stage.wire()
    wire.send_frame(bytes.fromhex(exchange.request or "").replace(RECORDED_IDS["secret"], topic_id))
    data = wire.frame()
    assert data is not None
    answer: Row = decoded(HANDLERS[exchange.key].api, exchange.version, data)
    return answer


def test_every_api_has_its_rights() -> None:
    assert set(RIGHTS) | EVERYBODYS == HANDLERS.keys() - ELSEWHERE


@pytest.mark.parametrize("key", RIGHTS, ids=lambda key: HANDLERS[key].api.name)
def test_client_without_rights_is_refused(stage: Stage, key: int) -> None:
    assert refusals(stage, REQUESTS[key]) == RIGHTS[key][0]


@pytest.mark.parametrize("key", RIGHTS, ids=lambda key: HANDLERS[key].api.name)
def test_client_with_exactly_the_rights_is_not_refused(stage: Stage, key: int) -> None:
    assert refusals(stage, REQUESTS[key], *RIGHTS[key][1]) == set()


@pytest.mark.parametrize("key", RIGHTS, ids=lambda key: HANDLERS[key].api.name)
def test_none_of_the_rights_can_be_spared(stage: Stage, key: int) -> None:
    needed = RIGHTS[key][1]
    for spared in needed:
        assert refusals(stage, REQUESTS[key], *(each for each in needed if each != spared)), spared


@pytest.mark.parametrize(
    ("key", "other"),
    [
        (20, ("DELETE", *CLUSTER)),
        (22, WRITE_TOPIC),
        (23, ACTION),
        (27, ALTER),
    ],
)
def test_another_right_is_as_good(stage: Stage, key: int, other: Right) -> None:
    assert refusals(stage, REQUESTS[key], other) == set()


def transactional(stage: Stage, transactional_id: str | None, *rights: Right) -> int:
    """The error of a batch of a transaction."""
    node = stage.nodes[1]
    node.dispatcher.authorizer = AllowAll()
    if "secret" not in node.image.topic_ids:
        stage.create("secret")
    node.dispatcher.authorizer = Grants(*rights)
    records = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    return produced(
        stage.wire().ask(PRODUCE, produce("secret", records, transactional_id=transactional_id), 11)
    ).error_code


def test_batch_of_a_transaction_needs_its_transactional_id(stage: Stage) -> None:
    """CVE-2018-17196."""
    assert transactional(stage, None, WRITE_TOPIC, WRITE_ID) == OF_ID
    assert transactional(stage, "secret-t", WRITE_TOPIC) == OF_ID
    assert transactional(stage, "secret-t", WRITE_TOPIC, WRITE_ID) not in REFUSALS


def test_client_id_opens_no_internal_topic(stage: Stage) -> None:
    """Whatever a client calls itself, it needs CLUSTER_ACTION beside WRITE."""

    def sent(*rights: Right, client_id: str = "__admin_client") -> int:
        stage.nodes[1].dispatcher.authorizer = Grants(*rights)
        wire = stage.wire()
        row = produce("__consumer_offsets", batch(b"x"))
        wire.send(encode_request(PRODUCE, 9, 1, client_id, row))
        return produced(wire.answer(PRODUCE, 9)).error_code

    write = ("WRITE", "topic", "__consumer_offsets")
    assert (
        sent(write)
        == sent(write, client_id="other")
        == sent(write, ACTION, client_id="other")
        == Code.INVALID_TOPIC_EXCEPTION
    )
    assert sent(write, ACTION) != Code.INVALID_TOPIC_EXCEPTION
    assert sent(write) == Code.INVALID_TOPIC_EXCEPTION


def test_client_needs_the_right_for_some_topic_that_nobody_denies(stage: Stage) -> None:
    wire: Wire = stage.wire()
    stage.nodes[1].dispatcher.authorizer = Grants(READ_TOPIC)
    assert (
        wire.ask(
            INIT_PRODUCER_ID,
            INIT_PRODUCER_ID.request(transactional_id=None, transaction_timeout_ms=1000),
        ).error_code
        == OF_CLUSTER
    )
