"""Values of a user as bytes: texts, base64, or JSON written with a schema of the registry."""

import base64
import json

from raftka.console.call import ApiError
from raftka.console.decoding.registry import client_of
from raftka.console.parameters import refusal
from raftka.console.settings import ConsoleSettings
from raftka.json_values import Json
from raftka.pipeline.records.registry_client import RegistryAway, RegistryClient, UnknownSchema
from raftka.schemas.framing import HEADER_BYTES, MAGIC
from raftka.schemas.values import Misfit, avro
from raftka.schemas.values.json_text import parse_json

WITH_SCHEMA = {"schema_id", "json"}


def encode(settings: ConsoleSettings, value: Json) -> Json:
    """Return a key or value as lines of JSON have it. Raise ApiError."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict) or value.keys() != WITH_SCHEMA:
        if isinstance(value, dict) and value.keys() == {"base64"}:
            return value
        raise refusal("a key or value is a text, null, {base64}, or {schema_id, json}")
    schema_id = value["schema_id"]
    if type(schema_id) is not int or not 0 <= schema_id < 2**31:
        raise refusal("schema_id is the id of a schema in the registry")
    client = client_of(settings)
    if client is None:
        raise ApiError(409, "NO_REGISTRY", "this console has no registry: start it with --registry")
    try:
        payload = _payload(client, schema_id, value["json"])
    except UnknownSchema as error:
        raise ApiError(404, "UNKNOWN_SCHEMA", str(error)) from None
    except RegistryAway as error:
        raise ApiError(503, "REGISTRY_AWAY", str(error)) from None
    except Misfit as error:
        raise refusal(str(error)) from None
    frame = bytes([MAGIC]) + schema_id.to_bytes(HEADER_BYTES - 1)
    return {"base64": base64.b64encode(frame + payload).decode()}


def _payload(client: RegistryClient, schema_id: int, value: Json) -> bytes:
    """Raise Misfit for a value that does not fit, and the errors of the client."""
    schema = client.schema(schema_id)
    try:
        if schema.kind == "AVRO":
            inside = avro.put_references_inside(schema, client)
            return avro.write(inside, schema_id, value)
        if schema.kind == "PROTOBUF":
            from raftka.schemas.values import protobuf

            descriptor = client.schema(schema_id, serialized=True)
            return protobuf.write(descriptor, client, value)
    except ImportError as error:
        raise Misfit(
            f"schema {schema_id} is {schema.kind}, and {error.name} is missing: "
            "pip install raftka[registry]"
        ) from None
    data = json.dumps(value).encode()
    parse_json(data)
    return data
