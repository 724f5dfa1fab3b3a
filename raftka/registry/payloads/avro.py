"""Avro payloads compared with a schema byte by byte. Makes no values, so a payload costs no
memory.
"""

from collections.abc import Callable

from raftka.registry.formats import avro
from raftka.registry.formats.avro_parts.types import Type
from raftka.registry.formats.schema import Reference

DEEPEST = 150  # values within values
SPARE_STEPS = 1_000  # of values without bytes, beside a step for each byte
INT_BITS, LONG_BITS = 32, 64


class Unfit(Exception):
    """The payload is no value of the schema; the text says why."""


def matcher(text: str, references: tuple[Reference, ...]) -> Callable[[bytes], None]:
    """A function that raises Unfit. Raises InvalidSchema."""
    root = avro.parse(text, references, new=False).root

    def match(payload: bytes) -> None:
        reader = _Reader(payload)
        reader.value(root, 0)
        if reader.position != len(payload):
            raise Unfit(f"{len(payload) - reader.position} bytes are left behind it")

    return match


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self._steps = len(data) + SPARE_STEPS

    def value(self, kind: Type, depth: int) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise Unfit("it has too many values without bytes")
        if depth > DEEPEST:
            raise Unfit(f"it is nested deeper than {DEEPEST} levels")
        match kind.kind:
            case "null":
                pass
            case "boolean":
                if self._take(1) not in (b"\0", b"\1"):
                    raise Unfit("a boolean is neither 0 nor 1")
            case "int":
                self._number(INT_BITS)
            case "long":
                self._number(LONG_BITS)
            case "float":
                self._take(4)
            case "double":
                self._take(8)
            case "bytes":
                self._take(self._number(LONG_BITS))
            case "string":
                self._string()
            case "fixed":
                self._take(kind.size)
            case "enum":
                self._one_of(kind.symbols, "symbols of an enum")
            case "union":
                self.value(
                    kind.branches[self._one_of(kind.branches, "branches of a union")], depth + 1
                )
            case "array":
                self._blocks(kind, depth, has_keys=False)
            case "map":
                self._blocks(kind, depth, has_keys=True)
            case _:
                for field in kind.fields:
                    self.value(field.type, depth + 1)

    def _blocks(self, kind: Type, depth: int, *, has_keys: bool) -> None:
        assert kind.items is not None
        while count := self._number(LONG_BITS):
            end = None
            if count < 0:
                count, size = -count, self._number(LONG_BITS)
                end = self.position + size
            for _ in range(count):
                if has_keys:
                    self._string()
                self.value(kind.items, depth + 1)
            if end is not None and end != self.position:
                raise Unfit("a block of an array or map has another size than it says")

    def _string(self) -> None:
        try:
            self._take(self._number(LONG_BITS)).decode()
        except UnicodeDecodeError:
            raise Unfit("a string is no UTF-8") from None

    def _one_of(self, choices: tuple[object, ...], what: str) -> int:
        index = self._number(INT_BITS)
        if not 0 <= index < len(choices):
            raise Unfit(f"{index} is none of {len(choices)} {what}")
        return index

    def _take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > len(self.data):
            raise Unfit("it ends too early")
        return self.data[start : self.position]

    def _number(self, bits: int) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise Unfit(f"a number does not end within {bits} bits")
        if value >> bits:
            raise Unfit(f"a number has more than {bits} bits")
        return value >> 1 ^ -(value & 1)
