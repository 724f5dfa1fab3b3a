"""The pipeline's client of a schema registry: the protocol of raftka.schemas.client by blocking
HTTP, for the workers of a query. Knows neither Spark nor a format.

A kept schema is compared with the registry every few minutes while it is used, because a registry
or a subject may be made anew. When the registry does not answer then, or does not know the id any
more, the kept schema stays: records were written with it. An unknown id is asked for again after
some seconds. A registry that does not answer, or refuses the login, is no fault of a record: that
raises RegistryAway, and the batch is tried again.
"""

import json
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TypeVar
from urllib.parse import quote, urlsplit

from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.schemas.client import (
    GRACE_S,
    Answer,
    AnswerCache,
    BadAnswer,
    LoginRefused,
    Missing,
    Question,
    Registered,
    Schema,
    ask_latest,
    ask_schema,
    ask_version,
    is_registry_url,
    read_answer,
    request_headers,
)

ANSWER_BYTES = 8 << 20
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S = 10.0  # for one answer, in all
PAUSES_S = (0.2, 0.5, 1.0, 2.0)  # before each registry is asked again
UNKNOWN_S = 10.0  # an unknown id is not asked for again so soon
REFUSED = (409, 422)  # statuses of an answer about a schema
SHOWN = 600  # characters of a refusal
FRESH_S = 100.0  # a kept schema is compared with the registry when it is older and used

log = logging.getLogger(__name__)

T = TypeVar("T")


class RegistryAway(PipelineError):
    """No registry answered, or none lets the user in. The same batch is tried again when the query
    is.
    """


class SchemaRefused(PipelineError):
    """A schema cannot be registered, such as one that is not compatible."""


class UnknownSchema(Exception):
    """The registry has no such schema, or none that this user may see: the text says it."""


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """The URLs of a registry and the login. Goes to the workers, pickled; files are read there."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str = field(default="", repr=False)
    ca: str | None = None  # files, PEM
    certificate: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        for url in self.urls:
            if not is_registry_url(url):
                raise OptionRefused(
                    f"{url!r} is no URL of a registry, such as http://localhost:8081"
                )
            parts = urlsplit(url)
            if parts.username is not None or parts.password is not None:
                raise OptionRefused(
                    "a registry's URL has no name and password in it: they come from the "
                    "environment (docs/pipeline/streams.md)"
                )


# Returns status and body, of a URL and a path below it. Raises OSError.
Get = Callable[[str, str], tuple[int, bytes]]


class Http:
    """Sends each request on a connection of its own: there are few."""

    def __init__(self, access: RegistryAccess, clock: Callable[[], float] = time.monotonic) -> None:
        self._access, self._clock = access, clock

    def __call__(self, url: str, path: str) -> tuple[int, bytes]:
        return self.send("GET", url, path)

    def send(
        self, method: str, url: str, path: str, body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Return status and body. `body`: a JSON document. Raises OSError."""
        parts = urlsplit(url)
        access = self._access
        user_info = None if access.user is None else f"{access.user}:{access.password}"
        headers = request_headers(user_info)
        if body is not None:
            headers["Content-Type"] = CONTENT_TYPE
        connection = self._connection(parts.scheme == "https", parts.hostname or "", parts.port)
        until = self._clock() + TIMEOUT_S
        try:
            connection.request(method, parts.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            answer = bytearray()
            while piece := response.read1(65536):
                answer += piece
                if len(answer) > ANSWER_BYTES:
                    raise OSError(f"an answer of more than {ANSWER_BYTES} bytes")
                if self._clock() > until:
                    raise TimeoutError(f"no whole answer in {TIMEOUT_S:g} s")
            return response.status, bytes(answer)
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
        # Two caches: records may name thousands of ids that are none, and these must not push
        # schemas out.
        self._found: AnswerCache[Schema] = AnswerCache()
        self._missing: AnswerCache[Missing] = AnswerCache()
        self._grace_from = float("-inf")

    @staticmethod
    @lru_cache(maxsize=64)
    def of(access: RegistryAccess) -> "RegistryClient":
        """Return the one of this process."""
        return RegistryClient(access)

    def schema(self, schema_id: int, *, serialized: bool = False) -> Schema:
        """`serialized`: a Protobuf schema as its descriptor in base64."""
        return self._schema(ask_schema(schema_id, serialized=serialized))

    def version(self, subject: str, version: int, *, serialized: bool = False) -> Schema:
        return self._schema(ask_version(subject, version, serialized=serialized))

    def latest(self, subject: str, *, serialized: bool = False) -> Registered:
        """Return the newest schema of a subject. It is not kept: another one may come."""
        answer = self._answer(ask_latest(subject, serialized=serialized))
        if isinstance(answer, Missing):
            raise UnknownSchema(answer.reason)
        return answer.value

    def _schema(self, question: Question[Schema]) -> Schema:
        kept = self._found.get(question.path, float("-inf"))
        if kept is not None and self._clock() - kept.asked_at < FRESH_S:
            return kept.value
        found = self._ask(question) if kept is None else self._compare(question, kept)
        self._found.keep(question.path, replace(found, asked_at=self._clock()))
        return found.value

    def _compare(self, question: Question[Schema], kept: Answer[Schema]) -> Answer[Schema]:
        """Return the schema that has this id now. Without an answer it is the kept one."""
        try:
            answer = self._answer(question, pauses=())
        except RegistryAway as away:
            log.warning("%s is used as it was: %s", question.subject, away)
            return kept
        if isinstance(answer, Missing):
            return kept
        if answer.value != kept.value:
            log.warning(
                "%s is another one than before: the registry, or the subject, was made anew. "
                "Records are read by the new one",
                question.subject,
            )
        return answer

    def _ask(self, question: Question[Schema]) -> Answer[Schema]:
        now = self._clock()
        missing = self._missing.get(question.path, float("-inf"))
        if missing is not None and now - missing.asked_at < UNKNOWN_S:
            raise UnknownSchema(missing.value.reason)
        answer = self._answer(question)
        # One pause for all unknown ids of this time: records may name thousands.
        if isinstance(answer, Missing) and now >= self._grace_from:
            self._grace_from = now + UNKNOWN_S
            self._pause(GRACE_S)
            answer = self._answer(question)
        if isinstance(answer, Missing):
            self._missing.keep(question.path, Answer(answer, 0, now))
            raise UnknownSchema(answer.reason)
        return answer

    def _answer(
        self, question: Question[T], pauses: Sequence[float] | None = None
    ) -> Answer[T] | Missing:
        """Ask each registry, and all again after each pause. Raise RegistryAway."""
        reason = ""
        for pause in (0.0, *(PAUSES_S if pauses is None else pauses)):
            if pause:
                self._pause(pause)
            for url in self._access.urls:
                try:
                    status, body = self._get(url, question.path)
                    value = read_answer(question, status, body)
                except LoginRefused as error:
                    raise RegistryAway(
                        f"the registry does not let us in. {url}: {error}. Look at its user and "
                        "password (docs/pipeline/streams.md)"
                    ) from None
                except BadAnswer as error:
                    reason = f"{url}: {error}"
                except (OSError, ssl.SSLError) as error:
                    reason = f"{url}: {type(error).__name__} {error}"
                else:
                    if isinstance(value, Missing):
                        return value
                    return Answer(value, len(body), self._clock())
        raise RegistryAway(f"no registry answers. {reason}. The batch is tried again")


def register_schema(access: RegistryAccess, subject: str, schema: Schema) -> int:
    """Return the id of a schema, which is the newest of the subject from now on. Raise
    SchemaRefused, and RegistryAway.
    """
    path = f"/subjects/{quote(subject, safe='')}/versions"
    kind = {} if schema.kind == "AVRO" else {"schemaType": schema.kind}
    body = json.dumps({"schema": schema.text, **kind}).encode()
    reason = ""
    for url in access.urls:
        try:
            status, answer = Http(access).send("POST", url, path, body)
            found = json.loads(answer)
            if status == 200:
                return int(found["id"])
            message = str(found["message"])
        except (OSError, ValueError, TypeError, LookupError) as error:
            reason = f"{url}: {type(error).__name__} {error}"
            continue
        if status in REFUSED:
            raise SchemaRefused(
                f"the registry refuses the schema of {subject}: "
                f"{' '.join(message.split()):.{SHOWN}}. Next step: a schema that goes with the "
                "ones before, or another subject"
            )
        reason = f"{url}: the answer is {status}: {message:.{SHOWN}}"
    raise RegistryAway(f"no registry takes the schema of {subject}. {reason}")
