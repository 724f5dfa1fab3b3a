"""Types of settings: how text becomes a value, and which values are valid. Knows no setting by
name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class Type(IntEnum):
    """Types of settings, with their numbers in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BITS = {Type.INT: 32, Type.SHORT: 16, Type.LONG: 64}

Values = Mapping[str, Any]  # settings by name, parsed
# None: valid; else what is wrong, as a sentence without its subject
Check = Callable[[Any], str | None]


class SettingError(ValueError):
    """A name or a value that will not do; the text is for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: Type
    default: str | None
    check: Check | None = None
    # the broker's names for its default, the strongest first; a broker's own setting is its own
    # first
    synonyms: tuple[str, ...] = ()
    doc: str = ""
    dynamic: bool = False  # may be changed while the broker runs
    # False: known, so that Kafka's own files are taken, but nothing here looks at it
    used: bool = True

    @property
    def sensitive(self) -> bool:
        return self.type in (Type.PASSWORD, Type.UNKNOWN)

    def parse(self, text: str | None) -> Any:
        """The value; None stays None. Raises SettingError."""
        if text is None:
            return None
        value = self._read(text.strip())
        wrong = self.check(value) if self.check is not None else None
        if self.check is not None and wrong is not None:
            parts = value if isinstance(value, tuple) else ()
            culprit = next(
                (part for part in parts if self.check((part,)) is not None), text.strip()
            )
            raise SettingError(
                f"Invalid value {'[hidden]' if self.sensitive else culprit} for configuration "
                f"{self.name}: {wrong}"
            )
        return value

    def shown(self, text: str | None) -> str | None:
        """The value in the form in which Kafka gives it back: ` a , b ` is `a,b`, `TRUE` is
        `true`.
        """
        if text is None or self.type in (Type.STRING, Type.CLASS, Type.PASSWORD, Type.UNKNOWN):
            return text
        value = text.strip() if self.type is Type.DOUBLE else self._read(text.strip())
        if isinstance(value, bool):
            return "true" if value else "false"
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def _read(self, text: str) -> Any:
        match self.type:
            case Type.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise SettingError(
                        f"Invalid value {text} for configuration {self.name}: Expected value to "
                        "be either true or false"
                    )
                return text.lower() == "true"
            case Type.INT | Type.SHORT | Type.LONG:
                return self._read_number(text)
            case Type.DOUBLE:
                try:
                    return float(text)
                except ValueError:
                    raise self._no_number(text) from None
            case Type.LIST:
                return tuple(each.strip() for each in text.split(",")) if text else ()
        return text

    def _read_number(self, text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise self._no_number(text) from None
        if (
            not -(1 << BITS[self.type] - 1) <= value < 1 << BITS[self.type] - 1
            or not text.lstrip("+-").isascii()
            or "_" in text
        ):
            raise self._no_number(text)
        return value

    def _no_number(self, text: str) -> SettingError:
        return SettingError(
            f"Invalid value {text} for configuration {self.name}: Not a number of type "
            f"{self.type.name}"
        )


def at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"Value must be at least {low}"


def between(low: float, high: float) -> Check:
    def check(value: float) -> str | None:
        if not value >= low:  # a NaN is not
            return f"Value must be at least {low}"
        return None if value <= high else f"Value must be no more than {high}"

    return check


def one_of(*choices: str) -> Check:
    return lambda value: (
        None if value in choices else f"String must be one of: {', '.join(choices)}"
    )


def some_of(*choices: str) -> Check:
    def check(value: tuple[str, ...]) -> str | None:
        if len(set(value)) < len(value):
            return "Duplicate values are not allowed"
        return (
            None if set(value) <= set(choices) else f"String must be one of: {', '.join(choices)}"
        )

    return check


def either(allowed: int, otherwise: Check) -> Check:
    return lambda value: None if value == allowed else otherwise(value)
