"""Probes: bytes that a batch or record must have to hold a match. A search looks for them in the
opened bytes, and decodes only the records that have them.

A probe may find too much, since lengths and neighbours of records look like text too; it may never
find too little. None stands for "no probe": each record must be decoded.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

# Characters that are not in ASCII and match an ASCII letter when case is ignored, by that letter.
UNLIKE_ASCII = {"i": ("\u0130", "\u0131"), "k": ("\u212a",), "s": ("\u017f",)}
# A printable ASCII character, written in JSON by its number. What every writer escapes is in no
# probe.
ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
ESCAPED_ALWAYS = re.compile(r'["\\/\x00-\x1f\x7f]')
LEAST = 2  # characters of a probe: a shorter one is nearly everywhere
ENOUGH = 4  # characters of one that finds little else
# Of a regular expression: a class, or a character, with the quantifier behind it.
TOKEN = re.compile(
    r"(?:\[\^?\]?(?:\\.|[^\]\\])*\]|\\.|[^()])(?:(?:[*+?]|\{[^}]*\})[?+]*)?|[()]", re.DOTALL
)
# an escape of several characters, such as \\x41, or a class that does not end
UNCLEAR = re.compile(r"\\[^dDwWsSbBAZnrtfvaz\W].*|\\_.*|\[", re.DOTALL)
# one character that stands for itself, and its quantifier
LITERAL = re.compile(
    r"(?:\\(?=[ -~])(\W)|([ -~])(?<![.^$*+?{}\[\]()|\\]))((?:[*+?]|\{[^}]*\}).*|)", re.DOTALL
)


class Probe(NamedTuple):
    """Any of `needles`, or a match of `escaped`. With `folds` they are in lower case, and so are
    the bytes to be looked at.
    """

    needles: tuple[bytes, ...]
    folds: bool = False
    escaped: bool = False  # a text of JSON that has escapes may hold it too

    def is_in(self, data: bytes, lower: bytes, start: int, stop: int) -> bool:
        """Return whether the bytes from `start` to `stop` may hold a match. `lower`: `data` in
        lower case where any probe folds.
        """
        place = lower if self.folds else data
        return any(place.find(needle, start, stop) >= 0 for needle in self.needles) or (
            self.escaped and ESCAPED_ASCII.search(data, start, stop) is not None
        )


def exact(text: str) -> Probe | None:
    """Return a probe for a text as it stands."""
    data = text.encode("utf-8", "surrogatepass")
    return Probe((data,)) if data else None


def folded(text: str) -> Probe | None:
    """Return a probe for a text whose case does not count."""
    return _folded(longest(re.findall(r"[\x00-\x7f]+", text)))


def _folded(run: str) -> Probe | None:
    if len(run) < LEAST:
        return None
    run = run.lower()
    plain = longest(re.split("[iks]", run))
    if len(plain) >= ENOUGH:  # each further needle costs as much as the first
        return Probe((plain.encode(),), folds=True)
    others = [other for letter, some in UNLIKE_ASCII.items() if letter in run for other in some]
    return Probe((run.encode(), *(_lowered(other) for other in others)), folds=True)


def _lowered(text: str) -> bytes:
    """Return the bytes of the text, ASCII in lower case, as `bytes.lower` makes them."""
    return text.encode().lower()


def in_json(text: str) -> Probe | None:
    """Return a probe for a text inside a string of JSON, or in a value of another format that has
    its texts as UTF-8.
    """
    runs = ESCAPED_ALWAYS.split(text)
    run = longest(part for each in runs for part in re.findall(r"[\x20-\x7e]+", each))
    return Probe((run.encode(),), escaped=True) if len(run) >= LEAST else None


def of_pattern(pattern: str, ignores_case: bool) -> Probe | None:
    """Return a probe of the longest text that each match of a regular expression has. Text in
    groups and choices is left out.
    """
    run = longest(literals(pattern))
    if len(run) < LEAST:
        return None
    return _folded(run) if ignores_case else Probe((run.encode(),))


def literals(pattern: str) -> list[str]:
    """Return the ASCII texts that each match must have, in order; an empty list where that is not
    clear.
    """
    tokens = TOKEN.findall(pattern)
    if "|" in pattern or "(?" in pattern or any(map(UNCLEAR.fullmatch, tokens)):
        return []
    found, run, depth = [], "", 0
    for token in tokens:
        literal = LITERAL.fullmatch(token)
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        if depth or literal is None:
            found.append(run)
            run = ""
            continue
        run += literal[1] or literal[2]
        if literal[3] == "+":  # it comes at least once
            found.append(run)
            run = ""
        elif literal[3]:
            found.append(run[:-1])
            run = ""
    return [each for each in (*found, run) if each]


def longest(texts: Iterable[str]) -> str:
    return max(texts, key=len, default="")
