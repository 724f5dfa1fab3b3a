"""Past places of things in the last hours, from a lake of the project, for the slider of its page.
Bounded in hours and rows. Knows no Spark.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from raftka.json_values import JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import History
from raftka.pipeline.lake.options import READ, lake_options
from raftka.pipeline.lake.read import plan, read

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_MINUTES = 24 * 60
ROWS = 50_000  # of an answer: the newest
READ_ROWS = 2_000_000  # of a lake, for an answer: one with more is not read further
FRESH_S = 10.0  # an answer is given again for so long: many browsers cost as much as one


class Past:
    """Positions of a lake. One question is answered at a time."""

    def __init__(self, source: History, clock: Callable[[], float] = time.time) -> None:
        self._source, self._clock, self._lock = source, clock, threading.Lock()
        self._kept: dict[int, tuple[float, JsonObject]] = {}

    def of(self, minutes: int) -> JsonObject:
        """Rows of the last so many minutes in order of time: milliseconds, key, latitude,
        longitude. `cut`: there were more rows.
        """
        minutes = max(1, min(minutes, LONGEST_MINUTES))
        with self._lock:
            now = self._clock()
            self._kept = {
                each: kept for each, kept in self._kept.items() if now - kept[0] < FRESH_S
            }
            if minutes not in self._kept:
                self._kept[minutes] = (now, self._read(now, minutes))
            return self._kept[minutes][1]

    def _read(self, now: float, minutes: int) -> JsonObject:
        since = now - 60 * minutes
        found: JsonObject = {
            "since": round(since * 1000),
            "until": round(now * 1000),
            "rows": [],
            "cut": False,
            "trouble": None,
        }
        try:
            found["rows"], found["cut"] = self._rows(since)
        except PipelineError as error:  # no lake yet, or none that can be read
            found["trouble"] = str(error)
        return found

    def _rows(self, since: float) -> tuple[list[list[object]], bool]:
        import pyarrow as pa

        its = self._source
        columns = [its.at, its.key, "latitude", "longitude"]
        begin = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds")
        lake = lake_options(
            {
                **its.storage,
                "path": its.path,
                "columns": ",".join(columns),
                "where": f"{its.at} >= '{begin}'",
            },
            known=READ,
        )
        planned = plan(lake, columns)
        batches: list[pa.RecordBatch] = []
        count = 0
        for files in planned.tasks:
            for batch in read(lake, planned, files):
                batches.append(batch.select(columns))
                count += batch.num_rows
                if count > READ_ROWS:
                    return newest(pa.Table.from_batches(batches), its.at), True
        return (
            (newest(pa.Table.from_batches(batches), its.at), count > ROWS)
            if batches
            else ([], False)
        )


def newest(table: "pa.Table", at: str) -> list[list[object]]:
    """The newest rows, oldest first."""
    import pyarrow as pa

    ordered = table.sort_by([(at, "descending")]).slice(0, ROWS)
    times = (
        ordered.column(0).cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    )
    keys, latitudes, longitudes = (ordered.column(place).to_pylist() for place in (1, 2, 3))
    rows = zip(times, keys, latitudes, longitudes, strict=True)
    return [
        [moment, str(key), latitude, longitude]
        for moment, key, latitude, longitude in rows
        if None not in (moment, latitude, longitude)
    ][::-1]
