"""Navigation of the site, from links: docs/index.md lists the sections and their pages, and each
further page is below the page that links to it first. So a new page needs one link.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tools.docs.pages import Page, PageError, references

INDEX = "docs/index.md"
SECTION = re.compile(r"## (.+)$")
ITEM = re.compile(r"- \[([^\]]+)\]\(([^)]+)\): (.+)$")


@dataclass(frozen=True)
class Entry:
    """A page in the navigation, by its path; `children` are the pages below it, by theirs."""

    path: str
    label: str
    summary: str
    children: tuple[str, ...] = ()


@dataclass(frozen=True)
class Navigation:
    """`sections`: the paths of each section's pages. `entries`: all but the index, by path, each
    behind the page that it is below.
    """

    sections: dict[str, tuple[str, ...]]
    entries: dict[str, Entry]
    orphans: tuple[str, ...]

    def below(self, path: str) -> list[Entry]:
        """Return the page's entry and all below it, depth first."""
        entry = self.entries[path]
        return [entry, *(each for child in entry.children for each in self.below(child))]


def navigate(pages: Mapping[str, Page]) -> Navigation:
    """Place every page; pages that no placed page refers to are `orphans`. Raises PageError where
    the index lists a page twice.
    """
    sections: dict[str, list[str]] = {}
    entries: dict[str, Entry] = {}
    for line in pages[INDEX].text.splitlines():
        if heading := SECTION.match(line):
            section = sections.setdefault(heading[1], [])
        elif item := ITEM.match(line):
            path = os.path.normpath(f"docs/{item[2]}")
            if path in entries:
                raise PageError(f"{INDEX} lists {path} twice: a page has one place")
            entries[path] = Entry(path, item[1], item[3].rstrip("."))
            section.append(path)
    waiting = [path for path in entries if path in pages]
    while waiting:
        path = waiting.pop(0)
        fresh = {
            target: None
            for target in references(pages[path])
            if target in pages and target != INDEX and target not in entries
        }
        for target in fresh:
            page = pages[target]
            entries[target] = Entry(target, page.title, page.summary)
        entry = entries[path]
        entries[path] = Entry(entry.path, entry.label, entry.summary, tuple(fresh))
        waiting += fresh
    orphans = sorted(pages.keys() - entries.keys() - {INDEX})
    return Navigation(
        {name: tuple(paths) for name, paths in sections.items()}, entries, tuple(orphans)
    )
