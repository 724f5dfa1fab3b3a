"""Dead letters: records that do not fit their schemas, written to the dead letter topic with
headers for their origin and the reason.

The broker writes them outside of any transaction and without a producer id. A batch that a producer
sends twice may leave its letters twice. No letter is lost: the batch goes on only when its letters
are committed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from raftka.broker.context import BrokerContext
from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.produce.schemas.schema_ids import Errors, numbered_records
from raftka.broker.replica.partition import Partition
from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError, code_of
from raftka.wire.messages.produce import PRODUCE, ProduceResponse
from raftka.wire.records import (
    BATCH_HEADER_BYTES,
    TRANSACTIONAL,
    NewRecord,
    Record,
    build_batch,
    read_header,
)

TIMEOUT_S = 10.0
# of one batch of letters before it is compressed, when more records than one are in it
LETTERS_BYTES = 256 * 1024
OVERHEAD_BYTES = 200  # of a record with these headers, about
REASON_CHARACTERS = 1_000
BY_NAME = 12  # the last version of Produce that names topics
LETTERS = "raftka_schema_dead_letters_total"
PREFIX = "raftka.dead.letter."

Done = Callable[[KafkaError | None], None]


class Origin(NamedTuple):
    """The partition to which the client produced the records."""

    topic: str
    partition: int


class Replicas(Protocol):
    partitions: dict[tuple[str, int], Partition]


def letters_of(batch: memoryview, errors: Errors, origin: Origin, most_bytes: int) -> list[bytes]:
    """Return batches of the records at these places, none larger than `most_bytes` but for a single
    record. Slow. Raise RefusedRecords.
    """
    made: list[bytes] = []
    records: list[NewRecord] = []
    size = 0
    codec = read_header(batch).compression

    def end_batch() -> None:
        if records:
            made.append(bytes(build_batch(records, compression=codec)))
            records.clear()

    for place, record in numbered_records(batch):
        reason = errors.get(place)
        if reason is None:
            continue
        letter = _letter(record, reason, origin)
        added = (
            sum(
                len(each or b"")
                for each in (record.key, record.value, *(value for _, value in letter[2]))
            )
            + OVERHEAD_BYTES
        )
        if size + added > most_bytes:
            end_batch()
            size = 0
        records.append(letter)
        size += added
    end_batch()
    return made


def _letter(record: Record, reason: str, origin: Origin) -> NewRecord:
    origin_headers = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "timestamp": str(record.timestamp),
        "reason": reason[:REASON_CHARACTERS],
    }
    headers = (
        *record.headers,
        *((f"{PREFIX}{name}", value.encode()) for name, value in origin_headers.items()),
    )
    return record.key, record.value, headers, record.timestamp


class DeadLetters:
    def __init__(
        self, context: BrokerContext, replicas: Replicas, is_internal: Callable[[str], bool]
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._is_internal = is_internal
        self._random = context.runtime.random("dead letters")
        self.channels = BrokerChannels(context, "dead-letters")

    def on_image(self, image: MetadataImage) -> None:
        self.channels.on_image(image)

    def close(self) -> None:
        self.channels.close()

    def find_obstacle(
        self, topic: str, batch: memoryview, may_write: Callable[[str], bool]
    ) -> str | None:
        """Return the reason why no record of the batch can become a letter there, as an addition to
        a sentence; None: there is none.
        """
        metadata = self._context.metadata
        if read_header(batch).attributes & TRANSACTIONAL:
            return (
                "; a batch of a transaction is refused as a whole, because a dead letter would "
                "not be in the transaction"
            )
        if self._is_internal(topic) or not may_write(topic):
            return f"; and the client may not write to the dead letter topic {topic}"
        if metadata.image.topic_named(topic) is None:
            return f"; and there is no dead letter topic {topic}"
        if metadata.topic_configs.of(metadata.image, topic).log.schemas is not None:
            return f"; and the dead letter topic {topic} has schema validation itself"
        return None

    def most_bytes(self, topic: str) -> int:
        """Return the size that a batch of letters may have in that topic."""
        metadata = self._context.metadata
        return min(
            LETTERS_BYTES,
            metadata.topic_configs.of(metadata.image, topic).log.max_message_bytes
            - BATCH_HEADER_BYTES,
        )

    def send(self, topic: str, batches: Sequence[bytes], done: Done) -> None:
        """Write the batches one after the other to one partition; `done` is called once, in a later
        turn, when they are committed, or with the error.
        """
        found = self._context.metadata.image.topic_named(topic)
        leaders = (
            [
                (index, each.leader)
                for index, each in enumerate(found.partitions)
                if each.leader >= 0
            ]
            if found is not None
            else []
        )
        here = [place for place in leaders if place[1] == self._context.node_id]
        if not leaders:
            self._context.later(partial(done, KafkaError(Code.LEADER_NOT_AVAILABLE)))
            return
        index, leader = self._random.choice(here or leaders)
        _Sending(self, topic, index, leader, list(batches), done).go_on(None)

    def write(self, topic: str, index: int, leader: int, batch: bytes, done: Done) -> None:
        if leader == self._context.node_id:
            self._context.later(lambda: self._append(topic, index, batch, done))
            return
        request = PRODUCE.request
        rows = request.topic_data
        data = rows(name=topic, partition_data=[rows.partition_data(index=index, records=batch)])
        row = request(acks=-1, timeout_ms=int(TIMEOUT_S * 1000), topic_data=[data])
        self.channels.ask(leader, PRODUCE, row, partial(_answered, done), BY_NAME)

    def _append(self, topic: str, index: int, batch: bytes, done: Done) -> None:
        clock = self._context.runtime.clock
        partition = self._replicas.partitions.get((topic, index))
        try:
            if partition is None:
                raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
            _, following, _, _ = partition.append(
                memoryview(bytearray(batch)), -1, clock.wall_ms(), self
            )
        except KafkaError as error:
            done(error)
            return
        partition.wait_for_commit(following, clock.now() + TIMEOUT_S, _Wait(done))

    def abort(self, reason: str) -> None:
        """Do nothing: the log has failed, and completes the operations that wait for it with an
        error.
        """

    def count_letters(self, records: int) -> None:
        self._context.metrics.count(LETTERS, records)


class _Sending:
    def __init__(
        self,
        letters: DeadLetters,
        topic: str,
        index: int,
        leader: int,
        batches: list[bytes],
        done: Done,
    ) -> None:
        self._letters, self._place, self._batches = letters, (topic, index, leader), batches
        self._done = done
        self._batch = b""

    def go_on(self, error: KafkaError | None) -> None:
        if error is not None:
            self._done(error)
            return
        if self._batch:
            self._letters.count_letters(read_header(self._batch).count)
        if not self._batches:
            self._done(None)
            return
        self._batch = self._batches.pop(0)
        self._letters.write(*self._place, self._batch, self.go_on)


class _Wait:
    """Letters in this broker's own log, until they are committed."""

    __slots__ = ("_done",)

    def __init__(self, done: Done) -> None:
        self._done = done

    def complete(self, code: Code) -> None:
        self._done(None if code is Code.NONE else KafkaError(code))


def _answered(done: Done, answer: ProduceResponse | None, error: str | None) -> None:
    if answer is None:
        done(KafkaError(Code.NETWORK_EXCEPTION, error))
        return
    code = next(
        (
            code_of(row.error_code)
            for topic in answer.responses
            for row in topic.partition_responses
        ),
        Code.UNKNOWN_SERVER_ERROR,
    )
    done(None if code is Code.NONE else KafkaError(code))
