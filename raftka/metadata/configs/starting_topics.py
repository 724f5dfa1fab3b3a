"""Topics that a node makes when it starts, as text: the setting `raftka.topics` (`--topics`), and
`KAFKA_CREATE_TOPICS` of wurstmeister's image. Makes nothing itself.

An item of `raftka.topics` is NAME[:PARTITIONS][:POLICY][:SETTING=VALUE]... POLICY is a value of
cleanup.policy, with `+` between two policies, because `,` ends the item. `replication.factor`
stands among the settings although it is none. What an item leaves out is the cluster's default.
"""

from collections.abc import Iterable

from raftka.limits import PARTITIONS_OF_REQUEST
from raftka.metadata.commands import NewTopic
from raftka.metadata.configs.topic import DELIVERY_SETTINGS, SCHEMA_SETTINGS, TOPIC_SETTINGS
from raftka.metadata.configs.values import SettingError
from raftka.metadata.controller.topic_names import check_topic_name, fold
from raftka.wire.errors import KafkaError

GRAMMAR = "NAME[:PARTITIONS][:POLICY][:SETTING=VALUE]..."
GRAMMAR_OF_IMAGE = "NAME:PARTITIONS:REPLICAS[:POLICY]"
FACTOR, POLICY = "replication.factor", "cleanup.policy"
SETTINGS = {**TOPIC_SETTINGS, **SCHEMA_SETTINGS, **DELIVERY_SETTINGS}
MOST_REPLICAS = (1 << 15) - 1  # the protocol's int16


def parse_starting_topics(items: Iterable[str]) -> tuple[NewTopic, ...]:
    """Return the topics of `raftka.topics`, in order. Raises SettingError."""
    topics: dict[str, NewTopic] = {}  # by folded name
    for item in items:
        topic = _parse(item)
        other = topics.setdefault(fold(topic.name), topic)
        if other.name != topic.name:
            raise SettingError(f"topic {topic.name} collides with {other.name}: . counts as _")
        if other is not topic:
            raise SettingError(f"topic {topic.name} stands there twice")
    return tuple(topics.values())


def starting_topics_fault(items: tuple[str, ...]) -> str | None:
    """Return what is wrong with the value of `raftka.topics`; None: nothing."""
    try:
        parse_starting_topics(items)
    except SettingError as error:
        return str(error)
    return None


def translate_image_topics(text: str, separator: str = ",") -> str:
    """Return the value of `raftka.topics` for one of KAFKA_CREATE_TOPICS, whose third field is the
    number of replicas. Raises SettingError.
    """
    return ",".join(
        _translate(item.strip()) for item in text.split(separator or ",") if item.strip()
    )


def _translate(item: str) -> str:
    name, *fields = [field.strip() for field in item.split(":")]
    if not 2 <= len(fields) <= 3 or "=" in item:
        raise SettingError(f"{item!r} is not {GRAMMAR_OF_IMAGE}")
    policy = [fields[2].replace(",", "+")] if fields[2:] and fields[2] else []
    return ":".join([name, fields[0], *policy, f"{FACTOR}={fields[1]}"])


def _parse(item: str) -> NewTopic:
    name, *fields = [field.strip() for field in item.split(":")]
    try:
        check_topic_name(name)
    except KafkaError as error:
        raise SettingError(f"{error.message}; a topic is {GRAMMAR}") from None
    partitions = -1
    if fields and "=" not in fields[0] and not fields[0][:1].isalpha():
        partitions = _number(
            item, "the number of partitions", fields.pop(0), PARTITIONS_OF_REQUEST.value
        )
    if fields and "=" not in fields[0]:
        fields[0] = f"{POLICY}={fields[0]}"
    given: dict[str, str] = {}
    for field in fields:
        setting, separator, value = field.partition("=")
        if not separator:
            raise SettingError(f"{item!r}: {field!r} is not SETTING=VALUE; a topic is {GRAMMAR}")
        if setting in given:
            raise SettingError(f"{item!r} has {setting} twice")
        given[setting] = value.replace("+", ",") if setting == POLICY else value
    factor = given.pop(FACTOR, None)
    for setting, value in given.items():
        if setting not in SETTINGS:
            raise SettingError(f"{item!r}: topics have no setting {setting}")
        try:
            SETTINGS[setting].parse(value)
        except SettingError as error:
            raise SettingError(f"{item!r}: {error}; a topic is {GRAMMAR}") from None
    return NewTopic(
        name,
        partitions,
        -1 if factor is None else _number(item, FACTOR, factor, MOST_REPLICAS),
        configs=tuple(given.items()),
    )


def _number(item: str, what: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= most):
        raise SettingError(
            f"{item!r}: {what} must be a number from 1 to {most}, not {text!r}; a topic is "
            f"{GRAMMAR}"
        )
    return int(text)
