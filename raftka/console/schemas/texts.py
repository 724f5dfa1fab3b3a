"""Schemas as lines of text, and what differs between two."""

import json
from difflib import SequenceMatcher
from typing import NamedTuple

from raftka.console.limits import DIFFERENCE_LINES

PROTOBUF = "PROTOBUF"


class Line(NamedTuple):
    kind: str  # "same", "old" or "new"
    text: str


def pretty(kind: str, text: str) -> str:
    """Return the schema with a line for each of its parts. What is no JSON stays as it is, as
    Protobuf does.
    """
    if kind == PROTOBUF:
        return text.strip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def find_difference(old: str, new: str) -> list[Line]:
    """Return all lines of both, those that one alone has marked. Texts of very many lines are shown
    as all old, then all new: to compare them takes the square of their length.
    """
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > DIFFERENCE_LINES.value and before != after:
        return [Line("old", each) for each in before] + [Line("new", each) for each in after]
    lines: list[Line] = []
    for kind, at, end, new_at, new_end in SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            lines += [Line("same", each) for each in before[at:end]]
            continue
        lines += [Line("old", each) for each in before[at:end]]
        lines += [Line("new", each) for each in after[new_at:new_end]]
    return lines
