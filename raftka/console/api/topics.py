"""Topics: the list, one topic, its partitions and readers; created, grown and deleted."""

from collections.abc import Mapping

from raftka.client.blocking.client import check
from raftka.client.blocking.topics import add_partitions, create_topics, delete_topics
from raftka.console.call import Call
from raftka.console.limits import TOPICS_OF_DELETION
from raftka.console.parameters import (
    INT16,
    INT32,
    Choice,
    Field,
    Flag,
    Parameter,
    Text,
    refusal,
)
from raftka.console.routes import route
from raftka.console.rows import paged
from raftka.console.topics.detail import (
    GROUP_ORDERS,
    PARTITION_ORDERS,
    Page,
    describe_topic,
    list_partitions,
    list_readers,
)
from raftka.console.topics.table import ORDERS, STATES, Wanted, list_topics
from raftka.json_values import Json
from raftka.wire.errors import name_of_code

DEFAULT = -1  # partitions or replicas: as the brokers' settings have it


def _paged(sort: str, orders: tuple[str, ...], size: int = 50) -> dict[str, Parameter]:
    return {"sort": Choice(sort, orders), **paged(size)}


def _page(call: Call) -> Page:
    return Page(call.query["sort"], call.query["page"], call.query["size"])


@route(
    "GET",
    "/api/topics",
    "Topics with their figures, a page of them",
    query={
        "search": Text(""),
        **_paged("name", ORDERS),
        "internal": Flag(),
        "state": Choice("any", STATES),
    },
    answer="Rows of the page; null is not known, `pending` names what is being read",
)
def topics(call: Call) -> Json:
    metadata = call.view.metadata()
    wanted = Wanted(**{name: call.query[name] for name in Wanted._fields})
    found = list_topics(metadata, call.view.overview(), wanted)
    return {**found, "missing": {str(each): why for each, why in call.view.missing.items()}}


@route("GET", "/api/topics/{topic}", "One topic with its figures")
def topic(call: Call) -> Json:
    return describe_topic(call.view, call.path["topic"])


@route(
    "GET",
    "/api/topics/{topic}/partitions",
    "Partitions of a topic, a page of them, with offsets and replicas",
    query=_paged("index", PARTITION_ORDERS, 100),
)
def partitions(call: Call) -> Json:
    with call.client() as client:
        return list_partitions(call.view, client, call.path["topic"], _page(call))


@route(
    "GET",
    "/api/topics/{topic}/groups",
    "Groups that have committed offsets of a topic, by lag",
    query=_paged("-lag", GROUP_ORDERS),
)
def readers(call: Call) -> Json:
    return list_readers(call.view, call.path["topic"], _page(call))


@route(
    "POST",
    "/api/topics",
    "Create a topic",
    body={
        "name": Field(str),
        "partitions": Field(int, DEFAULT, least=DEFAULT, most=INT32),
        "replication": Field(int, DEFAULT, least=DEFAULT, most=INT16),
        "settings": Field(dict[str, str], {}),
        "validate_only": Field(bool, False),
    },
    writes=True,
    answer="The topic as it is, or would be, created; -1 partitions or replicas are the default",
)
def create(call: Call) -> Json:
    body = call.body
    with call.client() as client:
        row = create_topics(
            client,
            [body["name"]],
            body["partitions"],
            body["replication"],
            body["settings"],
            validate_only=body["validate_only"],
        )[0]
    check(row.error_code, row.error_message)
    if not body["validate_only"]:
        call.view.forget()
    return {
        "name": row.name,
        "partitions": row.num_partitions,
        "replication": row.replication_factor,
        "settings": {each.name: each.value for each in row.configs or ()},
    }


@route(
    "POST",
    "/api/topics/{topic}/partitions",
    "Let a topic have more partitions",
    body={"count": Field(int, least=1, most=INT32), "validate_only": Field(bool, False)},
    writes=True,
    answer="The count of all partitions, those that there were included",
)
def grow(call: Call) -> Json:
    name, body = call.path["topic"], call.body
    with call.client() as client:
        row = add_partitions(client, [name], body["count"], validate_only=body["validate_only"])[0]
    check(row.error_code, row.error_message)
    if not body["validate_only"]:
        call.view.forget()
    return {"name": name, "partitions": body["count"]}


@route(
    "POST",
    "/api/topics/delete",
    "Delete topics with all their records",
    body={"names": Field(list[str])},
    writes=True,
    answer="Names that are deleted, and why others are not",
)
def delete(call: Call) -> Json:
    names = list(dict.fromkeys(call.body["names"]))
    if not 0 < len(names) <= TOPICS_OF_DELETION.value:
        raise refusal(
            f"names has {len(names)} topics, 1 to {TOPICS_OF_DELETION.value} are possible"
        )
    with call.client() as client:
        rows = delete_topics(client, names)
    if len(names) == 1:
        check(rows[0].error_code, rows[0].error_message)
    call.view.forget()
    refused: Mapping[str, str] = {
        str(row.name): row.error_message or name_of_code(row.error_code)
        for row in rows
        if row.error_code
    }
    return {"deleted": [row.name for row in rows if not row.error_code], "refused": refused}
