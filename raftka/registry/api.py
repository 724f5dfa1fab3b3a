"""Confluent's REST API: which method of which path does what. Knows no connection. `Request.user` has logged in, where logins are asked for."""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from raftka import __version__
from raftka.json_values import Json, JsonObject
from raftka.registry.access import ALTER, DELETE, SEE, WRITE, Access, User
from raftka.registry.errors import INVALID_SCHEMA, LimitReached, RegistryError, invalid_version, no_subject
from raftka.registry.limits import NAME_CHARACTERS
from raftka.registry.records import AVRO, Body, Registered, SchemaReference, read_references
from raftka.registry.registry import Asked, Registry
from raftka.registry.schemas import MODULES
from raftka.registry.state import LATEST, State

LARGEST_VERSION = (1 << 31) - 1
UNPROCESSABLE, NO_PATH, NO_METHOD = 422, 404, 405


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User | None = None

    @classmethod
    def of(cls, method: str, target: str, body: bytes = b"", user: User | None = None) -> "Request":
        path, _, query = target.partition("?")
        return cls(
            method, path.rstrip("/") or "/", {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}, body, user
        )

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """Raises RegistryError."""
        text = self.query.get(name, "")
        if not re.fullmatch(r"-?[0-9]{1,10}", text):
            if text:
                raise RegistryError(UNPROCESSABLE, f"{name} is a whole number")
            return default
        return int(text)

    def json(self) -> JsonObject:
        """Raises RegistryError."""
        try:
            found = json.loads(self.body or b"{}")
            if b"\\ud" in self.body.lower():  # perhaps half of a surrogate pair, which no record can have
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise RegistryError(UNPROCESSABLE, "the body is no JSON") from None
        if not isinstance(found, dict):
            raise RegistryError(UNPROCESSABLE, "the body is no JSON object")
        return found


class Route(NamedTuple):
    method: str
    path: re.Pattern[str]
    answer: Callable[..., Json]  # of the request and the parts of its path
    slow: bool  # for a thread: it parses, writes, or may have a long answer


class Api:
    def __init__(self, registry: Registry, access: Access) -> None:
        self._registry, self._access = registry, access
        self._routes = [Route(method, _pattern(path), answer, slow) for method, path, answer, slow in self._table()]

    def _table(self) -> list[tuple[str, str, Callable[..., Json], bool]]:
        fast, slow = False, True
        return [
            ("GET", "/schemas/ids/ID", self._schema, fast),
            ("POST", "/subjects/SUBJECT/versions", self._register, slow),
            ("POST", "/subjects/SUBJECT", self._find, slow),
            ("GET", "/subjects/SUBJECT/versions/VERSION", self._version, fast),
            ("GET", "/subjects/SUBJECT/versions", self._versions, slow),
            ("GET", "/subjects", self._subjects, slow),
            ("GET", "/schemas/ids/ID/schema", self._schema_text, fast),
            ("GET", "/schemas/ids/ID/subjects", self._subjects_of_id, slow),
            ("GET", "/schemas/ids/ID/versions", self._versions_of_id, slow),
            ("GET", "/schemas/types", lambda request: sorted(MODULES), fast),
            ("GET", "/schemas", self._schemas, slow),
            ("GET", "/subjects/SUBJECT/versions/VERSION/schema", self._version_text, fast),
            ("GET", "/subjects/SUBJECT/versions/VERSION/referencedby", self._referenced_by, slow),
            ("DELETE", "/subjects/SUBJECT", self._delete_subject, slow),
            ("DELETE", "/subjects/SUBJECT/versions/VERSION", self._delete_version, slow),
            ("POST", "/compatibility/subjects/SUBJECT/versions/VERSION", self._compatible, slow),
            ("POST", "/compatibility/subjects/SUBJECT/versions", self._compatible, slow),
            ("GET", "/config", self._level, fast),
            ("GET", "/config/SUBJECT", self._level, fast),
            ("PUT", "/config", self._set_level, slow),
            ("PUT", "/config/SUBJECT", self._set_level, slow),
            ("DELETE", "/config", self._no_level, slow),
            ("DELETE", "/config/SUBJECT", self._no_level, slow),
            ("GET", "/mode", self._mode, fast),
            ("GET", "/mode/SUBJECT", self._mode, fast),
            ("PUT", "/mode", self._set_mode, slow),
            ("PUT", "/mode/SUBJECT", self._set_mode, slow),
            ("DELETE", "/mode", self._no_mode, slow),
            ("DELETE", "/mode/SUBJECT", self._no_mode, slow),
            ("GET", "/contexts", lambda request: ["."], fast),
            ("GET", "/v1/metadata/version", lambda request: {"version": __version__, "commitId": ""}, fast),
            ("GET", "/", lambda request: {}, fast),
        ]

    @property
    def lock(self) -> threading.RLock:
        """Taken by each answer."""
        return self._registry.lock

    def route(self, request: Request) -> tuple[Route, list[str]]:
        """Return the route, and the parts of the path that have names in it. Raises RegistryError."""
        other = False
        for route in self._routes:
            match = route.path.fullmatch(request.path)
            if match is not None and route.method == request.method:
                slow = route.slow or request.query.get("format") == "serialized"  # which is parsed for it
                return route._replace(slow=slow), [unquote(part) for part in match.groups()]
            other = other or match is not None
        raise RegistryError(NO_METHOD, "HTTP 405 Method Not Allowed") if other else RegistryError(NO_PATH, "HTTP 404 Not Found")

    # schemas by id

    def _schema(self, request: Request, number: str) -> Json:
        def question(state: State) -> JsonObject:
            body = state.body(int(number))
            self._may_see_id(request, state, int(number))
            found = body.described
            return {**found, "maxId": state.highest_id} if request.flag("fetchMaxId") else found

        found = self._registry.ask(question)
        if request.query.get("format") == "serialized" and isinstance(found, dict):
            found["schema"] = self._registry.serialized(
                Body(found.get("schemaType", AVRO), found["schema"], read_references(found.get("references")))
            )
        return found

    def _schema_text(self, request: Request, number: str) -> Json:
        def question(state: State) -> str:
            self._may_see_id(request, state, int(number))
            return state.body(int(number)).text

        return Raw(self._registry.ask(question))

    def _subjects_of_id(self, request: Request, number: str) -> Json:
        def question(state: State) -> list[object]:
            return list(dict.fromkeys(each.subject for each in self._users(request, state, number)))

        return self._registry.ask(question)

    def _versions_of_id(self, request: Request, number: str) -> Json:
        return self._registry.ask(lambda state: [{"subject": each.subject, "version": each.version} for each in self._users(request, state, number)])

    def _users(self, request: Request, state: State, number: str) -> list[Registered]:
        found = state.users(int(number), deleted=request.flag("deleted"))
        return [each for each in found if self._access.may(request.user, SEE, each.subject)]

    def _may_see_id(self, request: Request, state: State, number: int) -> None:
        first = next(state.subjects_of(number))
        if not any(self._access.may(request.user, SEE, subject) for subject in state.subjects_of(number)):
            self._access.check(request.user, SEE, first)

    def _schemas(self, request: Request) -> Json:
        prefix, latest_only, deleted = request.query.get("subjectPrefix", ""), request.flag("latestOnly"), request.flag("deleted")

        def question(state: State) -> list[object]:
            found: list[object] = []
            for subject in self._allowed(request, state.subjects(prefix, deleted=deleted)):
                found += [each.described for each in state.versions(subject, deleted=deleted)[-1 if latest_only else 0 :]]
            return found

        return _page(request, self._registry.ask(question))

    # subjects and versions

    def _subjects(self, request: Request) -> Json:
        def question(state: State) -> list[object]:
            prefix, deleted, only = request.query.get("subjectPrefix", ""), request.flag("deleted"), request.flag("deletedOnly")
            return list(self._allowed(request, state.subjects(prefix, deleted=deleted, deleted_only=only)))

        return _page(request, self._registry.ask(question))

    def _allowed(self, request: Request, subjects: Iterable[str]) -> Iterable[str]:
        return (subject for subject in subjects if self._access.may(request.user, SEE, subject))

    def _versions(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, SEE, subject)

        def question(state: State) -> list[object]:
            only = request.flag("deletedOnly")
            found = [each for each in state.versions(subject, deleted=request.flag("deleted") or only) if each.deleted or not only]
            if not found:
                raise no_subject(subject)
            return [each.version for each in found]

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
        found = self._one(request, subject, version)
        if request.query.get("format") == "serialized":
            return {**found.described, "schema": self._registry.serialized(found.body)}
        return found.described

    def _version_text(self, request: Request, subject: str, version: str) -> Json:
        return Raw(self._one(request, subject, version).body.text)

    def _referenced_by(self, request: Request, subject: str, version: str) -> Json:
        found = self._one(request, subject, version)
        return self._registry.ask(lambda state: [each.schema_id for each in state.referrers(subject, found.version)])

    def _register(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, WRITE, subject)
        return {"id": self._registry.register(_subject(subject), _asked(request))}  # the schema's text too, and clients take it for the one sent

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

    # levels and modes

    def _level(self, request: Request, subject: str | None = None) -> Json:
        if subject is not None:
            self._access.check(request.user, SEE, subject)
        return {"compatibilityLevel": self._registry.level(subject, default=request.flag("defaultToGlobal"))}

    def _set_level(self, request: Request, subject: str | None = None) -> Json:
        self._access.check(request.user, ALTER, subject)
        wanted = request.json().get("compatibility")
        return {"compatibility": self._registry.set_level(None if subject is None else _subject(subject), str(wanted).upper())}

    def _no_level(self, request: Request, subject: str | None = None) -> Json:
        self._access.check(request.user, ALTER, subject)
        return {"compatibilityLevel": self._registry.set_level(subject, None)}

    def _mode(self, request: Request, subject: str | None = None) -> Json:
        if subject is not None:
            self._access.check(request.user, SEE, subject)
        return {"mode": self._registry.mode(subject, default=request.flag("defaultToGlobal"))}

    def _set_mode(self, request: Request, subject: str | None = None) -> Json:
        self._access.check(request.user, ALTER, subject)
        wanted = request.json().get("mode")
        name = None if subject is None else _subject(subject)
        return {"mode": self._registry.set_mode(name, str(wanted).upper(), force=request.flag("force"))}

    def _no_mode(self, request: Request, subject: str | None = None) -> Json:
        self._access.check(request.user, ALTER, subject)
        return {"mode": self._registry.set_mode(subject, None)}


class Raw(str):
    """Text that is an answer as it is, not a string of JSON."""

    __slots__ = ()


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(path.replace("SUBJECT", "([^/]+)").replace("VERSION", "([^/]+)").replace("ID", "([0-9]{1,10})"))


def _version(text: str) -> int:
    """Raises RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= LARGEST_VERSION:
        raise invalid_version(text)
    return int(text)


def _subject(name: str) -> str:
    """One that a new version or setting may have. Raises RegistryError."""
    if len(name) > NAME_CHARACTERS.value:
        raise LimitReached(NAME_CHARACTERS, UNPROCESSABLE, f"a subject's name has {len(name):,} characters")
    if not name or any(ord(each) < ord(" ") for each in name):
        raise RegistryError(UNPROCESSABLE, "a subject's name has no control characters")
    if name.startswith(":."):
        raise RegistryError(UNPROCESSABLE, "this registry has no contexts: a subject does not begin with :.")
    return name


def _asked(request: Request) -> Asked:
    """Raises RegistryError."""
    found = request.json()
    text, schema_type, number, version = found.get("schema"), found.get("schemaType") or AVRO, found.get("id"), found.get("version")
    if not isinstance(text, str) or not text:
        raise RegistryError(INVALID_SCHEMA, "Empty schema")
    if any(each is not None and type(each) is not int for each in (number, version)):
        raise RegistryError(UNPROCESSABLE, "id and version are whole numbers")
    try:
        references: tuple[SchemaReference, ...] = read_references(found.get("references"))
    except ValueError as error:
        raise RegistryError(UNPROCESSABLE, str(error)) from None
    given = [None if each in (None, -1, 0) else each for each in (number, version)]
    if any(each is not None and not 0 < each <= LARGEST_VERSION for each in given):
        raise RegistryError(UNPROCESSABLE, f"id and version are between 1 and {LARGEST_VERSION}")
    return Asked(Body(str(schema_type), text, references), request.flag("normalize"), *given)


def _page(request: Request, found: Json) -> Json:
    offset, limit = request.number("offset", 0), request.number("limit", -1)
    return found[max(0, offset) :][: limit if limit >= 0 else None]
