"""Offsets of a query, and their JSON as Spark's Kafka source writes it into checkpoints: {"topic":
{"0": 23}}. Knows no broker.

Two things are added under a name that no topic can have. Topic ids: a topic that was deleted and
made again has the same name, and soon the same offsets. And, with the first batch of a query, where
it began: Spark asks for that once more when it replays this batch, and "latest" is elsewhere by
then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import OptionRefused

OURS = "$raftka"  # a topic's name is of letters, digits, '.', '_' and '-'

Where = tuple[str, int]  # topic, partition
Offsets = Mapping[Where, int]


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset of each partition. `initial`: no batch has been planned before it. `began`:
    where the batch that ends here begins, if it is the first one.
    """

    offsets: Offsets
    # of topics, as 32 hexadecimal digits; brokers before Kafka 2.8 have none
    ids: Mapping[str, str] = field(default_factory=dict)
    began: Offsets | None = None
    initial: bool = False

    def as_json(self) -> JsonObject:
        """Always the same for the same position: Spark compares the text."""
        found = nested(self.offsets)
        ours: JsonObject = {}
        if ids := {topic: self.ids[topic] for topic in found if topic in self.ids}:
            ours["topicIds"] = ids
        if self.began is not None:
            ours["began"] = nested(self.began)
        if self.initial:
            ours["initial"] = True
        return {**found, OURS: ours} if ours else found


def position(found: Mapping[str, Json]) -> Position:
    """Read the position in a checkpoint, also in one that format("kafka") wrote."""
    ours = found.get(OURS, {})
    offsets = flat({topic: each for topic, each in found.items() if topic != OURS})
    began = flat(ours["began"]) if "began" in ours else None
    return Position(offsets, ours.get("topicIds", {}), began, ours.get("initial", False))


def nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return found


def flat(found: Json) -> dict[Where, int]:
    """Read a position {"topic": {"0": 23}}. Raise OptionRefused."""
    try:
        return {
            (topic, int(partition)): _whole(offset)
            for topic, each in found.items()
            for partition, offset in each.items()
        }
    except (AttributeError, ValueError, TypeError):
        raise OptionRefused(
            f'{found!r} is not of the form {{"topic": {{"0": 23, "1": -2}}}}: partitions and '
            "offsets by topic"
        ) from None


def _whole(offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise ValueError(offset)
    return offset
