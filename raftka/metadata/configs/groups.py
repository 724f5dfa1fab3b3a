"""The settings of a group and of a client metrics subscription, as Kafka 4.3 has them. Knows no
group and no client.
"""

import re
from collections.abc import Mapping

from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.values import Check, Setting, SettingError, Type, at_least, one_of

RESET = re.compile(
    r"earliest|latest|by_duration:P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
)
CLIENT_FIELDS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
INTERVAL_MS = range(100, 3_600_001)


def _reset(value: str) -> str | None:
    if RESET.fullmatch(value):
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be "
        "either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )


def _group(
    name: str, check: Check, doc: str, kind: Type = Type.INT, default: str | None = None
) -> Setting:
    """The default is the broker's setting of the same name in front of which is `group.`, where
    there is one.
    """
    brokers = f"group.{name}"
    if default is None:
        return Setting(
            name, kind, BROKER_SETTINGS[brokers].default, check, (brokers,), doc, dynamic=True
        )
    return Setting(name, kind, default, check, (name,), doc, dynamic=True)


_TABLE = (
    _group(
        "consumer.assignment.interval.ms",
        at_least(0),
        "Time between two assignments of a consumer group.",
    ),
    _group(
        "consumer.heartbeat.interval.ms", at_least(1), "Time between the heartbeats of a consumer."
    ),
    _group(
        "consumer.session.timeout.ms", at_least(1), "Silence after which a consumer is removed."
    ),
    _group(
        "share.assignment.interval.ms",
        at_least(0),
        "Time between two assignments of a share group.",
    ),
    _group(
        "share.auto.offset.reset",
        _reset,
        "Where a share group begins that has no offset.",
        Type.STRING,
        "latest",
    ),
    _group("share.delivery.count.limit", at_least(2), "How often a record is given out."),
    _group(
        "share.heartbeat.interval.ms",
        at_least(1),
        "Time between the heartbeats of a share consumer.",
    ),
    _group(
        "share.isolation.level",
        one_of("read_committed", "read_uncommitted"),
        "Whether a share group reads of open transactions.",
        Type.STRING,
        "read_uncommitted",
    ),
    _group(
        "share.partition.max.record.locks",
        at_least(100),
        "Records of a partition that are given out at the same time.",
    ),
    _group("share.record.lock.duration.ms", at_least(1000), "How long a record is given out."),
    _group(
        "share.renew.acknowledge.enable",
        lambda value: None,
        "Whether a record's time can be renewed.",
        Type.BOOLEAN,
        "true",
    ),
    _group(
        "share.session.timeout.ms", at_least(1), "Silence after which a share consumer is removed."
    ),
    _group(
        "streams.assignment.interval.ms",
        at_least(0),
        "Time between two assignments of a streams group.",
    ),
    _group(
        "streams.heartbeat.interval.ms",
        at_least(1),
        "Time between the heartbeats of a streams client.",
    ),
    _group(
        "streams.initial.rebalance.delay.ms",
        at_least(0),
        "How long a new streams group waits for more members.",
    ),
    _group("streams.num.standby.replicas", at_least(0), "Standby replicas of each task."),
    _group(
        "streams.session.timeout.ms",
        at_least(1),
        "Silence after which a streams client is removed.",
    ),
)
GROUP_SETTINGS = {setting.name: setting for setting in _TABLE}

CLIENT_METRICS_SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "interval.ms",
            Type.INT,
            "300000",
            doc="Time between two reports of a client.",
            dynamic=True,
        ),
        Setting("match", Type.LIST, "", doc="Which clients: what=pattern,...", dynamic=True),
        Setting(
            "metrics",
            Type.LIST,
            "",
            doc="Prefixes of the metrics that they report; *: all.",
            dynamic=True,
        ),
    )
}


def check_group_configs(configs: Mapping[str, str], broker: Mapping[str, object]) -> None:
    """`broker`: the values of its settings, which bound a group's. Raises SettingError."""
    for name in configs:
        if name not in GROUP_SETTINGS:
            raise SettingError(f"Unknown group config name: {name}")
    for name, text in configs.items():
        value = GROUP_SETTINGS[name].parse(text)
        kind, _, rest = name.partition(".")
        rest = rest.removeprefix("num.")
        least, most = broker.get(f"group.{kind}.min.{rest}"), broker.get(f"group.{kind}.max.{rest}")
        if least is not None and value < least:
            raise SettingError(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
        if most is not None and value > most:
            raise SettingError(f"{name} must be less than or equal to group.{kind}.max.{rest}")


class IllTold(SettingError):
    """Kafka calls it an invalid request where elsewhere it is an invalid config."""


def check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Raises SettingError; IllTold for unknown names and intervals out of bounds."""
    for name in configs:
        if name not in CLIENT_METRICS_SETTINGS:
            raise IllTold(f"Unknown client metrics configuration: {name}")
    values = {name: CLIENT_METRICS_SETTINGS[name].parse(text) for name, text in configs.items()}
    interval = values.get("interval.ms")
    if interval is not None and interval not in INTERVAL_MS:
        raise IllTold(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 "
            "(1 hour)"
        )
    for pattern in values.get("match", ()):
        _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    field, separator, expression = pattern.partition("=")
    try:
        re.compile(expression)
        valid = bool(separator) and "=" not in expression and field.strip() in CLIENT_FIELDS
    except (re.error, RecursionError, OverflowError):
        valid = False
    if not valid:
        raise SettingError(f"Illegal client matching pattern: {pattern}")
