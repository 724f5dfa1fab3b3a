"""JSON payloads compared with a JSON Schema, by jsonschema-rs. Regular expressions are matched in
linear time; no URL is fetched.
"""

import json
from collections.abc import Callable
from typing import NoReturn

import jsonschema_rs

from raftka.json_values import Json
from raftka.registry.formats import json_schema
from raftka.registry.formats.json_schema_parts.documents import DRAFTS
from raftka.registry.formats.schema import InvalidSchema, Reference
from raftka.registry.payloads.avro import Unfit

BASE = "json-schema:///"  # of a schema without an id: names of references are resolved against it
PATTERN_BYTES = 1 << 20  # of a compiled regular expression
VALIDATORS = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}


def matcher(text: str, references: tuple[Reference, ...]) -> Callable[[bytes], None]:
    """A function that raises Unfit. Raises InvalidSchema."""
    schema = json_schema.parse(text, references)
    others = {reference.name: json.loads(reference.text) for reference in references}
    others |= {
        str(value["$id"]): value
        for value in others.values()
        if isinstance(value, dict) and "$id" in value
    }

    def retrieve(uri: str) -> Json:
        for name in (uri, uri.removeprefix(BASE), uri.rpartition("/")[2]):
            if name in others:
                return others[name]
        raise ValueError(f"no reference is named {uri}")

    options = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
    value = schema.value
    own = value.get("$schema") if isinstance(value, dict) else None
    if own is not None and own.rstrip("#").replace("https:", "http:") not in DRAFTS:
        # one of somebody's own: draft 7
        value = {name: each for name, each in value.items() if name != "$schema"}
    try:
        validator = VALIDATORS[schema.documents.root.draft](
            value, retriever=retrieve, pattern_options=options, validate_formats=False
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"the validator does not take it: {error}".partition("\n")[0]) from None

    def match(payload: bytes) -> None:
        error = next(iter(validator.iter_errors(_value(payload))), None)
        if error is not None:
            path = "".join(f"/{each}" for each in error.instance_path)
            raise Unfit(f"at {path or '/'}: {error.message}")

    return match


def _value(payload: bytes) -> Json:
    try:
        return json.loads(payload.decode(), parse_constant=_refuse)
    except UnicodeDecodeError:
        raise Unfit("it is no UTF-8") from None
    except RecursionError:
        raise Unfit("it is nested too deeply") from None
    except ValueError as error:
        raise Unfit(f"it is no JSON: {error}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
