"""The speed at which record batches become Arrow, and JSON becomes columns, on one core: the work
of Spark's tasks beside waiting. No broker and no Spark runs.
"""

import json
import random
import statistics
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from raftka.wire.compression import NAMES
from raftka.wire.records import build_batch

RECORDS = 40_000  # an answer of 4 MB
VALUES = 10_000  # that Spark hands over at once
DECLARED = {
    "truck": "int",
    "latitude": "double",
    "longitude": "double",
    "seconds": "double?",
    "speed_kmh": "double?",
}
WITH_TIME = {**DECLARED, "sent": "timestamp", "driver": "string", "price": "decimal(9,2)"}
NUMBERS = {"int": "int", "double": "double", "double?": ["null", "double"]}
AVRO = {
    "type": "record",
    "name": "Truck",
    "fields": [{"name": name, "type": NUMBERS[kind]} for name, kind in DECLARED.items()],
}
BATCHES = {"16 KB, as Java's producers make them": 141, "100 KB": 1000}


def rows(runs: int) -> Iterator[str]:
    from raftka.pipeline.records.decode import Decoder

    for title, count in BATCHES.items():
        for codec, name in enumerate(NAMES):
            data = _answer(count, codec)
            seconds = []
            for _ in range(runs + 1):  # the first one is warm-up
                begin = time.process_time()
                found = sum(
                    batch.num_rows for batch in Decoder(data, "trucks", 0, 0, RECORDS).batches()
                )
                seconds.append(time.process_time() - begin)
                assert found == RECORDS, found
            yield f"| {title} | {name} | **{RECORDS / statistics.median(seconds[1:]) / 1e6:.2f}** |"


def _answer(count: int, codec: int) -> bytes:
    """Records of 100 bytes, ten of them the key."""
    out = bytearray()
    for base in range(0, RECORDS, count):
        records = [
            (b"k%09d" % at, b"%045d" % at * 2, (), 1_700_000_000_000 + at)
            for at in range(base, min(base + count, RECORDS))
        ]
        out += build_batch(records, base_offset=base, compression=codec)
    return bytes(out)


def json_rows(runs: int) -> Iterator[str]:
    """Both ways of JSON in turns: column by column with msgspec, and value by value in Python,
    which judges what the first refuses.
    """
    import pyarrow as pa

    from raftka.pipeline.records.decoding import Decoder
    from raftka.pipeline.records.fields import fields

    for title, declared, bad in (
        ("five numbers, 100 bytes", DECLARED, 0),
        ("the same, one in a hundred does not fit", DECLARED, 100),
        ("with a moment, a text and a decimal, 180 bytes", WITH_TIME, 0),
    ):
        values = pa.array(
            [b"{" if bad and at % bad == 0 else _truck(at, declared) for at in range(VALUES)],
            pa.binary(),
        )
        decoder = Decoder(("json",), fields(declared, "fields"))
        yield f"| JSON: {title} | {_both_ways(decoder, values, runs)} |"
    decoder = Decoder(("avro",), fields(DECLARED, "fields"), {1: AVRO})
    yield (
        "| Avro: five numbers | "
        f"{_both_ways(decoder, pa.array([_avro(at) for at in range(VALUES)], pa.binary()), runs)} "
        "|"
    )


def _both_ways(decoder: Any, values: Any, runs: int) -> str:
    seconds: dict[str, list[float]] = {"columns": [], "one_by_one": []}
    for _ in range(runs + 1):
        for name, spent in seconds.items():
            begin = time.process_time()
            getattr(decoder, name)(values)
            spent.append(time.process_time() - begin)
    assert decoder.columns(values).equals(decoder.one_by_one(values))
    fast, slow = (statistics.median(spent[1:]) for spent in seconds.values())
    return (
        f"**{VALUES / fast / 1e3:,.0f} k** | {VALUES / slow / 1e3:,.0f} k | **{slow / fast:.1f}**"
    )


def _avro(at: int) -> bytes:
    from fastavro import schemaless_writer

    out = BytesIO()
    schemaless_writer(out, AVRO, json.loads(_truck(at, DECLARED)))
    return b"\0\0\0\0\1" + out.getvalue()


def _truck(at: int, declared: object) -> bytes:
    draw = random.Random(at)
    record: dict[str, object] = {
        "truck": at % 1000,
        "latitude": round(draw.uniform(40, 55), 6),
        "longitude": round(draw.uniform(-5, 20), 6),
        "seconds": round(draw.uniform(0, 1e5), 2),
        "speed_kmh": round(draw.uniform(0, 120), 1),
    }
    if declared is WITH_TIME:
        record |= {
            "sent": f"2026-01-01T12:00:{at % 60:02}.{at % 1000:03}Z",
            "driver": f"driver {at}",
            "price": f"{at % 100}.50",
        }
    return json.dumps(record).encode()
