"""Requests of the REST API: their paths, parameters and bodies, and refusals of what they do not
have.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote

from raftka.json_values import Json, JsonObject
from raftka.registry.access import User
from raftka.registry.errors import (
    INVALID_RULE_SET,
    INVALID_SCHEMA,
    UNPROCESSABLE,
    RegistryError,
    invalid_version,
)
from raftka.registry.records import AVRO, LARGEST_NUMBER, Body, SchemaReference, read_references
from raftka.registry.registry import Asked
from raftka.registry.settings.contracts import InvalidContract, read_metadata, read_rule_set
from raftka.registry.state import LATEST
from raftka.registry.subjects import DEFAULT, prefix_of, read_context, within

FLAGS = frozenset(
    {
        "deleted",
        "deletedOnly",
        "deletedAsNegative",
        "latestOnly",
        "fetchMaxId",
        "normalize",
        "permanent",
        "verbose",
        "force",
        "recursive",
        "defaultToGlobal",
    }
)
LISTED = frozenset({"key", "value"})  # parameters that may come more than once
FORMATS = ("", "serialized")
# values of parameters of Confluent's that this registry has not: clients send them
ASKS_FOR_NOTHING = ("", "false")
SPELLINGS = {"deleted_only": "deletedOnly"}  # as confluent-kafka writes it
# of a schema: null, false and none are passed over
ABSENT_FIELDS = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")
SCHEMA_FIELDS = ("schema", "schemaType", "references", "metadata", "ruleSet", "id", "version")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    body: bytes = b""
    user: User | None = None
    context: str = DEFAULT

    @classmethod
    def of(cls, method: str, target: str, body: bytes = b"", user: User | None = None) -> "Request":
        path, _, query = target.partition("?")
        found = {
            SPELLINGS.get(name, name): values
            for name, values in parse_qs(query, keep_blank_values=True).items()
        }
        return cls(method, path.rstrip("/") or "/", found, body, user)

    @property
    def scope(self) -> str | None:
        """Return the scope of `/config` and `/mode` without a subject: a context, None for the one
        without a name.
        """
        return prefix_of(self.context) or None

    def subject(self, name: str, default: str = "") -> str:
        """Return a parameter that is, or begins, the name of a subject; of this request's context
        where it has none.
        """
        return within(self.context, self.text(name, default))

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def check_query(self, known: frozenset[str]) -> None:
        """Refuse unknown parameters. Raise RegistryError."""
        for name, values in self.query.items():
            if name not in known:
                if any(value.lower() not in ASKS_FOR_NOTHING for value in values):
                    raise RegistryError(
                        UNPROCESSABLE, f"this request has no parameter {name!r:.100}"
                    )
                continue
            if len(values) > 1 and name not in LISTED:
                raise RegistryError(UNPROCESSABLE, f"there is more than one {name}")
            if name in FLAGS and values[0].lower() not in ("", "true", "false"):
                raise RegistryError(UNPROCESSABLE, f"{name} is true or false")
            if name == "format" and values[0] not in FORMATS:
                raise RegistryError(
                    UNPROCESSABLE, f"there is no format {values[0]!r:.100}: only serialized"
                )

    def number(self, name: str, default: int) -> int:
        """Raises RegistryError."""
        text = self.text(name)
        if not re.fullmatch(r"-?[0-9]{1,10}", text):
            if text:
                raise RegistryError(UNPROCESSABLE, f"{name} is a whole number")
            return default
        return int(text)

    def json(self, fields: Iterable[str] | None = None) -> JsonObject:
        """`fields`: all that it may have, None for those that its reader judges. Raises
        RegistryError.
        """
        if not self.body.strip():
            raise RegistryError(UNPROCESSABLE, "the body is empty")
        try:
            found = json.loads(self.body)
            # perhaps half of a surrogate pair, which no record can have
            if b"\\ud" in self.body.lower():
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise RegistryError(UNPROCESSABLE, "the body is no JSON") from None
        if not isinstance(found, dict):
            raise RegistryError(UNPROCESSABLE, "the body is no JSON object")
        if fields is not None:
            for name in found.keys() - set(fields):
                raise RegistryError(
                    UNPROCESSABLE, f"the body has a field {name!r:.100}, which this request has not"
                )
        return found


def of_context(request: Request) -> Request:
    """Return a request to `/contexts/NAME/...` as one to the rest of that path. Raises
    RegistryError.
    """
    first, *rest = request.path.removeprefix("/").split("/", 2)
    if first != "contexts" or len(rest) < 2:
        return request
    return replace(request, path=f"/{rest[1]}", context=read_context(unquote(rest[0])))


def read_version(text: str) -> int:
    """Return the number of a version, or LATEST. Raise RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= LARGEST_NUMBER:
        raise invalid_version(text)
    return int(text)


def read_schema_of(request: Request, subject: str) -> Asked:
    """Return the schema in the body of a request about the subject. Raise RegistryError."""
    found = request.json((*SCHEMA_FIELDS, *ABSENT_FIELDS, "subject"))
    for name in ABSENT_FIELDS:
        if found.get(name):
            raise RegistryError(UNPROCESSABLE, f"{name} is not supported by this registry")
    if (
        found.get("subject") is not None
        and within(request.context, str(found["subject"])) != subject
    ):
        raise RegistryError(UNPROCESSABLE, "the body is about another subject than the path")
    text, schema_type = found.get("schema"), found.get("schemaType") or AVRO
    schema_id, version = found.get("id"), found.get("version")
    if not isinstance(text, str | None):
        raise RegistryError(INVALID_SCHEMA, "Invalid schema: it is no string")
    if any(each is not None and type(each) is not int for each in (schema_id, version)):
        raise RegistryError(UNPROCESSABLE, "id and version are whole numbers")
    try:
        references: tuple[SchemaReference, ...] = read_references(
            found.get("references"), exact=True
        )
        metadata = read_metadata(found.get("metadata"))
    except (ValueError, InvalidContract) as error:
        raise RegistryError(UNPROCESSABLE, str(error)) from None
    try:
        rule_set = read_rule_set(found.get("ruleSet"))
    except InvalidContract as error:
        raise RegistryError(INVALID_RULE_SET, str(error)) from None
    schema_id = None if schema_id in (-1, 0) else schema_id
    version = None if version == 0 else version
    if any(
        each is not None and not 0 < each <= LARGEST_NUMBER
        for each in (schema_id, None if version == LATEST else version)
    ):
        raise RegistryError(UNPROCESSABLE, f"id and version are between 1 and {LARGEST_NUMBER}")
    body = Body(
        str(schema_type), (text or "").strip() and (text or ""), references, metadata, rule_set
    )
    return Asked(body, request.flag("normalize"), schema_id, version)


def page(request: Request, found: Json) -> Json:
    offset, limit = request.number("offset", 0), request.number("limit", -1)
    return found[max(0, offset) :][: limit if limit >= 0 else None]
