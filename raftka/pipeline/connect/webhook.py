"""Post rows to a URL as JSON, each request with an Idempotency-Key. At least once: a batch that is
done again is sent again, under the same keys.

A request that fails for a while (no connection, 408, 429, 5xx) is tried again, later each time. A
request that the receiver refuses for good (any other answer but 2xx) stops the query, or becomes a
dead letter. No redirect is followed: rows, and headers with secrets, go to the declared host.

The task blocks while it posts, in a worker of Spark's without a runtime: so it uses http.client.
"""

import http.client
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from raftka.json_values import Json, JsonObject
from raftka.pipeline.connect.options import from_environment
from raftka.pipeline.connect.values import as_json
from raftka.pipeline.connect.webhook_options import VALUE, Webhook
from raftka.pipeline.errors import OptionRefused, PipelineError
from raftka.pipeline.topics.sink import SinkOptions, sink_options, write_task

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
AGAIN = {408, 429}  # and 5xx: the receiver may take the same request later
READ_BYTES = 64 << 10  # of an answer; a longer one costs its connection
SHOWN = 200  # characters of an answer
LONGEST_ID = 200
KEPT = 1000  # refused rows of a task, until they are written as dead letters
DEAD_LETTER = {"value": "binary", "headers": "array"}  # its columns


class Place(NamedTuple):
    """The place of a task's rows in a query: the keys begin with it."""

    query: str
    batch: int
    task: int


class Request(NamedTuple):
    key: str
    body: bytes
    rows: Sequence[JsonObject]


class Answer(NamedTuple):
    status: int
    reason: str
    text: str
    retry_after_s: float | None = None


class Unanswered(Exception):
    """There was no connection, or no answer in time."""


Post = Callable[[Request], Answer]


# requests


def requests(hook: Webhook, rows: Iterable[JsonObject], place: Place) -> Iterator[Request]:
    """Yield the requests of a task. The n-th row of a task has the same key when its batch is done
    again.
    """
    waiting: list[JsonObject] = []
    first = 0
    for at, row in enumerate(rows):
        waiting.append(row)
        if len(waiting) == hook.rows_per_request:
            yield _request(hook, waiting, place, first)
            waiting, first = [], at + 1
    if waiting:
        yield _request(hook, waiting, place, first)


def _request(hook: Webhook, rows: Sequence[JsonObject], place: Place, first: int) -> Request:
    document: Json = rows[0] if hook.rows_per_request == 1 else list(rows)
    return Request(_key(hook, rows[0], place, first), as_json(document), rows)


def _key(hook: Webhook, row: Mapping[str, Json], place: Place, first: int) -> str:
    if hook.id is None:
        return f"{place.query}-{place.batch}-{place.task}-{first}"
    if hook.id not in row:
        raise OptionRefused(
            f"id names the column {hook.id}, which is not there: there are {', '.join(row)}"
        )
    value = "" if row[hook.id] is None else str(row[hook.id])
    if not 0 < len(value) <= LONGEST_ID or VALUE.fullmatch(value) is None:
        raise PipelineError(
            f"the id of a row is {value[:SHOWN]!r}: it is to be ASCII text of 1 to {LONGEST_ID} "
            "characters. Compute such a column"
        )
    return f"{place.query}-{value}"


# sending


class Poster:
    """One connection, made anew when it breaks. Certificates are verified."""

    def __init__(self, hook: Webhook) -> None:
        self._hook = hook
        self._connection: http.client.HTTPConnection | None = None
        secret = {
            name: from_environment(variable, f"the header {name}")
            for name, variable in hook.secret_headers.items()
        }
        for name, value in secret.items():
            if VALUE.fullmatch(value) is None:
                raise OptionRefused(
                    f"the environment's value of the header {name} has characters that no header "
                    "may have"
                )
        self._headers = {
            "User-Agent": "raftka",
            **hook.headers,
            **secret,
            "Content-Type": "application/json",
        }

    def post(self, request: Request) -> Answer:
        """Raises Unanswered."""
        try:
            connection = self._connection = self._connection or self._connected()
            connection.request(
                "POST",
                self._hook.target,
                request.body,
                {**self._headers, "Idempotency-Key": request.key},
            )
            response = connection.getresponse()
            text, whole = self._read(response)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise PipelineError(
                f"the certificate of {self._hook.where} is not to be trusted: "
                f"{error.verify_message}. Nothing was sent. Next step: ca_file, "
                "with the authority that has signed it, where it is one of your own"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unanswered(f"{type(error).__name__} {error}".strip()) from error
        if not whole:
            self.close()
        after = _seconds(response.getheader("Retry-After"))
        return Answer(
            response.status,
            response.reason,
            text[: 4 * SHOWN].decode(errors="replace")[:SHOWN],
            after,
        )

    def _read(self, response: http.client.HTTPResponse) -> tuple[bytes, bool]:
        """Return the answer's text, as far as it comes in time, and whether that is all of it: an
        answer that trickles in keeps no task.
        """
        deadline, text = time.monotonic() + self._hook.timeout_s, b""
        while len(text) < READ_BYTES and time.monotonic() < deadline:
            more = response.read1(READ_BYTES - len(text))
            text += more
            if not more:
                if response.length:
                    raise http.client.IncompleteRead(text, response.length)
                response.close()
                return text, True
        return text, False

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connected(self) -> http.client.HTTPConnection:
        hook = self._hook
        if not hook.is_tls:
            return http.client.HTTPConnection(hook.host, hook.port, timeout=hook.timeout_s)
        try:
            context = ssl.create_default_context(cafile=hook.ca_file)
        except (OSError, ValueError) as error:
            raise OptionRefused(f"ca_file {hook.ca_file} can not be read: {error}") from None
        return http.client.HTTPSConnection(
            hook.host, hook.port, timeout=hook.timeout_s, context=context
        )


def _seconds(text: str | None) -> float | None:
    """Return the value of Retry-After; None: it is missing, or a date."""
    return float(text) if text is not None and text.strip().isdecimal() and len(text) < 10 else None


def send(
    hook: Webhook,
    given: Iterable[Request],
    post: Post,
    dead: Callable[[Request, str], None],
    sleep: Callable[[float], object] = time.sleep,
) -> int:
    """Return the number of accepted rows; `dead` takes the others, or raises. Raises
    PipelineError.
    """
    accepted = 0
    for request in given:
        answer = _answer(hook, request, post, sleep)
        if 200 <= answer.status < 300:
            accepted += len(request.rows)
        else:
            dead(request, f"{answer.status} {answer.reason}: {answer.text}")
    return accepted


def _answer(
    hook: Webhook, request: Request, post: Post, sleep: Callable[[float], object]
) -> Answer:
    """Return the last answer: 2xx, or a refusal. Raises PipelineError when each try has failed in a
    way that may pass.
    """
    why, pause = "", FIRST_PAUSE_S
    for tried in range(hook.retries + 1):
        asked_s: float | None = None
        try:
            answer = post(request)
            if answer.status not in AGAIN and answer.status < 500:
                return answer
            why = f"it answered {answer.status} {answer.reason}: {answer.text}"
            asked_s = answer.retry_after_s
        except Unanswered as error:
            why = str(error)
        if tried < hook.retries:
            sleep(min(max(pause, asked_s or 0.0), LONGEST_PAUSE_S))
            pause = min(2 * pause, LONGEST_PAUSE_S)
    raise PipelineError(
        f"the webhook {hook.where} took no row in {hook.retries + 1} tries: {why}. Rows of this "
        "batch that it took are sent again under the same "
        "keys when the query is started again"
    )


def stop_at_refusal(hook: Webhook) -> Callable[[Request, str], None]:
    def dead(request: Request, why: str) -> NoReturn:
        raise PipelineError(
            f"the webhook {hook.where} refused the rows with the key {request.key}: {why}. Next "
            "step: mend the query or the receiver, or give "
            "dead_letters, a topic for refused rows"
        )

    return dead


# a task


def post_task(hook: Webhook, batches: "Iterable[pa.RecordBatch]", place: Place) -> int:
    """Return the number of accepted rows. Raises PipelineError."""
    refused: list[tuple[Request, str]] = []
    to = dead_letters(hook)

    def keep(request: Request, why: str) -> None:
        refused.append((request, why))
        if len(refused) >= KEPT:
            assert to is not None
            _write_dead_letters(hook, to, refused)

    poster = Poster(hook)
    rows = (row for batch in batches for row in batch.to_pylist())
    try:
        accepted = send(
            hook,
            requests(hook, rows, place),
            poster.post,
            stop_at_refusal(hook) if to is None else keep,
        )
    finally:
        poster.close()
    if to is not None and refused:
        _write_dead_letters(hook, to, refused)
    return accepted


def dead_letters(hook: Webhook) -> SinkOptions | None:
    """Return the topic of refused rows; None: a refusal stops the query. Raises OptionRefused."""
    return None if hook.dead_letters is None else sink_options(hook.dead_letters, DEAD_LETTER)


def _write_dead_letters(hook: Webhook, to: SinkOptions, refused: list[tuple[Request, str]]) -> None:
    """Write all refused rows and empty the list; they are acknowledged when it returns."""
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    details = [
        [("webhook", hook.where), ("idempotency_key", request.key), ("error", why)]
        for request, why in refused
    ]
    headers = [[{"key": key, "value": value.encode()} for key, value in each] for each in details]
    bodies = pa.array([request.body for request, _ in refused], pa.binary())
    write_task(
        to, [pa.RecordBatch.from_arrays([bodies, pa.array(headers, kind)], ["value", "headers"])]
    )
    refused.clear()
