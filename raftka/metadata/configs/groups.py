"""The settings of a group and of a client metrics subscription, as Kafka 4.4 has them. Knows no
group and no client.
"""

import re
from collections.abc import Iterable, Mapping

from raftka.limits import REGEX_LENGTH
from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.values import (
    Check,
    Setting,
    SettingError,
    Type,
    Values,
    at_least,
    one_of,
)
from raftka.regular_expressions import InvalidExpression, NoEngine, compile_linear
from raftka.wire.errors import Code, check_limit

KINDS = ("consumer", "share", "streams")
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
        "errors.deadletterqueue.copy.record.enable",
        lambda value: None,
        "Whether a dead letter has the key and the value of its record.",
        Type.BOOLEAN,
        "false",
    ),
    _group(
        "errors.deadletterqueue.topic.name",
        lambda value: None,
        "Topic for the dead letters of a share group; empty: none.",
        Type.STRING,
        "",
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
    Setting(
        "streams.assignor.name",
        Type.STRING,
        BROKER_SETTINGS["group.streams.assignors"].default,
        synonyms=("group.streams.assignors",),
        doc="How tasks are assigned to streams clients.",
        dynamic=True,
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
        "streams.rack.aware.assignment.tags",
        lambda value: None,
        "Tags of clients over which standby tasks are spread.",
        Type.LIST,
    ),
    _group(
        "streams.session.timeout.ms",
        at_least(1),
        "Silence after which a streams client is removed.",
    ),
)
LISTED_GROUP_SETTINGS = {setting.name: setting for setting in _TABLE}
# Kafka takes them but does not list them.
_UNLISTED = (
    _group(
        "streams.acceptable.recovery.lag",
        at_least(0),
        "Records that a copy of a task may lack and still become active.",
        Type.LONG,
        "10000",
    ),
    _group(
        "streams.assignor.offload.enable",
        lambda value: None,
        "Whether tasks are assigned beside the work of the coordinator.",
        Type.BOOLEAN,
        "true",
    ),
    _group("streams.num.warmup.replicas", at_least(0), "Warm-up replicas of all tasks."),
    _group(
        "streams.task.offset.interval.ms",
        at_least(1),
        "Time between two reports of the offsets of a client's tasks.",
    ),
)
GROUP_SETTINGS = {
    **LISTED_GROUP_SETTINGS,
    **{setting.name: setting for setting in _UNLISTED},
}

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
        least, most = map(broker.get, _bounds(kind, rest))
        below, above = least is not None and value < least, most is not None and value > most
        if (below or above) and kind != "consumer":
            raise SettingError(f"{name} must be {_range(least, most)}")
        if below:
            raise SettingError(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
        if above:
            raise SettingError(f"{name} must be less than or equal to group.{kind}.max.{rest}")
        fault = _find_fault(name, value, broker)
        if fault is not None:
            raise SettingError(fault)
    for kind in KINDS:
        _check_session(kind, configs, broker)


def check_group_defaults(values: Values) -> None:
    """Check a broker's settings of groups against each other, as Kafka does at the start. Raises
    SettingError.
    """
    pairs = [("group.share.max.size", "group.share.max.share.sessions")]  # the first is no larger
    for name in GROUP_SETTINGS:
        kind, _, rest = name.partition(".")
        least, most = _bounds(kind, rest)
        inner = f"group.{name}"
        pairs += [(least, inner), (inner, most), (least, most)]
    for lower, upper in pairs:
        if lower in values and upper in values and values[lower] > values[upper]:
            raise SettingError(f"{upper} must be greater than or equal to {lower}")
    for kind in KINDS:
        interval, session = (
            f"group.{kind}.heartbeat.interval.ms",
            f"group.{kind}.session.timeout.ms",
        )
        if values[interval] >= values[session]:
            raise SettingError(f"{interval} must be less than {session}")
    tags = "group.streams.rack.aware.assignment.tags"
    if len(set(values[tags])) < len(values[tags]):
        raise SettingError(f"{tags} must not contain duplicate tag keys.")


def _bounds(kind: str, rest: str) -> tuple[str, str]:
    """Return the names of the settings that bound a setting of groups, if there are such."""
    rest = rest.removeprefix("num.")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def _check_session(kind: str, configs: Mapping[str, str], broker: Mapping[str, object]) -> None:
    """Check that members send heartbeats within their sessions, where a group has times of its own.
    Raises SettingError.
    """
    session, interval = names = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if not configs.keys() & set(names):
        return
    times = []
    for name in names:
        brokers = broker.get(f"group.{name}")
        times.append(GROUP_SETTINGS[name].parse(configs[name]) if name in configs else brokers)
    longest, shortest = times
    if isinstance(longest, int) and isinstance(shortest, int) and longest <= shortest:
        raise SettingError(f"{session} must be greater than {interval}")


def _range(least: object, most: object) -> str:
    """Return the bounds in Kafka's words."""
    if least is None:
        return f"less than or equal to {most}"
    if most is None:
        return f"greater than or equal to {least}"
    return f"in the range {least} to {most} inclusive."


def _find_fault(name: str, value: object, broker: Mapping[str, object]) -> str | None:
    """Return what Kafka says of a value of a right type that it refuses nevertheless."""
    if name == "errors.deadletterqueue.topic.name" and str(value).startswith("__"):
        return f"{name}: DLQ topic name must not start with '__'"
    if name == "streams.assignor.name":
        known = broker.get("group.streams.assignors", ())
        if isinstance(known, tuple) and value not in known:
            return (
                f"{name} '{value}' is not a registered task assignor. Registered assignors are: "
                f"[{', '.join(known)}]."
            )
    if (
        name == "streams.rack.aware.assignment.tags"
        and isinstance(value, tuple)
        and len(set(value)) < len(value)
    ):
        return f"{name} must not contain duplicate tag keys."
    return None


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
    match_patterns(values.get("match", ()))


def match_patterns(patterns: Iterable[str]) -> dict[str, str]:
    """Return the expression of each field of clients that `match` names; of a field that is named
    twice the last one counts. Raises SettingError.
    """
    found = {}
    for pattern in patterns:
        # as Java splits a text: empty parts at its end do not count
        parts = pattern.rstrip("=").split("=")
        if len(parts) != 2 or parts[0].strip() not in CLIENT_FIELDS:
            raise SettingError(f"Illegal client matching pattern: {pattern}")
        field, expression = parts[0].strip(), parts[1].strip()
        try:
            check_limit(REGEX_LENGTH, len(expression), code=Code.INVALID_CONFIG)
            compile_linear(expression)
        except InvalidExpression:
            raise SettingError(f"Illegal client matching pattern: {pattern}") from None
        except NoEngine as error:
            raise SettingError(f"{pattern}: {error}") from None
        found[field] = expression
    return found
