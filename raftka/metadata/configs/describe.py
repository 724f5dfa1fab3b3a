"""Settings as DescribeConfigs and CreateTopics show them: value, source, synonyms. Knows no message
and no version of one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from raftka.metadata.configs.broker import BROKER_SETTINGS, LISTED_SETTINGS
from raftka.metadata.configs.dynamic import dynamic_setting
from raftka.metadata.configs.groups import CLIENT_METRICS_SETTINGS, LISTED_GROUP_SETTINGS
from raftka.metadata.configs.settings import OF_TOPIC, NodeSettings, topic_default
from raftka.metadata.configs.topic import TOPIC_SETTINGS
from raftka.metadata.configs.values import Setting, Type
from raftka.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage

# The source of a value, as DescribeConfigs numbers it.
(
    TOPIC_SOURCE,
    BROKER_SOURCE,
    ALL_BROKERS_SOURCE,
    FILE_SOURCE,
    DEFAULT_SOURCE,
    LOGGER_SOURCE,
    CLIENT_METRICS_SOURCE,
    GROUP_SOURCE,
) = range(1, 9)


Layers = list[tuple[int, Mapping[str, str]]]


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


class Static(Protocol):
    """The settings in a node's properties file."""

    @property
    def node_id(self) -> int: ...
    @property
    def given(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class OfController:
    """Settings that the controller has sent."""

    node_id: int
    given: Mapping[str, str]


class TopicRows:
    """All settings of a topic, sorted by name; what topics have in common is worked out once, until
    something of it changes.
    """

    def __init__(self) -> None:
        self._known: tuple[object, ...] = ()
        self._layers: Layers = []
        self._common: dict[str, ConfigRow] = {}

    def of(self, settings: NodeSettings, image: MetadataImage, topic: str) -> list[ConfigRow]:
        """Describe an existing topic."""
        return self.of_one_with(settings, image, image.config(TOPIC, topic))

    def of_one_with(
        self, settings: Static, image: MetadataImage, overrides: Mapping[str, str]
    ) -> list[ConfigRow]:
        """Describe a topic that sets `overrides` itself."""
        now = (settings, image.config(BROKER, str(settings.node_id)), image.config(BROKER, ""))
        if len(self._known) != len(now) or any(
            before is not after for before, after in zip(self._known, now, strict=True)
        ):
            self._known, self._layers = now, _layers(settings, image)
            self._common = {
                name: _topic_row(setting, {}, self._layers)
                for name, setting in TOPIC_SETTINGS.items()
            }
        own = {
            name: _topic_row(OF_TOPIC[name], overrides, self._layers)
            for name in overrides
            if name in OF_TOPIC
        }
        hidden = [row for name, row in own.items() if name not in TOPIC_SETTINGS]
        rows = [*hidden, *(own.get(name, row) for name, row in self._common.items())]
        return sorted(rows, key=attrgetter("name")) if hidden else rows


class BrokerRows:
    """All settings of this node, worked out once, until something of it changes."""

    def __init__(self) -> None:
        self._known: tuple[object, ...] = ()
        self._rows: list[ConfigRow] = []
        # whatever somebody has made of these rows, as long as they hold
        self.shown: dict[Any, Any] = {}

    def of(self, settings: NodeSettings, image: MetadataImage) -> list[ConfigRow]:
        now = (settings, image.config(BROKER, str(settings.node_id)), image.config(BROKER, ""))
        if len(self._known) != len(now) or any(
            before is not after for before, after in zip(self._known, now, strict=True)
        ):
            self._known, self._rows, self.shown = now, describe_broker(settings, image), {}
        return self._rows


def describe_broker(settings: NodeSettings, image: MetadataImage) -> list[ConfigRow]:
    """All settings of this node, and unknown ones that were set on it."""
    layers = _layers(settings, image)
    others = {
        name: None for _, values in layers[:2] for name in values if name not in LISTED_SETTINGS
    }
    listed = [
        setting.name
        for setting in LISTED_SETTINGS.values()
        if setting.type is not Type.UNKNOWN or setting.name in settings.given
    ]
    return [_broker_row(name, layers) for name in (*listed, *others)]


def describe_all_brokers(image: MetadataImage) -> list[ConfigRow]:
    """Describe the dynamic settings of all brokers."""
    everyone = image.config(BROKER, "")
    return [
        _broker_row(name, [(ALL_BROKERS_SOURCE, everyone)], defaults=False) for name in everyone
    ]


def describe_group(settings: NodeSettings, image: MetadataImage, group: str) -> list[ConfigRow]:
    """Describe a group, which need not exist yet."""
    layers = _layers(settings, image)
    overrides = image.config(GROUP, group)
    return [_group_row(setting, overrides, layers) for setting in LISTED_GROUP_SETTINGS.values()]


def describe_client_metrics(image: MetadataImage, subscription: str) -> list[ConfigRow]:
    """Describe a subscription, which need not exist yet."""
    overrides = image.config(CLIENT_METRICS, subscription)
    rows = []
    for setting in CLIENT_METRICS_SETTINGS.values():
        own = _own(setting, overrides, CLIENT_METRICS_SOURCE)
        value, source = (
            (own[0].value, CLIENT_METRICS_SOURCE) if own else (setting.default, DEFAULT_SOURCE)
        )
        rows.append(
            ConfigRow(setting.name, value, source, False, False, own, setting.type, setting.doc)
        )
    return rows


def _layers(settings: Static, image: MetadataImage) -> Layers:
    own, everyone = image.config(BROKER, str(settings.node_id)), image.config(BROKER, "")
    number = str(settings.node_id)
    return [
        (BROKER_SOURCE, own),
        (ALL_BROKERS_SOURCE, everyone),
        (FILE_SOURCE, {"node.id": number, "broker.id": number, **settings.given}),
    ]


def _own(setting: Setting, overrides: Mapping[str, str], source: int) -> tuple[Synonym, ...]:
    return (
        (Synonym(setting.name, setting.shown(overrides[setting.name]), source),)
        if setting.name in overrides
        else ()
    )


def _topic_row(setting: Setting, overrides: Mapping[str, str], layers: Layers) -> ConfigRow:
    own = _own(setting, overrides, TOPIC_SOURCE)
    synonyms = (*own, *_synonyms(setting.synonyms, layers))
    source = synonyms[0].source if synonyms else DEFAULT_SOURCE
    value = (
        own[0].value
        if own
        else setting.shown(topic_default(setting, [values for _, values in layers]))
    )
    return ConfigRow(setting.name, value, source, False, False, synonyms, setting.type, setting.doc)


def _group_row(setting: Setting, overrides: Mapping[str, str], layers: Layers) -> ConfigRow:
    """A setting that only groups have is its own synonym, as in Kafka."""
    default = (Synonym(setting.name, setting.default, DEFAULT_SOURCE),)
    brokers = (
        tuple(_synonyms(setting.synonyms, layers))
        if setting.synonyms[0] in BROKER_SETTINGS
        else default
    )
    synonyms = (*_own(setting, overrides, GROUP_SOURCE), *brokers)
    return ConfigRow(
        setting.name,
        synonyms[0].value,
        synonyms[0].source,
        False,
        False,
        synonyms,
        setting.type,
        setting.doc,
    )


def _broker_row(name: str, layers: Layers, *, defaults: bool = True) -> ConfigRow:
    """A name that nobody knows may be a plugin's secret."""
    setting = dynamic_setting(name)
    if setting is None or name not in BROKER_SETTINGS:
        found = tuple(
            Synonym(name, values[name], source) for source, values in layers if name in values
        )
    else:
        found = tuple(
            _synonyms(
                setting.synonyms,
                layers,
                defaults=defaults and name in LISTED_SETTINGS and setting.type is not Type.UNKNOWN,
            )
        )
    source = found[0].source if found else DEFAULT_SOURCE
    sensitive = setting is None or setting.sensitive
    shown = tuple(
        each._replace(value=None if sensitive or setting is None else setting.shown(each.value))
        for each in found
    )
    read_only = setting is None or not setting.dynamic or name not in BROKER_SETTINGS
    kind, doc = (Type.UNKNOWN, "") if setting is None else (setting.type, setting.doc)
    return ConfigRow(
        name, shown[0].value if shown else None, source, read_only, sensitive, shown, kind, doc
    )


def _synonyms(
    names: tuple[str, ...], layers: Layers, *, defaults: bool = True
) -> Iterable[Synonym]:
    """Return the synonyms, ordered by layer, then by name. There are none if the first name is set
    nowhere: `retention.ms` at its 168 hours shows none, as in Kafka.
    """
    found = [
        Synonym(name, values[name], source)
        for source, values in layers
        for name in names
        if name in values
    ]
    for name in names if defaults else ():
        default = BROKER_SETTINGS[name].default
        if default is not None:
            found.append(Synonym(name, default, DEFAULT_SOURCE))
    return found if any(each.name == names[0] for each in found) else ()
