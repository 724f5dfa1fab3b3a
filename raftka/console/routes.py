"""Routes of the JSON API: a method, a path with {names}, declared parameters, and a handler.

    @route("GET", "/api/topics/{topic}", "One topic", query={"all": Flag()}, answer="The topic")
    def topic(call: Call) -> Json: ...

A handler runs in a thread and may block. It returns JSON or a `Download`; with `stream=True` it is
a generator of events. Every GET that returns JSON can be watched (site.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from raftka.console.call import ApiError, Call, Event
from raftka.console.parameters import Field, Parameter, refusal
from raftka.json_values import Json

Handler = Callable[[Call], Json]
F = TypeVar("F", bound="Callable[[Call], Json] | Callable[[Call], Iterator[Event]]")

METHODS = ("GET", "POST", "PUT", "DELETE")
SAFE = ("GET", "HEAD", "OPTIONS")  # they change nothing
NO_ROUTE, NO_METHOD = "NOT_FOUND", "METHOD_NOT_ALLOWED"


@dataclass(frozen=True, slots=True)
class Needs:
    """The rights that a route needs: switches of the console and logins give them."""

    writes: bool = False  # refused by a read-only console
    records: bool = False  # refused by a console that shows no records
    open: bool = False  # for browsers that have not logged in, too


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str  # such as /api/topics/{topic}
    summary: str
    handler: Handler
    needs: Needs
    query: Mapping[str, Parameter] = field(default_factory=dict)
    body: Mapping[str, Field] | None = None  # None: a request has none
    answer: str = ""  # a sentence about the result
    is_stream: bool = False
    parts: tuple[str, ...] = ()  # of the path, between slashes

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """Return the decoded names of a path that is this route's. Raises ApiError."""
        found = {}
        for own, part in zip(self.parts, parts, strict=True):
            if own.startswith("{"):
                found[own[1:-1]] = decode(part)
            elif own != part:
                return None
        return found


ROUTES: list[Route] = []  # of the modules of api/ that have been imported


def route(
    method: str,
    path: str,
    summary: str,
    *,
    query: Mapping[str, Parameter] | None = None,
    body: Mapping[str, Field] | None = None,
    writes: bool = False,
    records: bool = False,
    stream: bool = False,
    open: bool = False,
    answer: str = "",
) -> Callable[[F], F]:
    """Declare the decorated function as the handler of a route.

    `query`, `body`: parameters and fields by name; others are refused. `writes`: refused by a
    read-only console. `records`: it shows records. `stream`: it is a generator of (event, JSON).
    `open`: it needs no login. `answer`: a sentence for the API's description.
    """
    assert method in METHODS, method
    assert path.startswith("/api/"), path
    assert writes or method in ("GET", "POST"), f"{method} {path} writes"
    assert not (writes and method == "GET"), f"GET {path} writes"

    def declare(handler: F) -> F:
        ROUTES.append(
            Route(
                method,
                path,
                summary,
                handler,
                Needs(writes, records, open),
                query or {},
                body,
                answer or summary,
                stream,
                tuple(path.split("/")[1:]),
            )
        )
        return handler

    return declare


class Routes:
    """All routes, by the length of their paths."""

    def __init__(self, routes: list[Route]) -> None:
        self.all = tuple(routes)
        self._by_length: dict[int, list[Route]] = {}
        # a path's own word comes before a name that may be any word
        for each in sorted(routes, key=lambda each: [part[:1] == "{" for part in each.parts]):
            self._by_length.setdefault(len(each.parts), []).append(each)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route and the names in the path. Raises ApiError."""
        parts = tuple(path.split("/")[1:])
        allowed: list[str] = []
        for each in self._by_length.get(len(parts), ()):
            if (names := each.match(parts)) is not None:
                if each.method == method:
                    return each, names
                allowed.append(each.method)
        if allowed:
            raise ApiError(405, NO_METHOD, f"{path[:200]} takes {', '.join(sorted(allowed))}")
        raise ApiError(404, NO_ROUTE, f"there is no {path[:200]}: /api/openapi.json lists what is")

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path takes, HEAD and OPTIONS among them."""
        found = []
        for method in METHODS:
            try:
                self.find(method, path)
            except ApiError:
                continue
            found.append(method)
        return [*found, *(["HEAD"] if "GET" in found else []), "OPTIONS"]


def decode(part: str) -> str:
    """Return a part of a path without its escapes. Raises ApiError."""
    try:
        found = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        found = ""
    if not found:
        raise refusal(f"a part of the path is empty or no UTF-8: {part[:80]!r}")
    return found


@cache
def all_routes() -> Routes:
    """Import the modules of api/ and return their routes."""
    package = import_module("raftka.console.api")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return Routes(ROUTES)
