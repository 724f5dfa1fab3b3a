"""`raftka quotas ...`: client quotas, through Kafka's protocol alone, so they work against any
Kafka.
"""

from collections.abc import Mapping

from raftka.cli.admin.client import connect
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import Client, check
from raftka.json_values import Json
from raftka.wire.messages.client_quotas import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasEntry,
)

TYPES = ("user", "client-id", "ip")
COLUMNS = [*TYPES, "quota", "value"]
DEFAULT = "<default>"
EXACT, DEFAULT_NAME = 0, 1
Entity = dict[str, str | None]  # by type; None: the default


def _entity(names: Mapping[str, str | None], defaults: tuple[str, ...]) -> Entity:
    """Raises CommandFailed when nothing is named."""
    entity: Entity = {kind: name for kind, name in names.items() if name is not None}
    if twice := entity.keys() & set(defaults):
        raise CommandFailed(f"--{twice.pop()} and its --default exclude each other")
    return {**entity, **dict.fromkeys(defaults)}


@command
def list_all(
    user: str | None,
    client_id: str | None,
    ip: str | None,
    defaults: tuple[str, ...],
    bootstrap_server: str,
    output: str,
) -> None:
    wanted = _entity({"user": user, "client-id": client_id, "ip": ip}, defaults)
    with connect(bootstrap_server) as client:
        rows = [
            _shown(entry, value.key, value.value)
            for entry in _found(client, wanted, strict=False)
            for value in entry.values
        ]
        show(
            sorted(rows, key=lambda row: [str(row[column] or "") for column in COLUMNS]),
            COLUMNS,
            output,
        )


def _found(client: Client, entity: Entity, *, strict: bool) -> list[DescribeClientQuotasEntry]:
    request = DESCRIBE_CLIENT_QUOTAS.request
    components = [
        request.components(
            entity_type=kind, match_type=DEFAULT_NAME if name is None else EXACT, match=name
        )
        for kind, name in entity.items()
    ]
    answer = client.ask(DESCRIBE_CLIENT_QUOTAS, request(components=components, strict=strict))
    check(answer.error_code, answer.error_message)
    return list(answer.entries or ())


def _shown(entry: DescribeClientQuotasEntry, key: str, value: float) -> dict[str, Json]:
    names = {
        each.entity_type: DEFAULT if each.entity_name is None else each.entity_name
        for each in entry.entity
    }
    return {**{kind: names.get(kind) for kind in TYPES}, "quota": key, "value": value}


@command
def alter(
    user: str | None,
    client_id: str | None,
    ip: str | None,
    defaults: tuple[str, ...],
    quotas: dict[str, str],
    bootstrap_server: str,
    output: str,
) -> None:
    entity = _named(user, client_id, ip, defaults)
    values: dict[str, float | None] = {}
    for key, text in quotas.items():
        try:
            values[key] = float(text)
        except ValueError:
            raise CommandFailed(f"{key}={text}: a quota is a number") from None
    with connect(bootstrap_server) as client:
        _alter(client, entity, values)


@command
def delete(
    user: str | None,
    client_id: str | None,
    ip: str | None,
    defaults: tuple[str, ...],
    keys: tuple[str, ...],
    bootstrap_server: str,
    output: str,
) -> None:
    entity = _named(user, client_id, ip, defaults)
    with connect(bootstrap_server) as client:
        there = [
            value.key for entry in _found(client, entity, strict=True) for value in entry.values
        ]
        if missing := [
            key for key in keys or ("*",) if key not in there and (key != "*" or not there)
        ]:
            raise CommandFailed(
                "there is no such quota: `raftka quotas list` shows them"
                if missing == ["*"]
                else f"there is no {missing[0]}"
            )
        _alter(client, entity, dict.fromkeys(keys or there))


def _named(
    user: str | None, client_id: str | None, ip: str | None, defaults: tuple[str, ...]
) -> Entity:
    entity = _entity({"user": user, "client-id": client_id, "ip": ip}, defaults)
    if not entity:
        raise CommandFailed(
            "say whose quota it is: --user, --client-id, --ip, or --default with one of these"
        )
    return entity


def _alter(client: Client, entity: Entity, values: Mapping[str, float | None]) -> None:
    row = ALTER_CLIENT_QUOTAS.request.entries
    components = [row.entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [
        row.ops(key=key, value=0.0 if value is None else value, remove=value is None)
        for key, value in values.items()
    ]
    (result,) = client.ask(
        ALTER_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS.request(entries=[row(entity=components, ops=ops)])
    ).entries
    check(result.error_code, result.error_message)
