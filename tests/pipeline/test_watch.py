"""Trucks that go too fast or are silent: no session of Spark, whose side runs with a memory that is
a dict.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

from raftka.pipeline.projects.trucks.library.watch import Alarm, Rules
from tests.pipeline.watching import Reading, Watched, at_once, expired, one_by_one, silence

RULES = Rules(90.0, 60_000_000)
OTHERS = (RULES, Rules(None, 60_000_000), Rules(90.0, None), Rules(90.0, 0), Rules())
TRUCK = 7


def at(second: int, speed: float | None = None) -> Reading:
    return Reading(second * 1_000_000, 52.0, 13.0, speed)


def told(found: list[Alarm]) -> list[tuple[str, int]]:
    return [(each.event, each.at_us // 1_000_000) for each in found]


def watch(
    rules: Rules, known: Watched | None, readings: list[Reading]
) -> tuple[list[Alarm], Watched | None]:
    found, now = at_once(rules, {} if known is None else {TRUCK: known}, {TRUCK: readings})
    return found, now.get(TRUCK)


def test_too_fast_is_told_once_until_it_is_over() -> None:
    found, known = watch(
        RULES,
        None,
        [at(1, 90.0), at(2, 91.0), at(3, 95.0), at(4), at(5, 92.0), at(6, 80.0), at(7, 99.0)],
    )

    assert told(found) == [("SPEEDING", 2), ("SPEEDING", 7)]
    assert found[1].speed_kmh == 99.0
    assert known == Watched(7_000_000, 52.0, 13.0, True, False)


def test_silence_is_found_by_time_or_by_the_reading_that_ends_it() -> None:
    known = {TRUCK: Watched(*at(10)[:3], False, False)}
    assert watch(RULES, None, [at(10)]) == ([], known[TRUCK])
    assert expired(RULES, known, 69_999_999) == ([], known)
    by_time, silent = expired(RULES, known, 70_000_000)

    assert told(by_time) == [("SILENT", 70)]
    assert expired(RULES, silent, 80_000_000) == ([], silent)
    assert told(watch(RULES, silent[TRUCK], [at(100)])[0]) == [("HEARD", 100)]
    assert told(watch(RULES, known[TRUCK], [at(100)])[0]) == [("SILENT", 70), ("HEARD", 100)]
    assert told(watch(RULES, known[TRUCK], [at(70)])[0]) == [("SILENT", 70), ("HEARD", 70)]
    # silence does not matter any more
    assert told(watch(Rules(90.0, None), silent[TRUCK], [at(20)])[0]) == [("HEARD", 20)]


def test_late_readings_and_missing_rules_find_nothing() -> None:
    _, known = watch(RULES, None, [at(10)])

    assert watch(RULES, known, [at(9, 200.0), at(10, 200.0)]) == ([], known)
    assert watch(Rules(), None, [at(1, 500.0), at(10_000, 500.0)])[0] == []


def test_a_reading_that_comes_when_its_silence_is_reported_is_too_late() -> None:
    silent = Watched(0, 1.0, 2.0, is_fast=False, is_silent=True)

    found, now = watch(
        RULES, silent, [Reading(30_000_000, 1.0, 2.0, 100.0), Reading(70_000_000, 1.0, 2.0, 50.0)]
    )

    assert told(found) == [("HEARD", 70)]
    assert now == Watched(70_000_000, 1.0, 2.0, is_fast=False, is_silent=False)


WAYS = st.lists(st.tuples(st.integers(0, 600), st.one_of(st.none(), st.floats(60, 120))))


@settings(deadline=None)
@given(WAYS, st.lists(st.integers(0, 700), max_size=5))
def test_alarms_do_not_depend_on_batches_and_timers(
    way: list[tuple[int, float | None]], cuts: list[int]
) -> None:
    readings = sorted({second: at(second, speed) for second, speed in way}.values())
    whole, end = watch(RULES, None, readings)

    known, found = dict[int, Watched](), list[Alarm]()
    for begin, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 701], strict=True):
        new = [
            each
            for each in reversed(readings)
            if begin * 1_000_000 <= each.at_us < stop * 1_000_000
        ]
        some, known = at_once(RULES, known, {TRUCK: new}, tasks=2)
        found += some
        if stop < 701:
            # as far as the watermark may be
            some, known = expired(RULES, known, stop * 1_000_000 - 1)
            found += some

    last_silence = [each for each in found if each not in whole]
    assert told(last_silence) in (
        [],
        [("SILENT", (readings[-1].at_us // 1_000_000) + 60)] if readings else [],
    )
    assert [each for each in found if each in whole] == whole
    assert (not known) == (end is None)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.dictionaries(st.integers(1, 4), WAYS, max_size=4), st.integers(0, 700)),
        max_size=5,
    ),
    st.sampled_from(OTHERS),
)
def test_trucks_of_a_bucket_are_watched_as_one_by_one(
    batches: list[tuple[dict[int, list[tuple[int, float | None]]], int]], rules: Rules
) -> None:
    known, slow = dict[int, Watched](), dict[int, Watched]()
    for ways, now in batches:
        readings = {
            truck: list({second: at(second, speed) for second, speed in way}.values())
            for truck, way in ways.items()
        }
        expected = list[Alarm]()
        for truck, some in readings.items():
            alarms, last = one_by_one(rules, truck, slow.get(truck), some)
            expected += alarms
            slow |= {} if last is None else {truck: last}
        found, known = at_once(rules, known, readings, tasks=3)
        assert (by_truck(found), known) == (by_truck(expected), slow)

        expected = []
        for truck, each in slow.items():
            alarms, slow[truck] = silence(rules, truck, each, now * 1_000_000)
            expected += alarms
        found, known = expired(rules, known, now * 1_000_000)
        assert (by_truck(found), known) == (by_truck(expected), slow)


def by_truck(alarms: list[Alarm]) -> dict[object, list[Alarm]]:
    """Group the rows by truck: only the order of one truck's rows counts."""
    return {
        truck: [each for each in alarms if each.truck == truck]
        for truck in {each.truck for each in alarms}
    }


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


class Watcher:
    """A bucket on Spark's side."""

    def __init__(self, rules: Rules = RULES) -> None:
        from raftka.pipeline.projects.trucks.library.moves import Watching

        self.handle, self.watching = Handle(), Watching(rules)
        self.watching.init(self.handle)

    def change(self, rules: Rules) -> None:
        """As a restart with other rules does."""
        from raftka.pipeline.projects.trucks.library.moves import Watching

        self.watching = Watching(rules)
        self.watching.init(self.handle)

    def read(self, *readings: tuple[int, float, float | None]) -> list[str]:
        """Trucks, seconds and speeds."""
        from raftka.pipeline.flows.packing import BUCKET
        from raftka.pipeline.projects.trucks.library.moves import READING
        from raftka.pipeline.projects.trucks.library.truck_states import BUCKETS, TruckPacking

        trucks, seconds, speeds = zip(*readings, strict=True)
        times = pa.array(
            [datetime.fromtimestamp(START_S + second, UTC) for second in seconds],
            pa.timestamp("us", "UTC"),
        )
        places = {"latitude": [5.0] * len(trucks), "longitude": [6.0] * len(trucks)}
        table = pa.table(
            {"truck": trucks, "at": times, **places, "speed_kmh": pa.array(speeds, pa.float64())}
        )
        rows = [
            row
            for batch in TruckPacking("truck", "at", READING).rows(table.to_batches())
            for row in batch.to_pylist()
        ]
        assert all(0 <= row[BUCKET] < BUCKETS for row in rows)
        return told_in(self.watching.handleInputRows((0,), iter(rows), None))

    def fire(self, watermark_ms: int) -> list[str]:
        """Spark's timers that the watermark has passed."""
        for timer in [each for each in self.handle.timers if each <= watermark_ms]:
            now = SimpleNamespace(getCurrentWatermarkInMs=lambda: watermark_ms)
            found = told_in(
                self.watching.handleExpiredTimer(
                    (0,), now, SimpleNamespace(getExpiryTimeInMs=lambda at=timer: at)
                )
            )
            self.handle.timers.remove(timer)  # Spark removes it behind the call
            return found
        return []


def told_in(rows: Any) -> list[str]:
    """Without the day."""
    return [
        json.loads(value)["id"].replace("2023-11-14T", "") for row in rows for value in row.value
    ]


def test_sparks_side_has_one_timer_for_the_first_silence_of_a_bucket() -> None:
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    bucket = Watcher()

    assert bucket.read((7, 1, 50.0), (8, 30, 50.0), (9, 20, 100.0)) == [
        "9 SPEEDING 22:13:40.000+00:00"
    ]
    assert bucket.handle.timers == {(START_S + 61) * 1000}
    assert bucket.read((7, 40.5, 101.0)) == ["7 SPEEDING 22:14:00.500+00:00"]
    assert bucket.handle.timers == {(START_S + 80) * 1000}
    assert bucket.read((7, 40.0, 50.0)) == []  # late
    assert bucket.fire((START_S + 79) * 1000) == []

    # all that are silent by now, and the next timer is of the one that is not
    assert sorted(bucket.fire((START_S + 95) * 1000)) == [
        "8 SILENT 22:14:50.000+00:00",
        "9 SILENT 22:14:40.000+00:00",
    ]
    assert bucket.handle.timers == {(START_S + 100) * 1000 + 500}
    assert bucket.fire((START_S + 200) * 1000) == ["7 SILENT 22:15:00.500+00:00"]
    assert bucket.handle.timers == set()
    assert bucket.read((8, 200, None), (8, 210, None)) == ["8 HEARD 22:16:40.000+00:00"]
    assert bucket.handle.timers == {(START_S + 270) * 1000}


def test_a_silence_that_is_made_longer_or_shorter_counts_from_the_next_position_on() -> None:
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    bucket = Watcher()
    bucket.read((7, 0, 50.0), (8, 10, 50.0))

    bucket.change(Rules(90.0, 100_000_000))
    assert bucket.fire((START_S + 65) * 1000) == []  # the timer of before
    assert bucket.handle.timers == {(START_S + 100) * 1000}
    bucket.change(Rules(90.0, 40_000_000))
    assert bucket.read((8, 11, 50.0)) == []
    assert bucket.handle.timers == {(START_S + 40) * 1000}
    bucket.change(Rules(90.0, None))
    assert bucket.read((8, 300, 50.0)) == []
    assert bucket.handle.timers == set()


def test_records_of_a_bucket_share_rows() -> None:
    """As json.dumps would write each, a thousand at most in a row."""
    pytest.importorskip(
        "pyspark",
        reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
    )
    from raftka.pipeline.projects.trucks.library.moves import TOGETHER, in_rows, lines

    truck = 'say "hi"\n\\ é'
    alarms = [
        Alarm(
            truck,
            "SPEEDING",
            START_S * 1_000_000 + at * 1000,
            at / 7,
            float("nan") if at == 5 else -1e-7,
            1e22 if at % 2 else None,
        )
        for at in range(2500)
    ]

    rows = list(in_rows(lines(alarms)))
    first, second, fifth = (rows[0].value[at] for at in (0, 1, 5))

    assert [(len(row.key), len(row.value)) for row in rows] == [
        (each, each) for each in (TOGETHER, TOGETHER, 500)
    ]
    assert {key for row in rows for key in row.key} == {truck}
    assert list(in_rows([])) == []
    told = {
        "id": f"{truck} SPEEDING 2023-11-14T22:13:20.001+00:00",
        "truck": truck,
        "event": "SPEEDING",
        "at": "2023-11-14T22:13:20.001+00:00",
    }
    assert second == json.dumps({**told, "latitude": 1 / 7, "longitude": -1e-7, "speed_kmh": 1e22})
    assert json.loads(first).keys() == {*told, "latitude", "longitude"}
    assert '"longitude": NaN' in fifth


ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORE = "spark.sql.streaming.stateStore.providerClass"


@pytest.fixture
def stateful(spark: Any) -> Iterator[Any]:
    before = spark.conf.get(STORE)
    spark.conf.set(STORE, ROCKS)
    yield spark
    spark.conf.set(STORE, before)


def positions(spark: Any, folder: Path) -> Any:
    lines = spark.readStream.schema(
        "truck int, latitude double, longitude double, speed_kmh double, at bigint"
    ).json(str(folder / "in"))
    return lines.selectExpr("*", "timestamp_seconds(at) as _timestamp").withWatermark(
        "_timestamp", "1 second"
    )


def feed(folder: Path, name: str, *readings: tuple[int, int, float]) -> None:
    rows = [
        {
            "truck": truck,
            "latitude": 5.0,
            "longitude": 6.0,
            "speed_kmh": speed,
            "at": START_S + second,
        }
        for truck, second, speed in readings
    ]
    (folder / "in").mkdir(exist_ok=True)
    (folder / "fresh").write_text("\n".join(map(json.dumps, rows)))
    (folder / "fresh").rename(folder / "in" / f"{name}.json")


def test_timers_of_spark_find_the_silent_truck(stateful: Any, tmp_path: Path) -> None:
    """Trucks 1 and 2 are heard of; then 2 alone, until the watermark has passed the silence of 1;
    then 1 again.
    """
    from raftka.pipeline.projects.trucks.library.moves import watched

    feed(tmp_path, "a", (1, 0, 50.0), (2, 0, 95.0))
    writer = (
        watched(positions(stateful, tmp_path), speed_kmh=90.0, silent_minutes=1.0)
        .writeStream.format("memory")
        .queryName("alarms")
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        for name, readings in (("b", [(2, 55, 50.0), (2, 100, 50.0)]), ("c", [(1, 130, 50.0)])):
            feed(tmp_path, name, *readings)
            query.processAllAvailable()
    finally:
        query.stop()

    found = [json.loads(row["value"])["id"] for row in stateful.table("alarms").collect()]
    assert found == [
        "2 SPEEDING 2023-11-14T22:13:20.000+00:00",
        "1 SILENT 2023-11-14T22:14:20.000+00:00",
        "1 HEARD 2023-11-14T22:15:30.000+00:00",
    ]


def test_a_checkpoint_with_a_state_for_each_truck_is_refused(stateful: Any, tmp_path: Path) -> None:
    """As earlier versions have made it. If its states were not found, all alerts would be written
    again.
    """
    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming import StatefulProcessor
    from pyspark.sql.types import StructType

    from raftka.pipeline.flows.fences import Fence
    from raftka.pipeline.flows.supervisor import explained
    from raftka.pipeline.projects.trucks.library.moves import alerts

    class Earlier(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self._known = handle.getValueState(
                "known", StructType().add("at_us", "long").add("inside", "string")
            )

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            self._known.update((START_S, "[]"))
            return iter(())

        def close(self) -> None:
            pass

    def read(frame: Any) -> None:
        writer = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        writer.start().awaitTermination()

    feed(tmp_path, "a", (1, 0, 50.0))
    rows = positions(stateful, tmp_path)
    read(
        rows.groupBy("truck").transformWithState(
            Earlier(), "key string, value string", "append", "none"
        )
    )
    feed(tmp_path, "b", (1, 1, 50.0))

    with pytest.raises(StreamingQueryException) as refused:
        read(alerts(rows, [Fence("yard", (((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)),))]))
    assert "the query is another one than its checkpoint is of" in explained(str(refused.value))
