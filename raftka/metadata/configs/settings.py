"""Settings as they hold: a node's from its properties file, a topic's from its own, the broker's
and Kafka's defaults, with their sources.

Stronger first: the topic, the broker (dynamic), all brokers (dynamic), the properties file, the
default. Knows names and values, and no one who acts on them; the tables are in topic.py and
broker.py.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Any, NamedTuple, Self

from raftka.log.config import DeliveryRules, LogConfig, SchemaRule, SchemaRules
from raftka.metadata.configs.broker import BROKER_SETTINGS, DIFFERENCES, Difference
from raftka.metadata.configs.dynamic import check_addresses
from raftka.metadata.configs.groups import check_group_defaults
from raftka.metadata.configs.listeners import (
    find_inter_broker,
    parse_advertised,
    parse_listeners,
    parse_protocols,
)
from raftka.metadata.configs.logins import check_controllers, check_logins, own_login
from raftka.metadata.configs.ports import check_ports
from raftka.metadata.configs.prefixes import (
    LISTENER,
    AtListener,
    names_in_use,
    own_value,
    split_prefix,
)
from raftka.metadata.configs.topic import (
    DEAD_LETTER_TOPIC,
    DELAY_MS,
    DELAYED,
    DELIVERY,
    DELIVERY_SETTINGS,
    INTERNAL_SEGMENT_BYTES,
    MOST_DELAY_MS,
    SCHEMA_SETTINGS,
    STRATEGY_PACKAGE,
    TOPIC_SETTINGS,
    UNIT_MS,
)
from raftka.metadata.configs.used_ports import UsedPort, check_distinct, used_ports
from raftka.metadata.configs.values import Setting, SettingError, Values
from raftka.metadata.image import BROKER, EMPTY, TOPIC, Endpoint, MetadataImage
from raftka.security.client_security import PLAINTEXT, ClientSecurity

__all__ = [
    "DIFFERENCES",
    "Difference",
    "NodeSettings",
    "SettingError",
    "TopicConfig",
    "TopicConfigs",
    "Voter",
]

METADATA_DIRECTORY = "__raftka_metadata"
CORDONED, EVERY_DIRECTORY = "cordoned.log.dirs", "*"
# topics whose settings are kept as parsed; with more all are parsed anew, 3 KB each
KNOWN_TOPICS = 1_000
DYNAMIC = tuple(setting for setting in BROKER_SETTINGS.values() if setting.dynamic)
# a broker's, for topics
INHERITED = frozenset(chain.from_iterable(setting.synonyms for setting in TOPIC_SETTINGS.values()))
OF_TOPIC = {
    **TOPIC_SETTINGS,
    **SCHEMA_SETTINGS,
    **DELIVERY_SETTINGS,
    INTERNAL_SEGMENT_BYTES.name: INTERNAL_SEGMENT_BYTES,
}


class Voter(NamedTuple):
    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NodeSettings:
    given: Mapping[str, str]  # the properties file
    values: Values  # every setting, parsed
    node_id: int
    roles: frozenset[str]
    listeners: tuple[Endpoint, ...]  # of the broker
    advertised_listeners: tuple[Endpoint, ...]
    # those of them whose clients are told the address at which they reached the node
    automatic_listeners: frozenset[str]
    inter_broker_listener: str
    controller_listeners: tuple[Endpoint, ...]  # empty: no controller here
    # security protocols by listener, also of listeners that only other nodes have
    protocols: Mapping[str, str]
    voters: tuple[Voter, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]  # (host, port) of controllers
    log_dirs: tuple[str, ...]
    # names of Kafka that were given and that nothing here looks at: one warning
    unused: tuple[str, ...]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def of_listener(self, listener: str, name: str) -> Any:
        """None when that listener has no such setting of its own."""
        return own_value(self.values, listener, name)

    def at(self, listener: str, mechanism: str = "") -> AtListener:
        """Return the strongest values for a listener, and for one of its mechanisms."""
        return AtListener(self.values, listener, mechanism)

    def seconds(self, name: str) -> float:
        """A setting in ms, as the runtime clock counts."""
        return float(self.values[name]) / 1000

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def between_brokers(self) -> ClientSecurity:
        """Return the security of this node's connections to other brokers."""
        return self._own(
            self.inter_broker_listener, self.values["sasl.mechanism.inter.broker.protocol"]
        )

    @property
    def between_controllers(self) -> ClientSecurity:
        """Return the security of connections to controllers, at their first listener."""
        names = self.values["controller.listener.names"] or ("",)
        return self._own(names[0].upper(), self.values["sasl.mechanism.controller.protocol"])

    def _own(self, listener: str, mechanism: str) -> ClientSecurity:
        return own_login(
            self.values,
            self.protocols.get(listener, PLAINTEXT.security_protocol),
            listener,
            mechanism,
        )

    @property
    def controller_listener(self) -> Endpoint | None:
        """The first of them; None: no controller here."""
        return next(iter(self.controller_listeners), None)

    @property
    def cordoned_log_dirs(self) -> frozenset[str]:
        """Return the log directories that get no new replica (KIP-1066)."""
        named = self.values["cordoned.log.dirs"]
        return frozenset(self.log_dirs if EVERY_DIRECTORY in named else named)

    @property
    def metadata_directory(self) -> str:
        home = self.values["metadata.log.dir"] or self.log_dirs[0]
        return f"{home}/{METADATA_DIRECTORY}"

    @property
    def page_host(self) -> str:
        """Return the address at which `metrics.port` listens."""
        first = next(iter(self.listeners), self.controller_listener)
        return self.values["metrics.host"] or (first.host if first is not None else "")

    @property
    def used_ports(self) -> list[UsedPort]:
        return used_ports(
            self.values, (*self.listeners, *self.controller_listeners), self.page_host
        )

    @property
    def rack(self) -> str | None:
        rack: str | None = self.values["broker.rack"]
        return rack

    def unused_of(self, image: MetadataImage) -> tuple[str, ...]:
        """Return the settings with a listener's prefix that were set on this broker at run time and
        that it does not use.
        """
        given = [
            name for name in image.config(BROKER, str(self.node_id)) if name.startswith(LISTENER)
        ]
        if not given:
            return ()
        dialed = _dialed(self.values, self.inter_broker_listener, self.protocols)
        in_use = names_in_use(self.values, self.listeners, self.controller_listeners, dialed)
        return tuple(name for name in given if name not in in_use)

    def with_dynamic(self, image: MetadataImage) -> "NodeSettings":
        """Return the settings with those set at run time, for this broker or for all."""
        layers = (image.config(BROKER, str(self.node_id)), image.config(BROKER, ""), self.given)
        static = {
            name: value for name, value in self.values.items() if not name.startswith(LISTENER)
        }
        dynamic = (*DYNAMIC, *_of_listeners(chain.from_iterable(layers)))
        return replace(
            self,
            values={**static, **{setting.name: _strongest(setting, layers) for setting in dynamic}},
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Raises SettingError, a sentence for whoever wrote the file."""
        known = {name: _known(name, text) for name, text in properties.items()}
        values = {
            name: setting.parse(properties.get(name, setting.default))
            for name, setting in BROKER_SETTINGS.items()
        }
        values |= {
            setting.name: setting.parse(properties[setting.name])
            for setting in _of_listeners(properties)
        }
        check_addresses(properties)
        node_id = _node_id(values)
        roles = frozenset(values["process.roles"] or ())
        if not roles:
            raise SettingError("process.roles must be broker, controller or broker,controller")
        voters = tuple(_voter(each) for each in values["controller.quorum.voters"])
        bootstrap = tuple(
            _address(each) for each in values["controller.quorum.bootstrap.servers"] or ()
        )
        _check_voters(node_id, roles, voters, bootstrap)
        protocols = parse_protocols(values, "listener.security.protocol.map" in properties)
        clients, controllers = parse_listeners(values, roles, properties, protocols)
        advertised, automatic = parse_advertised(values, clients, controllers, protocols)
        if (dirs := values["log.dirs"]) is not None and not (dirs and all(dirs)):
            raise SettingError("log.dirs has an empty name: name a directory, or leave it out")
        _check_two_phase_commit(values)
        check_logins(values, clients)
        check_controllers(values, controllers)
        check_ports(values)
        check_group_defaults(values)
        _check_times(values)
        inter_broker = find_inter_broker(values, advertised, protocols)
        in_use = names_in_use(
            values, clients, controllers, _dialed(values, inter_broker, protocols)
        )
        settings = cls(
            given=dict(properties),
            values=values,
            node_id=node_id,
            roles=roles,
            listeners=clients,
            advertised_listeners=advertised,
            automatic_listeners=automatic,
            inter_broker_listener=inter_broker,
            controller_listeners=controllers,
            protocols=protocols,
            voters=voters,
            bootstrap_servers=bootstrap,
            log_dirs=values["log.dirs"] or values["log.dir"],
            unused=tuple(
                name
                for name in properties
                if not known[name] or (name.startswith(LISTENER) and name not in in_use)
            ),
        )
        check_distinct(settings.used_ports)
        check_cordoned(values[CORDONED], settings.log_dirs)
        return settings


def _check_times(values: Values) -> None:
    """Raise SettingError for times that make no sense together."""
    if values["broker.heartbeat.interval.ms"] >= values["broker.session.timeout.ms"]:
        raise SettingError(
            "broker.heartbeat.interval.ms must be less than broker.session.timeout.ms"
        )
    if values["replica.fetch.wait.max.ms"] > values["replica.lag.time.max.ms"]:
        raise SettingError(
            "replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR"
        )
    times = (values[f"log.retention.{unit}"] for unit in ("ms", "minutes", "hours"))
    if next((time for time in times if time is not None), -1) == 0:
        raise SettingError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")


def check_cordoned(entries: Iterable[str], log_dirs: Container[str]) -> None:
    """Raise SettingError, in Kafka's words, if an entry of cordoned.log.dirs is none of the node's
    log directories.
    """
    entries = tuple(entries)
    if EVERY_DIRECTORY in entries and len(entries) > 1:
        raise SettingError(
            f"requirement failed: When {CORDONED} is set to {EVERY_DIRECTORY}, it must not contain "
            "other values"
        )
    missing = [each for each in entries if each != EVERY_DIRECTORY and each not in log_dirs]
    if missing:
        raise SettingError(
            f"requirement failed: All entries in {CORDONED} must be present in log.dirs or "
            f"log.dir. Missing entries : {', '.join(missing)}"
        )


def _of_listeners(names: Iterable[str]) -> Iterator[Setting]:
    """The settings with a listener's prefix that something here looks at."""
    for name in names:
        prefixed = split_prefix(name)
        if (
            prefixed is not None
            and prefixed.is_looked_up
            and BROKER_SETTINGS[prefixed.setting].used
        ):
            yield replace(BROKER_SETTINGS[prefixed.setting], name=name, default=None)


def _strongest(setting: Setting, layers: Iterable[Mapping[str, str]]) -> Any:
    for layer in layers:
        if setting.name in layer:
            try:
                return setting.parse(layer[setting.name])
            except SettingError:  # an older raftka took it: as if it were not set
                continue
    return setting.parse(setting.default)


def _known(name: str, text: str) -> bool:
    """Return whether raftka uses this setting. Raises SettingError for a name that Kafka does not
    have, and for a wrong value behind a prefix.
    """
    setting = BROKER_SETTINGS.get(name)
    if setting is not None:
        return setting.used
    if name.startswith(LISTENER):
        prefixed = split_prefix(name)
        if prefixed is not None and prefixed.setting in BROKER_SETTINGS:
            # also one that is not used here: it is a mistake
            BROKER_SETTINGS[prefixed.setting].parse(text)
        return any(_of_listeners([name]))
    nearest = get_close_matches(name, BROKER_SETTINGS, n=1, cutoff=0.5)
    raise SettingError(
        f"there is no setting {name}" + (f"; did you mean {nearest[0]}?" if nearest else "")
    )


def _dialed(
    values: Values, inter_broker: str, protocols: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Listeners of other nodes at which this one logs in, with their protocols and its
    mechanisms.
    """
    first = next(iter(values["controller.listener.names"] or ()), "").upper()
    named = (
        (inter_broker, "sasl.mechanism.inter.broker.protocol"),
        (first, "sasl.mechanism.controller.protocol"),
    )
    return (
        (listener, protocols[listener], values[mechanism])
        for listener, mechanism in named
        if listener in protocols
    )


def _node_id(values: Values) -> int:
    node_id, broker_id = values["node.id"], values["broker.id"]
    if node_id is None and broker_id < 0:
        raise SettingError("node.id is missing: the node's number, unique in the cluster")
    if node_id is not None and broker_id >= 0 and node_id != broker_id:
        raise SettingError(f"node.id is {node_id} and broker.id is {broker_id}: give one of them")
    return int(broker_id if node_id is None else node_id)


def _voter(text: str) -> Voter:
    match = re.fullmatch(r"(\d+)@(\[[0-9a-fA-F:]+\]|[^:@\s]+):(\d+)", text)
    if match is None or not 0 < int(match[3]) < 65536:
        raise SettingError(
            f"controller.quorum.voters must be id@host:port,id@host:port,...: {text!r} is not"
        )
    return Voter(int(match[1]), match[2].strip("[]"), int(match[3]))


def _address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:@\s]+):(\d+)", text)
    if match is None or not 0 < int(match[2]) < 65536:
        raise SettingError(
            f"controller.quorum.bootstrap.servers must be host:port,host:port,...: {text!r} is not"
        )
    return match[1].strip("[]"), int(match[2])


def _check_voters(
    node_id: int,
    roles: frozenset[str],
    voters: tuple[Voter, ...],
    bootstrap: tuple[tuple[str, int], ...],
) -> None:
    ids = [voter.node_id for voter in voters]
    if not ids and bootstrap:
        return
    if not ids:
        raise SettingError(
            "controller.quorum.voters is missing: all controllers, id@host:port,id@host:port,... "
            "(or controller.quorum.bootstrap.servers, of a cluster that has its voters in its log)"
        )
    if len(set(ids)) < len(ids):
        raise SettingError("controller.quorum.voters has a node twice")
    if "controller" in roles and node_id not in ids:
        raise SettingError(
            "process.roles says controller, but controller.quorum.voters does not have node "
            f"{node_id}"
        )
    if "controller" not in roles and node_id in ids:
        raise SettingError(
            f"controller.quorum.voters has node {node_id}, but its process.roles does not say "
            "controller"
        )


def _check_two_phase_commit(values: Values) -> None:
    if values["transaction.two.phase.commit.enable"]:
        raise SettingError(
            "transaction.two.phase.commit.enable: two-phase commit (KIP-939) is not there; its "
            "InitProducerId 6 is unstable in Kafka 4.4 too"
        )


class TopicConfig(NamedTuple):
    """A topic's settings as they hold now."""

    values: Values  # every setting of a topic, parsed
    log: LogConfig

    @property
    def min_insync_replicas(self) -> int:
        return int(self.values["min.insync.replicas"])

    @property
    def unclean_leader_election(self) -> bool:
        return bool(self.values["unclean.leader.election.enable"])


class TopicConfigs:
    """Topic settings on one node; what all topics have in common is worked out once, until a
    dynamic setting changes.
    """

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self._dynamic: tuple[Mapping[str, str], Mapping[str, str]] = (EMPTY, EMPTY)
        # by topic: its own settings, and what they come to
        self._known: dict[str, tuple[Mapping[str, str], TopicConfig]] = {}
        self._common = self._defaults(MetadataImage())

    def of(self, image: MetadataImage, topic: str) -> TopicConfig:
        dynamic = (image.config(BROKER, str(self.settings.node_id)), image.config(BROKER, ""))
        if self._dynamic[0] is not dynamic[0] or self._dynamic[1] is not dynamic[1]:
            self._dynamic = dynamic
            self._common = self._defaults(image)
            self._known.clear()
        overrides = image.config(TOPIC, topic)
        if not overrides:
            return self._common
        known = self._known.get(topic)
        if known is not None and known[0] is overrides:
            return known[1]
        if len(self._known) >= KNOWN_TOPICS:
            self._known.clear()
        config = self._with(self._common.values, overrides)
        self._known[topic] = overrides, config
        return config

    def _defaults(self, image: MetadataImage) -> TopicConfig:
        self._settings = self.settings.with_dynamic(image)
        layers = (*self._dynamic, self.settings.given)
        values = {
            name: setting.parse(topic_default(setting, layers))
            for name, setting in TOPIC_SETTINGS.items()
        }
        return self._with(values, EMPTY)

    def _with(self, common: Mapping[str, object], overrides: Mapping[str, str]) -> TopicConfig:
        values = {
            **common,
            **{
                name: OF_TOPIC[name].parse(text)
                for name, text in overrides.items()
                if name in OF_TOPIC
            },
        }
        return TopicConfig(values, self._log_config(values))

    def _log_config(self, values: Values) -> LogConfig:
        delivery = delivery_rules(values)
        return LogConfig(
            segment_bytes=values.get(INTERNAL_SEGMENT_BYTES.name, values["segment.bytes"]),
            segment_ms=values["segment.ms"],
            segment_index_bytes=values["segment.index.bytes"],
            index_interval_bytes=values["index.interval.bytes"],
            retention_ms=values["retention.ms"],
            retention_bytes=values["retention.bytes"],
            max_message_bytes=values["max.message.bytes"],
            max_decompressed_message_bytes=values["max.decompressed.message.bytes"],
            message_timestamp_type=values["message.timestamp.type"],
            message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
            message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
            # a broker may compact by default: delayed topics are deleted by age all the same
            cleanup_policy="delete" if delivery else ",".join(values["cleanup.policy"]),
            compression_type=values["compression.type"],
            gzip_level=values["compression.gzip.level"],
            lz4_level=values["compression.lz4.level"],
            zstd_level=values["compression.zstd.level"],
            delete_retention_ms=values["delete.retention.ms"],
            min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
            min_compaction_lag_ms=values["min.compaction.lag.ms"],
            max_compaction_lag_ms=values["max.compaction.lag.ms"],
            segment_jitter_ms=values["segment.jitter.ms"],
            flush_messages=values["flush.messages"],
            flush_ms=values["flush.ms"],
            preallocate=values["preallocate"],
            file_delete_delay_ms=values["file.delete.delay.ms"],
            validation=self.settings["raftka.validation"],
            flush=self.settings["raftka.log.flush"],
            segment_reuse_ms=self.settings["raftka.log.segment.reuse.ms"],
            producer_id_expiration_ms=self._settings["producer.id.expiration.ms"],
            schemas=schema_rules(values),
            delivery=delivery,
        )


def delivery_rules(values: Values) -> DeliveryRules | None:
    """None: records can be read as soon as they are committed."""
    given = {
        name: values.get(name, setting.parse(setting.default))
        for name, setting in DELIVERY_SETTINGS.items()
    }
    return (
        DeliveryRules(given[DELAY_MS], given[MOST_DELAY_MS]) if given[DELIVERY] == DELAYED else None
    )


def schema_rules(values: Values) -> SchemaRules | None:
    """None: what clients produce is compared with no schema."""
    key, value = (_schema_rule(values, part) for part in ("key", "value"))
    return SchemaRules(key, value, values.get(DEAD_LETTER_TOPIC, "")) if key or value else None


def _schema_rule(values: Values, part: str) -> SchemaRule | None:
    given = {
        name: values.get(name, setting.parse(setting.default))
        for name, setting in SCHEMA_SETTINGS.items()
        if f".{part}." in name
    }
    if not given[f"confluent.{part}.schema.validation"]:
        return None
    strategy = given[f"confluent.{part}.subject.name.strategy"].removeprefix(STRATEGY_PACKAGE)
    return SchemaRule(strategy, given[f"raftka.{part}.schema.validation.payload"])


def topic_default(setting: Setting, layers: Sequence[Mapping[str, str]]) -> str | None:
    """The value for topics that set none: the broker's setting of that name, where
    `log.retention.hours` stands in for `log.retention.ms`.
    """
    for synonym in setting.synonyms:
        text = next(
            (layer[synonym] for layer in layers if synonym in layer),
            BROKER_SETTINGS[synonym].default,
        )
        if text is not None:
            unit = UNIT_MS.get(synonym.rpartition(".")[2])
            return text if unit is None else str(max(-1, int(text) * unit))
    return setting.default


def check_topic_configs(configs: Mapping[str, str | None]) -> None:
    """Validate the settings of CreateTopics and AlterConfigs. Raises SettingError."""
    missing = [name for name, value in configs.items() if value is None]
    if missing:
        raise SettingError(f"Null value not supported for topic configs: {','.join(missing)}")
    for name in configs:
        if name not in OF_TOPIC:
            raise SettingError(f"Unknown topic config name: {name}")
    values = {name: OF_TOPIC[name].parse(text) for name, text in configs.items()}
    least, most = (
        int(values.get(name, OF_TOPIC[name].parse(OF_TOPIC[name].default)))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise SettingError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
    _check_delivery(values)


def _check_delivery(values: Values) -> None:
    rules = delivery_rules(values)
    if rules is None:
        if values.get(DELAY_MS):
            raise SettingError(f"{DELAY_MS} needs {DELIVERY}={DELAYED}")
        return
    if "compact" in values.get("cleanup.policy", ()):
        raise SettingError(f"{DELIVERY}={DELAYED} and cleanup.policy=compact exclude each other")
    if rules.delay_ms > rules.most_ms:
        raise SettingError(
            f"{DELAY_MS} ({rules.delay_ms}) is above {MOST_DELAY_MS} ({rules.most_ms})"
        )
