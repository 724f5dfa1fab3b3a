"""Users' names of Kerberos principals, by Kafka's `sasl.kerberos.principal.to.local.rules`
(auth_to_local). Knows no library and no login.

RULE:[n:format](pattern)s/from/to/g/L is for principals of n components, 1 or 2: the format makes a
text of them ($1, $2; $0 is the realm), the whole text must match the pattern, and what `from`
matches in it becomes `to`. DEFAULT is the first component, for principals of the own realm alone.
The first rule that fits decides. Patterns are those of the node's administrator, and the principal
is a stranger's: both are bounded, so that no name can keep the node for long.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from raftka.limits import PRINCIPAL_LENGTH, LimitExceeded

# in a pattern, at most: its time grows with the length of the name to the third power
MATCHED_REPEATS, SEARCHED_REPEATS = 3, 2
# of one or two components; what libraries escape is not among it
PRINCIPAL = re.compile(r"([^/@\\\s]+)(?:/([^/@\\\s]+))?@([^/@\\\s]+)")

_RULE = re.compile(
    r"RULE:\[([12]):([^\]]+)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g?))?/?([LU]?)|DEFAULT"
)
_REPEAT = re.compile(r"[*+]|\{\d*,\d*\}")


class LocalRule(NamedTuple):
    """`components` 0: DEFAULT."""

    components: int = 0
    format: str = ""
    pattern: re.Pattern[str] | None = None
    replaced: re.Pattern[str] | None = None
    replacement: str = ""
    everywhere: bool = False
    case: str = ""


def parse_local_rules(texts: Iterable[str]) -> tuple[LocalRule, ...]:
    """Raises ValueError, for whoever wrote them."""
    return tuple(map(_rule, texts))


def local_rules_fault(texts: Iterable[str]) -> str | None:
    try:
        parse_local_rules(texts)
    except ValueError as error:
        return str(error)
    return None


def local_name(rules: Iterable[LocalRule], own_realm: str, principal: str) -> str | None:
    """The user's name; None: no rule fits, or the one that does makes no simple name. Raises
    LimitExceeded.
    """
    if len(principal) > PRINCIPAL_LENGTH.value:
        raise LimitExceeded(PRINCIPAL_LENGTH, len(principal))
    match = PRINCIPAL.fullmatch(principal)
    if match is None:
        return None
    first, second, realm = match.groups()
    parts = [realm, first] if second is None else [realm, first, second]
    for rule in rules:
        name = _applied(rule, own_realm, parts)
        if name is not None:
            return name if name and not re.search(r"[/@\s]", name) else None
    return None


def _applied(rule: LocalRule, own_realm: str, parts: list[str]) -> str | None:
    """`parts`: the realm and the components."""
    if not rule.components:
        return parts[1] if parts[0] == own_realm else None
    if rule.components != len(parts) - 1:
        return None
    name = re.sub(r"\$(\d)", lambda number: parts[int(number[1])], rule.format)
    if rule.pattern is not None and rule.pattern.fullmatch(name) is None:
        return None
    if rule.replaced is not None:
        name = rule.replaced.sub(
            lambda found: _expand(rule.replacement, found), name, count=0 if rule.everywhere else 1
        )
    return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name


def _expand(replacement: str, found: re.Match[str]) -> str:
    return re.sub(r"\$(\d)", lambda number: found[int(number[1])] or "", replacement)


def _rule(text: str) -> LocalRule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text[:60]!r} is not RULE:[n:format](pattern)s/from/to/g/[LU] with n 1 or 2, nor "
            "DEFAULT"
        )
    if match[1] is None:
        return LocalRule()
    components = int(match[1])
    _check_numbers(match[2], components)
    pattern = _pattern(match[3], MATCHED_REPEATS) if match[3] is not None else None
    replaced = _pattern(match[4], SEARCHED_REPEATS) if match[4] is not None else None
    if replaced is not None:
        _check_numbers(match[5], replaced.groups)
    return LocalRule(
        components, match[2], pattern, replaced, match[5] or "", match[6] == "g", match[7]
    )


def _check_numbers(text: str, most: int) -> None:
    for number in re.findall(r"\$(\d?)", text):
        if not number or int(number) > most:
            raise ValueError(f"{text!r} has ${number}: there are $0 to ${most}")


def _pattern(text: str, most: int) -> re.Pattern[str]:
    plain = re.sub(r"\\.", "", text)  # without what a backslash takes its meaning
    if re.search(r"\)[*+{]", plain) or len(_REPEAT.findall(plain)) > most:
        raise ValueError(
            f"the pattern {text!r} could take too long: it may repeat no group, and have *, + and "
            f"{{}} {most} times at most"
        )
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"the pattern {text!r} is not one: {error}") from None
