"""Dead letters as values: what the headers of a record tell about its failure and its origin.

Each program that writes dead letters has headers of its own. `CONVENTIONS` names those that are
known; a record with none of them is shown as it is, and has no origin.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.client.blocking.reader import FetchedRecord
from raftka.wire.records import RecordHeaders

Names = tuple[str, ...]

KIND_CHARACTERS = 200
NO_ERROR = "no error is named"
VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d+")  # differs from letter to letter
INT_BYTES = (4, 8)  # of numbers that Spring writes, with the highest byte first

# The redrive leaves these, and a later one counts on from them.
REDRIVEN = "raftka.redriven."
REDRIVEN_FROM, REDRIVEN_AT, REDRIVEN_TIMES = (
    f"{REDRIVEN}from",
    f"{REDRIVEN}at",
    f"{REDRIVEN}times",
)


@dataclass(frozen=True, slots=True)
class Convention:
    """Headers of one kind of program. Of several names for one thing the first that is there
    counts.
    """

    name: str
    signs: Names  # a record with one of these headers is a letter of this kind
    error: Names = ()  # class of the exception
    message: Names = ()
    stack: Names = ()
    topic: Names = ()
    partition: Names = ()
    offset: Names = ()
    timestamp: Names = ()
    details: Names = ()  # further headers that tell about the failure
    prefixes: Names = ()  # headers that begin so are the program's, not the record's
    has_binary_numbers: bool = False
    exact: Names = ()  # a letter has these headers and no others; they are too common to be signs


CONVENTIONS = (
    Convention(
        "Kafka Connect",
        ("__connect.errors.exception.class.name", "__connect.errors.topic"),
        ("__connect.errors.exception.class.name",),
        ("__connect.errors.exception.message",),
        ("__connect.errors.exception.stacktrace",),
        ("__connect.errors.topic",),
        ("__connect.errors.partition",),
        ("__connect.errors.offset",),
        details=(
            "__connect.errors.connector.name",
            "__connect.errors.task.id",
            "__connect.errors.stage",
            "__connect.errors.class.name",
        ),
        prefixes=("__connect.errors.",),
    ),
    Convention(
        "Kafka Streams",
        ("__streams.errors.exception", "__streams.errors.topic"),
        ("__streams.errors.exception",),
        ("__streams.errors.message",),
        ("__streams.errors.stacktrace",),
        ("__streams.errors.topic",),
        ("__streams.errors.partition",),
        ("__streams.errors.offset",),
        prefixes=("__streams.errors.",),
    ),
    Convention(
        "share group",
        ("__dlq.errors.topic",),
        message=("__dlq.errors.message",),
        topic=("__dlq.errors.topic",),
        partition=("__dlq.errors.partition",),
        offset=("__dlq.errors.offset",),
        details=("__dlq.errors.group", "__dlq.errors.delivery.count"),
        prefixes=("__dlq.errors.",),
    ),
    Convention(
        "Spring Kafka",
        ("kafka_dlt-original-topic", "kafka_dlt-exception-fqcn"),
        # the outer exception is nearly always the listener's
        ("kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-fqcn"),
        ("kafka_dlt-exception-message",),
        ("kafka_dlt-exception-stacktrace",),
        ("kafka_dlt-original-topic",),
        ("kafka_dlt-original-partition",),
        ("kafka_dlt-original-offset",),
        ("kafka_dlt-original-timestamp",),
        details=("kafka_dlt-original-consumer-group",),
        prefixes=("kafka_dlt-", "springDeserializerException"),
        has_binary_numbers=True,
    ),
    Convention(
        "Spring Kafka with retry topics",
        ("kafka_original-topic", "kafka_exception-fqcn"),
        ("kafka_exception-cause-fqcn", "kafka_exception-fqcn"),
        ("kafka_exception-message",),
        ("kafka_exception-stacktrace",),
        ("kafka_original-topic",),
        ("kafka_original-partition",),
        ("kafka_original-offset",),
        ("kafka_original-timestamp",),
        prefixes=("kafka_original-", "kafka_exception-", "retry_topic-"),
        has_binary_numbers=True,
    ),
    Convention(
        "Spring Cloud Stream",
        ("x-original-topic", "x-exception-fqcn"),
        ("x-exception-fqcn",),
        ("x-exception-message",),
        ("x-exception-stacktrace",),
        ("x-original-topic",),
        ("x-original-partition",),
        ("x-original-offset",),
        ("x-original-timestamp",),
        prefixes=("x-original-", "x-exception-"),
        has_binary_numbers=True,
    ),
    Convention(
        "SmallRye",
        ("dead-letter-topic", "dead-letter-exception-class-name"),
        ("dead-letter-cause-class-name", "dead-letter-exception-class-name"),
        ("dead-letter-cause", "dead-letter-reason"),
        topic=("dead-letter-topic",),
        partition=("dead-letter-partition",),
        offset=("dead-letter-offset",),
        prefixes=("dead-letter-",),
    ),
    Convention(
        "schema validation",
        ("raftka.dead.letter.topic",),
        message=("raftka.dead.letter.reason",),
        topic=("raftka.dead.letter.topic",),
        partition=("raftka.dead.letter.partition",),
        timestamp=("raftka.dead.letter.timestamp",),
        prefixes=("raftka.dead.letter.",),
    ),
    Convention(
        "pipeline",
        (),
        message=("error",),
        topic=("topic",),
        partition=("partition",),
        offset=("offset",),
        timestamp=("timestamp",),
        exact=("topic", "partition", "offset", "timestamp", "error"),
    ),
    Convention(
        "pipeline webhook",
        (),
        message=("error",),
        details=("webhook", "idempotency_key"),
        exact=("webhook", "idempotency_key", "error"),
    ),
    Convention(
        "pipeline source",
        (),
        message=("error",),
        details=("source",),
        exact=("source", "error"),
    ),
    Convention(
        "pipeline source of files",
        (),
        message=("error",),
        details=("source", "file"),
        exact=("source", "error", "file"),
    ),
)
SIGNS = {sign: each for each in CONVENTIONS for sign in each.signs}
EXACT = {frozenset(each.exact): each for each in CONVENTIONS if each.exact}


class Origin(NamedTuple):
    """The place that the record came from, as far as its headers tell it."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int | None


class Failure(NamedTuple):
    """Texts of the program that failed; empty: not told."""

    error: str  # class of the exception
    message: str
    stack: str

    @property
    def kind(self) -> str:
        """The class of the exception, or the message without what differs from letter to letter."""
        if self.error:
            return self.error[:KIND_CHARACTERS]
        line = self.message.strip().partition("\n")[0]
        return VARIABLE.sub("#", line[: 2 * KIND_CHARACTERS])[:KIND_CHARACTERS] or NO_ERROR


class Letter(NamedTuple):
    record: FetchedRecord
    convention: str | None  # None: no header tells of a failure
    failure: Failure
    origin: Origin | None
    details: Mapping[str, str]
    redriven_times: int  # how often a record with this content was sent again before

    @property
    def where(self) -> Where:
        return self.record.topic, self.record.partition

    @property
    def lacks_content(self) -> bool:
        """Return whether the letter only refers to the record: share groups write no copy unless
        they are told.
        """
        return (
            self.origin is not None
            and self.convention == "share group"
            and self.record.key is None
            and self.record.value is None
        )


def read_letter(record: FetchedRecord) -> Letter:
    """Return the failure that the headers tell of; never raises."""
    convention, values = _convention_of(record.headers), _values_of(record.headers)
    times = _number(values.get(REDRIVEN_TIMES), is_binary=False) or 0
    if convention is None:
        return Letter(record, None, Failure("", "", ""), None, {}, times)
    error, message, stack = (
        _text(_first(values, names))
        for names in (convention.error, convention.message, convention.stack)
    )
    # Kafka Streams writes the exception with its message
    error = error.partition(":")[0].strip()
    return Letter(
        record,
        convention.name,
        Failure(error, message, stack),
        _origin(convention, values),
        {name: _text(values[name]) for name in convention.details if name in values},
        times,
    )


def own_headers(record: FetchedRecord) -> RecordHeaders:
    """Return the headers that the record had before it failed, without those of earlier redrives.
    Only headers of programs that have left one of their signs are theirs.
    """
    convention = _convention_of(record.headers)
    exact = convention.exact if convention is not None else ()
    failed = {SIGNS[name] for name, _ in record.headers if name in SIGNS}
    prefixes = (REDRIVEN, *(prefix for each in failed for prefix in each.prefixes))
    return tuple(
        (name, value)
        for name, value in record.headers
        if not name.startswith(prefixes) and name not in exact
    )


def _convention_of(headers: RecordHeaders) -> Convention | None:
    """Return the convention of the last failure: a record may have failed in several programs."""
    for name, _ in reversed(headers):
        if name in SIGNS:
            return SIGNS[name]
    names = [name for name, _ in headers if not name.startswith(REDRIVEN)]
    found = EXACT.get(frozenset(names))
    return found if found is not None and len(names) == len(found.exact) else None


def _values_of(headers: RecordHeaders) -> dict[str, bytes | None]:
    """Return the last value of each name: programs that fail again append."""
    return dict(headers)


def _first(values: Mapping[str, bytes | None], names: Names) -> bytes | None:
    return next((values[name] for name in names if values.get(name)), None)


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _number(value: bytes | None, *, is_binary: bool) -> int | None:
    if value is None:
        return None
    if is_binary and len(value) in INT_BYTES:
        number = int.from_bytes(value, "big", signed=True)
        return number if number >= 0 else None
    return int(value) if value.isdigit() and len(value) < 20 else None


def _origin(convention: Convention, values: Mapping[str, bytes | None]) -> Origin | None:
    topic = _text(_first(values, convention.topic))
    if not topic:
        return None
    partition, offset, timestamp = (
        _number(_first(values, names), is_binary=convention.has_binary_numbers)
        for names in (convention.partition, convention.offset, convention.timestamp)
    )
    return Origin(topic, partition, offset, timestamp)
