"""Trucks that go too fast or are silent: no session of Spark, whose side runs with a memory that is a dict."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.pipeline.flows.watch import Alarm, Reading, Rules, Watched, expired, watch

RULES = Rules(90.0, 60_000_000)


def at(second: int, speed: float | None = None) -> Reading:
    return Reading(second * 1_000_000, 52.0, 13.0, speed)


def told(found: list[Alarm]) -> list[tuple[str, int]]:
    return [(each.event, each.at_us // 1_000_000) for each in found]


def test_too_fast_is_told_once_until_it_is_over() -> None:
    found, known = watch(RULES, None, [at(1, 90.0), at(2, 91.0), at(3, 95.0), at(4), at(5, 92.0), at(6, 80.0), at(7, 99.0)])

    assert told(found) == [("SPEEDING", 2), ("SPEEDING", 7)]
    assert found[1].speed_kmh == 99.0
    assert known == Watched(7_000_000, 52.0, 13.0, True, False)


def test_silence_is_found_by_time_or_by_the_reading_that_ends_it() -> None:
    _, known = watch(RULES, None, [at(10)])
    assert known is not None
    assert expired(RULES, known, 69_999_999) == ([], known)
    by_time, silent = expired(RULES, known, 70_000_000)
    after, _ = watch(RULES, silent, [at(100)])

    assert told(by_time) == [("SILENT", 70)]
    assert expired(RULES, silent, 80_000_000) == ([], silent)
    assert told(after) == [("HEARD", 100)]
    assert told(watch(RULES, known, [at(100)])[0]) == [("SILENT", 70), ("HEARD", 100)]


def test_late_readings_and_missing_rules_find_nothing() -> None:
    _, known = watch(RULES, None, [at(10)])

    assert watch(RULES, known, [at(9, 200.0), at(10, 200.0)]) == ([], known)
    assert watch(Rules(), None, [at(1, 500.0), at(10_000, 500.0)])[0] == []


@given(st.lists(st.tuples(st.integers(0, 600), st.one_of(st.none(), st.floats(60, 120)))), st.lists(st.integers(0, 700), max_size=5))
def test_alarms_do_not_depend_on_batches_and_timers(way: list[tuple[int, float | None]], cuts: list[int]) -> None:
    readings = sorted({second: at(second, speed) for second, speed in way}.values())
    whole, end = watch(RULES, None, readings)

    known, found = None, list[Alarm]()
    for begin, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 701], strict=True):
        some, known = watch(RULES, known, [each for each in reversed(readings) if begin * 1_000_000 <= each.at_us < stop * 1_000_000])
        found += some
        if known is not None and stop < 701:
            some, known = expired(RULES, known, stop * 1_000_000 - 1)  # as far as the watermark may be
            found += some

    last_silence = [each for each in found if each not in whole]
    assert told(last_silence) in ([], [("SILENT", (readings[-1].at_us // 1_000_000) + 60)] if readings else [])
    assert [each for each in found if each in whole] == whole
    assert (known is None) == (end is None)


# Spark's side


class Value:
    value: Any = None

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Handle:
    def __init__(self) -> None:
        self.timers: set[int] = set()
        self.state = Value()

    def getValueState(self, _name: str, _schema: Any) -> Value:
        return self.state

    def registerTimer(self, at_ms: int) -> None:
        self.timers.add(at_ms)

    def deleteTimer(self, at_ms: int) -> None:
        self.timers.remove(at_ms)  # one that is not there would be a mistake


START_S = 1_700_000_000


def test_sparks_side_keeps_one_timer_a_truck() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)")
    import pyarrow as pa

    from raftka.pipeline.flows.moves import READING, Watching
    from raftka.pipeline.flows.packs import packed

    def rows(*readings: tuple[float, float | None]) -> Iterator[dict[str, bytes]]:
        times = pa.array([datetime.fromtimestamp(START_S + second, UTC) for second, _ in readings], pa.timestamp("us", "UTC"))
        count, speeds = len(readings), pa.array([speed for _, speed in readings], pa.float64())
        table = pa.table({"truck": [7] * count, "at": times, "latitude": [5.0] * count, "longitude": [6.0] * count, "speed_kmh": speeds})
        return (row for batch in packed(table.to_batches(), "truck", "at", READING) for row in batch.to_pylist())

    handle, watching = Handle(), Watching(RULES)
    watching.init(handle)

    assert list(watching.handleInputRows((7,), rows((1, 50.0)), None)) == []
    fast = [json.loads(line) for each in watching.handleInputRows((7,), rows((2, 100.0), (3.5, 101.0)), None) for line in each.value.splitlines()]
    assert [(each["id"], each["truck"], each["speed_kmh"]) for each in fast] == [("7 SPEEDING 2023-11-14T22:13:22.000+00:00", "7", 100.0)]
    (timer,) = handle.timers
    assert timer == (START_S + 63) * 1000 + 500
    handle.timers.clear()  # Spark removes what has fired
    info = SimpleNamespace(getExpiryTimeInMs=lambda: timer)
    (silent,) = (json.loads(each.value) for each in watching.handleExpiredTimer((7,), None, info))
    assert (silent["event"], silent["at"], "speed_kmh" in silent) == ("SILENT", "2023-11-14T22:14:23.500+00:00", False)
    assert [json.loads(each.value)["event"] for each in watching.handleInputRows((7,), rows((200, None)), None)] == ["HEARD"]
    assert len(handle.timers) == 1


def test_records_of_a_truck_share_rows() -> None:
    """As json.dumps would write each, a thousand at most in a row."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)")
    from raftka.pipeline.flows.moves import TOGETHER, in_rows, lines
    from raftka.pipeline.flows.watch import Alarm

    key = ('say "hi"\n\\ é',)
    alarms = [
        Alarm("SPEEDING", START_S * 1_000_000 + at * 1000, at / 7, float("nan") if at == 5 else -1e-7, 1e22 if at % 2 else None) for at in range(2500)
    ]

    found = [(row.key, len(row.value.split("\n"))) for row in in_rows(key, lines(key, alarms))]
    first, second, fifth, *_ = (line for at, line in enumerate(lines(key, alarms)) if at in (0, 1, 5))

    assert found == [(key[0], TOGETHER), (key[0], TOGETHER), (key[0], 500)]
    assert list(in_rows(key, [])) == []
    told = {"id": f"{key[0]} SPEEDING 2023-11-14T22:13:20.001+00:00", "truck": key[0], "event": "SPEEDING", "at": "2023-11-14T22:13:20.001+00:00"}
    assert second == json.dumps({**told, "latitude": 1 / 7, "longitude": -1e-7, "speed_kmh": 1e22})
    assert json.loads(first).keys() == {*told, "latitude", "longitude"}
    assert '"longitude": NaN' in fifth


ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = "spark.sql.streaming.stateStore.providerClass"


def test_timers_of_spark_find_the_silent_truck(spark: Any, tmp_path: Path) -> None:
    """Trucks 1 and 2 are heard of; then 2 alone, until the watermark has passed the silence of 1; then 1 again."""
    from raftka.pipeline.flows.moves import watched

    def feed(name: str, *readings: tuple[int, int, float]) -> None:
        rows = [{"truck": truck, "latitude": 5.0, "longitude": 6.0, "speed_kmh": speed, "at": START_S + second} for truck, second, speed in readings]
        (tmp_path / "fresh").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / "fresh").rename(tmp_path / "in" / f"{name}.json")

    (tmp_path / "in").mkdir()
    before = spark.conf.get(STORE)
    spark.conf.set(STORE, ROCKS)
    try:
        lines = spark.readStream.schema("truck int, latitude double, longitude double, speed_kmh double, at bigint").json(str(tmp_path / "in"))
        positions = lines.selectExpr("*", "timestamp_seconds(at) as _timestamp").withWatermark("_timestamp", "1 second")
        writer = watched(positions, speed_kmh=90.0, silent_minutes=1.0).writeStream.format("memory").queryName("alarms")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            for name, readings in (("a", [(1, 0, 50.0), (2, 0, 95.0)]), ("b", [(2, 55, 50.0), (2, 100, 50.0)]), ("c", [(1, 130, 50.0)])):
                feed(name, *readings)
                query.processAllAvailable()
        finally:
            query.stop()
    finally:
        spark.conf.set(STORE, before)

    found = [json.loads(row["value"])["id"] for row in spark.table("alarms").collect()]
    assert found == ["2 SPEEDING 2023-11-14T22:13:20.000+00:00", "1 SILENT 2023-11-14T22:14:20.000+00:00", "1 HEARD 2023-11-14T22:15:30.000+00:00"]
