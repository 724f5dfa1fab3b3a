"""Decisions on settings: AlterConfigs and IncrementalAlterConfigs, with their checks in Kafka's
order.

Each resource has a result of its own; one that is refused does not affect the others.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from raftka.limits import CONFIGURED_RESOURCES, SETTINGS_OF_RESOURCE
from raftka.metadata.commands import (
    DELETE,
    OPERATIONS,
    SET,
    SUBTRACT,
    AlterConfigs,
    AlteredConfigs,
    ConfigChange,
    ConfigResource,
)
from raftka.metadata.configs.dynamic import check_dynamic_configs, check_places, dynamic_setting
from raftka.metadata.configs.groups import (
    GROUP_SETTINGS,
    IllTold,
    check_client_metrics_configs,
    check_group_configs,
)
from raftka.metadata.configs.settings import OF_TOPIC, NodeSettings, check_topic_configs
from raftka.metadata.configs.topic import DELAYED, DELIVERY
from raftka.metadata.configs.values import Setting, SettingError, Type
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.controller.partitions import MIN_ISR, elr_enabled
from raftka.metadata.controller.topic_names import check_topic_name
from raftka.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from raftka.metadata.records import ConfigSet, Record
from raftka.versions import DELIVERY_LEVEL, RAFTKA_VERSION
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of

UNCLEAN = "unclean.leader.election.enable"
Configs = Mapping[str, str]


class Kind(NamedTuple):
    """Checks of one type of resource."""

    check_name: Callable[[str], None]  # raises KafkaError
    # takes the settings as they would be after the changes; raises SettingError
    check_settings: Callable[[str, Configs, NodeSettings], None]
    check_exists: Callable[[MetadataImage, str], None]  # raises KafkaError
    find_list: Callable[[str], Setting | None]  # the setting, if its value may be appended to
    not_a_list: str = "Can't {OPERATION} to key {name} because its type is not LIST."
    invalid: Code = Code.INVALID_CONFIG
    unknown: str | None = None  # in place of not_a_list, for an unknown name
    name_first: bool = False  # the resource's name is checked before its changes


def decide_alter_configs(draft: Draft, command: AlterConfigs) -> Decision:
    """Set and delete settings; the reply has an AlteredConfigs for each resource, in the order of
    the command. The handler has checked that no resource comes twice.

    Where unclean election is allowed now, partitions without a leader get one in the same batch:
    their ISR may never come back. With another min.insync.replicas other replicas are eligible.
    """
    image, environment = draft.image, draft.environment
    records: list[Record] = []
    results = []
    new = 0
    for resource in command.resources:
        try:
            changes = _alter_resource(
                image, resource, environment.settings, replace_all=command.replace_all
            )
            key = (resource.resource_type, resource.name)
            if changes and key not in image.configs and resource.resource_type != TOPIC:
                new += 1
                check_limit(CONFIGURED_RESOURCES, len(image.configs) + new)
            records += changes
            results.append(AlteredConfigs(0, None))
        except KafkaError as error:
            environment.hits.extend(limit_of(error))
            results.append(AlteredConfigs(int(error.code), error.message))
    settled_by = (UNCLEAN, MIN_ISR) if elr_enabled(image) else (UNCLEAN,)
    if any(isinstance(record, ConfigSet) and record.name in settled_by for record in records):
        altered, _ = image.apply(draft.offset, records)
        records += environment.settle_partitions(altered)
    return [] if command.validate_only else records, tuple(results)


def _alter_resource(
    image: MetadataImage, resource: ConfigResource, settings: NodeSettings, *, replace_all: bool
) -> list[Record]:
    """Raises KafkaError."""
    _check_changes(resource.changes)
    kind = KINDS.get(resource.resource_type)
    if kind is None:
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    if kind.name_first:
        kind.check_name(resource.name)
    before = image.config(resource.resource_type, resource.name)
    after = _apply_changes(kind, {} if replace_all else before, resource.changes)
    if not kind.name_first:
        kind.check_name(resource.name)
    if resource.resource_type == BROKER and elr_enabled(image):
        _check_min_isr(resource.name, before.get(MIN_ISR), after.get(MIN_ISR))
    try:
        kind.check_settings(resource.name, after, settings)
        if resource.resource_type == BROKER:
            check_places(change.name for change in resource.changes if change.name in after)
    except SettingError as error:
        raise KafkaError(
            Code.INVALID_REQUEST if isinstance(error, IllTold) else kind.invalid, str(error)
        ) from None
    if resource.resource_type == TOPIC:
        check_delivery(image, before, after)
    kind.check_exists(image, resource.name)
    check_limit(SETTINGS_OF_RESOURCE, len(after))
    names = [*after, *(name for name in before if name not in after)]
    return [
        ConfigSet(resource.resource_type, resource.name, name, after.get(name))
        for name in names
        if after.get(name) != before.get(name)
    ]


def _check_min_isr(broker: str, before: str | None, after: str | None) -> None:
    """Raise INVALID_CONFIG for a change after which the controller would not know the
    min.insync.replicas with which a leader commits.
    """
    if not broker and before is not None and after is None:
        raise KafkaError(
            Code.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )
    if broker and after is not None and after != before:
        raise KafkaError(
            Code.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )


def check_delivery(image: MetadataImage, before: Configs, after: Mapping[str, str | None]) -> None:
    """Raise INVALID_CONFIG where delayed delivery may not begin yet, or may not end: its held
    records would be seen early, or twice.
    """
    was_delayed, is_delayed = (each.get(DELIVERY) == DELAYED for each in (before, after))
    if is_delayed and image.level < DELIVERY_LEVEL:
        raise KafkaError(
            Code.INVALID_CONFIG,
            f"{DELIVERY}={DELAYED} needs {RAFTKA_VERSION} {DELIVERY_LEVEL}, and the cluster has "
            f"{image.level}: `raftka features upgrade` raises it",
        )
    if was_delayed and not is_delayed:
        raise KafkaError(
            Code.INVALID_CONFIG,
            f"{DELIVERY}={DELAYED} stays as long as the topic: its log has held records",
        )


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


def _apply_changes(
    kind: Kind, before: Configs, changes: tuple[ConfigChange, ...]
) -> dict[str, str]:
    after = dict(before)
    for name, operation, value in changes:
        if operation == DELETE or value is None:
            after.pop(name, None)
        elif operation == SET:
            after[name] = value
        else:
            after[name] = _change_list(kind, name, operation, value, after.get(name))
    return after


def _change_list(kind: Kind, name: str, operation: int, value: str, before: str | None) -> str:
    """Append values to a list, or subtract them. Raises INVALID_CONFIG if it is no list."""
    setting = kind.find_list(name)
    if setting is None or setting.type is not Type.LIST:
        text = kind.unknown if setting is None and kind.unknown is not None else kind.not_a_list
        raise KafkaError(
            Code.INVALID_CONFIG,
            text.format(
                OPERATION=OPERATIONS[operation].upper(), operation=OPERATIONS[operation], name=name
            ),
        )
    now = _split_list(setting.default if before is None else before)
    given = dict.fromkeys(_split_list(value))
    left = (
        [each for each in now if each not in given]
        if operation == SUBTRACT
        else list(dict.fromkeys([*now, *given]))
    )
    return ",".join(left)


def _split_list(text: str | None) -> list[str]:
    return [part for each in (text or "").split(",") if (part := each.strip())]


# types of resources


def _check_topic_name(name: str) -> None:
    if not name:
        raise KafkaError(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)


def _check_topic_exists(image: MetadataImage, name: str) -> None:
    if name not in image.topic_ids:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker_name(name: str) -> None:
    if name and not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")


def _check_broker_registered(image: MetadataImage, name: str) -> None:
    if name and int(name) not in image.brokers:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")


def _require_name(message: str) -> Callable[[str], None]:
    """Return a check that refuses the empty name with this message."""

    def check(name: str) -> None:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, message)

    return check


def _check_nothing(image: MetadataImage, name: str) -> None:
    """Settings of such a resource may exist before the resource."""


KINDS = {
    TOPIC: Kind(
        _check_topic_name,
        lambda name, configs, settings: check_topic_configs(configs),
        _check_topic_exists,
        OF_TOPIC.get,
    ),
    BROKER: Kind(
        _check_broker_name,
        lambda name, configs, settings: check_dynamic_configs(configs, one_broker=bool(name)),
        _check_broker_registered,
        dynamic_setting,
        "Config value {operation} is not allowed for config key: {name}",
        Code.INVALID_REQUEST,
        "Unknown config name: {name}",
        name_first=True,
    ),
    GROUP: Kind(
        _require_name("Default group resources are not allowed."),
        lambda name, configs, settings: check_group_configs(configs, settings.values),
        _check_nothing,
        GROUP_SETTINGS.get,
    ),
    CLIENT_METRICS: Kind(
        _require_name("Subscription name can't be empty"),
        lambda name, configs, settings: check_client_metrics_configs(configs),
        _check_nothing,
        lambda name: None,  # lists, but Kafka does not let them be appended to
    ),
}
