"""JSON Schema documents by name, and what a `$ref` in them leads to: a definition, an anchor, a reference, a part with an `$id`. Fetches nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote, urljoin

from raftka.json_values import Json, JsonObject
from raftka.registry.formats.schema import InvalidSchema

DRAFTS = {  # `$schema` without the empty fragment, with http
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft/2020-12/schema": 2020,
}
DEFAULT_DRAFT = 7  # also for an `$schema` of somebody's own
ONE = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
MAPS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
REFERRING = ("$ref", "$recursiveRef", "$dynamicRef")
SINCE = {  # the draft that brought a keyword, if not draft 4: what a metaschema does not know, it does not validate
    **dict.fromkeys(("const", "contains", "propertyNames"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("$anchor", "$defs", "$recursiveRef", "contentSchema", "dependentRequired", "dependentSchemas"), 2019),
    **dict.fromkeys(("maxContains", "minContains", "unevaluatedItems", "unevaluatedProperties"), 2019),
    **dict.fromkeys(("$dynamicAnchor", "$dynamicRef", "prefixItems"), 2020),
}
UNTIL = {"additionalItems": 2019, "$recursiveRef": 2019}  # the last draft that has it
SHOWN = 200  # characters of a reference in a message


@dataclass(frozen=True, eq=False)
class Document:
    """A text as it was parsed; `name` is the reference's, none for the schema itself."""

    name: str
    value: Json
    draft: int

    @property
    def id(self) -> str:
        found = self.value.get("id" if self.draft == 4 else "$id", "") if isinstance(self.value, dict) else ""
        return found if isinstance(found, str) else ""


METASCHEMAS = {draft: Document(url, {}, draft) for url, draft in DRAFTS.items()}  # stand for what is not followed


class Target(NamedTuple):
    value: Json
    document: Document


def is_known(keyword: str, draft: int) -> bool:
    return SINCE.get(keyword, 0) <= draft <= UNTIL.get(keyword, draft)


def subschemas(value: JsonObject, draft: int) -> Iterator[Json]:
    """The schemas directly in a schema, those that nothing but a reference uses as well."""
    for key in ONE:
        if isinstance(value.get(key), dict | bool) and is_known(key, draft):
            yield value[key]
    for key in LISTS:
        if isinstance(value.get(key), list) and is_known(key, draft):
            yield from value[key]
    for key in MAPS:
        if isinstance(value.get(key), dict) and is_known(key, draft):
            yield from (each for each in value[key].values() if isinstance(each, dict | bool))


class Documents:
    """`root` is the schema; others are added by their references' names."""

    def __init__(self, root: Document) -> None:
        self.root = root
        self._by_uri: dict[str, Target] = {}
        self._anchors: dict[tuple[int, str], Json] = {}
        self._positions: dict[int, set[int]] = {}
        self._index(root)
        self._by_uri[""] = Target(root.value, root)

    def add(self, document: Document) -> None:
        self._index(document)
        target = Target(document.value, document)
        for uri in (document.name, urljoin(self.root.id, document.name), document.id):
            if uri:
                self._by_uri.setdefault(uri.rstrip("#"), target)

    def positions(self, document: Document) -> set[int]:
        """Ids of all schemas in a document that keywords lead to."""
        return self._positions.get(id(document), set())

    def referred(self, schema: JsonObject, document: Document) -> Target | None:
        """What a schema refers to; none if it has no `$ref`. Raises InvalidSchema if that is not there."""
        keyword = next((each for each in REFERRING if isinstance(schema.get(each), str) and is_known(each, document.draft)), None)
        if keyword is None:
            return None
        uri, _, fragment = str(schema[keyword]).partition("#")
        base = self._document(uri, document) if uri else Target(document.value, document)
        found = base and self._fragment(base, unquote(fragment))
        if found is None or not isinstance(found.value, dict | bool):
            shown = str(schema[keyword])[:SHOWN]
            raise InvalidSchema(f"{keyword} {shown} leads to no schema: not to one within, nor to a reference of that name, and URLs are not fetched")
        return found

    def _document(self, uri: str, document: Document) -> Target | None:
        for each in (uri, urljoin(document.id, uri), urljoin(document.name, uri), uri.removeprefix("./")):
            if (found := self._by_uri.get(each)) is not None:
                return found
        draft = DRAFTS.get(uri.replace("https:", "http:"))
        return None if draft is None else Target(METASCHEMAS[draft].value, METASCHEMAS[draft])

    def _fragment(self, base: Target, fragment: str) -> Target | None:
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get((id(base.document), fragment))
            return None if anchored is None else Target(anchored, base.document)
        value = base.value
        for index, token in enumerate(fragment.split("/")[1:]):
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and token not in value and index == 0 and token == "$defs":
                token = "definitions"  # Confluent takes the one name for the other
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif isinstance(value, list) and token.isascii() and token.isdigit() and len(token) < 9 and int(token) < len(value):
                value = value[int(token)]
            else:
                return None
        return Target(value, base.document)

    def _index(self, document: Document) -> None:
        """Note where schemas are, and which have an id or an anchor."""
        found = self._positions[id(document)] = set()
        waiting = [document.value]
        while waiting:
            value = waiting.pop()
            if not isinstance(value, dict) or id(value) in found:
                continue
            found.add(id(value))
            waiting += subschemas(value, document.draft)
            own = value.get("id" if document.draft == 4 else "$id")
            anchors = [value.get("$anchor"), value.get("$dynamicAnchor")]
            if isinstance(own, str) and own.startswith("#"):
                anchors.append(own[1:])
            elif isinstance(own, str):
                self._by_uri.setdefault(own.rstrip("#"), Target(value, document))
                self._by_uri.setdefault(urljoin(document.id, own).rstrip("#"), Target(value, document))
            for anchor in anchors:
                if isinstance(anchor, str):
                    self._anchors.setdefault((id(document), anchor), value)
