"""The format of a key or value, found by itself or chosen: JSON, a schema's Avro or Protobuf, text,
MessagePack, else hexadecimal.

What is shown, searched and exported goes through here, so that masked fields are hidden in all
three. A format that is chosen by hand shows no more than the one that is found: masked fields stay
hidden in it.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from raftka.console.decoding.masks import NO_MASKS, SHOWN, Masks, parse_json
from raftka.json_values import Json
from raftka.schemas.framing import HEADER_BYTES, MAGIC

NULL, JSON, TEXT, HEX, MASKED = "null", "json", "text", "hex", "masked"
AVRO, PROTOBUF, MSGPACK = "avro", "protobuf", "msgpack"
AUTO = "auto"
CHOICES = (AUTO, JSON, TEXT, HEX, MSGPACK)  # a schema's format is that of the schema
NUMBER_BYTES = (4, 8)  # of binary keys that are numbers

Absent: Final = object()  # the value of what has no structure


class NotReadable(Exception):
    """The bytes cannot be read with their schema now. The text says why."""


# Reads framed bytes: the format of their schema, and the value. Raises NotReadable.
ReadFramed = Callable[[bytes], tuple[str, Json]]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The part of a key, value or header that may be shown."""

    kind: str
    text: str  # as it is shown: JSON of a value with structure, "" of null
    value: Json = Absent  # with structure; masked fields are "***"
    schema_id: int | None = None
    problem: str | None = None  # why no better format was found


NOTHING = Decoded(NULL, "")


class Decoder:
    """Decodes what it is given. Thread-safe as far as `read_framed` is."""

    def __init__(self, masks: Masks = NO_MASKS, read_framed: ReadFramed | None = None) -> None:
        """`read_framed`: by a registry; None: there is no registry."""
        self._masks, self._read_framed = masks, read_framed

    @property
    def has_masks(self) -> bool:
        return bool(self._masks)

    @property
    def keeps_text(self) -> bool:
        """Return whether the texts of a decoded value stand in its bytes, as UTF-8 or as escapes of
        JSON. Not so with schemas: an enum is a number.
        """
        return self._read_framed is None

    def decode(self, data: bytes | None, wanted: str = AUTO) -> Decoded:
        """`wanted`: of CHOICES."""
        if data is None:
            return NOTHING
        found = self._find(data)
        if wanted in (AUTO, found.kind) or found.kind == MASKED:
            return found
        return self._as(data, wanted, found)

    def header(self, name: str, data: bytes | None) -> Decoded:
        if data is not None and self._masks.hides_header(name):
            return Decoded(MASKED, SHOWN)
        return self.decode(data)

    def _as(self, data: bytes, wanted: str, found: Decoded) -> Decoded:
        """Show the bytes in another form. With masks it shows what was found, or nothing."""
        if wanted == TEXT and not self.has_masks:
            return Decoded(TEXT, data.decode("utf-8", "replace"))
        if wanted == TEXT and found.kind == JSON:
            return Decoded(TEXT, found.text)
        if wanted == HEX:
            if self.has_masks and found.kind != TEXT:
                return Decoded(MASKED, SHOWN, problem="its bytes could hold masked fields")
            return Decoded(HEX, data.hex())
        if wanted == MSGPACK and (value := _msgpack(data)) is not Absent:
            return self._structured(MSGPACK, _json_text(value))
        return Decoded(found.kind, found.text, found.value, found.schema_id, f"it is no {wanted}")

    def _find(self, data: bytes) -> Decoded:
        problem, schema_id = None, None
        if len(data) >= HEADER_BYTES and data[0] == MAGIC:
            schema_id = int.from_bytes(data[1:HEADER_BYTES])
            if self._read_framed is None:
                problem = f"it could be written with schema {schema_id}: --registry URL reads it"
            else:
                try:
                    kind, value = self._read_framed(data)
                    return self._structured(kind, _json_text(value), schema_id)
                except NotReadable as error:
                    problem = str(error)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._binary(data, schema_id, problem)
        if text.lstrip()[:1] in ("{", "["):
            try:
                return self._structured(JSON, text)
            except ValueError as error:
                problem = f"it is no JSON: {error}"
        if not _is_printable(text):
            return self._binary(data, schema_id, problem)
        if self.has_masks and self._masks.could_be_in(text):
            return Decoded(MASKED, SHOWN, problem="a text that names a masked field")
        return Decoded(TEXT, text, problem=problem)

    def _structured(self, kind: str, text: str, schema_id: int | None = None) -> Decoded:
        """Raise ValueError for a text that is no JSON."""
        value = parse_json(text)
        if self.has_masks:
            text = self._masks.hide(text)
            value = parse_json(text)
        return Decoded(kind, text, value, schema_id)

    def _binary(self, data: bytes, schema_id: int | None, problem: str | None) -> Decoded:
        if data[:1] and data[0] >= 0x80 and (value := _msgpack(data)) is not Absent:
            return self._structured(MSGPACK, _json_text(value))
        if self.has_masks and len(data) not in NUMBER_BYTES:
            return Decoded(MASKED, SHOWN, problem="its bytes could hold masked fields")
        if problem is None and len(data) in NUMBER_BYTES:
            problem = f"as a number: {int.from_bytes(data, signed=True)}"
        return Decoded(HEX, data.hex(), schema_id=schema_id, problem=problem)


def _is_printable(text: str) -> bool:
    return all(char.isprintable() or char in "\t\r\n" for char in text)


def _msgpack(data: bytes) -> Json:
    """A map or array of MessagePack with texts as keys, else Absent."""
    import msgpack

    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except Exception:  # of many kinds, also of the standard library's
        return Absent
    try:
        json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return Absent
    return value if isinstance(value, dict | list) else Absent


def _json_text(value: Json) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> Json:
    """Values of Avro and Protobuf that JSON has not. Raise TypeError."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case Decimal() | UUID():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
    raise TypeError(f"a {type(value).__name__}")
