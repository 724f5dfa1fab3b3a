"""Dead letters as JSON. Masked fields and headers are hidden, and no filter finds them."""

from collections.abc import Iterable, Sequence

from raftka.client.blocking.reader import FetchedRecord
from raftka.console.dead_letters.letters import Letter, read_letter
from raftka.console.decoding.decoder import JSON, NULL, TEXT, Decoded, Decoder
from raftka.console.decoding.masks import SHOWN, Masks
from raftka.json_values import Json, JsonObject
from raftka.wire.records import RecordHeaders

BRIEF_CHARACTERS = 300  # of a key, value or message in a list
FULL_CHARACTERS = 1_000_000  # of one in the view of a single letter


class Lens:
    """The part of a letter that a console shows."""

    def __init__(self, masked: Sequence[str] = (), decoder: Decoder | None = None) -> None:
        """`masked`: names and paths of fields, and names of headers. `decoder`: with the same
        masks. Raises ValueError.
        """
        self._masks = Masks(masked)
        self._decoder = decoder or Decoder(self._masks)

    def look_at(self, letter: Letter) -> Letter:
        """Return the letter as its visible headers tell it."""
        if not self._masks or not any(
            self._masks.hides_header(name) for name, _ in letter.record.headers
        ):
            return letter
        headers = tuple(
            (name, SHOWN.encode() if self._masks.hides_header(name) else value)
            for name, value in letter.record.headers
        )
        return read_letter(letter.record._replace(headers=headers))

    def texts_of(self, seen: Letter) -> Iterable[str]:
        """Return what a filter looks into, of a letter that was looked at."""
        for data in (seen.record.key, seen.record.value):
            if data is not None:
                yield self._decoder.decode(data).text
                if not self._masks:  # a text that is no JSON is found as it is, too
                    yield data.decode("utf-8", "replace")
        yield from seen.failure

    def brief(self, letter: Letter) -> JsonObject:
        """Return a row of a list."""
        seen = self.look_at(letter)
        return {
            **_place(seen.record),
            "timestamp": seen.record.timestamp,
            "key": self._value(seen.record.key, BRIEF_CHARACTERS),
            "value": self._value(seen.record.value, BRIEF_CHARACTERS),
            "kind": seen.failure.kind,
            "error": seen.failure.error[:BRIEF_CHARACTERS],
            "message": seen.failure.message[:BRIEF_CHARACTERS],
            "origin": origin_of(seen),
            "redriven_times": seen.redriven_times,
        }

    def full(self, letter: Letter) -> JsonObject:
        """Return all that may be shown of one letter. `edit`: texts that may be changed, null for
        those that may not.
        """
        seen, record = self.look_at(letter), letter.record
        return {
            **self.brief(letter),
            "key": self._value(record.key, FULL_CHARACTERS),
            "value": self._value(record.value, FULL_CHARACTERS),
            "error": seen.failure.error,
            "message": seen.failure.message,
            "stack": seen.failure.stack[:FULL_CHARACTERS],
            "convention": seen.convention,
            "details": dict(seen.details),
            "headers": self.headers(record.headers),
            "lacks_content": letter.lacks_content,
            "edit": {"key": self._editable(record.key), "value": self._editable(record.value)},
        }

    def headers(self, headers: RecordHeaders) -> list[JsonObject]:
        return [
            {"name": name, **_shown(self._decoder.header(name, value), FULL_CHARACTERS)}
            for name, value in headers
        ]

    def content(self, key: bytes | None, value: bytes | None) -> JsonObject:
        """Return a key and a value that would be sent."""
        return {
            "key": self._value(key, BRIEF_CHARACTERS),
            "value": self._value(value, BRIEF_CHARACTERS),
        }

    def _value(self, data: bytes | None, most: int) -> JsonObject:
        return _shown(self._decoder.decode(data), most)

    def _editable(self, data: bytes | None) -> str | None:
        """Return the text of bytes that hide nothing and that the text gives again."""
        if data is None:
            return ""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        found = self._decoder.decode(data)
        is_plain = found.kind in (JSON, TEXT) and found.schema_id is None
        return text if is_plain and found.text == text else None


PLAIN = Lens()


def _shown(found: Decoded, most: int) -> JsonObject:
    return {
        "kind": found.kind,
        "text": None if found.kind == NULL else found.text[:most],
        "is_cut": len(found.text) > most,
    }


def _place(record: FetchedRecord) -> JsonObject:
    return {"partition": record.partition, "offset": record.offset}


def origin_of(letter: Letter) -> Json:
    return None if letter.origin is None else letter.origin._asdict()
