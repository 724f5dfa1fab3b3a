"""A client of a schema registry with Confluent's REST API, for the workers of a query. Knows
neither Spark nor a format.

A schema keeps its number as long as its registry lives, so what was found is kept. But a registry
may be made anew, and a subject too: what is kept is compared with the registry every few minutes,
while it is used. When the registry does not answer then, or knows the number no more, the kept
schema stays: records were written with it. An unknown number is asked for again after some seconds.
A registry that does not answer, or refuses our name, is no fault of a record: that raises
RegistryAway, and the batch is tried again.
"""

import json
import logging
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import OptionRefused, PipelineError

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
ANSWER_BYTES = 8 << 20
TIMEOUT_S = 10.0  # for one answer, in all
PAUSES_S = (0.2, 0.5, 1.0, 2.0)  # before each registry is asked again
GRACE_S = 0.5  # an instance of a registry may be a moment behind the one that registered a schema
UNKNOWN_S = 10.0  # an unknown number is not asked for again so soon
KEPT = 10_000  # schemas; unknown numbers: the oldest one leaves first
FRESH_S = 100.0  # a kept schema is compared with the registry when it is older and used
NO_SUBJECT, NO_VERSION, NO_SCHEMA = 40401, 40402, 40403

log = logging.getLogger(__name__)


class RegistryAway(PipelineError):
    """No registry answered, or it did not let us in. The same batch is tried again when the query
    is.
    """


class UnknownSchema(Exception):
    """The registry knows no such schema, or none that this user may see: the text says it."""


class Reference(NamedTuple):
    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    type: str  # AVRO, JSON or PROTOBUF
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Where a registry is and how to get in: goes to the workers, pickled. Files are read there."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str = field(default="", repr=False)
    ca: str | None = None  # files, PEM
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        for url in self.urls:
            parts = urlsplit(url)
            try:
                right = (
                    parts.scheme in ("http", "https")
                    and parts.hostname is not None
                    and parts.port != 0
                )
            except ValueError:
                right = False
            if not right or parts.query or parts.fragment:
                raise OptionRefused(
                    f"{url!r} is no URL of a registry, such as http://localhost:8081"
                )
            if parts.username is not None or parts.password is not None:
                raise OptionRefused(
                    "a registry's URL has no name and password in it: they come from the "
                    "environment (docs/pipeline/streams.md)"
                )


# status and body, of a URL and a path below it. Raises OSError
Get = Callable[[str, str], tuple[int, bytes]]


class Http:
    """Asks by HTTP, with a connection for each request: there are few."""

    def __init__(self, access: RegistryAccess, clock: Callable[[], float] = time.monotonic) -> None:
        self._access, self._clock = access, clock

    def __call__(self, url: str, path: str) -> tuple[int, bytes]:
        parts = urlsplit(url)
        headers = {"Accept": ACCEPT}
        if self._access.user is not None:
            headers["Authorization"] = (
                "Basic "
                + b64encode(f"{self._access.user}:{self._access.password}".encode()).decode()
            )
        connection = self._connection(parts.scheme == "https", parts.hostname or "", parts.port)
        until = self._clock() + TIMEOUT_S
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
            response = connection.getresponse()
            body = bytearray()
            while piece := response.read1(65536):
                body += piece
                if len(body) > ANSWER_BYTES:
                    raise OSError(f"an answer of more than {ANSWER_BYTES} bytes")
                if self._clock() > until:
                    raise TimeoutError(f"no whole answer in {TIMEOUT_S:g} s")
            return response.status, bytes(body)
        except HTTPException as error:
            raise OSError(f"no HTTP: {type(error).__name__} {error}") from None
        finally:
            connection.close()

    def _connection(self, tls: bool, host: str, port: int | None) -> HTTPConnection:
        if not tls:
            return HTTPConnection(host, port, timeout=TIMEOUT_S)
        context = ssl.create_default_context(cafile=self._access.ca)
        if self._access.certificate is not None:
            context.load_cert_chain(self._access.certificate, self._access.key)
        return HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


class RegistryClient:
    """Raises RegistryAway, and UnknownSchema."""

    def __init__(
        self,
        access: RegistryAccess,
        get: Get | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access, self._clock, self._pause = access, clock, pause
        self._get = get or Http(access, clock)
        self._found: dict[str, tuple[Schema, float]] = {}  # and when the registry was asked last
        self._unknown: dict[str, tuple[str, float]] = {}  # why, and when it may be asked for again
        self._grace_from = float("-inf")

    @staticmethod
    @lru_cache(maxsize=64)
    def of(access: RegistryAccess) -> "RegistryClient":
        """The one of this process."""
        return RegistryClient(access)

    def schema(self, number: int, *, serialized: bool = False) -> Schema:
        """`serialized`: a Protobuf schema as its descriptor in base64."""
        return self._schema(f"/schemas/ids/{number}", f"schema {number}", serialized)

    def version(self, subject: str, version: int, *, serialized: bool = False) -> Schema:
        return self._schema(
            f"/subjects/{quote(subject, safe='')}/versions/{version}",
            f"version {version} of {subject}",
            serialized,
        )

    def _schema(self, path: str, what: str, serialized: bool) -> Schema:
        # A schema that others refer to may be deleted: it is still to be had.
        deleted = "deleted=true" if path.startswith("/subjects") else ""
        query = "&".join(
            each for each in (deleted, "format=serialized" if serialized else "") if each
        )
        path += f"?{query}" if query else ""
        kept, asked_at = self._found.get(path, (None, 0.0))
        if kept is not None and self._clock() - asked_at < FRESH_S:
            return kept
        found = self._asked(path, what) if kept is None else self._compared(path, what, kept)
        _keep(self._found, path, (found, self._clock()))
        return found

    def _compared(self, path: str, what: str, kept: Schema) -> Schema:
        """The schema that has this number now. Without an answer it is the kept one."""
        try:
            answer = self._answer(path, what, pauses=())
        except RegistryAway as away:
            log.warning("%s is used as it was: %s", what, away)
            return kept
        if isinstance(answer, str):
            return kept
        if answer != kept:
            log.warning(
                "%s is another one than before: the registry, or the subject, was made anew. "
                "Records are read by the new one",
                what,
            )
        return answer

    def _asked(self, path: str, what: str) -> Schema:
        now = self._clock()
        why, again = self._unknown.get(path, ("", now))
        if again > now:
            raise UnknownSchema(why)
        answer = self._answer(path, what)
        # not for each one: records may name thousands that are none
        if isinstance(answer, str) and now >= self._grace_from:
            self._grace_from = now + UNKNOWN_S
            self._pause(GRACE_S)
            answer = self._answer(path, what)
        if isinstance(answer, str):
            _keep(self._unknown, path, (answer, now + UNKNOWN_S))
            raise UnknownSchema(answer)
        return answer

    def _answer(self, path: str, what: str, pauses: Sequence[float] = PAUSES_S) -> Schema | str:
        """A text: why there is no such schema. Raises RegistryAway."""
        why = ""
        for pause in (0.0, *pauses):
            if pause:
                self._pause(pause)
            for url in self._access.urls:
                try:
                    status, body = self._get(url, path)
                except (OSError, ssl.SSLError) as error:
                    why = f"{url}: {type(error).__name__} {error}"
                    continue
                document = _document(body)
                if (
                    status == 200
                    and document is not None
                    and isinstance(document.get("schema"), str)
                ):
                    return _schema(document, url)
                code = document.get("error_code") if document is not None else None
                if status == 404 and code in (NO_SUBJECT, NO_VERSION, NO_SCHEMA):
                    return f"the registry has no {what}"
                # any record may name a schema that is others'
                if status == 403 and str(code).startswith("403"):
                    return f"the registry does not let this user see {what}"
                why = f"{url}{path}: HTTP {status}" + (
                    f", {code}: {document.get('message')}" if document else ""
                )
                if status in (401, 403):
                    raise RegistryAway(
                        f"the registry does not let us in. {why}. Look at its user and password "
                        "(docs/pipeline/streams.md)"
                    )
        raise RegistryAway(f"no registry answers. {why}. The batch is tried again")


def _document(body: bytes) -> JsonObject | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _schema(document: JsonObject, url: str) -> Schema:
    try:
        references: Json = document.get("references") or ()
        found = tuple(
            Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in references
        )
    except (TypeError, KeyError, ValueError):
        raise RegistryAway(
            f"{url} gives references that are none: is it a schema registry?"
        ) from None
    return Schema(str(document.get("schemaType") or "AVRO"), document["schema"], found)


def _keep(found: dict[str, Json], path: str, value: object) -> None:
    if len(found) >= KEPT:
        del found[next(iter(found))]
    found.pop(path, None)
    found[path] = value
