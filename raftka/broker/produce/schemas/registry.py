"""Questions to a schema registry by HTTP, through the runtime's network, and its answers, which are
kept. Knows no batch.

One question a document at a time, however many ask for it. A registry that does not answer is no
fault of a record: that is RegistryAway, and never an answer about a schema.
"""

import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from raftka.broker.context import BrokerContext
from raftka.broker.network.access.http_get import HttpFailed, HttpGet
from raftka.broker.produce.schemas.names import Indexes, message_names, record_name
from raftka.json_values import Json
from raftka.limits import (
    SCHEMA_DOCUMENT_BYTES,
    SCHEMA_DOCUMENTS,
    SCHEMA_DOCUMENTS_BYTES,
    SCHEMA_LOOKUP_SECONDS,
    SCHEMA_LOOKUPS,
    LimitExceeded,
)
from raftka.security.tls_connection import Side, TlsConnection
from raftka.security.tls_context import TlsContexts, client_context
from raftka.security.tls_settings import TlsError, TlsSettings

PORTS = {"http": 80, "https": 443}
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
NOT_THERE = frozenset({40401, 40402, 40403})  # no subject, no version, no schema
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LOOKUPS, FAILURES = "raftka_schema_lookups_total", "raftka_schema_lookup_failures_total"


class RegistryAway(Exception):
    """No registry has answered, or it did not let us in. The text is for the operator's log."""


class Question(NamedTuple, Generic[T_co]):
    path: str
    # makes the document's value, off the loop; raises ValueError, TypeError and LookupError for
    # what is none
    read: Callable[[Json], T_co]


@dataclass(frozen=True, slots=True)
class Document:
    """What the registry has said; None: there is no such thing."""

    value: object
    size: int  # bytes
    at: float  # on the runtime's clock, when the question left


class Schema(NamedTuple):
    kind: str  # AVRO, JSON or PROTOBUF
    text: str
    references: tuple[tuple[str, str, int], ...]  # name, subject, version
    name: str | None  # of its record


def subjects_of(number: int) -> Question[frozenset[str]]:
    """The subjects that have the schema of that number in a version that is not deleted, as a
    frozenset.
    """
    return Question(
        f"/schemas/ids/{number}/versions",
        lambda value: frozenset(_plain(str(each["subject"])) for each in value),
    )


def _plain(subject: str) -> str:
    """Without its context, `:.NAME:`, which is that of the registry's URL."""
    return subject[subject.find(":", 2) + 1 :] if subject.startswith(":.") else subject


def schema_of(number: int) -> Question[Schema]:
    return Question(f"/schemas/ids/{number}", _schema)


def messages_of(number: int) -> Question[Mapping[Indexes, str]]:
    """The names of the messages in a Protobuf schema, by their indexes."""
    return Question(
        f"/schemas/ids/{number}?format=serialized", lambda value: message_names(value["schema"])
    )


def version_of(subject: str, version: int) -> Question[Schema]:
    """A schema that others refer to: it may be deleted, and is still to be had."""
    return Question(f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true", _schema)


def _schema(value: Json) -> Schema:
    references = tuple(
        (str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in value.get("references") or ()
    )
    text, kind = value["schema"], value.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not isinstance(kind, str):
        raise TypeError
    return Schema(kind, text, references, None if kind == "PROTOBUF" else record_name(kind, text))


Answer = Document | RegistryAway
Done = Callable[[Answer], None]


class SchemaRegistry:
    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._clock = context.runtime.clock
        self._kept: dict[str, Document] = {}  # by path, the one that came first in front
        self._kept_bytes = 0
        self._asking: dict[str, list[Done]] = {}
        self._waiting: deque[Question[object]] = deque()
        self._in_hand = 0
        self._is_failing = False
        self._tls = TlsContexts(
            self._tls_settings, client_context, context.store_files, self._clock.now
        )
        self.own_url: str | None = None  # of the registry in this node

    @property
    def urls(self) -> tuple[str, ...]:
        given: tuple[str, ...] = (
            self._context.metadata.settings["confluent.schema.registry.url"] or ()
        )
        return given or ((self.own_url,) if self.own_url is not None else ())

    def known(self, question: Question[T], most_s: float) -> Document | None:
        """What is kept of it and not older."""
        found = self._kept.get(question.path)
        return found if found is not None and self._clock.now() - found.at <= most_s else None

    def ask(self, question: Question[T], done: Done) -> None:
        """Ask for a document, or wait for the answer that others wait for; `done` is called once,
        in a later turn.
        """
        waiting = self._asking.get(question.path)
        if waiting is not None:
            waiting.append(done)
            return
        self._asking[question.path] = [done]
        if self._in_hand < SCHEMA_LOOKUPS.value:
            self._begin(question)
        else:
            self._context.metrics.hit(SCHEMA_LOOKUPS)
            self._waiting.append(question)

    def _begin(self, question: Question[T]) -> None:
        self._in_hand += 1
        self._context.metrics.count(LOOKUPS)
        self._get(
            question,
            list(self.urls),
            "no registry is known here: set confluent.schema.registry.url, or registry.port",
        )

    def _get(self, question: Question[T], urls: list[str], reason: str) -> None:
        """Ask one after the other."""
        if not urls:
            self._context.later(partial(self._came, question.path, RegistryAway(reason)))
            return
        base, *others = urls
        asked_at = self._clock.now()

        def document(result: bytes | HttpFailed | LimitExceeded) -> None:
            timer.cancel()
            if isinstance(result, bytes):
                offload.run(lambda: _read(question, connection.status, result, asked_at), read)
            else:
                read(result)

        def read(result: Document | BaseException) -> None:
            if isinstance(result, Document):
                self._came(question.path, result)
                return
            if isinstance(result, LimitExceeded):
                self._context.metrics.hit(result.limit)
            self._get(question, others, f"{base}: {result}")

        offload, limit = self._context.runtime.offload, SCHEMA_LOOKUP_SECONDS
        url = urlsplit(base.rstrip("/") + question.path)
        connection = HttpGet(
            url,
            document,
            limit=SCHEMA_DOCUMENT_BYTES,
            headers=self._headers(),
            statuses=("200", "404"),
        )
        timer = self._clock.call_at(
            asked_at + limit.value, partial(connection.give_up, LimitExceeded(limit, limit.value))
        )
        try:
            self._connect(url, connection)
        except TlsError as error:
            timer.cancel()
            self._get(question, others, f"{base}: {error}")

    def _connect(self, url: SplitResult, connection: HttpGet) -> None:
        """Raises TlsError."""
        host = url.hostname or ""
        outer = (
            connection
            if url.scheme == "http"
            else TlsConnection(connection, self._tls.current(), Side(host), self._context.later)
        )
        self._context.runtime.network.connect(host, url.port or PORTS[url.scheme], outer)

    def _headers(self) -> tuple[str, ...]:
        user: str | None = self._context.metadata.settings["confluent.basic.auth.user.info"]
        return (
            f"Accept: {ACCEPT}",
            *((f"Authorization: Basic {b64encode(user.encode()).decode()}",) if user else ()),
        )

    def _tls_settings(self) -> TlsSettings:
        settings = self._context.metadata.settings
        given = {
            "ssl.truststore.location": settings["confluent.ssl.truststore.location"],
            "ssl.truststore.password": settings["confluent.ssl.truststore.password"],
            "ssl.truststore.type": settings["confluent.ssl.truststore.type"],
        }
        return TlsSettings.of(given.get)

    def _came(self, path: str, answer: Answer) -> None:
        self._in_hand -= 1
        if isinstance(answer, Document):
            self._keep(path, answer)
        self._report(answer)
        done = self._asking.pop(path)
        if self._waiting:
            self._begin(self._waiting.popleft())
        for each in done:
            each(answer)

    def _report(self, answer: Answer) -> None:
        """A line for the first failure, and one for its end."""
        failed = isinstance(answer, RegistryAway)
        if failed:
            self._context.metrics.count(FAILURES)
        if failed is not self._is_failing:
            self._is_failing = failed
            if failed:
                self._context.events.warning("schema_registry_away", reason=str(answer))
            else:
                self._context.events.info("schema_registry_back")

    def _keep(self, path: str, document: Document) -> None:
        kept = self._kept
        self._forget(path)
        while kept and (
            len(kept) >= SCHEMA_DOCUMENTS.value
            or self._kept_bytes + document.size > SCHEMA_DOCUMENTS_BYTES.value
        ):
            self._context.metrics.hit(
                SCHEMA_DOCUMENTS if len(kept) >= SCHEMA_DOCUMENTS.value else SCHEMA_DOCUMENTS_BYTES
            )
            self._forget(next(iter(kept)))
        kept[path] = document
        self._kept_bytes += document.size

    def _forget(self, path: str) -> None:
        found = self._kept.pop(path, None)
        if found is not None:
            self._kept_bytes -= found.size


def _read(question: Question[T], status: str, data: bytes, asked_at: float) -> Document:
    """Off the loop. Raises HttpFailed."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise HttpFailed(f"the answer is {status} and no JSON: is it a schema registry?") from None
    if status == "200":
        try:
            return Document(question.read(value), len(data), asked_at)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise HttpFailed(
                f"the answer to {question.path[:100]} is another document than it should be: is "
                "it a schema registry?"
            ) from None
    if isinstance(value, dict) and value.get("error_code") in NOT_THERE:
        return Document(None, len(data), asked_at)
    raise HttpFailed(f"the answer is {status}: is it a schema registry?")
