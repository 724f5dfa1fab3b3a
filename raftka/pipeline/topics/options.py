"""Options of the source, named as Spark's Kafka source names them, and their errors as sentences.
Knows no broker.

What Spark ignores in silence is refused where it would change which records are read: a misspelt
startingOffsets is "latest".
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from raftka.client.blocking.connection import addresses_of
from raftka.client.connection import Address
from raftka.json_values import Json
from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.topics.positions import Where, flat
from raftka.pipeline.topics.security import security_of
from raftka.security.client_security import PLAINTEXT, ClientSecurity

LATEST, EARLIEST = -1, -2  # as ListOffsets and Spark's JSON have them
DELAY_MS = 15 * 60 * 1000
PATIENCE_MS = 120_000  # Spark's own for a poll
# of a partition, in one answer: 40,000 records of 100 bytes become one Arrow batch
FETCH_BYTES = 4 << 20

READ = [
    *(
        "assign",
        "subscribe",
        "subscribePattern",
        "startingOffsets",
        "endingOffsets",
        "startingTimestamp",
        "endingTimestamp",
    ),
    *(
        "startingOffsetsByTimestamp",
        "endingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
    ),
    *("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions"),
    *("failOnDataLoss", "includeHeaders", "kafkaConsumer.pollTimeoutMs"),
]
WITHOUT_MEANING = [
    "groupIdPrefix",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxRecordsPerPartition",
    "path",
]  # for consumers in Java
NOT_OURS = {  # of Kafka's consumer: what jobs may not set, and why
    "auto.offset.reset": (
        "startingOffsets is the start of a new query, and a query that continues never jumps"
    ),
    "enable.auto.commit": "Spark's checkpoint keeps the offsets",
    "key.deserializer": "keys are binary; cast them in the query",
    "value.deserializer": "values are binary; cast them in the query",
    "interceptor.classes": "there is no Java consumer to call them",
}
DURATION = re.compile(
    r"\s*(\d+)\s*(ms|millis\w*|s|sec\w*|m|min\w*|h|hours?|d|days?)\s*", re.IGNORECASE
)
UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Edge:
    """Start or end of reading: `default` (LATEST or EARLIEST), unless given for a partition, as
    offset or as time (ms).
    """

    default: int
    offsets: Mapping[Where, int] | None = None
    times: Mapping[Where, int] | None = None
    time: int | None = None
    latest_if_none: bool = False  # where no record is that late


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap: tuple[Address, ...]
    security: ClientSecurity = PLAINTEXT
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[Where, ...] = ()
    starting: Edge = field(default_factory=lambda: Edge(LATEST))
    ending: Edge = field(default_factory=lambda: Edge(LATEST))
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DELAY_MS
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    headers: bool = False
    read_committed: bool = False
    client_id: str = "raftka-spark"
    group_id: str | None = None  # whose offsets tell how far the query is
    fetch_bytes: int = FETCH_BYTES
    patience_ms: int = PATIENCE_MS


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Names in any case, as Spark hands them on. Raises OptionRefused."""
    options = {name.lower(): value for name, value in given.items()}
    kafka = {
        name[len("kafka.") :]: value for name, value in options.items() if name.startswith("kafka.")
    }
    _check_names(options, kafka)
    topics, pattern, assigned = _topics(options)
    if streaming and (
        late := [
            name
            for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
            if name.lower() in options
        ]
    ):
        raise OptionRefused(
            f"{late[0]} is for batch queries: a stream has no end. Leave it out, or read with "
            "spark.read"
        )
    max_offsets = _number(options, "maxOffsetsPerTrigger")
    min_offsets = _number(options, "minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise OptionRefused(
            f"minOffsetsPerTrigger {min_offsets} is more than maxOffsetsPerTrigger {max_offsets}: "
            "no batch could be so"
        )
    return SourceOptions(
        bootstrap=addresses(kafka),
        security=security_of(kafka),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=_edge(
            options,
            "starting",
            LATEST if streaming else EARLIEST,
            refused=None if streaming else LATEST,
        ),
        ending=_edge(options, "ending", LATEST, refused=EARLIEST),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_delay_ms=_duration_ms(options.get("maxtriggerdelay", "15m")),
        min_partitions=_number(options, "minPartitions"),
        fail_on_data_loss=truth(options, "failOnDataLoss", True),
        headers=truth(options, "includeHeaders", False),
        read_committed=_read_committed(kafka.get("isolation.level", "read_uncommitted")),
        client_id=kafka.get("client.id", "raftka-spark"),
        group_id=kafka.get("group.id") or None,
        fetch_bytes=_number(kafka, "max.partition.fetch.bytes") or FETCH_BYTES,
        patience_ms=_number(options, "kafkaConsumer.pollTimeoutMs") or PATIENCE_MS,
    )


def addresses(kafka: Mapping[str, str]) -> tuple[Address, ...]:
    """Parse kafka.bootstrap.servers."""
    servers = kafka.get("bootstrap.servers", "")
    if not servers.strip():
        raise OptionRefused(
            'kafka.bootstrap.servers is missing: .option("kafka.bootstrap.servers", "host:9092")'
        )
    try:
        return tuple(addresses_of(servers))
    except ValueError as error:
        raise OptionRefused(f"kafka.bootstrap.servers: {error}") from None


def check_kafka(kafka: Mapping[str, str]) -> None:
    """Refuse options that jobs may not set."""
    for name, why in NOT_OURS.items():
        if name in kafka:
            raise OptionRefused(f"kafka.{name} can not be set: {why}")


def refuse_unknown(names: list[str], known: list[str], others: str = "kafka.*") -> None:
    for name in names:
        near = difflib.get_close_matches(name, [each.lower() for each in known], 1)
        spelt = next((each for each in known if near and each.lower() == near[0]), None)
        raise OptionRefused(
            f"there is no option {name}"
            + (
                f": is it {spelt}?"
                if spelt
                else f"; there are {', '.join(sorted(known))}, and {others}"
            )
        )


def _check_names(options: Mapping[str, str], kafka: Mapping[str, str]) -> None:
    known = {name.lower() for name in READ + WITHOUT_MEANING}
    refuse_unknown(
        [name for name in options if name not in known and not name.startswith("kafka.")], READ
    )
    check_kafka(kafka)


def _topics(options: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[Where, ...]]:
    given = [
        name
        for name in ("assign", "subscribe", "subscribePattern")
        if options.get(name.lower(), "").strip()
    ]
    if len(given) != 1:
        said = f"{' and '.join(given)} are" if given else "none is"
        raise OptionRefused(
            "set exactly one of subscribe (names), subscribePattern (a regular expression) and "
            f"assign (partitions); {said} given"
        )
    value = options[given[0].lower()].strip()
    match given[0]:
        case "subscribe":
            return (
                tuple(sorted({name.strip() for name in value.split(",") if name.strip()})),
                None,
                (),
            )
        case "subscribePattern":
            try:
                re.compile(value)
            except re.error as error:
                raise OptionRefused(
                    f"subscribePattern {value!r} is no regular expression: {error}"
                ) from None
            return (), value, ()
    found = _json(options, "assign")
    try:
        return (
            (),
            None,
            tuple(
                sorted(
                    (topic, int(partition))
                    for topic, partitions in found.items()
                    for partition in partitions
                )
            ),
        )
    except (AttributeError, TypeError, ValueError):
        raise OptionRefused(f'assign {value} is not of the form {{"topic": [0, 1]}}') from None


def _edge(options: Mapping[str, str], side: str, default: int, refused: int | None) -> Edge:
    """In Spark's order: one time for all, times, offsets."""
    strategy = options.get(f"{side}offsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionRefused(f"startingOffsetsByTimestampStrategy is {strategy!r}: error or latest")
    latest_if_none = side == "ending" or strategy == "latest"
    if f"{side}timestamp" in options:
        return Edge(
            default, time=_number(options, f"{side}Timestamp"), latest_if_none=latest_if_none
        )
    if f"{side}offsetsbytimestamp" in options:
        return Edge(
            default,
            times=flat(_json(options, f"{side}OffsetsByTimestamp")),
            latest_if_none=latest_if_none,
        )
    text = options.get(f"{side}offsets", "").strip()
    named = {"": default, "latest": LATEST, "earliest": EARLIEST}.get(text.lower())
    offsets = None if named is not None else flat(_json(options, f"{side}Offsets"))
    if refused is not None and (named == refused or refused in (offsets or {}).values()):
        word = "latest" if refused == LATEST else "earliest"
        raise OptionRefused(
            f"{side}Offsets can not be {word} ({refused}) in a batch query: there would be "
            "nothing to read"
        )
    if offsets and (low := min(offsets.values())) < EARLIEST:
        raise OptionRefused(f"{side}Offsets: {low} is no offset; -1 is latest, -2 earliest")
    return Edge(default if named is None else named, offsets)


def _json(options: Mapping[str, str], name: str) -> Json:
    try:
        return json.loads(options[name.lower()])
    except ValueError:
        raise OptionRefused(
            f'{name} {options[name.lower()]!r} is no JSON; it is to be like {{"topic": {{"0": '
            "23}}"
        ) from None


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    least = 0 if name.lower().endswith("timestamp") else 1
    if not text.strip().isdecimal() or int(text) < least:
        raise OptionRefused(f"{name} is {text!r}: it is to be a whole number from {least} on")
    return int(text)


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise OptionRefused(f"{name} is {text!r}: true or false")
    return text == "true"


def _duration_ms(text: str) -> int:
    match = DURATION.fullmatch(text)
    if match is None:
        _no_duration(text)
    unit = match[2].lower()
    key = "ms" if unit == "ms" or unit.startswith("millis") else unit[0]
    return int(match[1]) * UNIT_MS[key]


def _no_duration(text: str) -> NoReturn:
    raise OptionRefused(f"maxTriggerDelay is {text!r}: it is to be like 15m, 30s or 500ms")


def _read_committed(level: str) -> bool:
    if level not in ("read_committed", "read_uncommitted"):
        raise OptionRefused(
            f"kafka.isolation.level is {level!r}: read_committed or read_uncommitted"
        )
    return level == "read_committed"
