"""The site of the documents: built without a warning, whole, and without anything from elsewhere.
Planted faults show that each is found.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed: ./run setup does it")

from tools.docs.build import build, index_of
from tools.docs.navigation import INDEX, navigate
from tools.docs.pages import OUTSIDE, Page, PageError, for_site, read_pages

# tags that fetch what they name, when a page is shown
FETCHED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
LONGEST_SUMMARY = 240  # columns of a line in llms.txt, without the link


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "html"
    build(out)
    return out


class Tags(HTMLParser):
    """The links of a page, the addresses that it fetches, and the ids that links may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value for name, value in attrs if value is not None}
        self.ids |= {named[name] for name in ("id", "name") if name in named}
        if tag in FETCHED and FETCHED[tag] in named:
            if named.get("rel") != "alternate":
                self.fetched.append(named[FETCHED[tag]])
            self.links.append(named[FETCHED[tag]])
        elif tag == "a" and "href" in named:
            self.links.append(named["href"])


def is_foreign(address: str) -> bool:
    return bool(urlsplit(address).netloc)


def dead_links(site: Path) -> Iterator[str]:
    """Yield links between files of the site that lead to no file, or to no place in it."""
    pages = {page: Tags(page.read_text()) for page in site.rglob("*.html")}
    for page, tags in pages.items():
        for link in tags.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = pages.get(target)
            if not target.is_file() or (
                parts.fragment and there is not None and unquote(parts.fragment) not in there.ids
            ):
                yield f"{page.relative_to(site)}: {link}"


def test_pages_fetch_nothing_from_other_hosts(site: Path) -> None:
    pages = {page.name: Tags(page.read_text()).fetched for page in site.rglob("*.html")}
    styles = "\n".join(style.read_text() for style in site.rglob("*.css"))

    assert {
        name: bad for name, found in pages.items() if (bad := [*filter(is_foreign, found)])
    } == {}
    assert re.findall(r"(?:url\(|@import\s)['\"]?(?:https?:)?//[^)'\"]+", styles) == []


def test_links_within_the_site_lead_somewhere(site: Path) -> None:
    assert list(dead_links(site)) == []


def test_dead_links_and_foreign_addresses_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<h1 id="top"></h1><img src="//elsewhere.example/a.png">')
    (tmp_path / "page.html").write_text(
        '<a href="there.html#top"></a><a href="there.html#gone"></a><a href="gone.html"></a>'
    )

    assert sorted(dead_links(tmp_path)) == ["page.html: gone.html", "page.html: there.html#gone"]
    assert [*filter(is_foreign, Tags((tmp_path / "there.html").read_text()).fetched)] == [
        "//elsewhere.example/a.png"
    ]


def test_each_page_is_there_as_markdown_too(site: Path) -> None:
    for page in read_pages().values():
        text = (site / f"{page.name}.md").read_text()
        html = (site / f"{page.name}.html").read_text()

        assert text.startswith(f"# {page.title}\n")
        assert "toctree" not in text
        assert f'href="{Path(page.name).name}.md"' in html
        for _, target in re.findall(
            r"\[([^\]]*)\]\(([\w./-]+\.(?:md|csv|png|svg))(?:#[\w-]+)?\)", text
        ):
            assert (site / f"{page.name}.md").parent.joinpath(target).exists(), target


def test_the_index_for_machines_has_a_line_for_each_page(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    lines = re.findall(r"^- \[(.+?)\]\((.+?)\.md\)(?:: (.+))?$", text, re.MULTILINE)
    pages = read_pages()

    assert sorted(name for _, name, _ in lines) == sorted(
        page.name for path, page in pages.items() if path != INDEX
    )
    assert [name for _, name, summary in lines if not 0 < len(summary) <= LONGEST_SUMMARY] == []
    assert text.startswith("# raftka\n\n> ")


def test_every_page_has_a_place_in_the_navigation(site: Path) -> None:
    navigation = navigate(read_pages())

    assert navigation.orphans == ()
    assert navigation.entries["docs/pipeline.md"].children != ()
    index = Tags((site / "index.html").read_text()).links
    for path in navigation.entries:
        assert f"{read_pages()[path].name}.html" in index, path


def page(path: str, text: str) -> Page:
    return Page(path, OUTSIDE.get(path, path.removeprefix("docs/").removesuffix(".md")), text)


def test_a_new_page_is_below_the_first_that_links_to_it() -> None:
    pages = {
        each.path: each
        for each in (
            page(INDEX, "# x\n\nAll of it.\n\n## Tasks\n\n- [Do](do.md): it is done.\n"),
            page("docs/do.md", "# Doing\n\nSee [new](part/new.md) and `docs/also.md`.\n"),
            page("docs/part/new.md", "# New\n\nThe *first* `sentence`. The next.\n"),
            page("docs/also.md", "# Also\n\n| a | b |\n|---|---|\n\nAfter the table: text.\n"),
            page("docs/lost.md", "# Lost\n\n```sh\n[not a link](do.md)\n```\n"),
        )
    }

    navigation = navigate(pages)

    assert navigation.sections == {"Tasks": ("docs/do.md",)}
    assert navigation.entries["docs/do.md"].children == ("docs/part/new.md", "docs/also.md")
    assert navigation.orphans == ("docs/lost.md",)
    assert index_of(pages[INDEX], navigation, pages) == (
        "# x\n\n> All of it\n\n## Tasks\n\n- [Do](do.md): it is done\n"
        "- [New](part/new.md): The *first* sentence\n- [Also](also.md): After the table: text\n"
    )


def test_a_page_that_the_index_lists_twice_is_refused() -> None:
    items = "- [Do](do.md): it is done.\n" * 2
    pages = {INDEX: page(INDEX, f"# x\n\nAll.\n\n## Tasks\n\n{items}")}

    with pytest.raises(PageError, match=r"lists docs/do\.md twice"):
        navigate(pages)


def test_links_are_rewritten_for_the_site(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "app.py").touch()
    pages = {
        each.path: each
        for each in (
            page("README.md", "# R\n"),
            page("docs/a.md", "# A page\n"),
            page("docs/part/b.md", "# B\n"),
        )
    }
    text = (
        "[a](../a.md#x), `docs/a.md`, [`docs/a.md`](../a.md), [r](../../README.md), "
        "[app](../../examples/app.py), [out](https://e.example/a.md), `docs/gone.md`\n"
        "```sh\ncat `docs/a.md`\n```\n"
    )

    written, files = for_site(page("docs/part/b.md", text), pages, tmp_path)

    assert written == (
        "[a](../a.md#x), [A page](../a.md), [`docs/a.md`](../a.md), [r](../overview.md), "
        "[app](../files/examples/app.py), [out](https://e.example/a.md), `docs/gone.md`\n"
        "```sh\ncat `docs/a.md`\n```\n"
    )
    assert files == {"examples/app.py"}
    with pytest.raises(PageError, match=r"docs/part/b\.md: .*gone"):
        for_site(page("docs/part/b.md", "[gone](gone.md)"), pages, tmp_path)


@pytest.mark.parametrize(
    ("addition", "says"),
    [
        ("\nSee [here](#no-such-heading).\n", "Sphinx has warnings"),
        ("\nSee [there](no-such-page.md).\n", "leads to no file"),
    ],
)
def test_a_site_with_a_dead_link_is_not_built(tmp_path: Path, addition: str, says: str) -> None:
    root = small_checkout(tmp_path)
    with (root / INDEX).open("a") as file:
        file.write(addition)

    with pytest.raises(PageError, match=says):
        build(tmp_path / "out", root)


def test_a_site_with_an_orphan_is_not_built(tmp_path: Path) -> None:
    root = small_checkout(tmp_path)
    (root / "docs" / "lost.md").write_text("# Lost\n\nNo page leads here.\n")

    with pytest.raises(PageError, match=r"no page leads to docs/lost\.md"):
        build(tmp_path / "out", root)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(PageError, match="name another folder"):
        build(tmp_path)
    assert (tmp_path / "mine").exists()


def small_checkout(folder: Path) -> Path:
    """A checkout with the pages from outside docs/, as short ones, and an index."""
    root = folder / "checkout"
    for path in OUTSIDE:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"# {path}\n\nA page.\n")
    (root / "docs").mkdir()
    items = "".join(f"- [{path}](../{path}): a page.\n" for path in OUTSIDE)
    (root / INDEX).write_text(f"# x\n\nAll.\n\n## Pages\n\n{items}")
    return root


def test_the_checkout_of_the_planted_faults_is_sound(tmp_path: Path) -> None:
    build(tmp_path / "out", small_checkout(tmp_path))

    assert (tmp_path / "out" / "index.html").is_file()
