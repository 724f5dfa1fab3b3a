"""Principals of certificates: the subject as Java's X500Principal writes it (RFC 2253), and Kafka's
`ssl.principal.mapping.rules` (KIP-371).
"""

import re
from typing import NamedTuple

from raftka.security.certificates import LONG_FORM, elements, read_certificate

# The attribute types that RFC 2253 names; every other is written as its number, with its value in
# hex.
KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# by ASN.1 tag
STRINGS = {
    12: "utf-8",
    19: "ascii",
    22: "ascii",
    20: "latin-1",
    30: "utf-16-be",
    28: "utf-32-be",
    27: "latin-1",
}
ESCAPED = frozenset(',=+<>#;"\\')

RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|DEFAULT")


class Rule(NamedTuple):
    """`pattern` None: DEFAULT, the name as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Raises ValueError, for whoever wrote them."""
    rules, position = [], 0
    while True:
        position += len(text[position:]) - len(text[position:].lstrip())
        match = RULE.match(text, position)
        if match is None:
            raise ValueError(
                f"ssl.principal.mapping.rules: {text[position : position + 60]!r} is not "
                "RULE:pattern/replacement/[LU] or DEFAULT"
            )
        rules.append(_rule(match))
        rest = text[match.end() :].lstrip()
        if not rest:
            return tuple(rules)
        if not rest.startswith(","):
            raise ValueError("ssl.principal.mapping.rules: a comma is missing between two rules")
        position = len(text) - len(rest) + 1


def _rule(match: re.Match[str]) -> Rule:
    if match[1] is None:
        return Rule()
    try:
        pattern = re.compile(match[1].replace("\\/", "/"))
        replacement = match[2].replace("\\/", "/")
        for number in re.findall(r"\$(\d)", replacement):
            if int(number) > pattern.groups:
                raise ValueError(
                    f"ssl.principal.mapping.rules: ${number} in a replacement, but its pattern "
                    f"has {pattern.groups} groups"
                )
    except re.error as error:
        raise ValueError(
            f"ssl.principal.mapping.rules: the pattern {match[1]!r} is not one: {error}"
        ) from None
    return Rule(pattern, replacement, match[3])


def rules_fault(text: str) -> str | None:
    try:
        parse_rules(text)
    except ValueError as error:
        return str(error)
    return None


def apply_rules(rules: tuple[Rule, ...], name: str) -> str | None:
    """The principal's name by the first rule that the whole name matches; None: there is no such
    rule.
    """
    for pattern, replacement, case in rules:
        if pattern is None:
            return name
        if (match := pattern.fullmatch(name)) is not None:
            found = re.sub(r"\$(\d)", lambda number: match[int(number[1])] or "", replacement)
            return found.lower() if case == "L" else found.upper() if case == "U" else found
    return None


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) that OpenSSL has verified; the innermost part of
    the name comes first. Raises ValueError.
    """
    return render_name(read_certificate(certificate).subject)


def render_name(name: bytes) -> str:
    """Of a DER-encoded Name: SEQUENCE OF SET OF SEQUENCE {type, value}."""
    (whole,) = elements(name)
    rendered = [
        "+".join(_attribute(each.content) for each in elements(part.content))
        for part in elements(whole.content)
    ]
    return ",".join(reversed(rendered))


def _attribute(content: bytes) -> str:
    number, (tag, value, whole) = elements(content)
    kind = _dotted(number.content)
    encoding = STRINGS.get(tag)
    if kind not in KEYWORDS or encoding is None:
        return f"{KEYWORDS.get(kind, kind)}=#{whole.hex()}"
    return f"{KEYWORDS[kind]}={_escape(value.decode(encoding, 'replace'))}"


def _escape(value: str) -> str:
    escaped = "".join(
        "\\00" if each == "\0" else f"\\{each}" if each in ESCAPED else each for each in value
    )
    inner = escaped.strip(" ")
    lead = len(escaped) - len(escaped.lstrip(" "))
    trail = len(escaped) - lead - len(inner)
    return "\\ " * lead + inner + "\\ " * trail


def _dotted(number: bytes) -> str:
    """An object identifier."""
    values, value = [], 0
    for byte in number:
        value = value << 7 | byte & 0x7F
        if not byte & LONG_FORM:
            values.append(value)
            value = 0
    first = min(values[0] // 40, 2)
    return ".".join(map(str, [first, values[0] - 40 * first, *values[1:]]))
