"""The description of the door in OpenAPI 3.1."""

from raftka import __version__
from raftka.http.messages import EVENTS
from raftka.json_values import Json, JsonObject

OPEN_PATHS = ("/health", "/openapi.json")  # without the token
JSON_TYPE = "application/json"
ERROR = {"$ref": "#/components/schemas/Error"}
ANSWER = {"$ref": "#/components/schemas/Answer"}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
REFUSALS = {
    "400": "the request or the statement is refused",
    "401": "the token is missing, or another one",
    "404": "no such statement runs",
    "409": "another client reads these rows",
    "500": "the statement failed",
    "503": "Spark did not start, or too many statements run",
}
STATEMENT = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string", "description": "one statement, without `;`"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "of rows, unless they keep coming",
        },
    },
}
TEXT: JsonObject = {"type": "string"}
COLUMN: JsonObject = {"type": "object", "properties": {"name": TEXT, "type": TEXT}}
SCHEMAS: JsonObject = {
    "Error": {
        "type": "object",
        "required": ["error", "message"],
        "properties": {"error": TEXT, "message": TEXT},
    },
    "Answer": {
        "type": "object",
        "properties": {
            "id": TEXT,
            "columns": {"type": "array", "items": COLUMN},
            "is_live": {"type": "boolean", "description": "rows keep coming: ask for them by id"},
            "rows": {"type": "array", "items": {"type": "array", "items": {}}},
            "note": TEXT,
        },
    },
    "Running": {
        "type": "object",
        "properties": {
            "id": TEXT,
            "text": TEXT,
            "seconds": {"type": "number"},
            "is_live": {"type": "boolean"},
        },
    },
}


def describe() -> JsonObject:
    """Return the document that GET /openapi.json answers with."""
    events = {EVENTS: {"schema": TEXT}}
    answer = {JSON_TYPE: {"schema": ANSWER}, **events}
    running = {"type": "array", "items": {"$ref": "#/components/schemas/Running"}}
    paths = {
        "/health": {"get": _operation("health", "Whether Spark is up", _json({}))},
        "/openapi.json": {"get": _operation("openapi", "This description", _json({}))},
        "/words": {"get": _operation("words", "Names that a prompt completes", _json({}))},
        "/statements": {
            "get": _operation("list", "Statements that run", _json(running)),
            "post": {
                **_operation("execute", "Run a statement; as events: columns, rows, end", answer),
                "requestBody": {"required": True, "content": _json(STATEMENT)},
            },
        },
        "/statements/{id}/rows": {
            "get": _operation("rows", "Rows of a live answer as they come", events, [ID])
        },
        "/statements/{id}": {"delete": _operation("end", "End a statement", _json({}), [ID])},
    }
    for path in OPEN_PATHS:
        paths[path]["get"]["security"] = []
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "raftka SQL server",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _json(schema: JsonObject) -> JsonObject:
    return {JSON_TYPE: {"schema": schema}}


def _operation(
    name: str, summary: str, content: JsonObject, parameters: list[Json] | None = None
) -> JsonObject:
    refusals = {
        status: {"description": text, "content": _json(ERROR)} for status, text in REFUSALS.items()
    }
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters or [],
        "responses": {"200": {"description": summary, "content": content}, **refusals},
    }
