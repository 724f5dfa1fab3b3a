"""Reassignments under way with the bytes left to copy, and leaders that are not preferred."""

from collections.abc import Mapping

from raftka.client.blocking.client import Where
from raftka.client.blocking.reassignments import (
    Reassignment,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from raftka.console.call import ApiError, Call
from raftka.console.limits import COPIED_TOPICS
from raftka.console.parameters import Field, Text
from raftka.console.routes import route
from raftka.console.rows import missing_nodes, paged, rows_of_page
from raftka.console.view.metadata import Metadata, Partition
from raftka.json_values import Json, JsonObject
from raftka.wire.errors import Code, name_of_code

MOST_ASKED = 1_000  # partitions of one change
PARTITIONS = {"partitions": Field(list[dict[str, str | int]])}  # each {"topic", "partition"}
PAGE = {"search": Text(""), **paged()}


@route(
    "GET",
    "/api/reassignments",
    "Reassignments under way",
    query=PAGE,
    answer="Those of a page: replicas that come and go, and of each that comes the bytes that it "
    "has and the records that it lacks (null: not known)",
)
def reassignments(call: Call) -> Json:
    query = call.query
    search = query["search"].casefold()
    with call.client() as client:
        client.refresh([])  # a controller that was silent may have a successor
        missing = call.view.silent({client.controller_id} - {-1})
        listed = list_reassignments(client) if not missing else []
    found = [each for each in listed if search in each.where[0].casefold()]
    page = rows_of_page(found, query["page"], query["size"])
    metadata = call.view.metadata()
    copies: dict[Where, list[JsonObject]] = {}
    topics = list(dict.fromkeys(each.where[0] for each in page))
    for topic in topics[: COPIED_TOPICS.value]:
        replicas = call.view.replicas(topic)
        missing |= replicas.missing
        for index, own in replicas.by_partition.items():
            copies[topic, index] = [
                {"broker": each.node_id, "bytes": each.size, "behind": each.lag}
                for each in own
                if not each.future
            ]
    return {
        "reassignments": [_shown(each, copies, metadata) for each in page],
        "total": len(found),
        "is_cut": len(topics) > COPIED_TOPICS.value,
        "missing": missing_nodes(missing),
    }


def _shown(
    each: Reassignment, copies: Mapping[Where, list[JsonObject]], metadata: Metadata
) -> JsonObject:
    known = metadata.partition(each.where)
    of_broker = {copy["broker"]: copy for copy in copies.get(each.where, ())}
    nothing = {"bytes": None, "behind": None}
    return {
        "id": f"{each.where[0]}-{each.where[1]}",
        "topic": each.where[0],
        "partition": each.where[1],
        "replicas": list(each.replicas),
        "removing": list(each.removing),
        "leader": known.leader if known else None,
        "leader_bytes": of_broker.get(known.leader, nothing)["bytes"] if known else None,
        "adding": [
            {"broker": broker, **nothing, **of_broker.get(broker, {})} for broker in each.adding
        ],
    }


@route(
    "POST",
    "/api/reassignments/cancel",
    "Cancel reassignments: the replicas from before stay, those that came leave",
    body=PARTITIONS,
    writes=True,
    answer="The partitions that were cancelled, and by partition why others were not",
)
def cancel(call: Call) -> Json:
    wanted = _asked(call)
    with call.client() as client:
        answers = alter_reassignments(client, dict.fromkeys(wanted))
    return _outcome([(where, code, None) for where, code in answers])


@route(
    "GET",
    "/api/leaders",
    "Partitions whose leader is not the preferred one, which is their first replica",
    query=PAGE,
    answer="Those of a page; can: whether the preferred leader is in sync, as an election needs",
)
def leaders(call: Call) -> Json:
    query, metadata = call.query, call.view.metadata()
    search = query["search"].casefold()
    rows = [
        _leader(name, each)
        for name, topic in metadata.topics.items()
        if search in name.casefold()
        for each in topic.partitions
        if each.replicas and each.leader != each.replicas[0]
    ]
    return {
        "partitions": rows_of_page(rows, query["page"], query["size"]),
        "total": len(rows),
        "can": sum(row["can"] for row in rows),
        "missing": missing_nodes(metadata.missing),
    }


def _leader(topic: str, each: Partition) -> JsonObject:
    return {
        "id": f"{topic}-{each.index}",
        "topic": topic,
        "partition": each.index,
        "leader": each.leader,
        "preferred": each.replicas[0],
        "can": each.replicas[0] in each.isr,
    }


@route(
    "POST",
    "/api/leaders/elect",
    "Hand leadership to the first replicas",
    body=PARTITIONS,
    writes=True,
    answer="The partitions that their first replica leads now, and by partition why others are not",
)
def elect(call: Call) -> Json:
    wanted = _asked(call)
    with call.client() as client:
        results = elect_leaders(client, wanted)
    call.view.kept_metadata.forget()
    return _outcome([(each.where, each.code, each.message) for each in results])


def _asked(call: Call) -> list[Where]:
    """Raises ApiError."""
    given = call.body["partitions"]
    if not given or len(given) > MOST_ASKED:
        raise ApiError(400, "BAD_REQUEST", f"partitions are 1 to {MOST_ASKED}")
    wanted = []
    for each in given:
        topic, partition = each.get("topic"), each.get("partition")
        if len(each) != 2 or not isinstance(topic, str) or not isinstance(partition, int):
            raise ApiError(400, "BAD_REQUEST", "each partition has a topic and a partition")
        wanted.append((topic, partition))
    return wanted


def _outcome(results: list[tuple[Where, int, str | None]]) -> JsonObject:
    fine = (Code.NONE, Code.ELECTION_NOT_NEEDED)
    return {
        "done": [f"{topic}-{index}" for (topic, index), code, _ in results if code in fine],
        "refused": {
            f"{topic}-{index}": why or name_of_code(code).lower().replace("_", " ")
            for (topic, index), code, why in results
            if code not in fine
        },
    }
