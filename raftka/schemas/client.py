"""The protocol of a client of a schema registry with Confluent's REST API, sans-IO: paths, answers,
errors, and the answers that are kept.

The broker drives it on the runtime's network, the pipeline in the threads of its workers. A
registry that does not answer, or answers with no document of a registry, is no fault of a record:
such an answer is a BadAnswer, and never an answer about a schema.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlsplit

from raftka.json_values import Json
from raftka.limits import SCHEMA_DOCUMENTS, SCHEMA_DOCUMENTS_BYTES, Limit
from raftka.schemas.framing import Indexes
from raftka.schemas.names import message_names, record_name

ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
NOT_THERE = frozenset({40401, 40402, 40403})  # no subject, no version, no schema
GRACE_S = 0.5  # an instance of a registry may be a moment behind the one that registered a schema
SHOWN = 100  # characters of a path in an error

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BadAnswer(Exception):
    """The answer is none of a schema registry, or says that the registry cannot answer now: another
    one may. The text is for the operator's log.
    """


class LoginRefused(BadAnswer):
    """The registry does not let this client in."""


class Reference(NamedTuple):
    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    kind: str  # AVRO, JSON or PROTOBUF
    text: str
    references: tuple[Reference, ...] = ()
    name: str | None = None  # of its record; None for Protobuf


class SchemaSource(Protocol):
    """Gives schemas that others refer to."""

    def version(self, subject: str, version: int, *, serialized: bool = False) -> Schema: ...


class Missing(NamedTuple):
    """The registry has no such thing, or none that this user may see."""

    reason: str


# questions


class Question(NamedTuple, Generic[T_co]):
    path: str  # below the URL of the registry
    subject: str  # of a sentence about the answer
    # Makes the value of the answer's document; may be slow. Raises ValueError, TypeError,
    # LookupError and AttributeError for a document of another kind.
    read: Callable[[Json], T_co]


def ask_schema(schema_id: int, *, serialized: bool = False) -> Question[Schema]:
    """`serialized`: a Protobuf schema as its descriptor in base64."""
    path = f"/schemas/ids/{schema_id}" + ("?format=serialized" if serialized else "")
    return Question(path, f"schema {schema_id}", _read_descriptor if serialized else _read_schema)


def ask_version(subject: str, version: int, *, serialized: bool = False) -> Question[Schema]:
    """Ask for a schema that others refer to: the registry still has it when it is deleted."""
    path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
    path += "&format=serialized" if serialized else ""
    read = _read_descriptor if serialized else _read_schema
    return Question(path, f"version {version} of {subject}", read)


class Registered(NamedTuple):
    """A schema with its id."""

    schema_id: int
    schema: Schema


def ask_latest(subject: str, *, serialized: bool = False) -> Question[Registered]:
    """Ask for the newest schema of a subject."""
    path = f"/subjects/{quote(subject, safe='')}/versions/latest"
    path += "?format=serialized" if serialized else ""
    read = _read_descriptor if serialized else _read_schema
    return Question(
        path, f"schema of {subject}", lambda value: Registered(int(value["id"]), read(value))
    )


def ask_subjects(schema_id: int) -> Question[frozenset[str]]:
    """Ask for the subjects that have the schema in a version that is not deleted."""
    return Question(
        f"/schemas/ids/{schema_id}/versions",
        f"schema {schema_id}",
        lambda value: frozenset(_without_context(str(each["subject"])) for each in value),
    )


def ask_message_names(schema_id: int) -> Question[Mapping[Indexes, str]]:
    """Ask for the full names of the messages in a Protobuf schema, by their indexes."""
    question = ask_schema(schema_id, serialized=True)
    return Question(question.path, question.subject, lambda value: message_names(value["schema"]))


def _without_context(subject: str) -> str:
    """Remove the context, `:.NAME:`, which is that of the registry's URL."""
    return subject[subject.find(":", 2) + 1 :] if subject.startswith(":.") else subject


def _read_schema(value: Json) -> Schema:
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in value.get("references") or ()
    )
    text, kind = value["schema"], value.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not isinstance(kind, str):
        raise TypeError
    return Schema(kind, text, references, None if kind == "PROTOBUF" else record_name(kind, text))


def _read_descriptor(value: Json) -> Schema:
    """A registry that does not know `format=serialized` gives the text instead of base64."""
    schema = _read_schema(value)
    b64decode(schema.text, validate=True)
    return schema


# requests and answers


def request_headers(user_info: str | None) -> dict[str, str]:
    """`user_info`: NAME:PASSWORD."""
    headers = {"Accept": ACCEPT}
    if user_info is not None:
        headers["Authorization"] = f"Basic {b64encode(user_info.encode()).decode()}"
    return headers


def is_registry_url(url: str) -> bool:
    parts = urlsplit(url)
    try:
        has_place = parts.hostname is not None and parts.port != 0
    except ValueError:
        return False
    return has_place and parts.scheme in ("http", "https") and not (parts.query or parts.fragment)


def read_answer(question: Question[T], status: int, body: bytes) -> T | Missing:
    """Return the value that was asked for. Raise BadAnswer.

    May be slow: call it off the loop.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        if status in (401, 403):
            raise LoginRefused(f"the answer is {status} and no JSON") from None
        raise BadAnswer(f"the answer is {status} and no JSON: is it a schema registry?") from None
    if status == 200:
        try:
            return question.read(value)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise BadAnswer(
                f"the answer to {question.path[:SHOWN]} is another document than it should be: is "
                "it a schema registry?"
            ) from None
    code, message = (
        (value.get("error_code"), value.get("message")) if isinstance(value, dict) else (None, None)
    )
    if status == 404 and code in NOT_THERE:
        return Missing(f"the registry has no {question.subject}")
    # A record may name a schema of other users.
    if status == 403 and str(code).startswith("403"):
        return Missing(f"the registry does not let this user see {question.subject}")
    error = LoginRefused if status in (401, 403) else BadAnswer
    raise error(f"the answer is {status}, {code}: {message}")


# answers that are kept


@dataclass(frozen=True, slots=True)
class Answer(Generic[T_co]):
    value: T_co
    size: int  # bytes
    asked_at: float  # on the clock of the one who keeps it


class AnswerCache(Generic[T]):
    """Answers by path. A schema id has one schema as long as its registry lives, but a registry may
    be made anew: each user says how old an answer may be.

    The answer that came first leaves first.
    """

    def __init__(self, on_hit: Callable[[Limit], None] = lambda limit: None) -> None:
        """`on_hit` is called with the limit that makes an answer leave."""
        self._on_hit = on_hit
        self._kept: dict[str, Answer[T]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, path: str, since: float) -> Answer[T] | None:
        """Return the answer to a question that was asked at this time or later."""
        found = self._kept.get(path)
        return found if found is not None and found.asked_at >= since else None

    def keep(self, path: str, answer: Answer[T]) -> None:
        self._forget(path)
        while self._kept and (
            len(self._kept) >= SCHEMA_DOCUMENTS.value
            or self._bytes + answer.size > SCHEMA_DOCUMENTS_BYTES.value
        ):
            is_count = len(self._kept) >= SCHEMA_DOCUMENTS.value
            self._on_hit(SCHEMA_DOCUMENTS if is_count else SCHEMA_DOCUMENTS_BYTES)
            self._forget(next(iter(self._kept)))
        self._kept[path] = answer
        self._bytes += answer.size

    def _forget(self, path: str) -> None:
        found = self._kept.pop(path, None)
        if found is not None:
            self._bytes -= found.size
