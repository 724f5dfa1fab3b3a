"""Jobs of Spark on topics: how fast both formats read, what it costs the broker, what exactly once
costs a stream, and an audit. Needs raftka[pipeline]; jars of format("kafka") come from Maven.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import flows
from bench.load import BenchFailed, load
from bench.systems import Kafka, Raftka, System, cpu_seconds
from raftka.cluster.ask import call
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from tests.kit.toolchains import Missing, Toolchains

TOPIC, PARTITIONS = "read", 10
# records of 100 bytes, with what goes before the value
FILLED = "produce -b 16384 -s 90 -c 10 -d 5"
REQUESTS, FILL_SECONDS = 31_500, 120
# one node: nobody flushes, as in `throughput`
SETTINGS = {"log.retention.ms": "-1", "raftka.log.flush": "os"}
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
}
COPY, COPIED, COPY_BATCH, COPY_GOAL = "copy", 1_000_000, 200_000, 0.8
GUARANTEES = ("at-least-once", "exactly-once")
AUDITED, PRODUCERS, AUDIT_GOAL_S = 20_000_000, 40, 180
LOST, TWICE, PHANTOMS = 3, 2, 4
PLANTED = {"lost": LOST, "duplicated": TWICE, "phantom": PHANTOMS, "reordered": 0}


def session() -> tuple[Any, str]:
    """A session, and why it has no format("kafka"), if so."""
    from raftka.pipeline.spark import session

    try:
        jars, missing = {"spark.jars": ",".join(map(str, Toolchains(fetch=True).spark_kafka()))}, ""
    except Missing as reason:
        jars, missing = {}, str(reason)
    return session("raftka's bench", {**SPARK, **jars}), missing


def reads(spark: Any, runs: int, has_kafka_format: bool, kafka: bool) -> Iterator[str]:
    """The same job in turns: both formats on raftka, Spark's own on Apache Kafka."""
    yield "| batch read of 5 M records of 100 bytes | rows/s | broker CPU-s per million |"
    yield "|---|---|---|"
    with ExitStack() as stack:
        systems: list[System] = [
            Raftka(1, SETTINGS),
            *([Kafka(1, SETTINGS)] if kafka and has_kafka_format else []),
        ]
        for system in systems:
            stack.enter_context(system).start()
            system.wait_ready()
            load(
                f"{FILLED} -m {REQUESTS}",
                system.create_topic(TOPIC, PARTITIONS),
                system.pids,
                TOPIC,
                FILL_SECONDS,
            )
        jobs = [
            (system, form)
            for system in systems
            for form in ("raftka", "kafka")
            if has_kafka_format or form == "raftka"
        ]
        found = defaultdict(list)
        for run in range(runs + 1):
            for system, form in jobs:
                figures = _read(spark, system, form)
                if run:  # the first one is warm-up
                    found[system.name, form].append(figures)
        for (name, form), each in found.items():
            rates, costs = zip(*each, strict=True)
            yield (
                f'| `format("{form}")` on {name} | **{statistics.median(rates) / 1000:,.0f} k** '
                f"({min(rates) / 1000:,.0f}-{max(rates) / 1000:,.0f}) "
                f"| {statistics.median(costs):.2f} ({min(costs):.2f}-{max(costs):.2f}) |"
            )


def _read(spark: Any, system: System, form: str) -> tuple[float, float]:
    """Rows a second, and CPU seconds of the broker for a million."""
    servers = ",".join(f"{host}:{port}" for host, port in system.addresses)
    frame = (
        spark.read.format(form)
        .options(subscribe=TOPIC, **{"kafka.bootstrap.servers": servers})
        .load()
    )
    rows = _end(system)
    begin, used = time.perf_counter(), cpu_seconds(system.pid(1))
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - begin
    return rows / seconds, (cpu_seconds(system.pid(1)) - used) / rows * 1e6


def sinks(spark: Any, runs: int) -> Iterator[str]:
    """A stream into a topic with as many partitions, in turns: at least once, and exactly once."""
    yield (
        f"| stream of {COPIED / 1e6:.0f} M records, topic to topic, batches of {COPY_BATCH:,} | "
        f"rows/s | of at least once (goal: {COPY_GOAL}) |"
    )
    yield "|---|---|---|"
    found = defaultdict(list)
    with _filled() as (system, folder):
        system.create_topic(COPY, PARTITIONS)
        for run in range(runs + 1):
            for guarantee in GUARANTEES:
                rate = _copy(spark, system, guarantee, f"{folder}/{guarantee}-{run}")
                if run:  # the first one is warm-up
                    found[guarantee].append(rate)
    yield from _shares(found)


def lakes(spark: Any, runs: int) -> Iterator[str]:
    """A stream into a Delta table, and for comparison into nothing: Spark's sink `noop`."""
    yield (
        f"| stream of {COPIED / 1e6:.0f} M records from a topic, batches of {COPY_BATCH:,} | "
        "rows/s | of noop |"
    )
    yield "|---|---|---|"
    found = defaultdict(list)
    with _filled() as (system, folder):
        for run in range(runs + 1):
            for sink in ("noop", "raftka_delta"):
                where = f"{folder}/{sink}-{run}"
                rate = _drained(
                    system,
                    _reader(spark, system)
                    .writeStream.format(sink)
                    .options(path=where, checkpointLocation=f"{where}-checkpoint"),
                )
                if run:  # the first one is warm-up
                    found[f'`format("{sink}")`'].append(rate)
    yield from _shares(found)


# of keys: a batch's lie together, or in all files
GROWING, ANYWHERE = f"offset * {PARTITIONS} + partition", "xxhash64(partition, offset)"
UPSERTS = (
    ("rows are added", GROWING, False, "append"),
    ("new keys that grow", GROWING, True, "growing"),
    ("keys that are there, a batch's in few files", GROWING, True, "growing"),
    ("new keys without an order", ANYWHERE, True, "anywhere"),
    ("keys that are there, a batch's in all files", ANYWHERE, True, "anywhere"),
)


def upserts(spark: Any, runs: int) -> Iterator[str]:
    """A stream into Delta tables, in turns: rows are added, or change those with their key, which
    the table has or not.
    """
    yield (
        f"| stream of {COPIED / 1e6:.0f} M records into a Delta table, batches of "
        f"{COPY_BATCH:,} | rows/s | of added rows |"
    )
    yield "|---|---|---|"
    found = defaultdict(list)
    with _filled() as (system, folder):
        for run in range(runs + 1):
            for at, (title, key, is_keyed, table) in enumerate(UPSERTS):
                where = {
                    "path": f"{folder}/{table}-{run}",
                    "checkpointLocation": f"{folder}/checkpoint-{at}-{run}",
                }
                rows = (
                    _reader(spark, system)
                    .selectExpr(f"{key} as id", "value", "partition", "offset")
                    .writeStream.format("raftka_delta")
                )
                rate = _drained(
                    system, rows.options(**where, **({"key": "id"} if is_keyed else {}))
                )
                _check_rows(where["path"], _end(system))
                if run:  # the first one is warm-up
                    found[title].append(rate)
    yield from _shares(found)


@contextmanager
def _filled() -> Iterator[tuple[System, str]]:
    """A broker with the topic that streams read, and a folder for what they write."""
    with Raftka(1, SETTINGS) as system, TemporaryDirectory(prefix="raftka-streams-") as folder:
        system.start()
        system.wait_ready()
        load(
            f"{FILLED} -m {COPIED // 159 + 1}",
            system.create_topic(TOPIC, PARTITIONS),
            system.pids,
            TOPIC,
            FILL_SECONDS,
        )
        yield system, folder


def _shares(found: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """A line for each title: its rates, and their share of the first title's."""
    medians = {title: statistics.median(rates) for title, rates in found.items()}
    first = next(iter(medians.values()))
    for title, rates in found.items():
        yield (
            f"| {title} | **{medians[title] / 1000:,.0f} k** "
            f"({min(rates) / 1000:,.0f}-{max(rates) / 1000:,.0f}) | "
            f"{medians[title] / first:.2f} |"
        )


def _check_rows(path: str, wanted: int) -> None:
    from deltalake import DeltaTable

    count = DeltaTable(path).to_pyarrow_dataset().count_rows()
    if count != wanted:
        raise BenchFailed(f"{path} has {count} rows, {wanted} keys were written")


DAYS, COLUMNS, DAY_ROWS = 20, 20, 200_000
MOST = ", ".join(["max(id)", *(f"max(c{at})" for at in range(COLUMNS - 2))])
QUESTIONS = {
    "everything": f"select max(day), {MOST} from days",
    "one day of twenty": f"select max(day), {MOST} from days where day = date'2026-01-07'",
    "two columns of twenty": "select max(id), max(c3) from days",
    "two columns of one day": "select max(id), max(c3) from days where day = date'2026-01-07'",
}


def selects(spark: Any, runs: int) -> Iterator[str]:
    """`raftka sql` on a lake: seconds of questions about all of it and about parts."""
    from raftka.pipeline.flows.streams import declared
    from raftka.pipeline.sql import Places, run_query

    yield (
        f"| `raftka sql` on a lake of {DAYS} days, {COLUMNS} columns, "
        f"{DAYS * DAY_ROWS / 1e6:.0f} M rows | s | of everything |"
    )
    yield "|---|---|---|"
    found = defaultdict(list)
    with TemporaryDirectory(prefix="raftka-select-") as folder:
        noise = ", ".join(
            f"cast(xxhash64(id, {at}) as string) as c{at}" for at in range(COLUMNS - 2)
        )
        days = spark.sql(
            f"select id, date_add(date'2026-01-01', cast(id div {DAY_ROWS} as int)) as day, "
            f"{noise} from range(0, {DAYS * DAY_ROWS}, 1, {DAYS})"
        )
        days.write.format("raftka_delta").mode("append").save(f"{folder}/days")
        places = Places(
            "nowhere:1", declared({"outputs": {"days": {"delta": "days"}}}, Path(folder), {})
        )
        for run in range(runs + 1):
            for title, question in QUESTIONS.items():
                begin = time.perf_counter()
                run_query(spark, question, places, 10)
                if run:  # the first one is warm-up
                    found[title].append(time.perf_counter() - begin)
    everything = statistics.median(found["everything"])
    for title, seconds in found.items():
        median = statistics.median(seconds)
        yield (
            f"| {title} | **{median:.2f}** ({min(seconds):.2f}-{max(seconds):.2f}) | "
            f"{median / everything:.2f} |"
        )


def _reader(spark: Any, system: System) -> Any:
    servers = {
        "kafka.bootstrap.servers": ",".join(f"{host}:{port}" for host, port in system.addresses)
    }
    return (
        spark.readStream.format("raftka")
        .options(
            **servers, subscribe=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=COPY_BATCH
        )
        .load()
    )


def _copy(spark: Any, system: System, guarantee: str, checkpoint: str) -> float:
    """Rows a second of its batches."""
    servers = {
        "kafka.bootstrap.servers": ",".join(f"{host}:{port}" for host, port in system.addresses)
    }
    writer = _reader(spark, system).select("key", "value", "partition").writeStream.format("raftka")
    return _drained(
        system,
        writer.options(
            **servers, topic=COPY, deliveryGuarantee=guarantee, checkpointLocation=checkpoint
        ),
    )


def _drained(system: System, writer: Any) -> float:
    """Rows a second of a stream's batches; what Spark does before the first one and behind the last
    one is left out.
    """
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    rows, ms = (
        int(sum(each[name] for each in batches)) for name in ("numInputRows", "batchDuration")
    )
    if rows != _end(system):
        raise BenchFailed(f"{rows} rows were written of {_end(system)}")
    return rows / ms * 1000


def _end(system: System) -> int:
    """Records of the topic."""
    request = LIST_OFFSETS.request
    rows = [request.topics.partitions(partition_index=p, timestamp=-1) for p in range(PARTITIONS)]
    reply = call(
        system.addresses[0],
        LIST_OFFSETS,
        request(topics=[request.topics(name=TOPIC, partitions=rows)]),
        version=7,
    )
    return sum(row.offset for row in reply.topics[0].partitions)


def audits(spark: Any) -> Iterator[str]:
    """Of a topic with a few planted defects, which are to be found, and nothing else."""
    from raftka.pipeline.audit import audit, in_topic

    yield (
        f"| audit of {AUDITED / 1e6:.0f} M records with planted defects | s | goal | "
        f"{' | '.join(PLANTED)} |"
    )
    yield "|---|---|---|" + "---|" * len(PLANTED)
    with Raftka(1, SETTINGS) as system, TemporaryDirectory(prefix="raftka-audit-") as folder:
        system.start()
        system.wait_ready()
        system.create_topic(TOPIC, PARTITIONS)
        servers = f"{system.addresses[0][0]}:{system.addresses[0][1]}"
        ledger = Path(folder) / "ledger"
        sent = spark.range(0, AUDITED, numPartitions=PRODUCERS).selectExpr(
            f"concat('producer-', cast(id div {AUDITED // PRODUCERS} as string)) as producer",
            f"id % {AUDITED // PRODUCERS} as seq",
            "true as acked",
        )
        sent.write.json(str(ledger))
        _topic_of(sent).write.format("raftka").options(
            topic=TOPIC, **{"kafka.bootstrap.servers": servers}
        ).mode("append").save()
        begin = time.perf_counter()
        report = audit(spark, [str(ledger)], in_topic(spark, servers, TOPIC, None, None, {}))
        seconds = time.perf_counter() - begin
    found = {kind: report.counts[kind] for kind in PLANTED}
    if found != PLANTED:
        raise BenchFailed(f"the audit found {found}, planted was {PLANTED}")
    counts = " | ".join(map(str, found.values()))
    yield (
        f"| {report.counts['records']:,} there, {report.counts['acknowledged']:,} acknowledged "
        f"| **{seconds:.0f}** | {AUDIT_GOAL_S} | {counts} |"
    )


def _topic_of(sent: Any) -> Any:
    """Return the records of a topic with faults: the first numbers of one producer lost, those of
    another one twice, and some that a third never sent.
    """
    copies = (
        f"case when producer = 'producer-0' and seq < {LOST} then 0 when producer = "
        f"'producer-1' and seq < {TWICE} then 2 else 1 end"
    )
    numbers = (
        f"if(producer = 'producer-2' and seq = {AUDITED // PRODUCERS - 1}, sequence(seq, seq + "
        f"{PHANTOMS}), array_repeat(seq, {copies}))"
    )
    return sent.selectExpr("producer", f"explode({numbers}) as seq").selectExpr(
        "producer as key", "concat('{\"seq\": ', seq, '}') as value"
    )


def rows(runs: int, kafka: bool) -> Iterator[str]:
    spark, missing = session()
    try:
        yield from reads(spark, runs, not missing, kafka)
        if missing:
            yield f'format("kafka") was left out: {missing}'
        for figures in (
            flows.rows(spark, runs),
            sinks(spark, runs),
            lakes(spark, runs),
            upserts(spark, runs),
            selects(spark, runs),
            audits(spark),
        ):
            yield ""
            yield from figures
    finally:
        spark.stop()


def some(name: str, runs: int, kafka: bool) -> Iterator[str]:
    """One of these tables alone."""
    spark, missing = session()
    try:
        if name == "reads":
            yield from reads(spark, runs, not missing, kafka)
        else:
            yield from {
                "flows": flows.rows,
                "sinks": sinks,
                "lakes": lakes,
                "upserts": upserts,
                "selects": selects,
            }[name](spark, runs)
    finally:
        spark.stop()
