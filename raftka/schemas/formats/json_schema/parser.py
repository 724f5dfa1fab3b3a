"""JSON Schemas of drafts 4, 6, 7, 2019-09 and 2020-12: valid by their metaschema, each `$ref` leads
to something, and no URL is ever fetched.
"""

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property

import jsonschema_rs

from raftka.json_values import Json
from raftka.schemas.formats import json_text, pairs
from raftka.schemas.formats.json_schema import compatibility
from raftka.schemas.formats.json_schema.documents import (
    DEFAULT_DRAFT,
    DRAFTS,
    Document,
    Documents,
    draft_of,
    subschemas,
)
from raftka.schemas.formats.json_schema.nodes import Node, Nodes
from raftka.schemas.formats.json_schema.patterns import check_pattern
from raftka.schemas.formats.schema import InvalidSchema, Parsed, Reference, check_size

TOLD = 300  # characters of the validator's message
MAX_PATTERNS = 500  # that differ
MAX_DYNAMIC = 100  # anchors: each step of a comparison may have to know all of them


@dataclass(frozen=True, eq=False)
class JsonSchema:
    value: Json
    documents: Documents = field(repr=False)

    @property
    def text(self) -> str:
        return self.canonical

    @cached_property
    def canonical(self) -> str:
        """The client's text without white space."""
        return json_text.write(self.value)

    @cached_property
    def normalized(self) -> str:
        """With the keys of every object in order."""
        return json_text.write_sorted(self.value)

    @property
    def root(self) -> Node:
        """Made anew for each comparison, whose steps it counts."""
        return Nodes(self.documents).root()


def parse(text: str, references: Sequence[Reference], *, new: bool = True) -> JsonSchema:
    check_size(text, references)
    root = _document("", text)
    documents = Documents(root)
    for reference in references:
        try:
            documents.add(_document(reference.name, reference.text, root.draft))
        except InvalidSchema as error:
            raise InvalidSchema(f"reference {reference.name[:100]}: {error}") from None
    _check_resources(documents)
    _check_parts(documents)
    return JsonSchema(documents.root.value, documents)


def incompatibilities(reader: Parsed, writer: Parsed) -> list[str]:
    assert isinstance(reader, JsonSchema)
    assert isinstance(writer, JsonSchema)
    root: tuple[compatibility.Schema, compatibility.Schema] = reader.root, writer.root
    return pairs.compare(*root, compatibility.expand)


def _document(name: str, text: str, before: int = DEFAULT_DRAFT) -> Document:
    """`before`: the draft of the schema that refers to it. Without a `$schema` of its own it is of
    that one, if it is valid there.

    That is what Confluent's registry does for a schema of 2019-09 or 2020-12; for older ones all
    others are of draft 7.
    """
    value = json_text.read(text)
    if before > DEFAULT_DRAFT and isinstance(value, dict) and "$schema" not in value:
        with suppress(InvalidSchema):
            _validate(value, before)
            return Document(name, value, before)
    return Document(name, value, draft_of(value, DEFAULT_DRAFT))


def _check_resources(documents: Documents) -> None:
    """Each resource is valid by the metaschema of its own draft. A part of another draft is judged
    by that one alone.
    """
    if documents.dynamic_count > MAX_DYNAMIC:
        raise InvalidSchema(
            f"the schema has {documents.dynamic_count} dynamic anchors, {MAX_DYNAMIC} are allowed"
        )
    resources = documents.resources()
    drafts = {id(each.value): each.draft for each in resources}
    is_one = len(set(drafts.values())) == 1
    for each in resources:
        if is_one and not documents.is_text(each):
            continue  # it is judged with the text that it is in
        try:
            _validate(each.value if is_one else _without(each.value, drafts), each.draft)
        except InvalidSchema as error:
            raise InvalidSchema(
                f"reference {each.name[:100]}: {error}" if each.name else str(error)
            ) from None


def _without(value: Json, resources: Container[int], *, inside: bool = False) -> Json:
    """Return the value with nothing in place of the resources in it."""
    if inside and id(value) in resources:
        return {}
    if isinstance(value, list):
        return [_without(each, resources, inside=True) for each in value]
    if isinstance(value, dict):
        return {name: _without(each, resources, inside=True) for name, each in value.items()}
    return value


def _validate(value: Json, draft: int) -> None:
    if isinstance(value, bool):
        return
    if not isinstance(value, dict):
        raise InvalidSchema("a JSON Schema is an object, true or false")
    error = next(iter(_metaschema(draft).iter_errors(value)), None)
    if error is not None:
        path = "/".join(str(each) for each in error.instance_path)
        raise InvalidSchema(f"at /{path[:TOLD]}: {error.message[:TOLD]}")


@cache
def _metaschema(draft: int) -> jsonschema_rs.Validator:
    """The metaschemas are in the library. Formats are not validated: regular expressions for Java
    would be refused.
    """
    validators = {
        4: jsonschema_rs.Draft4Validator,
        6: jsonschema_rs.Draft6Validator,
        7: jsonschema_rs.Draft7Validator,
        2019: jsonschema_rs.Draft201909Validator,
        2020: jsonschema_rs.Draft202012Validator,
    }
    url = next(url for url, each in DRAFTS.items() if each == draft)
    url = url.replace("http:", "https:") if draft >= 2019 else f"{url}#"
    return validators[draft]({"$ref": url}, validate_formats=False, offline=True)


def _check_parts(documents: Documents) -> None:
    """Resolve each reference and compile each regular expression of all that can be reached. What
    only a reference finds is validated as well.
    """
    patterns: set[str] = set()
    seen: set[int] = set()
    waiting = [(documents.root.value, documents.root)]
    while waiting:
        value, document = waiting.pop()
        if not isinstance(value, dict) or id(value) in seen:
            continue
        seen.add(id(value))
        patterns.update(
            each
            for each in (value.get("pattern"), *(value.get("patternProperties") or ()))
            if isinstance(each, str)
        )
        waiting += [
            (child, documents.entered(child, document))
            for child in subschemas(value, document.draft)
        ]
        target = documents.referred(value, document)
        if target is not None and documents.is_found_by_reference(target.value):
            _validate(target.value, target.document.draft)
        if target is not None:
            waiting.append((target.value, target.document))
    if len(patterns) > MAX_PATTERNS:
        raise InvalidSchema(
            f"the schema has {len(patterns)} regular expressions, {MAX_PATTERNS} are allowed"
        )
    for pattern in patterns:
        check_pattern(pattern)
