"""Read the records of a range as Arrow batches from the partition's present leader. Knows no Spark.

The next request leaves before the last answer is decoded. What is asked for ends where the plan
ends; records that are not there any more (compacted, markers of transactions) are passed by,
records that are lost are told, and bytes that are no records stop the query.

A worker lives for many batches, so the metadata that it keeps may be older than the plan. Neither
kept metadata nor one answer proves that a topic is gone: brokers are asked anew, for some seconds,
because a broker may be the last to hear of a topic.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from raftka.client.blocking.client import Patience, is_retriable
from raftka.client.blocking.connection import Broken, Connection, Reply
from raftka.pipeline.errors import CorruptBatch, PipelineError
from raftka.pipeline.records.decode import Decoder
from raftka.pipeline.topics.brokers import UNKNOWN_S, Brokers, as_pipeline_errors, unreachable
from raftka.pipeline.topics.options import EARLIEST, LATEST, SourceOptions
from raftka.pipeline.topics.planning import Range, loss
from raftka.wire.errors import Code, name_of_code
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    import pyarrow as pa

WAIT_MS = 500
EMPTY_ANSWERS = 3  # with a high watermark beyond: nothing is left between
BY_TOPIC_ID = 13  # the first version of Fetch with ids for names
UNKNOWN = {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID}

log = logging.getLogger(__name__)


class Asked(NamedTuple):
    connection: Connection
    reply: Reply[FetchResponse]
    offset: int


class Gone(Exception):
    """The topic is not there, or is another one."""


def read(
    brokers: Brokers, wanted: Range, options: SourceOptions, gone: "set[str] | None" = None
) -> "Iterator[pa.RecordBatch]":
    """Arrow batches with rows, in order. Raises PipelineError. `gone`: ids of topics that other
    ranges of the same task were found to have lost; a topic that is found to be gone is added.
    """
    return _Reading(brokers, wanted, options, set() if gone is None else gone).batches()


class _Reading:
    def __init__(
        self, brokers: Brokers, wanted: Range, options: SourceOptions, gone: set[str]
    ) -> None:
        self._brokers, self._wanted, self._options, self._gone = brokers, wanted, options, gone
        self._where = (wanted.topic, wanted.partition)
        self._offset = wanted.start
        self._metadata_are_new = False  # newer than the plan
        self._patience = brokers.patience(f"{wanted.where} at offset {wanted.start}")
        self._unknown: Patience | None = None
        self._empty = 0
        self._corrupt_once = False

    def batches(self) -> "Iterator[pa.RecordBatch]":
        asked: Asked | None = None
        try:
            while self._offset < self._wanted.stop:
                try:
                    now, asked = asked or self._ask(self._offset), None
                    if now is None:
                        continue
                    decoder = self._answer(now)
                    if decoder is None:
                        continue
                    asked = self._next(now, decoder)
                except OSError as error:
                    self._failed(error)
                    continue
                except Gone as gone:
                    loss(self._options, str(gone), "the rest of this batch is left out")
                    return
                yield from decoder.batches()
        finally:
            if asked is not None:
                asked.connection.close()  # an answer is still to come on it

    def _ask(self, offset: int) -> Asked | None:
        """None: the broker that was asked last does not know the planned topic."""
        led = self._brokers.leader(self._where)
        if self._has_other_id():
            self._topic_unknown("another topic has its name", "deleted and made again")
            return None
        if led is None and self._wanted.topic in self._brokers.missing:
            self._topic_unknown(name_of_code(Code.UNKNOWN_TOPIC_OR_PARTITION))
            return None
        if led is None:
            raise Broken(f"{self._wanted.where} has no leader")
        connection = self._brokers.take(led[0])
        if not self._metadata_are_new and self._reads_by_name(connection):
            self._metadata_are_new = True
            self._brokers.give(connection)
            self._brokers.refresh([self._wanted.topic])
            return self._ask(offset)
        return self._send(connection, offset, led[1])

    def _reads_by_name(self, connection: Connection) -> bool:
        """Return whether the broker knows ids and its Fetch does not take them, as in Kafka 2.8 and
        3.0: it would read the topic that has the name now, so metadata from before the plan prove
        nothing.
        """
        with as_pipeline_errors():
            return bool(self._wanted.topic_id) and connection.version_of(FETCH) < BY_TOPIC_ID

    def _send(self, connection: Connection, offset: int, leader_epoch: int) -> Asked:
        try:
            highest = None if self._wanted.topic_id else BY_TOPIC_ID - 1
            with as_pipeline_errors():
                return Asked(
                    connection,
                    connection.send(FETCH, self._request(offset, leader_epoch), highest),
                    offset,
                )
        except BaseException:
            connection.close()
            raise

    def _request(self, offset: int, leader_epoch: int) -> FetchRequest:
        topic = FETCH.request.topics
        one = topic.partitions(
            partition=self._wanted.partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=self._options.fetch_bytes,
        )
        return FETCH.request(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=self._options.fetch_bytes,
            isolation_level=int(self._options.read_committed),
            topics=[
                topic(
                    topic=self._wanted.topic,
                    topic_id=bytes.fromhex(self._wanted.topic_id) or bytes(16),
                    partitions=[one],
                )
            ],
        )

    def _answer(self, asked: Asked) -> Decoder | None:
        """None: nothing of use came; ask again."""
        try:
            row = asked.reply.wait()
        except BaseException:
            asked.connection.close()
            self._brokers.drop_idle(asked.connection.address)
            raise
        partition = (
            row.responses[0].partitions[0]
            if row.responses and row.responses[0].partitions
            else None
        )
        code = row.error_code or (partition.error_code if partition is not None else 0)
        if code or partition is None:
            self._brokers.give(asked.connection)
            self._refused(code)
            return None
        try:
            decoder = self._decoded(asked, partition)
        except BaseException:
            asked.connection.close()
            raise
        if decoder is None or decoder.next_offset >= self._wanted.stop:
            self._brokers.give(asked.connection)
        return decoder

    def _decoded(self, asked: Asked, partition: PartitionData) -> Decoder | None:
        records = partition.records if partition.records is not None else b""
        aborted = None
        if self._options.read_committed:
            aborted = [
                (each.producer_id, each.first_offset)
                for each in partition.aborted_transactions or ()
            ]
        try:
            decoder = Decoder(
                records,
                *self._where,
                asked.offset,
                self._wanted.stop,
                aborted=aborted,
                headers=self._options.headers,
            )  # its bytes are a copy: the next answer may overwrite these
        except CorruptBatch as error:
            if self._corrupt_once:
                raise
            self._corrupt_once = True
            log.warning("%s; it is fetched once more", error)
            return None
        if decoder.next_offset > asked.offset:
            self._progress(decoder.next_offset)
            return decoder
        self._nothing_new(partition, len(records))
        return None

    def _next(self, now: Asked, decoder: Decoder) -> Asked | None:
        """Send the next request on the same connection."""
        if decoder.next_offset >= self._wanted.stop:
            return None
        led = self._brokers.leader(self._where)
        return self._send(now.connection, decoder.next_offset, led[1] if led is not None else -1)

    def _progress(self, offset: int) -> None:
        self._offset = offset
        self._empty = 0
        self._corrupt_once = False
        self._unknown = None
        self._patience.begin()

    def _nothing_new(self, partition: PartitionData, size: int) -> None:
        """An answer without a whole batch behind the offset. Empty ones are allowed at any time;
        several, where there should be records, say that compaction has left none up to the end.
        """
        stable = (
            partition.last_stable_offset
            if self._options.read_committed
            else partition.high_watermark
        )
        if size:
            raise CorruptBatch(
                f"{self._wanted.where}: {size} bytes at offset {self._offset} hold no whole "
                "batch. Nothing was skipped. Look at them with "
                f"`raftka log dump` on its leader"
            )
        if stable < self._wanted.stop:
            self._shorter(stable)
            return
        self._empty += 1
        if self._empty >= EMPTY_ANSWERS:
            self._offset = self._wanted.stop

    # what can go wrong

    def _refused(self, code: int) -> None:
        if code == Code.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
        elif code in UNKNOWN:
            self._topic_unknown(name_of_code(code))
        elif code == Code.CORRUPT_MESSAGE:
            raise CorruptBatch(
                f"{self._wanted.where}: the broker itself finds its log corrupt at offset "
                f"{self._offset}. Nothing was skipped"
            )
        elif code in (Code.NONE, Code.UNKNOWN_SERVER_ERROR) or is_retriable(code):
            self._failed(name_of_code(code))
        else:
            raise PipelineError(
                f"{self._wanted.where} at offset {self._offset}: {name_of_code(code)} in answer "
                "to Fetch"
            )

    def _failed(self, why: object) -> None:
        """Forget the leader after a refusal or a broken connection, and pause. Raise when the
        patience has ended.
        """
        self._brokers.forget_leaders(self._wanted.topic)
        self._patience.wait(why)

    def _shorter(self, end: int) -> None:
        """The log ends before the plan does: a new leader may have the rest in a moment, or it is
        lost. Raises DataLoss.
        """
        why = f"it ends at offset {end} so far, the plan at {self._wanted.stop}"
        if not self._patience.over:
            self._patience.wait(why)
            return
        loss(
            self._options,
            f"{self._wanted.where} ends at offset {end}, but {self._left()} were to be read: its "
            "log became shorter",
            "they are left out",
        )
        self._progress(self._wanted.stop)

    def _out_of_range(self) -> None:
        """Decide about an offset out of range: below the log's start the records are lost; beyond
        its end a new leader may have them in a moment.
        """
        found = self._brokers.offsets({self._where: EARLIEST})
        earliest = found[self._where]
        if earliest > self._offset:
            what = (
                f"{self._wanted.where} begins at offset {earliest} now, but was to be read from "
                f"{self._offset}: retention deleted the records between"
            )
            loss(
                self._options,
                what,
                f"offsets {self._offset} to {min(earliest, self._wanted.stop) - 1} are left out",
            )
            self._progress(min(earliest, self._wanted.stop))
            return
        latest = self._brokers.offsets({self._where: LATEST})[self._where]
        self._unknown = self._unknown or Patience(UNKNOWN_S, self._wanted.where, unreachable)
        if latest >= self._offset or not self._is_over(f"it ends at {latest}"):
            self._brokers.forget_leaders(self._wanted.topic)
            self._patience.wait("OFFSET_OUT_OF_RANGE")
            return
        what = (
            f"{self._wanted.where} ends at offset {latest}, but was to be read from "
            f"{self._offset} to {self._wanted.stop}: its log became shorter"
        )
        loss(self._options, what, "these offsets are left out")
        self._progress(self._wanted.stop)

    def _topic_unknown(self, why: str, happened: str = "deleted") -> None:
        """Ask again until UNKNOWN_S have passed: a broker may be the last to hear of a topic, and
        the kept metadata may be old. Raise Gone.
        """
        self._unknown = self._unknown or Patience(UNKNOWN_S, self._wanted.where, unreachable)
        self._brokers.forget_leaders(self._wanted.topic)
        if (self._wanted.topic_id and self._wanted.topic_id in self._gone) or self._is_over(why):
            self._gone.add(self._wanted.topic_id)
            raise Gone(f"topic {self._wanted.topic} was {happened} before {self._left()} were read")

    def _is_over(self, why: str) -> bool:
        assert self._unknown is not None
        try:
            self._unknown.wait(why)
        except PipelineError:
            return True
        return False

    def _has_other_id(self) -> bool:
        known = self._brokers.topic_id(self._wanted.topic)
        return bool(self._wanted.topic_id and known) and known != self._wanted.topic_id

    def _left(self) -> str:
        return f"offsets {self._offset} to {self._wanted.stop - 1} of {self._wanted.where}"
