"""The records that a search looks for: all conditions must hold."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from raftka.console.decoding.decoder import (
    AUTO,
    AVRO,
    JSON,
    NOTHING,
    PROTOBUF,
    TEXT,
    Absent,
    Decoded,
    Decoder,
)
from raftka.console.search.json_paths import Comparison
from raftka.console.search.patterns import compile_pattern
from raftka.console.search.probes import Probe, exact, folded, of_pattern
from raftka.json_values import Json
from raftka.wire.records import Record

ANYWHERE, KEY, VALUE, HEADERS = "any", "key", "value", "headers"
PLACES = (ANYWHERE, KEY, VALUE, HEADERS)
# formats whose text is searched where fields are masked: that of others is not in their bytes
READABLE = (JSON, TEXT, AVRO, PROTOBUF)
MASK_WRITES = b'*"'  # no record need have these where a masked field is shown


@dataclass(frozen=True, slots=True)
class Formats:
    """Formats that keys and values are read in, of `decoder.CHOICES`."""

    key: str = AUTO
    value: str = AUTO


AS_FOUND = Formats()


class Seen:
    """A record that is looked at. It is decoded when a condition needs it, and once."""

    def __init__(self, record: Record, decoder: Decoder, formats: Formats = AS_FOUND) -> None:
        self.record, self._decoder, self._formats = record, decoder, formats
        self._key: Decoded | None = None
        self._value: Decoded | None = None

    @property
    def key(self) -> Decoded:
        if self._key is None:
            self._key = self._decoder.decode(self.record.key, self._formats.key)
        return self._key

    @property
    def value(self) -> Decoded:
        if self._value is None:
            self._value = self._decoder.decode(self.record.value, self._formats.value)
        return self._value

    def headers(self) -> Iterator[tuple[str, Decoded]]:
        for name, data in self.record.headers:
            yield name, self._decoder.header(name, data)

    def texts(self, place: str) -> Iterator[str]:
        """The texts of a search: the bytes as UTF-8, and the decoded value where it has other
        texts. With masked fields the decoded value alone.
        """
        if place in (ANYWHERE, VALUE):
            yield from self._texts(self.record.value, lambda: self.value)
        if place in (ANYWHERE, KEY):
            yield from self._texts(self.record.key, lambda: self.key)
        if place in (ANYWHERE, HEADERS):
            for name, data in self.record.headers:
                yield name
                yield from self._texts(data, partial(self._decoder.header, name, data))

    def _texts(self, data: bytes | None, decoded: Callable[[], Decoded]) -> Iterator[str]:
        if data is None:
            return
        if not self._decoder.has_masks:
            yield data.decode("utf-8", "surrogateescape")
            if self._decoder.keeps_text or (found := decoded()).schema_id is None:
                return
            yield found.text
        elif (found := decoded()).kind in READABLE:
            yield found.text


class Condition(Protocol):
    """`probes`: those that a record must have all, where it has no text but in its bytes. `matches`
    raises TooLong.
    """

    def matches(self, seen: Seen) -> bool: ...
    def probes(self) -> Sequence[Probe]: ...


class Text:
    """A text anywhere, or in one place."""

    def __init__(self, text: str, place: str = ANYWHERE, *, ignores_case: bool = False) -> None:
        self._text, self._place, self._ignores_case = text, place, ignores_case
        self._lower = text.lower()

    def matches(self, seen: Seen) -> bool:
        if not self._ignores_case:
            return any(self._text in text for text in seen.texts(self._place))
        return any(self._lower in text.lower() for text in seen.texts(self._place))

    def probes(self) -> Sequence[Probe]:
        found = folded(self._lower) if self._ignores_case else exact(self._text)
        return [] if found is None else [found]


class Matching:
    """A match of a regular expression in one text of the record."""

    def __init__(self, pattern: str, place: str = ANYWHERE, *, ignores_case: bool = False) -> None:
        """Raise NoPattern."""
        self._pattern = compile_pattern(pattern, ignores_case=ignores_case)
        self._place = place
        self._probe = of_pattern(pattern, ignores_case)

    def matches(self, seen: Seen) -> bool:
        return any(map(self._pattern.search, seen.texts(self._place)))

    def probes(self) -> Sequence[Probe]:
        return [] if self._probe is None else [self._probe]


class Header:
    """A header of that name; with a value, one that has it."""

    def __init__(self, name: str, value: str | None = None) -> None:
        self._name, self._value = name, value

    def matches(self, seen: Seen) -> bool:
        return any(
            name == self._name and (self._value is None or self._value == decoded.text)
            for name, decoded in seen.headers()
        )

    def probes(self) -> Sequence[Probe]:
        return [each for each in (exact(self._name),) if each is not None]


class Path:
    """A comparison with a place in the key or the value."""

    def __init__(self, comparison: Comparison, place: str = VALUE) -> None:
        self._comparison, self._place = comparison, place

    def matches(self, seen: Seen) -> bool:
        decoded = seen.key if self._place == KEY else seen.value
        return self._comparison.matches(_structure(decoded)) if decoded is not NOTHING else False

    def probes(self) -> Sequence[Probe]:
        return self._comparison.probes()


def _structure(decoded: Decoded) -> Json:
    """A text without structure is the value at `$`."""
    if decoded.value is not Absent:
        return decoded.value
    return decoded.text if decoded.kind == TEXT else None


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold, and times in ms, both included."""

    conditions: Sequence[Condition] = ()
    from_ms: int | None = None
    to_ms: int | None = None

    def is_in_time(self, timestamp: int) -> bool:
        return (self.from_ms is None or timestamp >= self.from_ms) and (
            self.to_ms is None or timestamp <= self.to_ms
        )

    def matches(self, seen: Seen) -> bool:
        """Raise TooLong."""
        return self.is_in_time(seen.record.timestamp) and all(
            each.matches(seen) for each in self.conditions
        )

    def probes(self, decoder: Decoder) -> list[Probe]:
        """Those that a record must have all, unless a schema has written a part of it. None that
        has what masks write: a record need not have that.
        """
        found = [probe for each in self.conditions for probe in each.probes()]
        if decoder.has_masks:
            found = [
                probe
                for probe in found
                if not any(byte in MASK_WRITES for needle in probe.needles for byte in needle)
            ]
        return found
