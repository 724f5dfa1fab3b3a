"""Helpers for the options of connectors: names in any case as Spark hands them on, and what is wrong with a value in a sentence."""

import difflib
import os
from collections.abc import Mapping, Sequence

from raftka.pipeline.errors import OptionRefused

SPARKS = ("checkpointlocation", "queryname", "path")  # Spark adds these to the options of its sinks


def known_options(given: Mapping[str, str], known: Sequence[str], prefixes: Sequence[str] = ()) -> dict[str, str]:
    """Options by name in small letters. Raises OptionRefused for others."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name in known or name in SPARKS or any(name.startswith(prefix) for prefix in prefixes):
            continue
        near = difflib.get_close_matches(name, known, 1)
        others = ", ".join([*known, *(f"{prefix}*" for prefix in prefixes)])
        raise OptionRefused(f"there is no option {name}" + (f": is it {near[0]}?" if near else f"; there are {others}"))
    return options


def with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in options.items() if name.startswith(prefix)}


def whole(options: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Raises OptionRefused for what is no whole number in these bounds."""
    text = options.get(name, str(default)).strip()
    if not text.isdecimal() or not least <= int(text) <= most:
        raise OptionRefused(f"{name} is {text!r}: it is to be a whole number from {least} to {most}")
    return int(text)


def names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in options.get(name, "").split(",") if each.strip())


def from_environment(variable: str, use: str) -> str:
    """Read a secret where it is used: it stands in no file, no plan and no log. Raises OptionRefused."""
    value = os.environ.get(variable, "")
    if not value:
        raise OptionRefused(f"{use} is to come from the environment variable {variable}, which is not set where this task runs")
    return value
