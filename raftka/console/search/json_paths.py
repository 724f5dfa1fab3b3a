"""Comparisons with places in JSON: `$.order.id == "x"`, `$.items[*].price > 5`, `$.trace exists`.

A place that is not there matches nothing, `!=` included. Numbers compare with numbers, texts with
texts; `contains` looks into a text, or for an element of an array.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raftka.console.limits import PATH_STEPS
from raftka.console.search.probes import Probe, in_json
from raftka.json_values import Json

STEP = re.compile(
    r"""\.(?P<name>[^\s.\[\]"'=!<>]+)|\[(?P<at>-?\d+)\]|\[(?P<all>\*)\]"""
    r"""|\[(?P<text>"(?:[^"\\]|\\.)*")\]"""
)
COMPARISON = re.compile(r"\s*(==|!=|>=|<=|>|<|contains\b|exists\b)\s*(.*)", re.DOTALL)
EVERY = None  # the step of `[*]` and `.*`
Step = str | int | None


class NoPath(ValueError):
    """The text is no comparison. The text says why."""


@dataclass(frozen=True, slots=True)
class Comparison:
    steps: Sequence[Step]
    operator: str
    wanted: Json

    @classmethod
    def of(cls, text: str) -> "Comparison":
        """Raise NoPath."""
        text = text.strip()
        if not text.startswith("$"):
            raise NoPath(f'{text}: a path begins with $, as $.order.id == "x"')
        steps, position = [], 1
        while (match := STEP.match(text, position)) is not None:
            steps.append(_step(match))
            position = match.end()
        if len(steps) > PATH_STEPS.value:
            raise NoPath(f"a path has at most {PATH_STEPS.value} steps")
        comparison = COMPARISON.fullmatch(text, position)
        if comparison is None:
            raise NoPath(
                f"{text}: behind the path comes ==, !=, >, >=, <, <=, contains or exists, not "
                f"{text[position:].strip() or 'nothing'}"
            )
        operator, rest = comparison[1], comparison[2].strip()
        if operator == "exists":
            if rest:
                raise NoPath(f"{text}: nothing comes behind exists")
            return cls(tuple(steps), operator, None)
        return cls(tuple(steps), operator, _literal(rest))

    def matches(self, value: Json) -> bool:
        return any(map(self._compare, _places(value, self.steps)))

    def _compare(self, found: Json) -> bool:
        wanted = self.wanted
        match self.operator:
            case "exists":
                return True
            case "==":
                return _equal(found, wanted)
            case "!=":
                return not _equal(found, wanted)
            case "contains":
                if isinstance(found, str):
                    return isinstance(wanted, str) and wanted in found
                return isinstance(found, list) and any(_equal(each, wanted) for each in found)
        if not _are_ordered(found, wanted):
            return False
        match self.operator:
            case ">":
                return bool(found > wanted)
            case ">=":
                return bool(found >= wanted)
            case "<":
                return bool(found < wanted)
        return bool(found <= wanted)

    def probes(self) -> list[Probe]:
        """Of values that are JSON as text, or have their names and texts as UTF-8."""
        names = [each for each in self.steps if isinstance(each, str)]
        found = [in_json(names[-1]) if names else None]
        if isinstance(self.wanted, str) and self.operator in ("==", "contains"):
            found.append(in_json(self.wanted))
        return [each for each in found if each is not None]


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return EVERY if match["name"] == "*" else match["name"]
    if match["at"] is not None:
        return int(match["at"])
    return EVERY if match["all"] else str(json.loads(match["text"]))


def _literal(text: str) -> Json:
    """A value of JSON; a text may do without quotes. Raise NoPath."""
    if not text:
        raise NoPath("a value is missing behind the comparison")
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text[0] in "\"'{[":
            raise NoPath(f"{text} is no value of JSON") from None
        return text


def _places(value: Json, steps: Sequence[Step]) -> Iterator[Json]:
    waiting = [(value, 0)]
    while waiting:
        found, at = waiting.pop()
        if at == len(steps):
            yield found
            continue
        step = steps[at]
        if isinstance(found, Mapping):
            if step is EVERY:
                waiting += [(each, at + 1) for each in found.values()]
            elif isinstance(step, str) and step in found:
                waiting.append((found[step], at + 1))
        elif isinstance(found, list):
            if step is EVERY:
                waiting += [(each, at + 1) for each in found]
            elif isinstance(step, int) and -len(found) <= step < len(found):
                waiting.append((found[step], at + 1))


def _equal(found: Json, wanted: Json) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


def _are_ordered(found: Json, wanted: Json) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return False
    return (isinstance(found, int | float) and isinstance(wanted, int | float)) or (
        isinstance(found, str) and isinstance(wanted, str)
    )
