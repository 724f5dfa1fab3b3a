"""Confluent's REST API: which method of which path does what. Knows no connection. `Request.user`
has logged in, where logins are asked for.

What stands behind `/contexts/NAME` is the same API for the subjects and ids of that context: names
in paths and queries are read as its own.
"""

import re
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote

from raftka import __version__
from raftka.json_values import Json, JsonObject
from raftka.registry.access import ALTER, DELETE, SEE, WRITE, Access
from raftka.registry.errors import INVALID_MODE, UNPROCESSABLE, RegistryError, no_schema, no_subject
from raftka.registry.parsed_schemas import MODULES
from raftka.registry.records import AVRO, Body, Registered, read_references
from raftka.registry.registry import Registry
from raftka.registry.rest.requests import Request, of_context, page, read_schema_of, read_version
from raftka.registry.settings.contracts import properties
from raftka.registry.settings.names import LEVEL, read_changes
from raftka.registry.state import State
from raftka.registry.subjects import (
    DEFAULT,
    Name,
    context_of,
    new_scope,
    new_subject,
    prefix_of,
    read_context,
    within,
)

NO_PATH, NO_METHOD = 404, 405
EVERYTHING = "*"  # the target of OPTIONS for all paths
ABSENT = {  # parts of Confluent's API
    "dek-registry": "it keeps no keys for encryption",
    "exporters": "it exports to no other registry",
    "associations": "it associates no subjects with topics",
}


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
            Route(method, _pattern(path), answer, slow, frozenset(parameters.split()))
            for method, path, answer, slow, parameters in self._table()
        ]

    def _table(self) -> list[tuple[str, str, Callable[..., Json], bool, str]]:
        fast, slow = False, True
        # fmt: off
        return [
            ("GET", "/schemas/ids/ID", self._schema, fast, "subject format fetchMaxId"),
            ("POST", "/subjects/SUBJECT/versions", self._register, slow, "normalize"),
            ("POST", "/subjects/SUBJECT", self._find, slow, "normalize deleted"),
            ("GET", "/subjects/SUBJECT/versions/VERSION", self._version, fast, "deleted format"),
            ("GET", "/subjects/SUBJECT/versions", self._versions, slow,
             "deleted deletedOnly deletedAsNegative offset limit"),
            ("GET", "/subjects", self._subjects, slow,
             "subjectPrefix deleted deletedOnly offset limit"),
            ("GET", "/schemas/ids/ID/schema", self._schema_text, fast, "subject format"),
            ("GET", "/schemas/ids/ID/subjects", self._subjects_of_id, slow,
             "subject deleted offset limit"),
            ("GET", "/schemas/ids/ID/versions", self._versions_of_id, slow,
             "subject deleted offset limit"),
            ("GET", "/schemas/types", lambda request: sorted(MODULES), fast, ""),
            ("GET", "/schemas", self._schemas, slow,
             "subjectPrefix deleted latestOnly offset limit"),
            ("GET", "/subjects/SUBJECT/metadata", self._with_metadata, slow,
             "key value deleted format"),
            ("GET", "/subjects/SUBJECT/versions/VERSION/schema", self._version_text, fast,
             "deleted format"),
            ("GET", "/subjects/SUBJECT/versions/VERSION/referencedby", self._referenced_by, slow,
             "deleted offset limit"),
            ("DELETE", "/subjects/SUBJECT", self._delete_subject, slow, "permanent"),
            ("DELETE", "/subjects/SUBJECT/versions/VERSION", self._delete_version, slow,
             "permanent"),
            ("POST", "/compatibility/subjects/SUBJECT/versions/VERSION", self._compatible, slow,
             "normalize verbose"),
            ("POST", "/compatibility/subjects/SUBJECT/versions", self._compatible, slow,
             "normalize verbose"),
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
            ("GET", "/contexts", self._contexts, slow, "contextPrefix offset limit"),
            ("DELETE", "/contexts/CONTEXT", self._delete_context, slow, ""),
            ("GET", "/v1/metadata/version",
             lambda request: {"version": __version__, "commitId": ""}, fast, ""),
            ("GET", "/", lambda request: {}, fast, ""),
        ]
        # fmt: on

    @property
    def lock(self) -> threading.RLock:
        """The signature of each answer."""
        return self._registry.lock

    def route(self, request: Request) -> tuple[Route, Request, list[str]]:
        """Return the route, the request as its context reads it, and the parts of the path that the
        answer takes. Raise RegistryError.
        """
        request, other = of_context(request), False
        for route in self._routes:
            match = route.path.fullmatch(request.path)
            if match is not None and route.method == request.method:
                request.check_query(route.parameters)
                # which is parsed for it
                slow = route.slow or request.text("format") == "serialized"
                found = {name: unquote(part) for name, part in match.groupdict().items()}
                if "subject" in found:
                    found["subject"] = within(request.context, found["subject"])
                if "subject" in found and "/subjects/" in request.path:
                    found["subject"] = self._registry.settings.alias(found["subject"])
                return route._replace(slow=slow), request, list(found.values())
            other = other or match is not None
        if other:
            raise RegistryError(NO_METHOD, "HTTP 405 Method Not Allowed")
        raise _no_path(request.path)

    def methods(self, request: Request) -> list[str]:
        """Return the methods that the request's path allows. Raise RegistryError."""
        path = of_context(request).path
        found = {
            route.method
            for route in self._routes
            if path == EVERYTHING or route.path.fullmatch(path)
        }
        if not found and path != "/metrics":
            raise _no_path(path)
        return sorted(
            {*found, "OPTIONS"}
            | ({"GET", "HEAD"} if "GET" in found or path == "/metrics" else set())
        )

    # contexts

    def _contexts(self, request: Request) -> Json:
        """Return the contexts in which the user sees a subject."""

        def question(state: State) -> list[object]:
            subjects = state.subjects(deleted=True)
            shown = {DEFAULT, *map(context_of, self._allowed(request, subjects))}
            if self._access.may(request.user, ALTER, None):
                shown |= set(state.contexts()) - set(map(context_of, subjects))
            return [
                each
                for each in state.contexts()
                if each in shown and each.startswith(request.text("contextPrefix"))
            ]

        return page(request, self._registry.ask(question))

    def _delete_context(self, request: Request, context: str) -> Json:
        self._access.check(request.user, ALTER, None)
        self._registry.delete_context(read_context(context))
        return {}

    # schemas by id

    def _schema(self, request: Request, schema_id: str) -> Json:
        subject = self._registry.settings.alias(request.subject("subject"))

        def question(state: State) -> JsonObject:
            context = state.find_context(int(schema_id), subject)
            body = state.body(int(schema_id), context)
            self._may_see_id(request, state, int(schema_id), context)
            found = {**body.described, "context": context}
            return (
                {**found, "maxId": state.highest(context)} if request.flag("fetchMaxId") else found
            )

        found = self._registry.ask(question)
        assert isinstance(found, dict)
        context = str(found.pop("context"))
        if request.text("format") == "serialized":
            body = Body(
                found.get("schemaType", AVRO),
                found["schema"],
                read_references(found.get("references")),
            )
            found["schema"] = self._registry.serialized(body, prefix_of(context))
        return found

    def _schema_text(self, request: Request, schema_id: str) -> Json:
        found = self._schema(request, schema_id)
        return Raw(found["schema"])

    def _subjects_of_id(self, request: Request, schema_id: str) -> Json:
        def question(state: State) -> list[object]:
            return list(
                dict.fromkeys(each.subject for each in self._users(request, state, schema_id))
            )

        return page(request, self._registry.ask(question))

    def _versions_of_id(self, request: Request, schema_id: str) -> Json:
        def question(state: State) -> list[object]:
            return [
                {"subject": each.subject, "version": each.version}
                for each in self._users(request, state, schema_id)
            ]

        return page(request, self._registry.ask(question))

    def _users(self, request: Request, state: State, schema_id: str) -> list[Registered]:
        context = state.find_context(
            int(schema_id), self._registry.settings.alias(request.subject("subject"))
        )
        found = state.users(int(schema_id), context, deleted=request.flag("deleted"))
        return [each for each in found if self._access.may(request.user, SEE, each.subject)]

    def _may_see_id(self, request: Request, state: State, schema_id: int, context: str) -> None:
        first = next(state.subjects_of(schema_id, context))
        if not any(
            self._access.may(request.user, SEE, subject)
            for subject in state.subjects_of(schema_id, context)
        ):
            self._access.check(request.user, SEE, first)

    def _schemas(self, request: Request) -> Json:
        prefix, latest_only = request.subject("subjectPrefix"), request.flag("latestOnly")
        deleted = request.flag("deleted")

        def question(state: State) -> list[object]:
            found: list[object] = []
            for subject in self._allowed(request, state.subjects(prefix, deleted=deleted)):
                found += [
                    each.described
                    for each in state.versions(subject, deleted=deleted)[-1 if latest_only else 0 :]
                ]
            return found

        return page(request, self._registry.ask(question))

    # subjects and versions

    def _subjects(self, request: Request) -> Json:
        def question(state: State) -> list[object]:
            prefix = request.subject("subjectPrefix", ":*:" if request.context == DEFAULT else "")
            deleted, only = request.flag("deleted"), request.flag("deletedOnly")
            return list(
                self._allowed(request, state.subjects(prefix, deleted=deleted, deleted_only=only))
            )

        return page(request, self._registry.ask(question))

    def _allowed(self, request: Request, subjects: Iterable[str]) -> Iterable[str]:
        return (subject for subject in subjects if self._access.may(request.user, SEE, subject))

    def _versions(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, SEE, subject)

        def question(state: State) -> list[object]:
            only = request.flag("deletedOnly")
            negative = request.flag("deletedAsNegative")
            found = [
                each
                for each in state.versions(
                    subject, deleted=request.flag("deleted") or only or negative
                )
                if each.deleted or not only
            ]
            if not found:
                raise no_subject(subject)
            return [-each.version if each.deleted and negative else each.version for each in found]

        return page(request, self._registry.ask(question))

    def _one(self, request: Request, subject: str, version: str) -> Registered:
        self._access.check(request.user, SEE, subject)
        found: list[Registered] = []

        def question(state: State) -> str:
            found.append(
                state.version(subject, read_version(version), deleted=request.flag("deleted"))
            )
            return ""

        self._registry.ask(question)
        return found[0]

    def _version(self, request: Request, subject: str, version: str) -> Json:
        return self._formatted(request, self._one(request, subject, version))

    def _formatted(self, request: Request, found: Registered) -> JsonObject:
        if request.text("format") == "serialized":
            return {
                **found.described,
                "schema": self._registry.serialized(found.body, found.subject),
            }
        return found.described

    def _version_text(self, request: Request, subject: str, version: str) -> Json:
        return Raw(self._formatted(request, self._one(request, subject, version))["schema"])

    def _with_metadata(self, request: Request, subject: str) -> Json:
        """Return the newest version that has all properties of the request."""
        self._access.check(request.user, SEE, subject)
        names, values = request.query.get("key", []), request.query.get("value", [])
        if len(names) != len(values):
            raise RegistryError(UNPROCESSABLE, "each key has a value")
        wanted = dict(zip(names, values, strict=True)).items()
        versions = self._registry.versions(subject, deleted=request.flag("deleted"))
        for each in reversed(versions):
            if each.body.metadata and wanted <= properties(each.body.metadata).items():
                return self._formatted(request, each)
        raise no_schema() if versions else no_subject(subject)

    def _referenced_by(self, request: Request, subject: str, version: str) -> Json:
        found = self._one(request, subject, version)

        def question(state: State) -> list[object]:
            return [each.schema_id for each in state.referrers(subject, found.version)]

        return page(request, self._registry.ask(question))

    def _register(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, WRITE, subject)
        return {
            "id": self._registry.register(new_subject(subject), read_schema_of(request, subject))
        }  # the schema's text too, and clients take it for the one sent

    def _find(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, SEE, subject)
        return self._registry.find(
            subject, read_schema_of(request, subject), deleted=request.flag("deleted")
        )

    def _delete_subject(self, request: Request, subject: str) -> Json:
        self._access.check(request.user, DELETE, subject)
        return self._registry.delete_subject(subject, permanent=request.flag("permanent"))

    def _delete_version(self, request: Request, subject: str, version: str) -> Json:
        self._access.check(request.user, DELETE, subject)
        return self._registry.delete_version(
            subject, read_version(version), permanent=request.flag("permanent")
        )

    def _compatible(self, request: Request, subject: str, version: str | None = None) -> Json:
        self._access.check(request.user, SEE, subject)
        why = self._registry.compatible(
            subject,
            None if version is None else read_version(version),
            read_schema_of(request, subject),
        )
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
        return {
            "mode": self._registry.settings.mode(
                self._scope(request, SEE, subject), default=request.flag("defaultToGlobal")
            )
        }

    def _set_mode(self, request: Request, subject: str | None = None) -> Json:
        scope = new_scope(self._scope(request, ALTER, subject) or "")
        wanted = request.json(("mode",)).get("mode")
        if not isinstance(wanted, str):
            raise RegistryError(INVALID_MODE, "Invalid mode: there is none in the request")
        return {
            "mode": self._registry.settings.set_mode(
                scope, wanted.upper(), force=request.flag("force")
            )
        }

    def _no_mode(self, request: Request, subject: str | None = None) -> Json:
        scope, recursive = self._scope(request, ALTER, subject), request.flag("recursive")
        return {"mode": self._registry.settings.forget_mode(scope, recursive=recursive)}

    def _scope(self, request: Request, operation: str, subject: str | None) -> str | None:
        """Return the subject or context of which a level or mode is asked. What holds for a whole
        context everybody may see. Raises RegistryError.
        """
        scope = request.scope if subject is None else subject or None
        one = scope is not None and bool(Name.of(scope).subject)
        if one or operation == ALTER:
            self._access.check(request.user, operation, scope if one else None)
        return scope


def _no_path(path: str) -> RegistryError:
    why = ABSENT.get(path.split("/", 2)[1] if path.startswith("/") else "")
    return RegistryError(
        NO_PATH,
        "HTTP 404 Not Found" + (f": this registry has no such requests, {why}" if why else ""),
    )


class Raw(str):
    """An answer that is sent as it is, not as a string of JSON."""

    __slots__ = ()


def _pattern(path: str) -> re.Pattern[str]:
    names = {
        "SUBJECT": "(?P<subject>[^/]+)",
        "VERSION": "(?P<version>[^/]+)",
        "CONTEXT": "(?P<context>[^/]+)",
        "ID": "(?P<schema_id>[0-9]{1,10})",
    }
    for name, part in names.items():
        path = path.replace(name, part)
    return re.compile(path)
