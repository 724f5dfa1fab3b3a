"""JSON values: checked with a JSON Schema by jsonschema-rs. Regular expressions are matched in
linear time; no URL is fetched.
"""

import json
from collections.abc import Callable

import jsonschema_rs

from raftka.json_values import Json
from raftka.schemas.formats.json_schema import parse
from raftka.schemas.formats.json_schema.documents import DRAFTS
from raftka.schemas.formats.schema import InvalidSchema, Reference
from raftka.schemas.values import Misfit
from raftka.schemas.values.json_text import parse_json

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
    """Return a function that raises Misfit for a payload that is no value of the schema. Raise
    InvalidSchema.
    """
    schema = parse(text, references)
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
        # a metaschema of the user's own: draft 7
        value = {name: each for name, each in value.items() if name != "$schema"}
    try:
        validator = VALIDATORS[schema.documents.root.draft](
            value, retriever=retrieve, pattern_options=options, validate_formats=False
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"the validator does not take it: {error}".partition("\n")[0]) from None

    def match(payload: bytes) -> None:
        error = next(iter(validator.iter_errors(parse_json(payload))), None)
        if error is not None:
            path = "".join(f"/{each}" for each in error.instance_path)
            raise Misfit(f"at {path or '/'}: {error.message}")

    return match
