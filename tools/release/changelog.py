"""CHANGELOG.md: sections of versions below "Unreleased", and the step that makes a section of it.

A section whose version is not out yet has "(unreleased)" in place of its date: the text of the
first release waits there, and the lines of "Unreleased" join it.
"""

import re
from datetime import date
from typing import NamedTuple

UNRELEASED = "## Unreleased"
WAITING = "unreleased"  # in place of the date
HEADING = re.compile(r"## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)")
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class ChangelogError(ValueError):
    """The text is not as it should be."""


class Section(NamedTuple):
    version: str
    date: str  # ISO 8601, or "unreleased"
    body: str


class Changelog(NamedTuple):
    head: str
    unreleased: str
    sections: list[Section]  # the newest first


def parse_version(text: str) -> tuple[int, int, int]:
    """Raises ChangelogError unless it is MAJOR.MINOR.PATCH."""
    match = VERSION.fullmatch(text)
    if match is None:
        raise ChangelogError(f"{text!r} is not a version: MAJOR.MINOR.PATCH is, such as 0.2.0")
    return int(match[1]), int(match[2]), int(match[3])


def parse(text: str) -> Changelog:
    """Raises ChangelogError for a heading that is not one, and for versions out of order."""
    head, *parts = re.split(r"(?m)^(?=## )", text)
    if not parts or parts[0].partition("\n")[0] != UNRELEASED:
        raise ChangelogError(f'the first section is not "{UNRELEASED}"')
    sections = []
    for part in parts[1:]:
        line, _, body = part.partition("\n")
        match = HEADING.fullmatch(line)
        if match is None:
            raise ChangelogError(f"{line!r} is not a heading like ## 0.2.0 (2027-01-31)")
        parse_version(match[1])
        if match[2] != WAITING:
            date.fromisoformat(match[2])
        sections.append(Section(match[1], match[2], body.strip()))
    versions = [parse_version(each.version) for each in sections]
    if versions != sorted(set(versions), reverse=True):
        raise ChangelogError("the versions are not in order, the newest first")
    if any(each.date == WAITING for each in sections[1:]):
        raise ChangelogError("only the newest version may be unreleased")
    return Changelog(head, parts[0].partition("\n")[2].strip(), sections)


def render(changelog: Changelog) -> str:
    blocks = [changelog.head.strip(), UNRELEASED, changelog.unreleased]
    for each in changelog.sections:
        blocks += [f"## {each.version} ({each.date})", each.body]
    return "\n\n".join(block for block in blocks if block) + "\n"


def release_section(text: str, version: str, day: str) -> str:
    """Return the text with the section of that version, dated, and an empty "Unreleased". Raises
    ChangelogError when nothing has changed, or the version is out already.
    """
    log = parse(text)
    body, older = log.unreleased, log.sections
    if older and older[0].version == version:
        if older[0].date != WAITING:
            raise ChangelogError(f"{version} was released on {older[0].date}")
        between = "\n\n" if body.startswith("#") else "\n"  # headings, or one list
        body, older = f"{older[0].body}{between}{body}".strip(), older[1:]
    elif older and older[0].date == WAITING:
        raise ChangelogError(f"{older[0].version} waits to be released first")
    if not body:
        raise ChangelogError(f'"{UNRELEASED}" is empty: there is nothing to release')
    section = Section(version, day, body)
    released = render(log._replace(unreleased="", sections=[section, *older]))
    parse(released)
    return released
