"""Exchanges recorded on a wire with Apache Kafka 4.3.1: they decode to the fields seen there and
encode to the same bytes.

A line of golden.jsonl: API, version, the fields of request and response under Kafka's names, and
the frames without their sizes.
"""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from raftka.wire.frame import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from raftka.wire.records import Record, build_batch, crc_matches, iterate, records_of
from raftka.wire.rows import Row
from tests.wire.oracle import APIS, snake

EXCHANGES = [
    json.loads(line) for line in (Path(__file__).parent / "golden.jsonl").read_text().splitlines()
]
ANSWERED = [e for e in EXCHANGES if e.get("response_hex")]
APIS_BY_KEY = {api.key: api for api in APIS}
# codec -> exchange that produces three records with it
COMPRESSED = {0: 117, 1: 120, 2: 121, 3: 122, 4: 123}


def name(exchange: dict[str, Any]) -> str:
    return f"{exchange['n']}-{exchange['api']}-v{exchange['version']}"


def assert_recorded(row: Row, recorded: dict[str, Any], version: int) -> None:
    """Every field that the version has reads as recorded; those not recorded were left at their
    default.
    """
    given = {snake(key): value for key, value in recorded.items()}
    for field in row.struct.fields:
        mine = getattr(row, field.name)
        if version not in field.versions or field.name not in given:
            assert mine == field.default or not mine, field.name
            continue
        value = given[field.name]
        pairs = list(zip(mine, value, strict=True)) if isinstance(value, list) else [(mine, value)]
        for inner, seen in pairs:
            if isinstance(inner, Row):
                assert_recorded(inner, seen, version)
            else:
                assert inner == _plain(field.kind, seen), field.name


def _plain(kind: str, seen: Any) -> Any:
    if kind == "uuid":
        return uuid.UUID(seen).bytes
    return bytes.fromhex(seen["hex"]) if kind == "records" and seen is not None else seen


@pytest.mark.parametrize("exchange", EXCHANGES, ids=name)
def test_request(exchange: dict[str, Any]) -> None:
    api, version = APIS_BY_KEY[exchange["key"]], exchange["version"]
    frame = bytes.fromhex(exchange["request_hex"])

    header, position = decode_request_header(memoryview(frame), flexible=version in api.flexible)
    row, end = api.decode_request(version, memoryview(frame), position)

    assert (header.api_key, header.api_version) == (api.key, version)
    assert end == len(frame)
    assert_recorded(row, exchange["request"], version)
    assert encode_request(api, version, header.correlation_id, header.client_id, row)[4:] == frame


@pytest.mark.parametrize("exchange", ANSWERED, ids=name)
def test_response(exchange: dict[str, Any]) -> None:
    api, version = APIS_BY_KEY[exchange["key"]], exchange["version"]
    frame = bytes.fromhex(exchange["response_hex"])

    correlation_id, position = decode_response_header(memoryview(frame), api, version)
    row, end = api.decode_response(version, memoryview(frame), position)

    assert end == len(frame)
    assert_recorded(row, exchange["response"], version)
    pieces = encode_response(api, version, correlation_id, row)
    whole = b"".join(bytes(piece) for piece in pieces if isinstance(piece, bytes | memoryview))
    assert whole == len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("codec", COMPRESSED)
def test_record_batches(codec: int) -> None:
    exchange = next(e for e in EXCHANGES if e["n"] == COMPRESSED[codec])
    records = exchange["request"]["TopicData"][0]["PartitionData"][0]["Records"]
    seen = records["batches"][0]

    (header, batch), *more = iterate(memoryview(bytes.fromhex(records["hex"])))

    assert not more
    assert crc_matches(batch, header)
    assert (header.compression, header.count, header.last_offset_delta) == (codec, 3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (
        seen["baseTimestamp"],
        seen["maxTimestamp"],
    )
    at = header.base_timestamp
    expected = [
        Record(0, at, b"k1", b"v1", []),
        Record(1, at + 5, None, b"v2", []),
        Record(2, at + 7, b"k3", None, [("h", b"x")]),
    ]
    assert list(records_of(batch)) == expected
    if codec == 0:
        built = build_batch([(r.key, r.value, r.headers, r.timestamp) for r in expected])
        assert built == bytes(batch)
