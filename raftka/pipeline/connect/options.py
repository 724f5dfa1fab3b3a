"""Helpers for the options of connectors: names in any case as Spark passes them on, and errors as
sentences.
"""

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raftka.pipeline.errors import OptionRefused

SPARKS = ("checkpointlocation", "queryname", "path")  # Spark adds these to the options of its sinks


def known_options(
    given: Mapping[str, str], known: Sequence[str], prefixes: Sequence[str] = ()
) -> dict[str, str]:
    """Options by name in small letters. Raises OptionRefused for others."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name in known or name in SPARKS or any(name.startswith(prefix) for prefix in prefixes):
            continue
        near = difflib.get_close_matches(name, known, 1)
        others = ", ".join([*known, *(f"{prefix}*" for prefix in prefixes)])
        raise OptionRefused(
            f"there is no option {name}"
            + (f": is it {near[0]}?" if near else f"; there are {others}")
        )
    return options


def with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name[len(prefix) :]: value for name, value in options.items() if name.startswith(prefix)
    }


def whole(options: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Return an option that is a whole number within bounds. Raise OptionRefused."""
    text = options.get(name, str(default)).strip()
    if not text.isdecimal() or not least <= int(text) <= most:
        raise OptionRefused(
            f"{name} is {text!r}: it is to be a whole number from {least} to {most}"
        )
    return int(text)


def names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in options.get(name, "").split(",") if each.strip())


def from_environment(variable: str, use: str) -> str:
    """Read a secret where it is used: it stands in no file, no plan and no log. Raises
    OptionRefused.
    """
    value = os.environ.get(variable, "")
    if not value:
        raise OptionRefused(
            f"{use} is to come from the environment variable {variable}, which is not set where "
            "this task runs"
        )
    return value


LONGEST = 1_000_000  # of a unit of time
UNIT_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}
SPAN = re.compile(r"(\d{1,7})\s*(second|minute|hour|day)s?")
KEEP_REMOVED_S = 7 * UNIT_S["day"]  # so long older changes do not bring back a row that was removed


@dataclass(frozen=True, slots=True)
class Keyed:
    """Columns by which a sink changes rows instead of adding them: of the rows with one key the
    last one counts.
    """

    key: tuple[str, ...]
    order: str | None = None  # of two rows with a key the one with the higher value stays
    delete: str | None = None  # a boolean column: true removes the row

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raises OptionRefused."""
        for name in (*self.key, *(each for each in (self.order, self.delete) if each is not None)):
            if name not in columns:
                raise OptionRefused(
                    f"{self._use(name)} names {name}, which is no column: there are "
                    f"{', '.join(columns)}"
                )

    def _use(self, name: str) -> str:
        return "key" if name in self.key else "order" if name == self.order else "delete"


def span_s(text: str, name: str) -> int:
    """Seconds of a time such as `7 days`, or 0. Raises OptionRefused."""
    match = SPAN.fullmatch(text.strip().lower())
    if text.strip() != "0" and (match is None or int(match[1]) > LONGEST):
        raise OptionRefused(
            f"{name} is {text!r}: it is to be a time, such as 7 days, 12 hours or 30 minutes; or 0"
        )
    return 0 if match is None else int(match[1]) * UNIT_S[match[2]]


def keyed(options: Mapping[str, str]) -> Keyed | None:
    """Read `key`, `order` and `delete`; None: rows are added. Raises OptionRefused."""
    key = names(options, "key")
    order, delete = (options.get(name, "").strip() or None for name in ("order", "delete"))
    if not key:
        for name, given in (("order", order), ("delete", delete)):
            if given is not None:
                raise OptionRefused(f"{name} decides between rows with one key: it needs a key")
        return None
    if len(set(key)) < len(key):
        raise OptionRefused(f"key names a column twice: {', '.join(key)}")
    for name, given in (("order", order), ("delete", delete)):
        if given in key:
            raise OptionRefused(
                f"{name} names {given}, which is of the key: rows with one key have one value of it"
            )
    if order is not None and order == delete:
        raise OptionRefused(f"order and delete name one column, {order}")
    return Keyed(key, order, delete)
