"""DescribeClientQuotas and AlterClientQuotas: what Apache Kafka 4.3.1 answered
(golden_quotas.jsonl), limits, snapshots.
"""

from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.limits import CLIENT_QUOTAS, CLIENT_QUOTAS_OF_REQUEST, QUOTA_NAME_LENGTH
from raftka.metadata.image import MetadataImage
from raftka.metadata.quotas import CLIENT_ID, IP, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, USER
from raftka.wire.errors import Code
from raftka.wire.schema import AnyApi
from tests.broker.conftest import Lower
from tests.broker.golden import Exchange, recorded
from tests.broker.quotas import alter, described
from tests.broker.rights import WITH_ACLS, admin_of, pat
from tests.broker.stage import Stage, decoded

EXCHANGES = recorded(Path(__file__).parent / "golden_quotas.jsonl")
REFUSED = {387, 388, 389, 390}  # of a user who may not
BETTER = {
    621: "Quota request_percentage must be a finite number",
    622: "Quota request_percentage must be a finite number",
}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage
        assert not stage.world.failures


def plain(row: Any) -> Any:
    """Rows as dictionaries; entries in no order."""
    if isinstance(row, list | tuple):
        return sorted([plain(each) for each in row], key=repr)
    return (
        {field.name: plain(getattr(row, field.name)) for field in row.struct.fields}
        if hasattr(row, "struct")
        else row
    )


def differences(stage: Stage, exchanges: list[Exchange], wire: Any) -> list[tuple[int, Any, Any]]:
    found = []
    for exchange in exchanges:
        assert exchange.request is not None
        wire.send_frame(bytes.fromhex(exchange.request))
        data = wire.frame()
        assert data is not None
        api: AnyApi = HANDLERS[exchange.key].api
        ours = plain(decoded(api, exchange.version, data))
        if ours != plain(exchange.answer):
            found.append((exchange.n, plain(exchange.answer), ours))
    return found


def test_kafkas_answers(stage: Stage) -> None:
    found = differences(stage, [each for each in EXCHANGES if each.n not in REFUSED], stage.wire())

    assert {n: ours["entries"][0]["error_message"] for n, _, ours in found} == BETTER
    assert all(ours["entries"][0]["error_code"] == Code.INVALID_REQUEST for _, _, ours in found)


def test_who_may_not_is_refused_as_by_kafka() -> None:
    with Stage(**WITH_ACLS) as stage:
        assert (
            differences(stage, [each for each in EXCHANGES if each.n in REFUSED], pat(stage)) == []
        )
        assert described(admin_of(stage)) == {}


def test_a_number_that_is_none_is_refused(stage: Stage) -> None:
    wire = stage.wire()
    for value in (nan, inf, -inf):
        assert alter(wire, {USER: "u"}, request_percentage=value) == Code.INVALID_REQUEST
    assert described(wire) == {}


def test_an_entry_is_altered_as_a_whole_or_not_at_all(stage: Stage) -> None:
    wire = stage.wire()
    assert alter(wire, {USER: "u"}, producer_byte_rate=5.0, nonsense=1.0) == Code.INVALID_REQUEST
    assert described(wire) == {}
    assert alter(wire, {USER: "u"}, producer_byte_rate=5.0, request_percentage=1.5) == 0
    assert alter(wire, {USER: "u"}, producer_byte_rate=None) == 0
    assert described(wire) == {((USER, "u"),): {REQUEST_PERCENTAGE: 1.5}}
    assert alter(wire, {USER: "u"}, request_percentage=None) == 0
    assert described(wire) == {}


def test_quotas_survive_a_snapshot(stage: Stage) -> None:
    wire = stage.wire()
    entities = ({USER: "u"}, {USER: None, CLIENT_ID: "c"}, {CLIENT_ID: None})
    assert [alter(wire, entity, producer_byte_rate=5.0) for entity in entities] == [0, 0, 0]
    assert alter(wire, {IP: None}, connection_creation_rate=500.0) == 0

    image = stage.nodes[1].image
    again = MetadataImage.from_snapshot(image.to_snapshot())
    assert again.quotas == image.quotas
    assert again.quotas[(CLIENT_ID, "c"), (USER, None)] == {PRODUCER_BYTE_RATE: 5.0}


def test_limits(stage: Stage, lowered: Lower) -> None:
    wire = stage.wire()
    lowered(CLIENT_QUOTAS, 2)
    lowered(QUOTA_NAME_LENGTH, 8)
    assert [alter(wire, {USER: f"u{at}"}, producer_byte_rate=5.0) for at in range(3)] == [
        0,
        0,
        Code.INVALID_REQUEST,
    ]
    assert alter(wire, {USER: "u1"}, producer_byte_rate=6.0) == 0
    assert alter(wire, {USER: "123456789"}, producer_byte_rate=6.0) == Code.INVALID_REQUEST
    lowered(CLIENT_QUOTAS_OF_REQUEST, 1)
    assert alter(wire, {USER: "u1"}, producer_byte_rate=7.0) == Code.INVALID_REQUEST
    assert [
        stage.counted(limit.metric)
        for limit in (CLIENT_QUOTAS, QUOTA_NAME_LENGTH, CLIENT_QUOTAS_OF_REQUEST)
    ] == [1, 1, 1]
