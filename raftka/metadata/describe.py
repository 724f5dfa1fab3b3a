"""Settings as DescribeConfigs and CreateTopics show them: value, source, synonyms. Knows no message and no version of one."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from raftka.metadata.image import BROKER, TOPIC, MetadataImage
from raftka.metadata.settings import NodeSettings, topic_default
from raftka.metadata.settings_broker import BROKER_SETTINGS, LISTED_SETTINGS
from raftka.metadata.settings_topic import TOPIC_SETTINGS
from raftka.metadata.settings_values import Setting

# Where a value comes from, as DescribeConfigs numbers it.
TOPIC_SOURCE, BROKER_SOURCE, ALL_BROKERS_SOURCE, FILE_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigRow(NamedTuple):
    """One setting as DescribeConfigs and CreateTopics show it."""

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]  # the one that holds first
    type: int
    documentation: str


def describe_topic(settings: NodeSettings, image: MetadataImage, topic: str) -> list[ConfigRow]:
    """All settings of an existing topic, sorted by name."""
    return describe_topic_with(settings, image, image.config(TOPIC, topic))


def describe_topic_with(settings: NodeSettings, image: MetadataImage, overrides: Mapping[str, str]) -> list[ConfigRow]:
    """The same of a topic that sets these itself."""
    layers = _layers(settings, image)
    return [_topic_row(setting, overrides, layers) for setting in TOPIC_SETTINGS.values()]


def describe_broker(settings: NodeSettings, image: MetadataImage) -> list[ConfigRow]:
    """All settings of this node."""
    layers = _layers(settings, image)
    return [_broker_row(setting, layers) for setting in LISTED_SETTINGS.values()]


def describe_all_brokers(image: MetadataImage) -> list[ConfigRow]:
    """What was set for all brokers at run time."""
    layers = [(ALL_BROKERS_SOURCE, image.config(BROKER, ""))]
    return [_broker_row(LISTED_SETTINGS[name], layers) for name in layers[0][1] if name in LISTED_SETTINGS]


Layers = list[tuple[int, Mapping[str, str]]]


def _layers(settings: NodeSettings, image: MetadataImage) -> Layers:
    own, everyone = image.config(BROKER, str(settings.node_id)), image.config(BROKER, "")
    return [(BROKER_SOURCE, own), (ALL_BROKERS_SOURCE, everyone), (FILE_SOURCE, settings.given)]


def _topic_row(setting: Setting, overrides: Mapping[str, str], layers: Layers) -> ConfigRow:
    own = [Synonym(setting.name, overrides[setting.name], TOPIC_SOURCE)] if setting.name in overrides else []
    synonyms = (*own, *_synonyms(setting.synonyms, layers))
    source = synonyms[0].source if synonyms else DEFAULT_SOURCE
    value = overrides.get(setting.name, topic_default(setting, [values for _, values in layers]))
    return ConfigRow(setting.name, value, source, False, False, synonyms, setting.type, setting.doc)


def _broker_row(setting: Setting, layers: Layers) -> ConfigRow:
    synonyms = tuple(_synonyms((setting.name,), layers))
    source = synonyms[0].source if synonyms else DEFAULT_SOURCE
    value = synonyms[0].value if synonyms else None
    if setting.sensitive:
        value, synonyms = None, tuple(each._replace(value=None) for each in synonyms)
    return ConfigRow(setting.name, value, source, not setting.dynamic, setting.sensitive, synonyms, setting.type, setting.doc)


def _synonyms(names: tuple[str, ...], layers: Layers) -> Iterable[Synonym]:
    """By layer, in it by name. When the first name is nowhere set there are none: `retention.ms` at its 168 hours shows none (as Kafka does)."""
    found = [Synonym(name, values[name], source) for source, values in layers for name in names if name in values]
    for name in names:
        default = BROKER_SETTINGS[name].default
        if default is not None:
            found.append(Synonym(name, default, DEFAULT_SOURCE))
    return found if any(each.name == names[0] for each in found) else ()
