"""The process that checks payloads: reads questions from its standard input until that ends, and
writes answers to its standard output.

A question is four bytes of size and a JSON object (`kind`, `text`, `references`, `sizes`), then the
payloads, one behind the other. An answer is four bytes of size and a JSON list: for each payload
the reason why it is no value of the schema, or null.
"""

import json
import resource
import sys
from collections.abc import Callable
from typing import BinaryIO

from raftka.json_values import Json, JsonObject
from raftka.schemas.formats.schema import InvalidSchema, Reference
from raftka.schemas.values import Misfit

KEPT = 200  # schemas
MEMORY_BYTES = 2 << 30
Match = Callable[[bytes], None]


class Matchers:
    """Functions that check payloads, made once for each schema; the oldest leaves first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, tuple[Reference, ...]], Match | str] = {}

    def of(self, kind: str, text: str, references: tuple[Reference, ...]) -> Match | str:
        """Return the function for a schema, or a text: the reason why the schema cannot be used."""
        key = kind, text, references
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            try:
                self._kept[key] = _matcher(kind)(text, references)
            except (InvalidSchema, RecursionError) as error:
                self._kept[key] = f"the schema cannot be used: {error}"
        return self._kept[key]

    def answer(self, question: JsonObject, payloads: list[bytes]) -> list[str | None]:
        references = tuple(Reference(name, text) for name, text in question["references"])
        match = self.of(question["kind"], question["text"], references)
        return [
            match if isinstance(match, str) else _reason(match, payload) for payload in payloads
        ]


def _matcher(kind: str) -> Callable[[str, tuple[Reference, ...]], Match]:
    if kind == "AVRO":
        from raftka.schemas.values.avro import matcher
    elif kind == "JSON":
        from raftka.schemas.values.json_schema import matcher
    elif kind == "PROTOBUF":
        from raftka.schemas.values.protobuf import matcher
    else:
        raise InvalidSchema(f"payloads of {kind} are not known")
    return matcher


def _reason(match: Match, payload: bytes) -> str | None:
    try:
        match(payload)
    except Misfit as misfit:
        return str(misfit)
    # A library may raise any error on bytes of clients: the check of other payloads goes on.
    except Exception as error:
        return f"{type(error).__name__} {error}".rstrip()
    return None


def read(source: BinaryIO) -> tuple[Json, list[bytes]] | None:
    """None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    question = json.loads(source.read(int.from_bytes(head)))
    return question, [source.read(size) for size in question["sizes"]]


def main() -> None:
    if sys.platform != "darwin":  # macOS knows no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    matchers = Matchers()
    while (came := read(sys.stdin.buffer)) is not None:
        answer = json.dumps(matchers.answer(*came)).encode()
        sys.stdout.buffer.write(len(answer).to_bytes(4) + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
