"""Keeps queries running: a failed query is started again, later with each failure, and the reports
of its runs are added up. Knows no Spark, but the interface of its queries.

A query that fails has done no harm: its checkpoint stays before what was not written. So none is
given up; what needs somebody to do something is said each time, with the next step.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from raftka.json_values import Json
from raftka.pipeline.errors import sentence_in
from raftka.pipeline.running.lag import Lag, committed_in, positions_of
from raftka.pipeline.topics.positions import Position

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
# as a query tells its status before its source has answered
STARTING = ("Initializing", "Getting offsets")
STARTING_S = 20.0
WRITTEN = (
    "raftka_written"  # a metric of Spark's reports: rows that go to the output in record batches
)
SHOWN = 400  # characters of an error that is not known

# (what Spark says, what that means, the next step)
KNOWN = (
    (
        r"STREAMING_STATEFUL_OPERATOR_(NOT_MATCH_IN_STATE_METADATA|"
        r"MISSING_STATE_DIRECTORY)|STREAMING_QUERY_EVOLUTION_ERROR|"
        r"STATE_STORE_((KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|"
        r"COLUMN_FAMILY_SCHEMA_INCOMPATIBLE|INVALID_VALUE_SCHEMA_EVOLUTION|"
        r"INVALID_VARIABLE_TYPE_CHANGE|INVALID_CONFIG_AFTER_RESTART)|sources in the checkpoint "
        r"offsets and now there are",
        "the query is another one than its checkpoint is of",
        "undo the change; or move {checkpoint} away: then it begins anew, and writes all rows to "
        "the topic or lake again",
    ),
    (
        r"No space left on device|ENOSPC|Disk quota exceeded",
        "the disk is full",
        "make room: it goes on by itself",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|CONCURRENT_QUERY",
        "another query writes the same checkpoint",
        "stop the other one, such as a `spark-pipelines run`",
    ),
    (
        r"failed to connect back|CANNOT_OPEN_SOCKET",
        "a Python worker took too long to start",
        "none, if it is seldom; else give this machine less to do",
    ),
)


@dataclass(slots=True)
class Reported:
    """The state of a flow, as `raftka pipeline status` shows it."""

    state: str = "starting"
    batch: int = -1
    rows: int = 0  # read, since this process began: of topics the offsets
    written: int | None = None  # rows that went to the output; None: not known
    rows_per_second: float = 0.0
    seconds: float = 0.0  # of the last batch with rows
    lag: int | None = None  # offsets that are in the topics now, and not committed
    age_s: float | None = None  # of the oldest record among them
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0  # dropped, since this process began
    watermark: str | None = None
    failures: int = 0
    error: str | None = None
    at: str | None = None  # of the last report


@dataclass
class Supervised:
    """One flow. Call `check` every now and then; it returns lines for the terminal."""

    name: str
    start: Callable[[], "StreamingQuery"]
    checkpoint: str = ""
    reported: Reported = field(default_factory=Reported)
    lag: Callable[[Sequence[Position]], Lag] = lambda positions: Lag()

    def __post_init__(self) -> None:
        self.query: Any = None  # a StreamingQuery while it runs
        self.committed: tuple[Position, ...] | None = None  # in its topics; None: not known yet
        self._again = float("-inf")
        self._failed_in_a_row = 0
        self._last: tuple[str, int, str] | None = None
        self._started = float("-inf")
        self._reported_since = False

    def is_starting(self, now: float) -> bool:
        """Its Python worker is on its way. Spark gives that ten seconds, so on a machine that has
        much to do they should not all come at once.
        """
        if self.query is None or self._reported_since or now - self._started > STARTING_S:
            return False
        return str(self.query.status["message"]).startswith(STARTING)

    def check(self, now: float) -> list[str]:
        if self.committed is None:
            self.committed = committed_in(self.checkpoint)
        lines = self._checked(now)
        self._measure()
        return lines

    def _measure(self) -> None:
        self.reported.lag, self.reported.age_s = self.lag(self.committed or ())

    def _checked(self, now: float) -> list[str]:
        if self.query is None:
            return self._try(now) if now >= self._again else []
        lines = [line for progress in self._news() if (line := self._report(progress)) is not None]
        failure = self.query.exception()
        if failure is not None or not self.query.isActive:
            self.query = None
            lines.append(self._failed(now, str(failure) if failure is not None else "it ended"))
        return lines

    def _try(self, now: float) -> list[str]:
        try:
            self._started, self._reported_since = now, False
            self.query = self.start()
        # Spark's are of many kinds; none of them may end the other flows
        except Exception as error:
            return [self._failed(now, str(error))]
        self.reported.state = "running"
        return []

    def _failed(self, now: float, why: str) -> str:
        self._failed_in_a_row += 1
        pause = min(FIRST_PAUSE_S * 2 ** (self._failed_in_a_row - 1), LONGEST_PAUSE_S)
        self._again = now + pause
        self.reported.state, self.reported.error = "failed", explained(why, self.checkpoint)
        self.reported.failures += 1
        return f"{self.name}: {self.reported.error}. It is started again in {pause:g} s"

    def _news(self) -> list[Mapping[str, Json]]:
        """Reports of Spark's that are new."""
        found = [
            each if isinstance(each, Mapping) else json.loads(each.json)
            for each in self.query.recentProgress
        ]
        marks = [
            (str(each["runId"]), int(each["batchId"]), str(each["timestamp"])) for each in found
        ]
        begin = marks.index(self._last) + 1 if self._last in marks else 0
        self._last = marks[-1] if marks else self._last
        return found[begin:]

    def _report(self, progress: Mapping[str, Json]) -> str | None:
        known, rows = self.reported, rows_of(progress)
        known.state, known.error, known.at = "running", None, str(progress["timestamp"])
        self._failed_in_a_row, self._reported_since = 0, True
        self.committed = positions_of(progress.get("sources") or ())
        self._measure()
        operators: Sequence[Mapping[str, Json]] = progress.get("stateOperators") or ()
        known.state_rows = sum(int(each.get("numRowsTotal", 0)) for each in operators)
        known.state_bytes = sum(int(each.get("memoryUsedBytes", 0)) for each in operators)
        known.late_rows += sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in operators)
        known.watermark = (progress.get("eventTime") or {}).get("watermark", known.watermark)
        known.rows_per_second = (
            float(progress.get("processedRowsPerSecond") or 0.0) if rows else 0.0
        )
        written = written_in(progress)
        if written is not None:
            known.written = (known.written or 0) + written
        if rows == 0 and not written:
            return None
        known.rows += rows
        known.batch, known.seconds = (
            int(progress["batchId"]),
            progress.get("batchDuration", 0) / 1000,
        )
        late = f"  {known.late_rows:,} late" if known.late_rows else ""
        return (
            f"{self.name:<14} batch {known.batch:<6} {rows:>9,} read {_number(written):>9} "
            f"written  {known.seconds:>6.1f} s  lag {shown(known)}{late}"
        )


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def rows_of(progress: Mapping[str, Json]) -> int:
    """Rows that were read: of topics the offsets, for a source may hand over few rows for many
    records.
    """
    total, sources = 0, progress.get("sources") or ()
    for source in sources:
        end, ours = _offsets(source.get("endOffset")), _told(source.get("endOffset")).get("$raftka")
        start = _offsets(source.get("startOffset")) or _offsets(
            ours.get("began") if isinstance(ours, Mapping) else None
        )
        if not end or not start:
            return int(progress.get("numInputRows") or 0)
        total += sum(offset - start.get(where, 0) for where, offset in end.items())
    return total if sources else int(progress.get("numInputRows") or 0)


def written_in(progress: Mapping[str, Json]) -> int | None:
    """Rows that went to the output; None: Spark does not say, as of files."""
    observed = (progress.get("observedMetrics") or {}).get(WRITTEN)
    if observed is not None:
        return int(observed[WRITTEN] or 0)  # a row of Spark's, or a mapping
    rows = (progress.get("sink") or {}).get("numOutputRows")
    return int(rows) if rows is not None and rows >= 0 else None


def shown(known: Reported) -> str:
    """The lag as a line says it."""
    if known.lag is None:
        return "?"
    return f"{known.lag:,}" + (
        f", {known.age_s:,.0f} s" if known.lag and known.age_s is not None else ""
    )


def _offsets(told: object) -> dict[tuple[str, str], int]:
    """Topics and their partitions in an offset of a query."""
    topics = {
        topic: each
        for topic, each in _told(told).items()
        if isinstance(each, Mapping) and not topic.startswith("$")
    }
    return {
        (topic, partition): offset
        for topic, each in topics.items()
        for partition, offset in each.items()
        if isinstance(offset, int)
    }


def _told(told: object) -> Mapping[str, Json]:
    """An offset of a query: JSON, perhaps twice."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    return told if isinstance(told, Mapping) else {}


def explained(why: str, checkpoint: str = "") -> str:
    """Turn an error of Spark into cause and next step."""
    if (ours := sentence_in(why)) is not None:
        return ours.rstrip(".")
    for pattern, meaning, step in KNOWN:
        if (match := re.search(pattern, why)) is not None:
            return f"{meaning} ({match[0]}). Next step: {step.format(checkpoint=checkpoint)}"
    text = " ".join(why.split())
    cause = re.search(r"(?:terminated with exception: |Caused by: )(.*)", text)
    text = cause[1] if cause else text
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
