"""`raftka quotas ...`: client quotas, through Kafka's protocol alone, so they work against any
Kafka.
"""

from collections.abc import Mapping

from raftka.cli.admin.client import connect
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.access import Entity, find_quotas
from raftka.client.blocking.client import Client, check
from raftka.json_values import Json
from raftka.wire.messages.client_quotas import (
    ALTER_CLIENT_QUOTAS,
    DescribeClientQuotasEntry,
)

TYPES = ("user", "client-id", "ip")
COLUMNS = ["user", "client_id", "ip", "quota", "value"]
DEFAULT = "<default>"


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
            for entry in find_quotas(client, wanted)
            for value in entry.values
        ]
        show(
            sorted(rows, key=lambda row: [str(row[column] or "") for column in COLUMNS]),
            COLUMNS,
            output,
        )


def _shown(entry: DescribeClientQuotasEntry, key: str, value: float) -> dict[str, Json]:
    return _row({each.entity_type: each.entity_name for each in entry.entity}, key, value)


def _row(entity: Entity, key: str, value: float | None) -> dict[str, Json]:
    """A quota of an entity; no value: it was deleted."""
    names = {kind: DEFAULT if name is None else name for kind, name in entity.items()}
    return {
        **{kind.replace("-", "_"): names.get(kind) for kind in TYPES},
        "quota": key,
        "value": value,
    }


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
    show([_row(entity, key, value) for key, value in values.items()], COLUMNS, output)


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
            value.key
            for entry in find_quotas(client, entity, strict=True)
            for value in entry.values
        ]
        if missing := [
            key for key in keys or ("*",) if key not in there and (key != "*" or not there)
        ]:
            raise CommandFailed(
                "there is no such quota: `raftka quotas list` shows them"
                if missing == ["*"]
                else f"there is no {missing[0]}"
            )
        gone = dict.fromkeys(keys or there)
        _alter(client, entity, gone)
    show([_row(entity, key, None) for key in gone], COLUMNS, output)


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
