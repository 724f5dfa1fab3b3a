"""Schemas of the registry: subjects, versions and their differences; a new schema is tried, then
registered.
"""

from typing import Literal

from raftka.console.call import ApiError, Call
from raftka.console.parameters import REQUIRED, Choice, Field, Number, Text
from raftka.console.routes import route
from raftka.console.rows import paged, rows_of_page
from raftka.console.schemas.registry import HOW_TO_GET_ONE, Registry, registry_of
from raftka.console.schemas.texts import find_difference, pretty
from raftka.json_values import Json, JsonObject

LARGEST_VERSION = 2**31 - 1
SCHEMA = {
    "schema": Field(str),
    "kind": Field(Literal["AVRO", "JSON", "PROTOBUF"], "AVRO"),
    # each {"name", "subject", "version"}
    "references": Field(list[dict[str, str | int]], []),
}
Version = Number(REQUIRED, least=1, most=LARGEST_VERSION)


@route(
    "GET",
    "/api/schemas",
    "Subjects of the schema registry",
    query={
        "search": Text(""),
        "sort": Choice("name", ("name", "-name")),
        **paged(most=100),
    },
    answer="Subjects of a page with their latest versions; how to get a registry where there is "
    "none",
)
def subjects(call: Call) -> Json:
    if not call.settings.registry:
        return {"has_registry": False, "how": HOW_TO_GET_ONE, "subjects": [], "total": 0}
    registry, query = registry_of(call.settings), call.query
    search = query["search"].casefold()
    names = [each for each in registry.subjects() if search in each.casefold()]
    if query["sort"] == "-name":
        names.reverse()
    shown = rows_of_page(names, query["page"], query["size"])
    return {
        "has_registry": True,
        "url": registry.url,
        "subjects": [_summary(registry, each) for each in shown],
        "total": len(names),
    }


def _summary(registry: Registry, subject: str) -> JsonObject:
    try:
        latest = registry.version(subject, "latest")
    except ApiError as error:
        if error.status != 404:
            raise
        latest = {}  # deleted between two questions
    return {
        "name": subject,
        "version": latest.get("version"),
        "id": latest.get("id"),
        "kind": latest.get("schemaType", "AVRO") if latest else None,
    }


@route(
    "GET",
    "/api/schemas/{subject}",
    "One subject: its versions and its compatibility level",
    answer="The versions, upwards; the level, and whether it is the subject's own",
)
def subject(call: Call) -> Json:
    registry, name = registry_of(call.settings), call.path["subject"]
    versions = registry.versions(name)
    level, is_own = registry.level(name)
    return {
        "subject": name,
        "url": registry.url,
        "versions": versions,
        "compatibility": level,
        "compatibility_is_own": is_own,
    }


@route(
    "GET",
    "/api/schemas/{subject}/versions/{version}",
    "One version of a schema",
    answer="The schema with a line for each part, its id, kind and references",
)
def version(call: Call) -> Json:
    number = Version.parse("version", [call.path["version"]])
    return _shown(registry_of(call.settings).version(call.path["subject"], number))


def _shown(found: JsonObject) -> JsonObject:
    kind, text = str(found.get("schemaType") or "AVRO"), str(found.get("schema", ""))
    return {
        "subject": found.get("subject"),
        "version": found.get("version"),
        "id": found.get("id"),
        "kind": kind,
        "text": pretty(kind, text),
        "references": found.get("references") or [],
    }


@route(
    "GET",
    "/api/schemas/{subject}/difference",
    "Differences between two versions of a schema",
    query={"old": Version, "new": Version},
    answer="All lines of both versions: same, old (in the old one alone), new",
)
def difference(call: Call) -> Json:
    registry, name, query = registry_of(call.settings), call.path["subject"], call.query
    old, new = (_shown(registry.version(name, query[each])) for each in ("old", "new"))
    return {"lines": _lines(old["text"], new["text"])}


def _lines(old: str, new: str) -> list[Json]:
    return [each._asdict() for each in find_difference(old, new)]


@route(
    "POST",
    "/api/schemas/{subject}/try",
    "Try whether a schema may be registered, without registering it",
    body=SCHEMA,
    answer="Whether it goes with the versions that the subject's level names, or the reasons why "
    "not; the version that has it already; what differs from the latest version",
)
def try_schema(call: Call) -> Json:
    registry, name, document = registry_of(call.settings), call.path["subject"], _document(call)
    why = registry.incompatibilities(name, document)
    try:
        latest = _shown(registry.version(name, "latest"))
    except ApiError as error:
        if error.status != 404:
            raise
        latest = None  # a new subject
    level, _ = registry.level(name)
    old = latest["text"] if latest else ""
    return {
        "compatible": why is None,
        "reasons": why or [],
        "compatibility": level,
        "known_version": registry.find(name, document) if latest else None,
        "latest_version": latest["version"] if latest else None,
        "lines": _lines(old, pretty(call.body["kind"], call.body["schema"])),
        "document": document,
    }


@route(
    "POST",
    "/api/schemas/{subject}/versions",
    "Register a schema under a subject",
    body=SCHEMA,
    writes=True,
    answer="Its id and version; refused by the registry when the subject's level does not allow it",
)
def register(call: Call) -> Json:
    registry, name, document = registry_of(call.settings), call.path["subject"], _document(call)
    schema_id = registry.register(name, document)
    return {"id": schema_id, "version": registry.find(name, document)}


def _document(call: Call) -> JsonObject:
    """Return the body as the registry's API has it. The kind is left out for Avro, as old
    registries want it.
    """
    body = call.body
    document: JsonObject = {"schema": body["schema"]}
    if body["kind"] != "AVRO":
        document["schemaType"] = body["kind"]
    if body["references"]:
        document["references"] = body["references"]
    return document
