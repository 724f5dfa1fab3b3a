"""Confluent's REST API: which method of which path does what. Knows no connection. `Request.user` has logged in, where logins are asked for.

What stands behind `/contexts/NAME` is the same API for the subjects and ids of that context: names in paths and queries are read as its own.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from raftka import __version__
from raftka.json_values import Json, JsonObject
from raftka.registry.access import ALTER, DELETE, SEE, WRITE, Access, User
from raftka.registry.errors import (
    INVALID_MODE,
    INVALID_RULE_SET,
    INVALID_SCHEMA,
    UNPROCESSABLE,
    RegistryError,
    invalid_version,
    no_schema,
    no_subject,
)
from raftka.registry.records import AVRO, LARGEST_NUMBER, Body, Registered, SchemaReference, read_references
from raftka.registry.registry import Asked, Registry
from raftka.registry.schemas import MODULES
from raftka.registry.settings.contracts import InvalidContract, properties, read_metadata, read_rule_set
from raftka.registry.settings.names import LEVEL, read_changes
from raftka.registry.state import LATEST, State
from raftka.registry.subjects import DEFAULT, Name, context_of, new_scope, new_subject, prefix_of, read_context, within

NO_PATH, NO_METHOD = 404, 405
ORIGIN = re.compile(r"\Ahttps?://[^/?#]*", re.IGNORECASE)  # of a target in absolute form, which every server must take
EVERYTHING = "*"  # the target of OPTIONS for all paths
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
ASKS_FOR_NOTHING = ("", "false")  # values of parameters of Confluent's that this registry has not: clients send them
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
        path, _, query = ORIGIN.sub("", target).partition("?")
        return cls(method, path.rstrip("/") or "/", parse_qs(query, keep_blank_values=True), body, user)

    @property
    def scope(self) -> str | None:
        """Return what `/config` and `/mode` without a subject speak of: a context, None for the one without a name."""
        return prefix_of(self.context) or None

    def subject(self, name: str, default: str = "") -> str:
        """Return a parameter that is, or begins, the name of a subject; of this request's context where it has none."""
        return within(self.context, self.text(name, default))

    def text(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def flag(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def check_query(self, known: frozenset[str]) -> None:
        """Refuse what the request does not know. Raises RegistryError."""
        for name, values in self.query.items():
            if name not in known:
                if any(value.lower() not in ASKS_FOR_NOTHING for value in values):
                    raise RegistryError(UNPROCESSABLE, f"this request has no parameter {name!r:.100}")
                continue
            if len(values) > 1 and name not in LISTED:
                raise RegistryError(UNPROCESSABLE, f"there is more than one {name}")
            if name in FLAGS and values[0].lower() not in ("", "true", "false"):
                raise RegistryError(UNPROCESSABLE, f"{name} is true or false")
            if name == "format" and values[0] not in FORMATS:
                raise RegistryError(UNPROCESSABLE, f"there is no format {values[0]!r:.100}: only serialized")

    def number(self, name: str, default: int) -> int:
        """Raises RegistryError."""
        text = self.text(name)
        if not re.fullmatch(r"-?[0-9]{1,10}", text):
            if text:
                raise RegistryError(UNPROCESSABLE, f"{name} is a whole number")
            return default
        return int(text)

    def json(self, fields: Iterable[str] | None = None) -> JsonObject:
        """`fields`: all that it may have, None for those that its reader judges. Raises RegistryError."""
        if not self.body.strip():
            raise RegistryError(UNPROCESSABLE, "the body is empty")
        try:
            found = json.loads(self.body)
            if b"\\ud" in self.body.lower():  # perhaps half of a surrogate pair, which no record can have
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise RegistryError(UNPROCESSABLE, "the body is no JSON") from None
        if not isinstance(found, dict):
            raise RegistryError(UNPROCESSABLE, "the body is no JSON object")
        if fields is not None:
            for name in found.keys() - set(fields):
                raise RegistryError(UNPROCESSABLE, f"the body has a field {name!r:.100}, which this request has not")
        return found


class Route(NamedTuple):
    method: str
    path: re.Pattern[str]
    answer: Callable[..., Json]  # of the request and the parts of its path
    slow: bool  # for a thread: it parses, writes, or may have a long answer
    parameters: frozenset[str] = frozenset()


class Api:
    def __init__(self, registry: Registry, access: Access) -> None:
        self._registry, self._access = registry, access
        self._routes = [
            Route(method, _pattern(path), answer, slow, frozenset(parameters.split())) for method, path, answer, slow, parameters in self._table()
        ]

    def _table(self) -> list[tuple[str, str, Callable[..., Json], bool, str]]:
        fast, slow = False, True
        return [
            ("GET", "/schemas/ids/ID", self._schema, fast, "subject format fetchMaxId"),
            ("POST", "/subjects/SUBJECT/versions", self._register, slow, "normalize"),
            ("POST", "/subjects/SUBJECT", self._find, slow, "normalize deleted"),
            ("GET", "/subjects/SUBJECT/versions/VERSION", self._version, fast, "deleted format"),
            ("GET", "/subjects/SUBJECT/versions", self._versions, slow, "deleted deletedOnly deletedAsNegative offset limit"),
            ("GET", "/subjects", self._subjects, slow, "subjectPrefix deleted deletedOnly offset limit"),
            ("GET", "/schemas/ids/ID/schema", self._schema_text, fast, "subject format"),
            ("GET", "/schemas/ids/ID/subjects", self._subjects_of_id, slow, "subject deleted offset limit"),
            ("GET", "/schemas/ids/ID/versions", self._versions_of_id, slow, "subject deleted offset limit"),
            ("GET", "/schemas/types", lambda request: sorted(MODULES), fast, ""),
            ("GET", "/schemas", self._schemas, slow, "subjectPrefix deleted latestOnly offset limit"),
            ("GET", "/subjects/SUBJECT/metadata", self._with_metadata, slow, "key value deleted format"),
            ("GET", "/subjects/SUBJECT/versions/VERSION/schema", self._version_text, fast, "deleted format"),
            ("GET", "/subjects/SUBJECT/versions/VERSION/referencedby", self._referenced_by, slow, "deleted offset limit"),
            ("DELETE", "/subjects/SUBJECT", self._delete_subject, slow, "permanent"),
            ("DELETE", "/subjects/SUBJECT/versions/VERSION", self._delete_version, slow, "permanent"),
            ("POST", "/compatibility/subjects/SUBJECT/versions/VERSION", self._compatible, slow, "normalize verbose"),
            ("POST", "/compatibility/subjects/SUBJECT/versions", self._compatible, slow, "normalize verbose"),
            ("GET", "/config", self._settings, fast, "defaultToGlobal"),
            ("GET", "/config/SUBJECT", self._settings, fast, "defaultToGlobal"),
            ("PUT", "/config", self._set, slow, ""),
            ("PUT", "/config/SUBJECT", self._set, slow, ""),
            ("DELETE", "/config", self._unset, slow, ""),
            ("DELETE", "/config/SUBJECT", self._unset, slow, ""),
            ("GET", "/mode", self._mode, fast, "defaultToGlobal"),
            ("GET", "/mode/SUBJECT", self._mode, fast, "defaultToGlobal"),
            ("PUT", "/mode", self._set_mode, slow, "force"),
            ("PUT", "/mode/SUBJECT", self._set_mode, slow, "force"),
            ("DELETE", "/mode", self._no_mode, slow, "recursive"),
            ("DELETE", "/mode/SUBJECT", self._no_mode, slow, "recursive"),
            ("GET", "/contexts", self._contexts, slow, "offset limit"),
            ("DELETE", "/contexts/CONTEXT", self._delete_context, slow, ""),
            ("GET", "/v1/metadata/version", lambda request: {"version": __version__, "commitId": ""}, fast, ""),
            ("GET", "/", lambda request: {}, fast, ""),
        ]

    @property
    def lock(self) -> threading.RLock:
        """Taken by each answer."""
        return self._registry.lock

    def route(self, request: Request) -> tuple[Route, Request, list[str]]:
        """Return the route, the request as its context reads it, and the parts of the path that have names in it. Raises RegistryError."""
        request, other = _of_context(request), False
        for route in self._routes:
            match = route.path.fullmatch(request.path)
            if match is not None and route.method == request.method:
                request.check_query(route.parameters)
                slow = route.slow or request.text("format") == "serialized"  # which is parsed for it
                found = {name: unquote(part) for name, part in match.groupdict().items()}
                if "subject" in found:
                    found["subject"] = within(request.context, found["subject"])
                if "subject" in found and "/subjects/" in request.path:
                    found["subject"] = self._registry.settings.alias(found["subject"])
                return route._replace(slow=slow), request, list(found.values())
            other = other or match is not None
        raise RegistryError(NO_METHOD, "HTTP 405 Method Not Allowed") if other else RegistryError(NO_PATH, "HTTP 404 Not Found")

    def methods(self, request: Request) -> list[str]:
        """Return what the request's path takes. Raises RegistryError."""
        path = _of_context(request).path
        found = {route.method for route in self._routes if path == EVERYTHING or route.path.fullmatch(path)}
        if not found and path != "/metrics":
            raise RegistryError(NO_PATH, "HTTP 404 Not Found")
        return sorted({*found, "OPTIONS"} | ({"GET", "HEAD"} if "GET" in found or path == "/metrics" else set()))

    # contexts

    def _contexts(self, request: Request) -> Json:
        """Without those in which the user sees no subject."""

        def question(state: State) -> list[object]:
            subjects = state.subjects(deleted=True)
            shown = {DEFAULT, *map(context_of, self._allowed(request, subjects))}
            if self._access.may(request.user, ALTER, None):
                shown |= set(state.contexts()) - set(map(context_of, subjects))
            return [each for each in state.contexts() if each in shown]

        return _page(request, self._registry.ask(question))

    def _delete_context(self, request: Request, context: str) -> Json:
        self._access.check(request.user, ALTER, None)
        self._registry.delete_context(read_context(context))
        return {}

    # schemas by id

    def _schema(self, request: Request, number: str) -> Json:
        subject = self._registry.settings.alias(request.subject("subject"))

        def question(state: State) -> JsonObject:
            context = state.find_context(int(number), subject)
            body = state.body(int(number), context)
            self._may_see_id(request, state, int(number), context)
            found = {**body.described, "context": context}
            return {**found, "maxId": state.highest(context)} if request.flag("fetchMaxId") else found

        found = self._registry.ask(question)
        assert isinstance(found, dict)
        context = str(found.pop("context"))
        if request.text("format") == "serialized":
            body = Body(found.get("schemaType", AVRO), found["schema"], read_references(found.get("references")))
            found["schema"] = self._registry.serialized(body, prefix_of(context))
        return found

    def _schema_text(self, request: Request, number: str) -> Json:
        found = self._schema(request, number)
        return Raw(found["schema"])

    def _subjects_of_id(self, request: Request, number: str) -> Json:
        def question(state: State) -> list[object]:
            return list(dict.fromkeys(each.subject for each in self._users(request, state, number)))

        return _page(request, self._registry.ask(question))

    def _versions_of_id(self, request: Request, number: str) -> Json:
        def question(state: State) -> list[object]:
            return [{"subject": each.subject, "version": each.version} for each in self._users(request, state, number)]

        return _page(request, self._registry.ask(question))

    def _users(self, request: Request, state: State, number: str) -> list[Registered]:
        context = state.find_context(int(number), self._registry.settings.alias(request.subject("subject")))
        found = state.users(int(number), context, deleted=request.flag("deleted"))
        return [each for each in found if self._access.may(request.user, SEE, each.subject)]

    def _may_see_id(self, request: Request, state: State, number: int, context: str) -> None:
        first = next(state.subjects_of(number, context))
        if not any(self._access.may(request.user, SEE, subject) for subject in state.subjects_of(number, context)):
            self._access.check(request.user, SEE, first)

    def _schemas(self, request: Request) -> Json:
        prefix, latest_only, deleted = request.subject("subjectPrefix"), request.flag("latestOnly"), request.flag("deleted")

        def question(state: State) -> list[object]:
            found: list[object] = []
            for subject in self._allowed(request, state.subjects(prefix, deleted=deleted)):
                found += [each.described for each in state.versions(subject, deleted=deleted)[-1 if latest_only else 0 :]]
            return found

        return _page(request, self._registry.ask(question))

    # subjects and versions

    def _subjects(self, request: Request) -> Json:
        def question(state: State) -> list[object]:
            prefix = request.subject("subjectPrefix", ":*:" if request.context == DEFAULT else "")
            deleted, only = request.flag("deleted"), request.flag("deletedOnly")
            return list(self._allowed(request, state.subjects(prefix, deleted=deleted, deleted_only=only)))

        return _page(request, self._registry.ask(question))

    def _allowed(self, request: Request, subjects: Iterable[str]) -> Iterable[str]:
        return (subject for subject in subjects if self._access.may(request.user, SEE, subject))

    def _versions(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, SEE, subject)

        def question(state: State) -> list[object]:
            only = request.flag("deletedOnly")
            negative = request.flag("deletedAsNegative")
            found = [each for each in state.versions(subject, deleted=request.flag("deleted") or only or negative) if each.deleted or not only]
            if not found:
                raise no_subject(subject)
            return [-each.version if each.deleted and negative else each.version for each in found]

        return _page(request, self._registry.ask(question))

    def _one(self, request: Request, subject: str, version: str) -> Registered:
        self._access.check(request.user, SEE, subject)
        found: list[Registered] = []

        def question(state: State) -> str:
            found.append(state.version(subject, _version(version), deleted=request.flag("deleted")))
            return ""

        self._registry.ask(question)
        return found[0]

    def _version(self, request: Request, subject: str, version: str) -> Json:
        return self._formatted(request, self._one(request, subject, version))

    def _formatted(self, request: Request, found: Registered) -> JsonObject:
        if request.text("format") == "serialized":
            return {**found.described, "schema": self._registry.serialized(found.body, found.subject)}
        return found.described

    def _version_text(self, request: Request, subject: str, version: str) -> Json:
        return Raw(self._formatted(request, self._one(request, subject, version))["schema"])

    def _with_metadata(self, request: Request, subject: str) -> Json:
        """Return the newest version that has all properties of the request."""
        self._access.check(request.user, SEE, subject)
        names, values = request.query.get("key", []), request.query.get("value", [])
        if len(names) != len(values):
            raise RegistryError(UNPROCESSABLE, "each key has a value")
        wanted, found = dict(zip(names, values, strict=True)).items(), list[Registered]()

        def question(state: State) -> str:
            versions = state.versions(subject, deleted=request.flag("deleted"))
            if not versions:
                raise no_subject(subject)
            found.extend(each for each in reversed(versions) if each.body.metadata and wanted <= properties(each.body.metadata).items())
            return ""

        self._registry.ask(question)
        if not found:
            raise no_schema()
        return self._formatted(request, found[0])

    def _referenced_by(self, request: Request, subject: str, version: str) -> Json:
        found = self._one(request, subject, version)

        def question(state: State) -> list[object]:
            return [each.schema_id for each in state.referrers(subject, found.version)]

        return _page(request, self._registry.ask(question))

    def _register(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, WRITE, subject)
        return {"id": self._registry.register(new_subject(subject), _asked(request))}  # the schema's text too, and clients take it for the one sent

    def _find(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, SEE, subject)
        return self._registry.find(subject, _asked(request), deleted=request.flag("deleted"))

    def _delete_subject(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, DELETE, subject)
        return self._registry.delete_subject(subject, permanent=request.flag("permanent"))

    def _delete_version(self, request: Request, subject: str, version: str) -> Json:
        self._access.check(request.user, DELETE, subject)
        return self._registry.delete_version(subject, _version(version), permanent=request.flag("permanent"))

    def _compatible(self, request: Request, subject: str, version: str | None = None) -> Json:
        self._access.check(request.user, SEE, subject)
        why = self._registry.compatible(subject, None if version is None else _version(version), _asked(request))
        return {"is_compatible": not why, **({"messages": why} if request.flag("verbose") else {})}

    # settings and modes

    def _settings(self, request: Request, subject: str | None = None) -> Json:
        scope = self._scope(request, SEE, subject)
        return self._registry.settings.settings(scope, default=request.flag("defaultToGlobal"))

    def _set(self, request: Request, subject: str | None = None) -> Json:
        scope = new_scope(self._scope(request, ALTER, subject) or "")
        own = self._registry.settings.update(scope, read_changes(request.json()))
        return {"compatibility" if name == LEVEL else name: value for name, value in own.items()}

    def _unset(self, request: Request, subject: str | None = None) -> Json:
        return self._registry.settings.forget(self._scope(request, ALTER, subject))

    def _mode(self, request: Request, subject: str | None = None) -> Json:
        return {"mode": self._registry.settings.mode(self._scope(request, SEE, subject), default=request.flag("defaultToGlobal"))}

    def _set_mode(self, request: Request, subject: str | None = None) -> Json:
        scope = new_scope(self._scope(request, ALTER, subject) or "")
        wanted = request.json(("mode",)).get("mode")
        if not isinstance(wanted, str):
            raise RegistryError(INVALID_MODE, "Invalid mode: there is none in the request")
        return {"mode": self._registry.settings.set_mode(scope, wanted.upper(), force=request.flag("force"))}

    def _no_mode(self, request: Request, subject: str | None = None) -> Json:
        scope, recursive = self._scope(request, ALTER, subject), request.flag("recursive")
        return {"mode": self._registry.settings.forget_mode(scope, recursive=recursive)}

    def _scope(self, request: Request, operation: str, subject: str | None) -> str | None:
        """Return the subject or context of which a level or mode is asked. What holds for a whole context everybody may see. Raises RegistryError."""
        scope = request.scope if subject is None else subject or None
        one = scope is not None and bool(Name.of(scope).subject)
        if one or operation == ALTER:
            self._access.check(request.user, operation, scope if one else None)
        return scope


class Raw(str):
    """Text that is an answer as it is, not a string of JSON."""

    __slots__ = ()


def _pattern(path: str) -> re.Pattern[str]:
    names = {"SUBJECT": "(?P<subject>[^/]+)", "VERSION": "(?P<version>[^/]+)", "CONTEXT": "(?P<context>[^/]+)", "ID": "(?P<number>[0-9]{1,10})"}
    for name, part in names.items():
        path = path.replace(name, part)
    return re.compile(path)


def _of_context(request: Request) -> Request:
    """Return a request to `/contexts/NAME/...` as one to the rest of that path. Raises RegistryError."""
    first, *rest = request.path.removeprefix("/").split("/", 2)
    if first != "contexts" or len(rest) < 2:
        return request
    return replace(request, path=f"/{rest[1]}", context=read_context(unquote(rest[0])))


def _version(text: str) -> int:
    """Raises RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= LARGEST_NUMBER:
        raise invalid_version(text)
    return int(text)


def _asked(request: Request) -> Asked:
    """Raises RegistryError."""
    found = request.json(SCHEMA_FIELDS)
    text, schema_type, number, version = found.get("schema"), found.get("schemaType") or AVRO, found.get("id"), found.get("version")
    if not isinstance(text, str | None):
        raise RegistryError(INVALID_SCHEMA, "Invalid schema: it is no string")
    if any(each is not None and type(each) is not int for each in (number, version)):
        raise RegistryError(UNPROCESSABLE, "id and version are whole numbers")
    try:
        references: tuple[SchemaReference, ...] = read_references(found.get("references"), exact=True)
        metadata = read_metadata(found.get("metadata"))
    except (ValueError, InvalidContract) as error:
        raise RegistryError(UNPROCESSABLE, str(error)) from None
    try:
        rule_set = read_rule_set(found.get("ruleSet"))
    except InvalidContract as error:
        raise RegistryError(INVALID_RULE_SET, str(error)) from None
    number = None if number in (-1, 0) else number
    version = None if version == 0 else version
    if any(each is not None and not 0 < each <= LARGEST_NUMBER for each in (number, None if version == LATEST else version)):
        raise RegistryError(UNPROCESSABLE, f"id and version are between 1 and {LARGEST_NUMBER}")
    body = Body(str(schema_type), (text or "").strip() and (text or ""), references, metadata, rule_set)
    return Asked(body, request.flag("normalize"), number, version)


def _page(request: Request, found: Json) -> Json:
    offset, limit = request.number("offset", 0), request.number("limit", -1)
    return found[max(0, offset) :][: limit if limit >= 0 else None]
