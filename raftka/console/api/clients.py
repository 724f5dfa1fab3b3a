"""Clients: the members of groups by client id and host, and connections by software."""

from raftka.console.call import Call
from raftka.console.cluster.monitor import MONITORS as CLUSTERS
from raftka.console.cluster.node_metrics import is_too_large, software_rows
from raftka.console.groups.clients import MONITORS, GroupClient
from raftka.console.parameters import Choice, Text
from raftka.console.routes import route
from raftka.console.rows import paged, rows_of_page
from raftka.json_values import Json, JsonObject

GROUPS_SHOWN = 20  # of a client in the list
SOFTWARE_SHOWN = 200
METADATA_S, FIRST_S = 2.0, 0.5
SORTS = ("client", "-client", "host", "-host", "members", "-members", "partitions", "-partitions")


@route(
    "GET",
    "/api/clients",
    "Clients that are members of groups",
    query={
        "search": Text(""),
        "sort": Choice("client", SORTS),
        **paged(),
    },
    answer="Clients of a page by client id and host. Producers and clients without a "
    "group are not in it: Kafka's protocol does not tell them",
)
def clients(call: Call) -> Json:
    known, query = MONITORS.of(call.session).clients(), call.query
    search = query["search"].casefold()
    rows = [
        each
        for each in known.found
        if search in each.client_id.casefold()
        or search in each.host.casefold()
        or any(search in group.casefold() for group in each.groups)
    ]
    rows.sort(key=lambda each: (each.client_id, each.host))
    key = {"client": "client_id"}.get(name := query["sort"].removeprefix("-"), name)
    rows.sort(key=lambda each: getattr(each, key), reverse=query["sort"].startswith("-"))
    shown = rows_of_page(rows, query["page"], query["size"])
    return {
        "clients": [_shown(each) for each in shown],
        "total": len(rows),
        "members": sum(each.members for each in rows),
        "is_cut": known.is_cut,
        "missing": dict(sorted(known.missing.items())),
    }


@route(
    "GET",
    "/api/clients/software",
    "Connections by the software of their clients",
    answer="Names and versions, those with the most connections first, as raftka's nodes tell them "
    "in their metrics; `software` is null while these are read for the first time",
)
def software(call: Call) -> Json:
    metadata = call.view.metadata(METADATA_S)
    by_node = CLUSTERS.of(call.session).node_metrics.software(metadata, FIRST_S)
    rows = software_rows(by_node or {})
    return {
        "software": None
        if by_node is None
        else [
            {
                "id": f"{row.name} {row.version}",
                "name": row.name,
                "version": row.version,
                "connections": row.connections,
                "nodes": list(row.nodes),
            }
            for row in rows[:SOFTWARE_SHOWN]
        ],
        "total": len(rows),
        "without": sorted(metadata.brokers.keys() - (by_node or {}).keys()),
        "is_too_large": is_too_large(metadata),
    }


def _shown(each: GroupClient) -> JsonObject:
    return {
        "id": f"{each.client_id} {each.host}",
        "client": each.client_id,
        "host": each.host,
        "members": each.members,
        "partitions": each.partitions,
        "groups": sorted(each.groups)[:GROUPS_SHOWN],
        "group_count": len(each.groups),
    }
