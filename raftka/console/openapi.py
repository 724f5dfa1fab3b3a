"""The description of the API in OpenAPI 3.1, made from the routes."""

import re
from collections.abc import Sequence

from raftka.console.limits import PARAMETER_CHARACTERS
from raftka.console.parameters import REQUIRED
from raftka.console.routes import SAFE, Route, Routes
from raftka.http.messages import EVENTS
from raftka.json_values import Json, JsonObject

ERROR = {"$ref": "#/components/schemas/Error"}
REFUSALS = {  # by status: what a browser is told
    400: "a parameter, a field or a name is missing, unknown, malformed, or refused by Kafka",
    401: "the browser has not logged in, or its session has ended",
    403: "not allowed: by the ACLs, by this console's switches, or for a page of another origin",
    404: "there is no such thing",
    409: "the state of the thing does not allow it",
    413: "the body is too large",
    415: "the body is not application/json",
    421: "the console is not called so",
    431: "the request has too many headers",
    500: "a bug of the console",
    501: "the brokers do not know the request",
    502: "a broker failed",
    503: "no broker has answered in time, or the console is too busy",
}
WITHOUT_BODY = (413, 415)  # statuses of requests with a body
OWN_HEADER = {
    "name": "X-Raftka-Console",
    "in": "header",
    "required": True,
    "description": "shows that no page of another site has made the request",
    "schema": {"type": "string", "const": "1"},
}


def describe(routes: Routes, version: str, cookie: str) -> JsonObject:
    """`cookie`: the name of that of a session."""
    paths: dict[str, JsonObject] = {}
    for route in sorted(routes.all, key=lambda each: (each.path, each.method)):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    error = {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string", "description": "for programs, such as NOT_FOUND"},
            "message": {"type": "string", "description": "for people"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raftka console",
            "version": version,
            "description": "Every GET that answers JSON can be watched: with `Accept: "
            f"{EVENTS}` the answer comes again when it has changed, read every `every` seconds.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {"session": {"type": "apiKey", "in": "cookie", "name": cookie}},
        },
    }


def _operation(route: Route) -> JsonObject:
    found: JsonObject = {
        "operationId": _id_of(route),
        "summary": route.summary,
        "tags": [route.parts[1]],
        "parameters": _parameters(route),
        "responses": _responses(route),
        "security": [{}] if route.needs.open else [{"session": []}, {}],
    }
    if route.body is not None:
        fields = route.body
        schema = {
            "type": "object",
            "properties": {name: each.schema() for name, each in fields.items()},
            "required": [name for name, each in fields.items() if each.default is REQUIRED],
            "additionalProperties": False,
        }
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return found


def _id_of(route: Route) -> str:
    words = re.findall(r"\w+", route.path.removeprefix("/api/").replace(".", "_"))
    return "_".join([route.method.lower(), *words])


def _parameters(route: Route) -> Sequence[Json]:
    in_path = [
        {
            "name": part[1:-1],
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": PARAMETER_CHARACTERS.value},
        }
        for part in route.parts
        if part.startswith("{")
    ]
    in_query = []
    for name, parameter in route.query.items():
        schema = parameter.schema()
        if parameter.default not in (None, (), REQUIRED):
            schema["default"] = parameter.default
        is_required = parameter.default is REQUIRED
        in_query.append({"name": name, "in": "query", "required": is_required, "schema": schema})
    return [*in_path, *in_query, *([] if route.method in SAFE else [OWN_HEADER])]


def _responses(route: Route) -> JsonObject:
    content_type = EVENTS if route.is_stream else "application/json"
    found: JsonObject = {
        "200": {"description": route.answer, "content": {content_type: {"schema": {}}}}
    }
    for status, description in REFUSALS.items():
        if status not in WITHOUT_BODY or route.body is not None:
            found[str(status)] = {
                "description": description,
                "content": {"application/json": {"schema": ERROR}},
            }
    return found
