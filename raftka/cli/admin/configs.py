"""`raftka configs ...`: settings of topics, brokers, all brokers and whatever else a Kafka keeps settings for. Knows no setting by name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from raftka.cli.admin.client import admin, finish, sentence
from raftka.cli.output import CommandFailed, command, show
from raftka.json_values import Json, JsonObject

Changes = Mapping[str, tuple[str, str | None]]  # by name: operation and value
ALL_BROKERS = ""
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers",
    "STATIC_BROKER_CONFIG": "file",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_BROKER_LOGGER_CONFIG": "log level",
    "CLIENT_METRICS_CONFIG": "client metrics",
    "GROUP_CONFIG": "group",
}
REFUSED = re.compile(r"\[Error (\d+)\] \w+?(?:: (.*))?", re.DOTALL)


def resource(kind: str, name: str, configs: Any = None) -> Any:
    from kafka.admin import ConfigResource

    return ConfigResource(kind.replace("-", "_"), name, configs)


def changed(connected: Any, kind: str, names: Sequence[str], changes: Changes, dry_run: bool = False) -> list[str]:
    """Change the settings of these resources; what was refused, as sentences."""
    from kafka.admin import AlterConfigOp

    made = {name: (AlterConfigOp[operation], value) for name, (operation, value) in changes.items()}
    wanted = [resource(kind, name, made) for name in names]
    answers = connected.alter_configs(wanted, validate_only=dry_run, raise_on_unknown=False)
    refused = []
    for of_kind in answers.values():
        for name, text in of_kind.items():
            if match := REFUSED.fullmatch(text):
                refused.append(sentence(name or "all brokers", int(match[1]), match[2]))
    return refused


@command
def alter(
    kind: str,
    names: Sequence[str],
    configs: Mapping[str, str],
    append: Mapping[str, str],
    subtract: Mapping[str, str],
    delete: Sequence[str],
    dry_run: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    changes: dict[str, tuple[str, str | None]] = {name: ("SET", value) for name, value in configs.items()}
    changes |= {name: ("APPEND", value) for name, value in append.items()} | {name: ("SUBTRACT", value) for name, value in subtract.items()}
    changes |= dict.fromkeys(delete, ("DELETE", None))
    if not changes:
        raise CommandFailed("nothing to alter: --config, --append, --subtract and --delete-config say what")
    with admin(bootstrap_server) as connected:
        names = names or _default_name(kind)
        refused = changed(connected, kind, names, changes, dry_run)
        bad = {text.partition(":")[0] for text in refused}
        rows = [{"type": kind, "name": name or "all brokers", "changed": sorted(changes)} for name in names if (name or "all brokers") not in bad]
        finish(rows, ["type", "name", "changed"], output, refused)


@command
def describe(kind: str, names: Sequence[str], everything: bool, bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        show(described(connected, kind, names or _default_name(kind), everything), ["name", "setting", "value", "source"], output)


def described(connected: Any, kind: str, names: Sequence[str], everything: bool) -> list[JsonObject]:
    """A row a setting: what holds, and where it comes from; without `everything` only what somebody has set."""
    from kafka.errors import UnknownBrokerIdError

    rows: list[JsonObject] = []
    for name in names:
        try:
            found = connected.describe_configs([resource(kind, name)], include_synonyms=True, config_filter="all")
        except UnknownBrokerIdError:
            raise CommandFailed(f"there is no broker {name} (`raftka cluster describe` shows those that live)") from None
        settings: JsonObject = next(iter(next(iter(found.values()), {}).values()), {})
        if not settings and kind == "topic":
            raise CommandFailed(f"there is no topic {name} (`raftka topics list` shows those that there are)")
        rows += [row for setting, entry in sorted(settings.items()) if (row := _row(name, setting, entry))["source"] != "default" or everything]
    return rows


def _row(name: str, setting: str, entry: Mapping[str, Json]) -> JsonObject:
    synonyms = [
        {"name": each["name"], "value": each["value"], "source": SOURCES.get(each["source"], each["source"])} for each in entry.get("synonyms") or ()
    ]
    return {
        "name": name or "all brokers",
        "setting": setting,
        "value": "(hidden)" if entry["is_sensitive"] else entry["value"],
        "source": SOURCES.get(entry["config_source"], entry["config_source"]),
        "read_only": entry["read_only"],
        "synonyms": synonyms,
    }


@command
def list_all(kind: str | None, bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        found = connected.list_config_resources([kind.replace("-", "_")] if kind else None)
        rows = [{"type": kind.lower().replace("_", "-"), "name": name} for kind, names in sorted(found.items()) for name in sorted(names)]
        show(rows, ["type", "name"], output)


def _default_name(kind: str) -> Sequence[str]:
    if kind != "broker":
        raise CommandFailed(f"which {kind}? Without a name only the default of all brokers can be meant")
    return (ALL_BROKERS,)
