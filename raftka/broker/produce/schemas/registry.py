"""The broker's client of a schema registry: the protocol of raftka.schemas.client by HTTP on the
runtime's network.

Each document is asked for once at a time, however many batches wait for it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from raftka.broker.context import BrokerContext
from raftka.http.answer_reader import HttpFailed
from raftka.http.client import Answer as Response
from raftka.http.client import Wanted, fetch
from raftka.limits import (
    SCHEMA_DOCUMENT_BYTES,
    SCHEMA_LOOKUP_SECONDS,
    SCHEMA_LOOKUPS,
    LimitExceeded,
)
from raftka.schemas.client import (
    Answer,
    AnswerCache,
    BadAnswer,
    Missing,
    Question,
    read_answer,
    request_headers,
)
from raftka.security.tls_context import TlsContexts, client_context
from raftka.security.tls_settings import TlsError, TlsSettings

OK, NOT_FOUND = 200, 404
T = TypeVar("T")
LOOKUPS, FAILURES = "raftka_schema_lookups_total", "raftka_schema_lookup_failures_total"


class RegistryAway(Exception):
    """No registry has answered, or none lets the broker in. The text is for the operator's log."""


# The value that was asked for; None: the registry has no such thing.
Known = Answer[object]
Done = Callable[[Known | RegistryAway], None]


class SchemaRegistry:
    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._clock = context.runtime.clock
        self._kept: AnswerCache[object] = AnswerCache(context.metrics.hit)
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

    def known(self, question: Question[T], max_age_s: float) -> Known | None:
        """Return the kept answer if it is not older."""
        return self._kept.get(question.path, self._clock.now() - max_age_s)

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
        """Ask the registries one after the other."""
        if not urls:
            self._context.later(partial(self._on_answer, question.path, RegistryAway(reason)))
            return
        base, *others = urls
        asked_at = self._clock.now()

        def on_response(result: Response | HttpFailed | LimitExceeded) -> None:
            if isinstance(result, Response):
                self._context.runtime.offload.run(
                    lambda: _read(question, result, asked_at), on_document
                )
            else:
                on_document(result)

        def on_document(result: Known | BaseException) -> None:
            if isinstance(result, Answer):
                self._on_answer(question.path, result)
                return
            if isinstance(result, LimitExceeded):
                self._context.metrics.hit(result.limit)
            self._get(question, others, f"{base}: {result}")

        url = urlsplit(base.rstrip("/") + question.path)
        wanted = Wanted(url, SCHEMA_DOCUMENT_BYTES, self._headers(), statuses=(OK, NOT_FOUND))
        try:
            tls = (self._tls.current(), self._context.later) if url.scheme == "https" else None
        except TlsError as error:
            self._get(question, others, f"{base}: {error}")
            return
        fetch(self._context.runtime, wanted, SCHEMA_LOOKUP_SECONDS, on_response, tls)

    def _headers(self) -> tuple[str, ...]:
        user: str | None = self._context.metadata.settings["confluent.basic.auth.user.info"]
        return tuple(f"{name}: {value}" for name, value in request_headers(user or None).items())

    def _tls_settings(self) -> TlsSettings:
        settings = self._context.metadata.settings
        given = {
            "ssl.truststore.location": settings["confluent.ssl.truststore.location"],
            "ssl.truststore.password": settings["confluent.ssl.truststore.password"],
            "ssl.truststore.type": settings["confluent.ssl.truststore.type"],
        }
        return TlsSettings.of(given.get)

    def _on_answer(self, path: str, answer: Known | RegistryAway) -> None:
        self._in_hand -= 1
        if isinstance(answer, Answer):
            self._kept.keep(path, answer)
        self._report(answer)
        done = self._asking.pop(path)
        if self._waiting:
            self._begin(self._waiting.popleft())
        for each in done:
            each(answer)

    def _report(self, answer: Known | RegistryAway) -> None:
        """Log the first failure, and its end."""
        failed = isinstance(answer, RegistryAway)
        if failed:
            self._context.metrics.count(FAILURES)
        if failed is not self._is_failing:
            self._is_failing = failed
            if failed:
                self._context.events.warning("schema_registry_away", reason=str(answer))
            else:
                self._context.events.info("schema_registry_back")


def _read(question: Question[T], response: Response, asked_at: float) -> Known:
    """Return the value of a response. Runs off the loop. Raises HttpFailed."""
    try:
        value = read_answer(question, response.status, response.body)
    except BadAnswer as error:
        raise HttpFailed(str(error)) from None
    return Answer(None if isinstance(value, Missing) else value, len(response.body), asked_at)
