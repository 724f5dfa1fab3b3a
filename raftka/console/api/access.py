"""Access: ACLs, client quotas, SCRAM users. Nothing here changes them."""

from collections import Counter

from raftka.client.blocking.access import (
    RESOURCES,
    Quota,
    shown_acl,
)
from raftka.console.call import Call
from raftka.console.parameters import Choice, Text
from raftka.console.routes import route
from raftka.console.rows import paged, rows_of_page
from raftka.json_values import Json, JsonObject
from raftka.security import acls
from raftka.security.acls import OPERATION_NAMES, Acl
from raftka.security.scram import NUMBERS
from raftka.wire.errors import Code, KafkaError

ANY = "any"
DEFAULT = "<default>"
SORTS = ("principal", "-principal", "resource", "-resource", "operation", "-operation")


@route(
    "GET",
    "/api/access/acls",
    "ACLs",
    query={
        "search": Text(""),
        "principal": Text(""),
        "resource": Choice(ANY, (ANY, *RESOURCES.values())),
        "operation": Choice(ANY, (ANY, *OPERATION_NAMES)),
        "sort": Choice("principal", SORTS),
        **paged(),
    },
    answer="ACLs of a page, and all principals. With `principal` those that count for it: its own "
    "and those of everybody",
)
def list_access(call: Call) -> Json:
    try:
        found = call.view.acls()
    except KafkaError as error:
        if error.code != Code.SECURITY_DISABLED:
            raise
        return {"acls": [], "total": 0, "principals": [], "has_authorizer": False}
    query = call.query
    rows = [
        {"id": "/".join(map(str, each)), **shown_acl(each)}
        for each in found
        if _is_asked(each, query["principal"])
    ]
    search = query["search"].casefold()
    rows = [
        row
        for row in rows
        if (query["resource"] in (ANY, row["resource"]))
        and (query["operation"] in (ANY, row["operation"]))
        and (search in row["name"].casefold() or search in row["principal"].casefold())
    ]
    key = query["sort"].removeprefix("-")
    rows.sort(key=lambda row: row[key], reverse=query["sort"].startswith("-"))
    principals = Counter(each.principal for each in found)
    return {
        "acls": rows_of_page(rows, query["page"], query["size"]),
        "total": len(rows),
        "principals": [
            {"principal": name, "acls": number} for name, number in sorted(principals.items())
        ],
        "has_authorizer": True,
    }


def _is_asked(acl: Acl, principal: str) -> bool:
    return not principal or acl.principal in (principal, acls.ANYBODY)


@route(
    "GET",
    "/api/access/quotas",
    "Client quotas",
    query={"search": Text(""), **paged()},
    answer="Quotas of a page: user, client id and address, `<default>` for all that have none of "
    "their own, and the values by name",
)
def quotas(call: Call) -> Json:
    found = call.view.quotas()
    search = call.query["search"].casefold()
    rows: dict[tuple[tuple[str, str | None], ...], JsonObject] = {}
    for each in found:
        row = rows.setdefault(tuple(sorted(each.entity.items())), _entity(each))
        row["values"][each.key] = each.value
    shown = [row for row in rows.values() if search in row["name"].casefold()]
    shown.sort(key=lambda row: row["name"])
    return {
        "quotas": rows_of_page(shown, call.query["page"], call.query["size"]),
        "total": len(shown),
    }


def _entity(quota: Quota) -> JsonObject:
    names = {kind: DEFAULT if name is None else name for kind, name in sorted(quota.entity.items())}
    name = ", ".join(f"{kind} {value}" for kind, value in names.items())
    return {"name": name, "entity": names, "values": {}}


@route(
    "GET",
    "/api/access/users",
    "Users with SCRAM credentials",
    query={"search": Text(""), **paged()},
    answer="Users of a page with their mechanisms and iterations; no secret",
)
def users(call: Call) -> Json:
    found = call.view.scram_users()
    search = call.query["search"].casefold()
    rows: list[Json] = [
        {
            "name": each.user,
            "credentials": [
                {
                    "mechanism": NUMBERS.get(info.mechanism, str(info.mechanism)),
                    "iterations": info.iterations,
                }
                for info in each.credential_infos
            ],
        }
        for each in found
        if search in each.user.casefold()
    ]
    return {"users": rows_of_page(rows, call.query["page"], call.query["size"]), "total": len(rows)}
