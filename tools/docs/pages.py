"""Pages of the site: the files, their titles, and their links rewritten for the site.

A code host shows each page as it is, and its relative links lead to files of the checkout. On the
site the pages of docs/ are at the top, and files that pages link to are below `files/`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
# Pages from outside docs/: the path in the checkout, the name on the site.
OUTSIDE = {
    "README.md": "overview",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changes",
    "SECURITY.md": "security-policy",
    "examples/README.md": "examples",
}
FILES = "files"  # the site's folder of linked files that are no pages
LINK = r"(?P<mark>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)"
# a code span that names a page, or a table of data, is a link on the site
SPAN = r"`(?P<span>(?:docs/[\w./-]+|[A-Z]+)\.(?:md|csv|jsonl))`"
REFERENCE = re.compile(
    f"{LINK}|{SPAN}|`[^`]*`"
)  # other code spans, so that no link is sought there
FENCE = re.compile(r" *(```|~~~)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//")


class PageError(ValueError):
    """A page that cannot be part of the site; the text names the page and the cause."""


@dataclass(frozen=True)
class Page:
    """One page: `path` is relative to the checkout, `name` is that of the site, without suffix."""

    path: str
    name: str
    text: str

    @property
    def title(self) -> str:
        """The first heading; raises PageError where there is none."""
        found = re.match(r"# (.+)\n", self.text)
        if found is None:
            raise PageError(f"{self.path}: the first line is no heading (# ...)")
        return found[1]

    @property
    def summary(self) -> str:
        """The first sentence below the title, without marks of links and code; may be empty."""
        paragraphs = "\n".join(prose_of(self.text)).split("\n\n")[1:]
        starts = re.compile(r"\s*(?:- |\d+\. )?(?=[A-Z0-9`*\[])")  # no table, heading or picture
        first = next((starts.sub("", each, 1) for each in paragraphs if starts.match(each)), "")
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).replace("`", "")
        return re.split(r"(?<=[.!?])\s", plain)[0].rstrip(".:").replace("**", "")


def read_pages(root: Path = ROOT) -> dict[str, Page]:
    """Return all pages of a checkout by their paths."""
    paths = [*OUTSIDE, *sorted(str(p.relative_to(root)) for p in (root / "docs").rglob("*.md"))]
    pages = {
        path: Page(
            path,
            OUTSIDE.get(path, path.removeprefix("docs/").removesuffix(".md")),
            (root / path).read_text(encoding="utf-8"),
        )
        for path in paths
    }
    names = [page.name for page in pages.values()]
    if double := {name for name in names if names.count(name) > 1}:
        raise PageError(f"two pages have the name {', '.join(sorted(double))} on the site")
    return pages


def stretches(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in stretches, and for each whether it is a block of code, with its fences."""
    stretch: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        found = FENCE.match(line)
        if found and not fence:
            yield "".join(stretch), False
            stretch, fence = [line], found[1]
        elif found and found[1] == fence:
            yield "".join([*stretch, line]), True
            stretch, fence = [], ""
        else:
            stretch.append(line)
    yield "".join(stretch), bool(fence)


def prose_of(text: str) -> list[str]:
    """Return the stretches of text between blocks of code."""
    return [stretch for stretch, is_code in stretches(text) if not is_code]


def references(page: Page) -> Iterator[str]:
    """Yield the checkout's paths that a page refers to, in order and without fragments."""
    for text in prose_of(page.text):
        for match in REFERENCE.finditer(text):
            if (path := _path(page, match)) is not None:
                yield path.partition("#")[0]


def for_site(page: Page, pages: Mapping[str, Page], root: Path = ROOT) -> tuple[str, set[str]]:
    """Return the page's text with links as they are on the site, and the files that it needs
    there, as paths of the checkout. Raises PageError for a link that leads nowhere.
    """
    files: set[str] = set()

    def rewrite(match: re.Match[str]) -> str:
        path = _path(page, match)
        if path is None:
            return match[0]
        file, sharp, fragment = path.partition("#")
        if file in pages:
            target = f"{_relative(page, pages[file].name)}.md{sharp}{fragment}"
        elif (root / file).is_file():
            files.add(file)
            target = _relative(page, f"{FILES}/{file}")
        elif match["span"]:  # of a file that there was, or that a user has
            return match[0]
        else:
            raise PageError(f"{page.path}: {match[0]} leads to no file of the checkout")
        text = match["text"] or (pages[file].title if file in pages else f"`{file}`")
        return f"{match['mark'] or ''}[{text}]({target})"

    text = "".join(
        stretch if is_code else REFERENCE.sub(rewrite, stretch)
        for stretch, is_code in stretches(page.text)
    )
    return text, files


def _path(page: Page, match: re.Match[str]) -> str | None:
    """The path of the checkout that a reference names, with its fragment; None: of elsewhere."""
    if match["target"] is None:
        span: str | None = match["span"]
        return span
    if ELSEWHERE.match(match["target"]):
        return None
    return os.path.normpath(f"{PurePosixPath(page.path).parent}/{match['target']}")


def _relative(page: Page, name: str) -> str:
    return os.path.relpath(name, PurePosixPath(page.name).parent)
