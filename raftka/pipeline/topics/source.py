"""The driver's plans and the tasks' reads, between Spark's data source and the plain functions.
Knows Spark's order of calls, and no Spark.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from raftka.json_values import Json
from raftka.pipeline.topics import planning
from raftka.pipeline.topics.brokers import Brokers, kept_brokers
from raftka.pipeline.topics.options import SourceOptions
from raftka.pipeline.topics.planning import Lookup, Range
from raftka.pipeline.topics.positions import Position, position
from raftka.pipeline.topics.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa


def brokers_of(options: SourceOptions) -> Brokers:
    committed, security = options.read_committed, options.security
    return kept_brokers(
        options.bootstrap,
        options.client_id,
        options.patience_ms / 1000,
        read_committed=committed,
        security=security,
    )


def batch_tasks(options: SourceOptions) -> list[tuple[Range, ...]]:
    return planning.tasks(planning.batch(options, brokers_of(options)), options.min_partitions)


def read_task(options: SourceOptions, ranges: Iterable[Range]) -> "Iterator[pa.RecordBatch]":
    """Arrow batches; one range after the other."""
    from raftka.pipeline.topics.reader import read

    brokers, gone = brokers_of(options), set[str]()
    for each in ranges:
        yield from read(brokers, each, options, gone)


class Stream:
    """The driver's side of a streaming query: lives as long as the query does. Positions are JSON,
    as they stand in checkpoints.
    """

    def __init__(
        self,
        options: SourceOptions,
        lookup: Lookup | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._clock = options, clock
        self._lookup = lookup or brokers_of(options)
        self._progress = Progress(options)
        self._initial: Position | None = None
        self._last_batch: float | None = None  # when one was planned
        self._frozen: Position | None = None  # availableNow: where the run ends
        self._newest: Position | None = None

    def initial(self) -> Mapping[str, Json]:
        """Spark asks twice: "latest" must be the same place."""
        if self._initial is None:
            self._initial = planning.initial(self._options, self._lookup)
        return self._initial.as_json()

    def freeze(self) -> None:
        """Read no further than the present ends of the topics (availableNow). `latest` reports data
        lost before or after, as without.
        """
        self._frozen = planning.latest(self._options, self._lookup, Position({}))

    def latest(self, start: Mapping[str, Json], *, everything: bool = False) -> Mapping[str, Json]:
        """Return the end of the next batch; `start` itself when there is to be none. `everything`:
        without limits. Raises DataLoss.
        """
        begin = position(start)
        # Spark asks what comes next when it is done with what was before
        self._progress.publish(begin.offsets)
        end = self._newest = self._end(begin)
        if not everything:
            if self._is_early(begin, end):
                return start
            if self._options.max_offsets is not None:
                end = planning.limited(begin, end, self._options.max_offsets)
        if not begin.initial and end.offsets == begin.offsets and end.ids == begin.ids:
            return start
        self._last_batch = self._clock()
        return end.as_json()

    def newest(self) -> Mapping[str, Json] | None:
        """The ends of the topics at the last look: for Spark's progress."""
        return None if self._newest is None else self._newest.as_json()

    def committed(self, end: Mapping[str, Json]) -> None:
        """Everything up to there is done, and will not be asked for again."""
        self._progress.publish(position(end).offsets)

    def stop(self) -> None:
        self._progress.close()

    def tasks(self, start: Mapping[str, Json], end: Mapping[str, Json]) -> list[tuple[Range, ...]]:
        return planning.tasks(
            planning.stream_ranges(position(start), position(end)), self._options.min_partitions
        )

    def _end(self, begin: Position) -> Position:
        end = planning.latest(self._options, self._lookup, begin, self._frozen)
        if self._frozen is not None:
            self._frozen = end
        return end

    def _is_early(self, begin: Position, end: Position) -> bool:
        """Fewer than minOffsetsPerTrigger, and the last batch not maxTriggerDelay ago. availableNow
        reads any number of records.
        """
        least = self._options.min_offsets
        if (
            least is None
            or self._frozen is not None
            or self._last_batch is None
            or planning.waiting(begin, end) >= least
        ):
            return False
        return self._clock() - self._last_batch < self._options.max_delay_ms / 1000
