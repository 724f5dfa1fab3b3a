"""`raftka configs ...`: settings of topics, brokers, all brokers and whatever else a Kafka keeps
settings for. Knows no setting by name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from raftka.cli.admin.client import connect, finish, sentence
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import Client, check
from raftka.client.blocking.connection import Unsupported
from raftka.client.blocking.every_broker import NOT_ALIVE, Answers, ask_brokers, fenced_brokers
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.configs import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    LIST_CONFIG_RESOURCES,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
)
from raftka.wire.schema import Api, Req, Resp

Changes = Mapping[str, tuple[str, str | None]]  # by name: operation and value
ALL_BROKERS = ""
TYPES = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
OPERATIONS = {"SET": 0, "DELETE": 1, "APPEND": 2, "SUBTRACT": 3}
OF_ALL_BROKERS = 3  # a source
SOURCES = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "file",
    5: "default",
    6: "log level",
    7: "client metrics",
    8: "group",
}
# the source of what was set for the thing itself
GIVEN = {"topic": 1, "broker": 2, "broker-logger": 6, "client-metrics": 7, "group": 8}


def _ask(client: Client, kind: str, name: str, api: Api[Req, Resp], row: Req) -> Resp:
    """A broker answers for itself. Raises CommandFailed when it is not there."""
    if kind not in ("broker", "broker-logger") or name == ALL_BROKERS:
        return client.ask(api, row)
    try:
        return client.ask_broker(int(name), api, row)
    except (KafkaError, ValueError) as error:
        if isinstance(error, KafkaError) and error.code != Code.BROKER_NOT_AVAILABLE:
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
        rows: Sequence[IncrementalAlterConfigsResourceResponse | AlterConfigsResourceResponse]
        try:
            rows = _ask(
                client,
                kind,
                name,
                INCREMENTAL_ALTER_CONFIGS,
                _incremental(kind, name, changes, dry_run),
            ).responses
        except Unsupported:
            rows = _ask(
                client, kind, name, ALTER_CONFIGS, _whole(client, kind, name, changes, dry_run)
            ).responses
        refused += [
            sentence(name or "all brokers", row.error_code, row.error_message)
            for row in rows
            if row.error_code
        ]
    return refused


def _incremental(
    kind: str, name: str, changes: Changes, dry_run: bool
) -> IncrementalAlterConfigsRequest:
    resource = INCREMENTAL_ALTER_CONFIGS.request.resources
    configs = [
        resource.configs(name=key, config_operation=OPERATIONS[how], value=value)
        for key, (how, value) in changes.items()
    ]
    rows = [resource(resource_type=TYPES[kind], resource_name=name, configs=configs)]
    return INCREMENTAL_ALTER_CONFIGS.request(resources=rows, validate_only=dry_run)


def _whole(
    client: Client, kind: str, name: str, changes: Changes, dry_run: bool
) -> AlterConfigsRequest:
    """For a Kafka older than 2.3, which takes all settings of a resource at once: those that it
    has, and the changes.
    """
    before = {each.name: each for each in _described(client, kind, name).configs}
    after = {
        key: each.value
        for key, each in before.items()
        if each.config_source == (GIVEN[kind] if name else OF_ALL_BROKERS)
    }
    for key, (how, value) in changes.items():
        items = [
            item
            for item in ((before[key].value if key in before else None) or "").split(",")
            if item
        ]
        match how:
            case "SET":
                after[key] = value
            case "DELETE":
                after.pop(key, None)
            case "APPEND":
                after[key] = ",".join(dict.fromkeys([*items, *(value or "").split(",")]))
            case "SUBTRACT":
                after[key] = ",".join(
                    item for item in items if item not in (value or "").split(",")
                )
    resource = ALTER_CONFIGS.request.resources
    configs = [resource.configs(name=key, value=value) for key, value in after.items()]
    return ALTER_CONFIGS.request(
        resources=[resource(resource_type=TYPES[kind], resource_name=name, configs=configs)],
        validate_only=dry_run,
    )


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
            {"type": kind, "name": name or "all brokers", "changed": sorted(changes)}
            for name in names
            if (name or "all brokers") not in bad
        ]
        finish(rows, ["type", "name", "changed"], output, refused)


@command
def describe(
    kind: str, names: Sequence[str], everything: bool, bootstrap_server: str, output: str
) -> None:
    with connect(bootstrap_server) as client:
        names = names or _default_name(kind)
        rows, silent = described(client, kind, names, everything)
        finish(rows, ["name", "setting", "value", "source"], output, silent)


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
    if kind not in ("broker", "broker-logger"):
        return Answers()
    asked = {int(name): _question(kind, name) for name in names if name.isdecimal()}
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


def _question(kind: str, name: str) -> DescribeConfigsRequest:
    resource = DESCRIBE_CONFIGS.request.resources(
        resource_type=TYPES[kind], resource_name=name, configuration_keys=None
    )
    return DESCRIBE_CONFIGS.request(resources=[resource], include_synonyms=True)


def _described(
    client: Client, kind: str, name: str, answer: DescribeConfigsResponse | None = None
) -> DescribeConfigsResult:
    found = (answer or _ask(client, kind, name, DESCRIBE_CONFIGS, _question(kind, name))).results[0]
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
    return {
        "name": name or "all brokers",
        "setting": entry.name,
        "value": "(hidden)" if entry.is_sensitive else entry.value,
        "source": _source(entry.config_source),
        "read_only": entry.read_only,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": _source(each.source)}
            for each in entry.synonyms
        ],
    }


def _source(number: int) -> str:
    return SOURCES.get(number, str(number))


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
        show([{"type": each, "name": name} for each, name in found], ["type", "name"], output)


def _default_name(kind: str) -> Sequence[str]:
    if kind != "broker":
        raise CommandFailed(
            f"which {kind}? Without a name only the default of all brokers can be meant"
        )
    return (ALL_BROKERS,)
