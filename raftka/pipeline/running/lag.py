"""The lag of flows: the present ends of their topics less their committed offsets, and the age of
the oldest unread record. Knows no Spark.

Spark reports the position of a query when a batch is done, and compares it with the ends at the
time when the batch was planned. A batch that takes minutes would hide all records that came since.
So a thread asks the brokers for the ends every few seconds: a thread, because brokers may be away.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from raftka.client.blocking.client import is_retriable
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.flows.streams import Declared
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import EARLIEST, LATEST, source_options
from raftka.pipeline.topics.planning import remade
from raftka.pipeline.topics.positions import OURS, Position, Where, position
from raftka.wire.messages.fetch import FETCH
from raftka.wire.records import BATCH_HEADER_BYTES, LOG_APPEND_TIME, read_header

REFRESH_S = 2.0
FRESH_S = 30.0  # ends that are older say nothing: the lag is unknown
PATIENCE_S = 5.0
# batches that are fetched at a time for their age, of the partitions with most to read; the ages of
# others come later
AGES_AT_ONCE = 20
BY_NAME = 12  # the last version of Fetch with names of topics

log = logging.getLogger(__name__)

Connection = Mapping[str, str]  # options of a source that say where its cluster is


class Lag(NamedTuple):
    """The lag of a flow. None: not known."""

    offsets: int | None = None
    age_s: float | None = None  # of the oldest record that waits; 0 where none does


@dataclass(frozen=True, slots=True)
class Seen:
    """Topics as the brokers had them at a moment."""

    at: float  # monotonic
    ends: Mapping[Where, int] = field(default_factory=dict)
    # begins of the logs, of partitions that a flow has not begun to read
    begins: Mapping[Where, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    stamps: Mapping[tuple[Where, int], int] = field(
        default_factory=dict
    )  # the time, in ms, of the record at an offset where a flow is; -1: it has none


def lag_of(positions: Collection[Position], seen: Seen, now_ms: float) -> Lag:
    """`positions`: of the sources of a flow."""
    waits = [each for at in positions for each in waiting(at, seen)]
    topics = {topic for at in positions for topic, _ in at.offsets}
    if not topics or topics - {topic for topic, _ in seen.ends}:
        return Lag()
    stamps = [
        stamp for where, start, _ in waits if (stamp := seen.stamps.get((where, start), -1)) >= 0
    ]
    age = (
        None if waits and not stamps else max([0.0, *((now_ms - stamp) / 1000 for stamp in stamps)])
    )
    return Lag(sum(end - start for _, start, end in waits), age)


def waiting(at: Position, seen: Seen) -> Iterable[tuple[Where, int, int]]:
    """Return the partitions with unread records, and from which offset to which. A topic that was
    made again is read from its beginning.
    """
    again, topics = remade(at, seen.ids), {topic for topic, _ in at.offsets}
    for where, end in seen.ends.items():
        if where[0] in topics:
            start = (
                seen.begins.get(where, 0)
                if where[0] in again or where not in at.offsets
                else at.offsets[where]
            )
            if start < end:
                yield where, start, end


def positions_of(
    sources: Iterable[Mapping[str, object]], name: str = "endOffset"
) -> tuple[Position, ...]:
    """Return the positions in topics of the sources of a query, from a report of Spark or from its
    checkpoint.
    """
    found = (parsed(each.get(name)) for each in sources)
    return tuple(each for each in found if each is not None)


def parsed(told: object) -> Position | None:
    """Return the position; None: the text is no position in topics."""
    try:
        found = json.loads(told) if isinstance(told, str) else told
        found = json.loads(found) if isinstance(found, str) else found
        if not isinstance(found, Mapping) or not all(
            isinstance(each, Mapping) for each in found.values()
        ):
            return None
        return position(found) if found.keys() - {OURS} else None
    except (ValueError, PipelineError):
        return None


def committed_in(checkpoint: str) -> tuple[Position, ...] | None:
    """Return the position of the last batch that is done, or the begin of the first one. None: not
    known until the first report, because no batch was planned, or the checkpoint is no folder of
    this machine.
    """
    match = re.fullmatch(r"(?:file:)?/*(/.*)", checkpoint)
    if match is None:
        return None
    try:
        done = [
            int(path.name)
            for path in (Path(match[1]) / "commits").iterdir()
            if path.name.isdecimal()
        ]
        lines = (Path(match[1]) / "offsets" / str(max(done, default=0))).read_text().splitlines()
    except (OSError, ValueError):
        return None
    # behind the version and a line of Spark's own
    found = positions_of({"endOffset": line} for line in lines[2:])
    return (
        found
        if done
        else tuple(replace(each, offsets=each.began) for each in found if each.began is not None)
    )


class Ends:
    """Asks the clusters of a project for the ends of their topics."""

    def __init__(
        self,
        connections: Mapping[str, Connection],
        default: Connection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connections`: by topic, of those that are not in the `default` cluster."""
        self._connections, self._default, self._clock = connections, default, clock
        self._brokers: dict[tuple[tuple[str, str], ...], Brokers] = {}
        self._stamps: dict[tuple[Where, int], int] = {}

    def ask(self, positions: Collection[Position]) -> Seen:
        """Return the topics of these positions as they are now. Raise PipelineError, OSError or
        KafkaError.
        """
        at = self._clock()
        ends, begins, ids = dict[Where, int](), dict[Where, int](), dict[str, str]()
        by_cluster: dict[tuple[tuple[str, str], ...], set[str]] = {}
        for topic in {topic for each in positions for topic, _ in each.offsets}:
            by_cluster.setdefault(
                tuple(sorted(self._connections.get(topic, self._default).items())), set()
            ).add(topic)
        for cluster, topics in by_cluster.items():
            brokers = self._of(cluster)
            found = brokers.topics(topics)
            ids |= {name: topic.topic_id for name, topic in found.items() if topic.topic_id}
            places = [
                (name, partition) for name, topic in found.items() for partition in topic.partitions
            ]
            if places:
                ends |= brokers.offsets(dict.fromkeys(places, LATEST))
            known = [each for each in positions if each.offsets.keys() & set(places)]
            new = {
                where
                for each in known
                for where in places
                if where not in each.offsets or where[0] in remade(each, ids)
            }
            if new:
                begins |= brokers.offsets(dict.fromkeys(new, EARLIEST))
        seen = Seen(at, ends, begins, ids)
        return Seen(at, ends, begins, ids, self._times(positions, seen))

    def close(self) -> None:
        for each in self._brokers.values():
            each.close()

    def _of(self, cluster: tuple[tuple[str, str], ...]) -> Brokers:
        if cluster not in self._brokers:
            options = source_options({**dict(cluster), "subscribe": "x"}, streaming=True)
            self._brokers[cluster] = Brokers(
                options.bootstrap, "raftka-lag", PATIENCE_S, security=options.security
            )
        return self._brokers[cluster]

    def _times(self, positions: Collection[Position], seen: Seen) -> dict[tuple[Where, int], int]:
        """Return the time of the first unread record of each partition. Known times stay as long as
        a flow is at their offset.
        """
        wanted = {(where, start) for at in positions for where, start, _ in waiting(at, seen)}
        self._stamps = {each: self._stamps[each] for each in wanted & self._stamps.keys()}
        new = sorted(wanted - self._stamps.keys(), key=lambda each: each[1] - seen.ends[each[0]])
        for where, offset in new[:AGES_AT_ONCE]:
            connection = tuple(sorted(self._connections.get(where[0], self._default).items()))
            self._stamps[where, offset] = stamp_of(self._of(connection), where, offset)
        return dict(self._stamps)


def stamp_of(brokers: Brokers, where: Where, offset: int) -> int:
    """Return the time of the batch with this offset; -1: the batch has none, or is not there any
    more.
    """
    topic = FETCH.request.topics
    # one whole batch
    rows = [
        topic(
            topic=where[0],
            partitions=[
                topic.partitions(partition=where[1], fetch_offset=offset, partition_max_bytes=1)
            ],
        )
    ]
    answer = brokers.ask_leader(
        where, FETCH, FETCH.request(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=rows), BY_NAME
    )
    if answer.error_code or not answer.responses:
        return -1
    (each,) = answer.responses[0].partitions
    records = memoryview(each.records or b"")
    if (each.error_code and not is_retriable(each.error_code)) or len(records) < BATCH_HEADER_BYTES:
        return -1
    header = read_header(records, 0)
    return (
        header.max_timestamp
        if header.attributes & LOG_APPEND_TIME or header.base_timestamp < 0
        else header.base_timestamp
    )


class LagWatch:
    """Asks for the ends every REFRESH_S, in a thread."""

    def __init__(
        self,
        ends: Ends,
        positions: Callable[[], Collection[Position]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ends, self._positions, self._clock = ends, positions, clock
        self._seen: Seen | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)
        self._warned = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def lag(self, positions: Collection[Position]) -> Lag:
        seen = self._seen
        if seen is None or self._clock() - seen.at > FRESH_S:
            return Lag()
        return lag_of(positions, seen, time.time() * 1000)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.refresh()
            self._stopping.wait(REFRESH_S)
        self._ends.close()

    def refresh(self) -> None:
        """Ask now. Never raises: a thread that ended would leave the lag as it was."""
        try:
            self._seen = self._ends.ask(self._positions())
            self._warned = ""
        except Exception as error:
            if str(error) != self._warned:
                log.warning("the ends of topics are not known, so no lag is: %s", error)
            self._warned = str(error)


def ends_of(declared: Declared) -> Ends:
    """Return the ends of a project's topics. Its streams may be in several clusters."""
    given = {
        each.topic: {
            name: value for name, value in each.options.items() if name.lower().startswith("kafka.")
        }
        for each in declared.streams
    }
    own = {
        topic: {**declared.connection, **options}
        for topic, options in given.items()
        if any(is_access(name) for name in options)
    }
    return Ends(
        {
            topic: {name: value for name, value in options.items() if is_access(name)}
            for topic, options in own.items()
        },
        declared.connection,
    )


def is_access(name: str) -> bool:
    """Return True for an option of a source that names a cluster or a login there."""
    return name.lower().startswith(
        (
            "kafka.bootstrap.servers",
            "kafka.client.config",
            "kafka.security.",
            "kafka.ssl.",
            "kafka.sasl.",
        )
    )
