"""JSON Schema resources by URI, and the targets of `$ref` in them: a definition, an anchor, another
resource, a reference. Fetches nothing.

A text is a resource, and so is each part of it with an `$id` of its own, as bundlers write them.
`#/...` and anchors are a resource's own, relative references are resolved against its URI, and its
`$schema` says its draft.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from raftka.json_values import Json, JsonObject
from raftka.schemas.formats.schema import InvalidSchema

DRAFTS = {  # `$schema` without the empty fragment, with http
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft/2020-12/schema": 2020,
}
DEFAULT_DRAFT = 7  # also for an `$schema` of somebody's own
ALONE = 7  # up to this draft a `$ref` stands alone: what is beside it says nothing, an id too
ONE = (
    *(
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
    ),
    *("unevaluatedItems", "unevaluatedProperties"),
)
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
MAPS = (
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
)
REFERRING = ("$ref", "$recursiveRef", "$dynamicRef")
# the draft that brought a keyword, if not draft 4: what a metaschema does not know, it does not
# validate
SINCE = {
    **dict.fromkeys(("const", "contains", "propertyNames"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(
        (
            "$anchor",
            "$defs",
            "$recursiveRef",
            "contentSchema",
            "dependentRequired",
            "dependentSchemas",
        ),
        2019,
    ),
    **dict.fromkeys(
        ("maxContains", "minContains", "unevaluatedItems", "unevaluatedProperties"), 2019
    ),
    **dict.fromkeys(("$dynamicAnchor", "$dynamicRef", "prefixItems"), 2020),
}
UNTIL = {"additionalItems": 2019, "$recursiveRef": 2019}  # the last draft that has it
SHOWN = 200  # characters of a reference in a message


@dataclass(frozen=True, eq=False)
class Document:
    """A resource. `name` is its reference's, none for the schema itself; `uri` is absolute if an id
    before it is.
    """

    name: str
    value: Json
    draft: int
    uri: str = ""
    scope: "Scope" = ()


# the outermost resource of the way here that has a dynamic anchor, by its name; an id of its value
Scope = tuple[tuple[str, int], ...]


# stand for what is not followed
METASCHEMAS = {draft: Document(url, {}, draft, url) for url, draft in DRAFTS.items()}


class Target(NamedTuple):
    value: Json
    document: Document  # the resource that it is of


def draft_of(value: Json, default: int) -> int:
    given = value.get("$schema") if isinstance(value, dict) else None
    return (
        DRAFTS.get(given.rstrip("#").replace("https:", "http:"), default)
        if isinstance(given, str)
        else default
    )


def id_of(value: Json, draft: int) -> str:
    """Return a schema's own id; "" for none. One beside a `$ref` is none where that stands
    alone.
    """
    if not isinstance(value, dict) or (draft <= ALONE and isinstance(value.get("$ref"), str)):
        return ""
    found = value.get("id" if draft == 4 else "$id")
    return found if isinstance(found, str) else ""


def resolve(base: str, reference: str) -> str:
    """Resolve a reference as RFC 3986 says, for URIs of any scheme: urljoin knows only some."""
    scheme = urlsplit(base).scheme
    if (
        not scheme
        or scheme in ("http", "https")
        or urlsplit(reference).scheme
        or not base.startswith(f"{scheme}://")
    ):
        return urljoin(base, reference)
    return scheme + urljoin("http" + base.removeprefix(scheme), reference).removeprefix("http")


def is_known(keyword: str, draft: int) -> bool:
    return SINCE.get(keyword, 0) <= draft <= UNTIL.get(keyword, draft)


def subschemas(value: JsonObject, draft: int) -> Iterator[Json]:
    """Return the schemas directly in a schema, also those that only a reference uses."""
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
        self._by_uri: dict[str, Document] = {}
        self._names: dict[str, Document] = {}  # of references, as the schema writes them
        self._anchors: dict[tuple[int, str], Json] = {}
        # by resource, those of its anchors that a `$dynamicRef` may find elsewhere
        self._dynamic: dict[int, list[str]] = {}
        self._resources: dict[int, Document] = {}  # by the id of their value
        self._scoped: dict[tuple[int, Scope], Document] = {}
        self._positions: set[int] = set()  # ids of all schemas that keywords lead to
        self._referred: set[int] = set()  # of those that only a reference leads to
        self._texts: list[Document] = []
        self._root = self._added(root)

    @property
    def root(self) -> Document:
        return self._within(self._root, ())

    def add(self, document: Document) -> None:
        added = self._added(document)
        for name in (
            document.name,
            resolve(self._root.uri, document.name),
            id_of(document.value, document.draft),
        ):
            if name:
                self._names.setdefault(name.rstrip("#"), added)

    def resources(self) -> list[Document]:
        return list(self._resources.values())

    def entered(self, value: Json, document: Document) -> Document:
        """Return the resource that a part of a resource is of: its own, if it opens one."""
        found = self._resources.get(id(value))
        return document if found is None else self._within(found, document.scope)

    def _within(self, resource: Document, scope: Scope) -> Document:
        """Return the resource as it is seen by this way. Its dynamic anchors count where none
        before it has their names.
        """
        own = self._dynamic.get(id(resource.value))
        if own:
            known = {name for name, _ in scope}
            scope += tuple((name, id(resource.value)) for name in own if name not in known)
        if not scope:
            return resource
        key = (id(resource.value), scope)
        if key not in self._scoped:
            self._scoped[key] = replace(resource, scope=scope)
        return self._scoped[key]

    @property
    def dynamic_count(self) -> int:
        return sum(map(len, self._dynamic.values()))

    def is_text(self, document: Document) -> bool:
        return any(each is document for each in self._texts)

    def is_found_by_reference(self, value: Json) -> bool:
        """Return whether no keyword leads to it, only a reference."""
        return id(value) in self._referred

    def referred(self, schema: JsonObject, document: Document) -> Target | None:
        """Return the target of a schema's `$ref`; None if it has no `$ref`. Raise InvalidSchema if
        the target is not there.
        """
        keyword = next(
            (
                each
                for each in REFERRING
                if isinstance(schema.get(each), str) and is_known(each, document.draft)
            ),
            None,
        )
        if keyword is None:
            return None
        uri, _, fragment = str(schema[keyword]).partition("#")
        base = self._document(uri, document) if uri else document
        found = (
            self._fragment(self._within(base, document.scope), unquote(fragment))
            if base is not None
            else None
        )
        if found is None or not isinstance(found.value, dict | bool):
            shown = str(schema[keyword])[:SHOWN]
            raise InvalidSchema(
                f"{keyword} {shown} leads to no schema: not to one within, nor to a reference of "
                "that name, and URLs are not fetched"
            )
        if (
            isinstance(found.value, dict)
            and found.value is not METASCHEMAS[found.document.draft].value
            and id(found.value) not in self._positions
        ):
            self._referred.add(id(found.value))
            self._index(found.value, found.document)
            found = Target(found.value, self.entered(found.value, found.document))
        return (
            found
            if keyword == "$ref"
            else self._outermost("" if keyword == "$recursiveRef" else fragment, found, document)
        )

    def _outermost(self, anchor: str, found: Target, document: Document) -> Target:
        """Return the schema with that dynamic anchor in the first resource of the way that has one;
        else what was found.
        """
        if anchor not in self._dynamic.get(id(found.document.value), ()):
            return found
        first = self._resources[dict(found.document.scope)[anchor]]
        return Target(self._anchors[id(first.value), anchor], self._within(first, document.scope))

    def _document(self, uri: str, document: Document) -> Document | None:
        for each in (resolve(document.uri, uri), uri):
            if (found := self._by_uri.get(each.rstrip("#"))) is not None:
                return found
        for each in (
            uri,
            resolve(document.uri, uri),
            resolve(self._root.uri, uri),
            resolve(document.name, uri),
            uri.removeprefix("./"),
        ):
            if (found := self._names.get(each)) is not None:
                return found
        draft = DRAFTS.get(uri.replace("https:", "http:"))
        return None if draft is None else METASCHEMAS[draft]

    def _fragment(self, base: Document, fragment: str) -> Target | None:
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get((id(base.value), fragment))
            return None if anchored is None else Target(anchored, base)
        value, document = base.value, base
        for index, token in enumerate(fragment.split("/")[1:]):
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and token not in value and index == 0 and token == "$defs":
                token = "definitions"  # Confluent takes the one name for the other
            if isinstance(value, dict) and token in value:
                value = value[token]
            elif (
                isinstance(value, list)
                and token.isascii()
                and token.isdigit()
                and len(token) < 9
                and int(token) < len(value)
            ):
                value = value[int(token)]
            else:
                return None
            document = self.entered(value, document)
        return Target(value, document)

    def _added(self, document: Document) -> Document:
        """Return the resource of a text."""
        uri = resolve(document.name, id_of(document.value, document.draft).partition("#")[0])
        added = Document(document.name, document.value, document.draft, uri)
        self._resources[id(document.value)] = added
        self._texts.append(added)
        self._by_uri.setdefault(uri, added)
        self._index(document.value, added)
        return added

    def _index(self, start: Json, resource: Document) -> None:
        """Note where schemas are, which of them open a resource, and which have an anchor."""
        waiting = [(start, resource)]
        while waiting:
            value, resource = waiting.pop()
            if not isinstance(value, dict) or id(value) in self._positions:
                continue
            self._positions.add(id(value))
            resource = self._opened(value, resource)
            waiting += [(each, resource) for each in subschemas(value, resource.draft)]

    def _opened(self, value: JsonObject, resource: Document) -> Document:
        own_draft = draft_of(value, resource.draft)
        own = id_of(value, own_draft)
        uri, _, anchor = own.partition("#")
        if uri and value is not resource.value:
            resource = Document(resource.name, value, own_draft, resolve(resource.uri, uri))
            self._resources[id(value)] = resource
            self._by_uri.setdefault(resource.uri, resource)
        if anchor and resource.draft <= ALONE:
            self._anchors.setdefault((id(resource.value), anchor), value)
        for keyword, draft in (("$anchor", 2019), ("$dynamicAnchor", 2020)):
            if isinstance(value.get(keyword), str) and resource.draft >= draft:
                self._anchors.setdefault((id(resource.value), value[keyword]), value)
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(id(resource.value), []).append(value[keyword])
        if (
            value is resource.value
            and value.get("$recursiveAnchor") is True
            and resource.draft == 2019
        ):
            self._anchors.setdefault((id(resource.value), ""), value)
            self._dynamic.setdefault(id(resource.value), []).append("")
        return resource
