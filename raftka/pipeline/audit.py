"""Join acknowledged records with stored ones and find lost, duplicated, phantom and reordered ones.
A Spark batch job; knows no command line.

All that belongs to a producer meets in one task: what the ledger says of it and what is there, a
full join. There it is a matter of sorted numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.ledger import Split, read_split, splits
from raftka.pipeline.records.columns import Ints

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

KINDS = ("lost", "duplicated", "phantom", "reordered")
COUNTED = ("acknowledged", "unknown", "records", *KINDS)
JUDGED = "kind string, producer string, seq long, copies long, place long, records long"
# of an offset; the partition is above, so one number is a place and the order of places
PLACE_BITS = 48


@dataclass(frozen=True, slots=True)
class Found:
    """Records, and the SQL expressions of their producer and number. `place`: partition and offset,
    if known.
    """

    frame: "DataFrame"
    what: str
    producer: str
    seq: str
    place: tuple[str, str] | None = ("partition", "offset")


@dataclass(frozen=True, slots=True)
class Report:
    counts: Mapping[str, int]
    listed: Sequence[Mapping[str, Json]]

    @property
    def is_clean(self) -> bool:
        return not any(self.counts[kind] for kind in KINDS)


def in_topic(
    spark: "SparkSession",
    bootstrap: str,
    topic: str,
    producer: str | None,
    seq: str | None,
    options: Mapping[str, str],
) -> Found:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
        **options,
    }
    frame = spark.read.format("raftka").options(**given).load()
    return Found(
        frame,
        f"topic {topic}",
        producer or "cast(key as string)",
        seq or "get_json_object(cast(value as string), '$.seq')",
    )


def in_lake(
    spark: "SparkSession",
    path: str,
    producer: str | None,
    seq: str | None,
    options: Mapping[str, str],
) -> Found:
    frame = spark.read.format("raftka_delta").options(**options).load(path)
    place = {"partition", "offset"} <= set(frame.columns)
    return Found(
        frame,
        f"the lake {path}",
        producer or "producer",
        seq or "seq",
        ("partition", "offset") if place else None,
    )


def audit(spark: object, ledgers: Sequence[str], found: Found, *, limit: int = 100) -> Report:
    """`limit`: so many of each kind are listed; 0: all. Raises PipelineError."""
    said, there = _ledger(spark, ledgers).groupBy("producer"), _there(found).groupBy("producer")
    judged = said.cogroup(there).applyInArrow(compare, JUDGED).persist()
    try:
        # all of the work; what is kept of it is what is wrong
        sums = judged.groupBy("kind").sum("records").collect()
        counts = dict.fromkeys(COUNTED, 0) | {row[0]: row[1] for row in sums}
        return Report(
            counts, [row for kind in KINDS if counts[kind] for row in _listed(judged, kind, limit)]
        )
    finally:
        judged.unpersist()


def _ledger(spark: "SparkSession", places: Sequence[str]) -> "DataFrame":
    parts = splits(places)
    if not parts:
        raise PipelineError(f"the ledger {', '.join(places)} is empty")
    rows = spark.createDataFrame(
        [tuple(part) for part in parts], "url string, start long, stop long"
    ).repartition(len(parts))

    def read(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for row in batch.to_pylist():
                yield from read_split(Split(**row))

    return rows.mapInArrow(read, "producer string, seq long, acked boolean")


def _there(found: Found) -> "DataFrame":
    from pyspark.errors import AnalysisException

    place = "cast(null as long)"
    if found.place is not None:
        partition, offset = found.place
        place = f"shiftleft(cast({partition} as long), {PLACE_BITS}) + {offset}"
    try:
        return found.frame.selectExpr(
            f"cast({found.producer} as string) as producer",
            f"try_cast({found.seq} as long) as seq",
            f"{place} as place",
        )
    except AnalysisException as error:
        raise PipelineError(
            f"{found.what} has the columns {', '.join(found.frame.columns)}; --producer "
            f"({found.producer}) and --seq ({found.seq}) are to be made of "
            f"these: {str(error).splitlines()[0]}"
        ) from None


def compare(said: "pa.Table", there: "pa.Table") -> "pa.Table":
    """Compare the two tables of one producer: a row for each violation, and sums. Arrow tables."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    acked = np.unique(said.filter(said["acked"])["seq"].to_numpy())
    unknown = np.setdiff1d(said["seq"].to_numpy(), acked)
    readable = there.filter(pc.is_valid(there["seq"]))
    seqs, copies, places = _firsts(
        readable["seq"].to_numpy(), pc.fill_null(readable["place"], -1).to_numpy()
    )
    lost = np.setdiff1d(acked, seqs, assume_unique=True)
    phantom = ~(
        np.isin(seqs, acked, assume_unique=True) | np.isin(seqs, unknown, assume_unique=True)
    )
    late = _late(seqs, places)
    producer = (said["producer"] if len(said) else there["producer"])[0].as_py()
    unreadable = there.filter(pc.is_null(there["seq"]))
    parts = [
        _rows("acknowledged", producer, len(acked)),
        _rows("unknown", producer, len(unknown)),
        _rows("records", producer, len(there)),
        _rows("lost", producer, 1, lost),
        _rows("duplicated", producer, 1, seqs[copies > 1], places[copies > 1], copies[copies > 1]),
        _rows("phantom", producer, 1, seqs[phantom], places[phantom], copies[phantom]),
        _rows("phantom", producer, 1, None, pc.fill_null(unreadable["place"], -1).to_numpy()),
        _rows("reordered", producer, 1, seqs[late], places[late]),
    ]
    return pa.concat_tables(parts)


def _firsts(seqs: Ints, places: Ints) -> tuple[Ints, Ints, Ints]:
    """Each number once, how often it is there, and the first place."""
    import numpy as np

    order = np.lexsort((places, seqs))
    seqs, places = seqs[order], places[order]
    starts = (
        np.flatnonzero(np.diff(seqs, prepend=seqs[:1] - 1)) if len(seqs) else np.empty(0, np.int64)
    )
    return seqs[starts], np.diff(starts, append=len(seqs)), places[starts]


def _late(seqs: Ints, places: Ints) -> Ints:
    """Return which numbers, with their first places, lie behind a higher number of the same
    partition.
    """
    import numpy as np

    late = np.zeros(len(seqs), bool)
    known = np.flatnonzero(places >= 0)
    in_order = known[np.argsort(places[known])]
    for part in np.split(in_order, np.flatnonzero(np.diff(places[in_order] >> PLACE_BITS)) + 1):
        late[part] = seqs[part] < np.maximum.accumulate(seqs[part]) if len(part) else False
    return late


def _rows(
    kind: str,
    producer: str | None,
    records: int,
    seqs: Ints = None,
    places: Ints = None,
    copies: Ints = None,
) -> "pa.Table":
    """A row for each number or place; without both one with a sum."""
    import numpy as np
    import pyarrow as pa

    count = len(seqs) if seqs is not None else len(places) if places is not None else 1
    none = pa.nulls(count, pa.int64())
    where = none if places is None else pa.array(places, mask=places < 0)
    columns = {
        "kind": pa.array([kind] * count, pa.string()),
        "producer": pa.array([producer] * count, pa.string()),
        "seq": none if seqs is None else pa.array(seqs),
        "copies": none if copies is None else pa.array(copies),
        "place": where,
        "records": pa.array(np.full(count, records, np.int64)),
    }
    return pa.table(columns)


def _listed(judged: "DataFrame", kind: str, limit: int) -> list[JsonObject]:
    shown = (
        f"cast(shiftright(place, {PLACE_BITS}) as int) as partition",
        f"place & {(1 << PLACE_BITS) - 1} as offset",
    )
    rows = (
        judged.where(f"kind = '{kind}'")
        .orderBy("producer", "seq", "place")
        .selectExpr("kind", "producer", "seq", "copies", *shown)
    )
    return [row.asDict() for row in (rows.limit(limit) if limit else rows).toLocalIterator()]
