"""Decide AlterConfigs and IncrementalAlterConfigs: every check in Kafka's order, and the records
that follow. Knows no time.

Each resource is answered for itself; one that is refused does not spoil the others. All that are
granted become one atomic batch.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from raftka.limits import CONFIGURED_RESOURCES, SETTINGS_OF_RESOURCE, Limit
from raftka.metadata.commands import AlterConfigs, AlteredConfigs, ConfigChange, ConfigResource
from raftka.metadata.configs.dynamic import check_dynamic_configs, check_places, dynamic_setting
from raftka.metadata.configs.groups import (
    GROUP_SETTINGS,
    IllTold,
    check_client_metrics_configs,
    check_group_configs,
)
from raftka.metadata.configs.settings import OF_TOPIC, NodeSettings, check_topic_configs
from raftka.metadata.configs.values import Setting, SettingError, Type
from raftka.metadata.controller.topics import check_topic_name
from raftka.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from raftka.metadata.records import ConfigSet, Record
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of

SET, DELETE, APPEND, SUBTRACT = range(4)
NAMES = ("set", "delete", "append", "subtract")
UNCLEAN = "unclean.leader.election.enable"
Configs = Mapping[str, str]


class Kind(NamedTuple):
    """Checks and records of one type of resource."""

    check_name: Callable[[str], None]  # raises KafkaError
    # all its settings as they would be; raises SettingError
    check: Callable[[str, Configs, NodeSettings], None]
    check_there: Callable[[MetadataImage, str], None]  # raises KafkaError
    listed: Callable[[str], Setting | None]  # the setting, if its value may be appended to
    no_list: str = "Can't {OPERATION} to key {name} because its type is not LIST."
    invalid: Code = Code.INVALID_CONFIG
    unknown: str | None = None  # like no_list, for a name that nobody knows
    name_first: bool = False  # the resource's name is checked before its changes


def alter_configs(
    image: MetadataImage, command: AlterConfigs, settings: NodeSettings, hits: list[Limit]
) -> tuple[list[Record], tuple[AlteredConfigs, ...]]:
    """Records, and one answer a resource in the order of the command. `hits` gets the limits that
    were hit.
    """
    times = Counter((resource.resource_type, resource.name) for resource in command.resources)
    records: list[Record] = []
    answers = []
    new = 0
    for resource in command.resources:
        key = (resource.resource_type, resource.name)
        try:
            if times[key] > 1:
                raise KafkaError(Code.INVALID_REQUEST, "Each resource must appear at most once.")
            made = _altered(image, resource, settings, replace_all=command.replace_all)
            if made and key not in image.configs and resource.resource_type != TOPIC:
                new += 1
                check_limit(CONFIGURED_RESOURCES, len(image.configs) + new)
            records += made
            answers.append(AlteredConfigs(0, None))
        except KafkaError as error:
            hits += limit_of(error)
            answers.append(AlteredConfigs(int(error.code), error.message))
    return records, tuple(answers)


def _altered(
    image: MetadataImage, resource: ConfigResource, settings: NodeSettings, *, replace_all: bool
) -> list[Record]:
    _check_changes(resource.changes)
    kind = KINDS.get(resource.resource_type)
    if kind is None:
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    if kind.name_first:
        kind.check_name(resource.name)
    before = image.config(resource.resource_type, resource.name)
    after = _applied(kind, {} if replace_all else before, resource.changes)
    if not kind.name_first:
        kind.check_name(resource.name)
    try:
        kind.check(resource.name, after, settings)
        if resource.resource_type == BROKER:
            check_places(change.name for change in resource.changes if change.name in after)
    except SettingError as error:
        raise KafkaError(
            Code.INVALID_REQUEST if isinstance(error, IllTold) else kind.invalid, str(error)
        ) from None
    kind.check_there(image, resource.name)
    check_limit(SETTINGS_OF_RESOURCE, len(after))
    names = [*after, *(name for name in before if name not in after)]
    return [
        ConfigSet(resource.resource_type, resource.name, name, after.get(name))
        for name in names
        if after.get(name) != before.get(name)
    ]


def _check_changes(changes: tuple[ConfigChange, ...]) -> None:
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(Code.INVALID_REQUEST, "Error due to duplicate config keys")
    null = [
        change.name for change in changes if change.value is None and change.operation != DELETE
    ]
    if null:
        raise KafkaError(Code.INVALID_REQUEST, f"Null value not supported for : {', '.join(null)}")
    unknown = [change.operation for change in changes if not SET <= change.operation <= SUBTRACT]
    if unknown:
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown operation {unknown[0]}")


def _applied(kind: Kind, before: Configs, changes: tuple[ConfigChange, ...]) -> dict[str, str]:
    after = dict(before)
    for name, operation, value in changes:
        if operation == DELETE or value is None:
            after.pop(name, None)
        elif operation == SET:
            after[name] = value
        else:
            after[name] = _list_changed(kind, name, operation, value, after.get(name))
    return after


def _list_changed(kind: Kind, name: str, operation: int, value: str, before: str | None) -> str:
    setting = kind.listed(name)
    if setting is None or setting.type is not Type.LIST:
        text = kind.unknown if setting is None and kind.unknown is not None else kind.no_list
        raise KafkaError(
            Code.INVALID_CONFIG,
            text.format(OPERATION=NAMES[operation].upper(), operation=NAMES[operation], name=name),
        )
    now = _parts(setting.default if before is None else before)
    given = dict.fromkeys(_parts(value))
    left = (
        [each for each in now if each not in given]
        if operation == SUBTRACT
        else list(dict.fromkeys([*now, *given]))
    )
    return ",".join(left)


def _parts(text: str | None) -> list[str]:
    return [part for each in (text or "").split(",") if (part := each.strip())]


# the types of resources


def _topic_name(name: str) -> None:
    if not name:
        raise KafkaError(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)


def _topic_there(image: MetadataImage, name: str) -> None:
    if name not in image.topic_ids:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _broker_name(name: str) -> None:
    if name and not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")


def _broker_there(image: MetadataImage, name: str) -> None:
    if name and int(name) not in image.brokers:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")


def _not_empty(message: str) -> Callable[[str], None]:
    def check(name: str) -> None:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, message)

    return check


def _anywhere(image: MetadataImage, name: str) -> None:
    """Its settings may be there before it is."""


KINDS = {
    TOPIC: Kind(
        _topic_name,
        lambda name, configs, settings: check_topic_configs(configs),
        _topic_there,
        OF_TOPIC.get,
    ),
    BROKER: Kind(
        _broker_name,
        lambda name, configs, settings: check_dynamic_configs(configs, one_broker=bool(name)),
        _broker_there,
        dynamic_setting,
        "Config value {operation} is not allowed for config key: {name}",
        Code.INVALID_REQUEST,
        "Unknown config name: {name}",
        name_first=True,
    ),
    GROUP: Kind(
        _not_empty("Default group resources are not allowed."),
        lambda name, configs, settings: check_group_configs(configs, settings.values),
        _anywhere,
        GROUP_SETTINGS.get,
    ),
    CLIENT_METRICS: Kind(
        _not_empty("Subscription name can't be empty"),
        lambda name, configs, settings: check_client_metrics_configs(configs),
        _anywhere,
        lambda name: None,  # lists, but Kafka does not let them be appended to
    ),
}
