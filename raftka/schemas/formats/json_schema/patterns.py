"""Regular expressions of JSON Schemas, matched in bounded time whatever they are. Two dialects
occur: ECMAScript's, and Java's in practice.
"""

import re
from functools import lru_cache
from typing import NamedTuple

import jsonschema_rs

from raftka.schemas.formats.schema import InvalidSchema

SIZE = 1 << 18  # bytes of a compiled expression
LINEAR = jsonschema_rs.RegexOptions(size_limit=SIZE, dfa_size_limit=SIZE)
BACKTRACKING = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=10_000, size_limit=SIZE, dfa_size_limit=SIZE
)
KEPT = 1024  # compiled expressions
# characters; a longer one is not compiled, as that may take seconds: it counts as one that cannot
# be matched here
LONG = 5_000
SHOWN = 80  # characters in a message


class _Matcher(NamedTuple):
    validator: jsonschema_rs.Validator
    linear: bool


def check_pattern(pattern: str) -> None:
    """Raise InvalidSchema for a text that is an expression in no dialect that is known here."""
    if len(pattern) > LONG or _matcher(pattern) is not None:
        return
    try:
        re.compile(pattern)  # never matched with: it may take for ever
    except (re.error, RecursionError, OverflowError):
        raise InvalidSchema(f"{pattern[:SHOWN]!r} is no regular expression") from None


def matches(pattern: str, name: str) -> bool | None:
    """Return True if an expression matches a part of a name; None if it cannot be matched within
    bounds, or at all.
    """
    matcher = _matcher(pattern) if len(pattern) <= LONG else None
    if matcher is None:
        return None
    if matcher.validator.is_valid(name):
        return True
    if matcher.linear:
        return False
    try:
        matcher.validator.validate(name)
    except jsonschema_rs.ValidationError as error:
        return False if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Pattern) else None
    return True


@lru_cache(maxsize=KEPT)
def _matcher(pattern: str) -> _Matcher | None:
    """Neither engine takes expressions that grow beyond SIZE. The first one has no lookaround."""
    for options in (LINEAR, BACKTRACKING):
        try:
            return _Matcher(
                jsonschema_rs.Draft202012Validator(
                    {"pattern": pattern}, pattern_options=options, offline=True
                ),
                options is LINEAR,
            )
        except jsonschema_rs.ValidationError:
            pass
    return None
