"""Values in Confluent's framing, read by the schemas of the console's registry."""

import threading
import time
from collections.abc import Callable
from functools import lru_cache

from raftka.console.decoding.decoder import AVRO, JSON, PROTOBUF, Decoder, NotReadable
from raftka.console.decoding.masks import Masks
from raftka.console.settings import ConsoleSettings
from raftka.json_values import Json
from raftka.pipeline.records.registry_client import (
    RegistryAccess,
    RegistryAway,
    RegistryClient,
    UnknownSchema,
)
from raftka.pipeline.records.schema_readers import Read, ReaderCache
from raftka.schemas.framing import HEADER_BYTES, schema_id_of
from raftka.schemas.values import Misfit, avro
from raftka.schemas.values.json_text import parse_json

AWAY_S = 5.0  # a registry that did not answer is not asked again so soon
FRESH_S = 200.0  # readers are made anew then: a registry may be made anew
EXTRA = "pip install raftka[registry] reads it"
KINDS = {"AVRO": AVRO, "PROTOBUF": PROTOBUF, "JSON": JSON}


def decoder_of(settings: ConsoleSettings) -> Decoder:
    """Return the decoder of a console: one for all its calls."""
    return _decoder(_access(settings), tuple(settings.masked))


def access_of(settings: ConsoleSettings) -> RegistryAccess:
    """Return how the console's registry is asked: one login for all users of the console."""
    name, password = settings.registry_login or (None, "")
    return RegistryAccess((settings.registry,), name, password, settings.registry_ca)


def _access(settings: ConsoleSettings) -> RegistryAccess | None:
    return access_of(settings) if settings.registry else None


@lru_cache(maxsize=8)
def _decoder(access: RegistryAccess | None, masked: tuple[str, ...]) -> Decoder:
    client = _client(access)
    return Decoder(Masks(masked), None if client is None else FramedReader(client))


def client_of(settings: ConsoleSettings) -> RegistryClient | None:
    """Return the client of the console's registry; None: it has none."""
    return _client(_access(settings))


@lru_cache(maxsize=8)
def _client(access: RegistryAccess | None) -> RegistryClient | None:
    return None if access is None else RegistryClient(access, pause=lambda seconds: None)


class FramedReader:
    """Reads framed bytes. Raises NotReadable. For many threads."""

    def __init__(self, client: RegistryClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._lock = threading.Lock()  # of questions: two threads do not ask for one schema
        self._kinds: dict[int, str] = {}
        self._readers = ReaderCache(self._make_reader)
        self._fresh_until = clock() + FRESH_S
        self._away_until, self._away_reason = float("-inf"), ""

    def __call__(self, data: bytes) -> tuple[str, Json]:
        schema_id = schema_id_of(data)
        with self._lock:
            if self._clock() < self._away_until:
                raise NotReadable(self._away_reason)
            if self._clock() >= self._fresh_until:
                self._fresh_until = self._clock() + FRESH_S
                self._readers.clear()
            try:
                value = self._readers.read(schema_id, data[HEADER_BYTES:])
            except (Misfit, UnknownSchema) as error:
                raise NotReadable(str(error)) from None
            except RegistryAway as error:
                self._away_until = self._clock() + AWAY_S
                self._away_reason = f"schema {schema_id}: {error}"
                raise NotReadable(self._away_reason) from None
        return self._kinds[schema_id], value

    def _make_reader(self, schema_id: int) -> Read:
        """Raise Misfit, and the client's errors."""
        schema = self._client.schema(schema_id)
        self._kinds[schema_id] = KINDS.get(schema.kind, JSON)
        try:
            if schema.kind == "AVRO":
                return avro.make_reader(avro.put_references_inside(schema, self._client), schema_id)
            if schema.kind == "PROTOBUF":
                from raftka.schemas.values import protobuf

                descriptor = self._client.schema(schema_id, serialized=True)
                return protobuf.make_reader(descriptor, self._client)
        except ImportError as error:
            raise Misfit(
                f"it is {schema.kind} of schema {schema_id}, and {error.name} is missing: {EXTRA}"
            ) from None
        return parse_json
