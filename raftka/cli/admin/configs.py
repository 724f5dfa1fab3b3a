"""`raftka configs ...`: settings of topics, brokers, all brokers and whatever else a Kafka keeps
settings for. Knows no setting by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from raftka.cli.admin.client import connect, finish, sentence
from raftka.cli.output import CommandFailed, command, show, warn_of_lack
from raftka.client.blocking.client import Client, check
from raftka.client.blocking.every_broker import NOT_ALIVE, Answers, ask_brokers, fenced_brokers
from raftka.client.blocking.settings import (
    ALL_BROKERS,
    OF_ONE_BROKER,
    TYPES,
    Changes,
    as_json,
    change_settings,
    describe_settings,
    settings_request,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import (
    DESCRIBE_CONFIGS,
    LIST_CONFIG_RESOURCES,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


@contextmanager
def _of_broker(name: str) -> Iterator[None]:
    """Say where the brokers are shown, when there is none of that name."""
    try:
        yield
    except KafkaError as error:
        if error.code != Code.BROKER_NOT_AVAILABLE:
            raise
        raise CommandFailed(
            f"there is no broker {name} (`raftka cluster describe` shows those that live)"
        ) from None


def changed(
    client: Client, kind: str, names: Sequence[str], changes: Changes, dry_run: bool = False
) -> list[str]:
    """Change the settings of these resources; what was refused, as sentences."""
    refused = []
    for name in dict.fromkeys(names):
        with _of_broker(name):
            rows = change_settings(client, kind, name, changes, validate_only=dry_run)
        refused += [
            sentence(name or "all brokers", row.error_code, row.error_message)
            for row in rows
            if row.error_code
        ]
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
    changes: dict[str, tuple[str, str | None]] = {
        name: ("SET", value) for name, value in configs.items()
    }
    changes |= {name: ("APPEND", value) for name, value in append.items()} | {
        name: ("SUBTRACT", value) for name, value in subtract.items()
    }
    changes |= dict.fromkeys(delete, ("DELETE", None))
    if not changes:
        raise CommandFailed(
            "nothing to alter: use --config, --append, --subtract or --delete-config"
        )
    with connect(bootstrap_server) as client:
        names = names or _default_name(kind)
        refused = changed(client, kind, names, changes, dry_run)
        bad = {text.partition(":")[0] for text in refused}
        rows = [
            {"kind": kind, "name": name or "all brokers", "changed": sorted(changes)}
            for name in names
            if (name or "all brokers") not in bad
        ]
        finish(rows, ["kind", "name", "changed"], output, refused)


@command
def describe(
    kind: str, names: Sequence[str], everything: bool, bootstrap_server: str, output: str
) -> None:
    with connect(bootstrap_server) as client:
        names = names or _default_name(kind)
        rows, silent = described(client, kind, names, everything)
        for each in silent:
            warn_of_lack(f"{each}: its settings are missing")
        show(rows, ["name", "setting", "value", "source"], output)


def described(
    client: Client, kind: str, names: Sequence[str], everything: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each setting, with its value and source, and sentences for brokers that have
    not answered.

    Without `everything` only settings that were set.
    """
    rows: list[dict[str, Any]] = []
    silent = []
    of_brokers = _of_brokers(client, kind, names)
    for name in names:
        found = of_brokers.of.get(int(name)) if name.isdecimal() else None
        if found is None and name.isdecimal() and int(name) in of_brokers.missing:
            silent.append(f"broker {name} has not answered ({of_brokers.missing[int(name)]})")
            continue
        configs = sorted(
            _described(client, kind, name, found).configs, key=lambda each: str(each.name)
        )
        rows += [
            row
            for each in configs
            if (row := _row(name, each))["source"] != "default" or everything
        ]
    return rows, silent


def _of_brokers(
    client: Client, kind: str, names: Sequence[str]
) -> Answers[DescribeConfigsResponse]:
    """All brokers that live at once: a dead one holds up no other."""
    if kind not in OF_ONE_BROKER:
        return Answers()
    asked = {int(name): settings_request(kind, name) for name in names if name.isdecimal()}
    answers = ask_brokers(
        client,
        DESCRIBE_CONFIGS,
        {each: row for each, row in asked.items() if each in client.brokers},
    )
    if asked.keys() - client.brokers.keys():
        answers.missing |= {
            each: NOT_ALIVE
            for each in fenced_brokers(client)
            if each in asked and each not in answers.of
        }
    return answers


def _described(
    client: Client, kind: str, name: str, answer: DescribeConfigsResponse | None = None
) -> DescribeConfigsResult:
    with _of_broker(name):
        found = answer.results[0] if answer else describe_settings(client, kind, name)
    if found.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION or (
        kind == "topic" and not found.error_code and not found.configs
    ):
        raise CommandFailed(
            f"there is no topic {name} (`raftka topics list` shows those that there are)"
        )
    if found.error_code:
        raise CommandFailed(sentence(name or "all brokers", found.error_code, found.error_message))
    return found


def _row(name: str, entry: DescribeConfigsResourceResult) -> dict[str, Any]:
    return {"name": name or "all brokers", **as_json(entry)}


@command
def list_all(kind: str | None, bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        answer = client.ask(
            LIST_CONFIG_RESOURCES,
            LIST_CONFIG_RESOURCES.request(resource_types=[TYPES[kind]] if kind else ()),
        )
        check(answer.error_code)
        names = {number: name for name, number in TYPES.items()}
        found = sorted(
            (names.get(each.resource_type, str(each.resource_type)), each.resource_name)
            for each in answer.config_resources
        )
        show([{"kind": each, "name": name} for each, name in found], ["kind", "name"], output)


def _default_name(kind: str) -> Sequence[str]:
    if kind != "broker":
        raise CommandFailed(
            f"which {kind}? Without a name only the default of all brokers can be meant"
        )
    return (ALL_BROKERS,)
