"""Masked fields: values that the console never shows, and that no search finds.

A mask is a name, for a field at any depth and for headers, or a path such as `card.number` or
`$.card.number`, from the top; elements of arrays count as their array. What has no structure that
shows its fields is hidden as a whole where it could hold one.
"""

import json
import re
from collections.abc import Iterable

from raftka.json_values import Json

SHOWN = "***"
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
NESTED = ("{", "[")
# signs of a text inside of JSON that could hold a field with its value: JSON, XML, name=value
HOLDS_FIELDS = re.compile(r'[{\[:=<"]')
ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")  # of JSON, also of JSON inside of JSON


class Masks:
    """The masked fields of a console. False when there are none."""

    def __init__(self, fields: Iterable[str]) -> None:
        """Raise ValueError for a text that names no field."""
        fields = tuple(fields)
        self._headers = frozenset(fields)  # names of headers may have dots
        self._names: set[str] = set()
        self._paths: set[tuple[str, ...]] = set()
        for text in fields:
            path = tuple(text.removeprefix("$").removeprefix(".").replace("[*]", "").split("."))
            if not all(path):
                raise ValueError(f"{text!r} names no field: a mask is a name, or a path as a.b.c")
            if len(path) == 1 and not text.startswith("$"):
                self._names.add(path[0])
            else:
                self._paths.add(path)
        self._words = frozenset(self._names | {path[-1] for path in self._paths})

    def __bool__(self) -> bool:
        return bool(self._words)

    def hides_header(self, name: str) -> bool:
        return name in self._words or name in self._headers

    def could_be_in(self, text: str) -> bool:
        """Return whether a text without structure names a masked field."""
        if any(word in text for word in self._words):
            return True
        if "\\" not in text:
            return False
        plain = without_escapes(text)
        return any(word in plain for word in self._words)

    def hide(self, text: str) -> str:
        """Replace masked values in a text of JSON by "***"; all else stays as it is written. A text
        inside of JSON that could hold fields is replaced when it names a masked one.
        """
        pieces, position = list[str](), 0
        for start, stop in self._spans(text):
            pieces += (text[position:start], json.dumps(SHOWN))
            position = stop
        return "".join((*pieces, text[position:]))

    def _spans(self, text: str) -> Iterable[tuple[int, int]]:
        path: list[str] = []  # names of the fields around
        opened: list[bool] = []  # objects (True) and arrays around
        is_name, hidden_from, hidden_depth = False, -1, 0
        for match in TOKEN.finditer(text):
            token = match.group()
            if token in "}]":
                if opened.pop():
                    path.pop()
                if hidden_from >= 0 and len(opened) == hidden_depth:
                    yield hidden_from, match.end()
                    hidden_from = -1
            elif token == ",":
                is_name = opened[-1]
            elif token == ":":
                is_name = False
            elif is_name:
                path[-1] = json.loads(token)
            else:
                begins = token in NESTED
                if hidden_from < 0 and self._is_masked(path, opened, token):
                    if begins:
                        hidden_from, hidden_depth = match.start(), len(opened)
                    else:
                        yield match.span()
                if begins:
                    opened.append(token == "{")
                    is_name = token == "{"
                    if is_name:
                        path.append("")

    def _is_masked(self, path: list[str], opened: list[bool], token: str) -> bool:
        if any(name in self._names for name in path) or any(
            tuple(path[: len(each)]) == each for each in self._paths
        ):
            return True
        if token[0] != '"':
            return False
        inner = json.loads(token)
        return HOLDS_FIELDS.search(inner) is not None and self.could_be_in(inner)


def without_escapes(text: str) -> str:
    """Return a text with the characters that JSON's escapes stand for, and without backslashes."""
    plain = ESCAPED.sub(lambda match: chr(int(match[1], 16)), text).replace("\\", "")
    # characters outside of the basic plane are two escapes
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


NO_MASKS = Masks(())


def parse_json(text: str) -> Json:
    """Raise ValueError for a text that is no JSON, or none that can be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
