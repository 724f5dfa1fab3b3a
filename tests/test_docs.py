"""Statements of the documents about settings and commands are true."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import click
import pytest

from raftka.cli.commands import root
from raftka.cli.pipeline_status import COLUMNS as STATUS
from raftka.cluster.host.pages import HOST_FAMILIES
from raftka.metadata.configs.broker import DIFFERENCES
from raftka.metadata.configs.names import OURS
from tests.kit.documents import ROOT, rows
from tests.mutants.catalogue import MUTANTS

LOGS = {"debug", "info", "warning", "error", "_log"}
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))


def test_every_default_that_differs_stands_in_the_table_with_its_reason() -> None:
    told = [row for row in rows("## Defaults that differ") if len(row) == 4][1:]

    assert told == [[d.name, d.kafka, d.raftka, d.reason] for d in DIFFERENCES]


def test_our_own_names_stand_there_too() -> None:
    told = [row[:2] for row in rows("Names of our own") if len(row) == 3][1:]

    assert told == [
        [name, default] for name, _, default in (line.split() for line in OURS.split("\n") if line)
    ]


def commands(group: click.Group, name: str = "raftka") -> Iterator[str]:
    for each in group.commands.values():
        if isinstance(each, click.Group):
            yield from commands(each, f"{name} {each.name}")
        else:
            yield f"{name} {each.name}"


def test_every_command_stands_in_the_table() -> None:
    told = [row[0].strip("`") for row in rows("## The command line") if len(row) == 2][1:]

    assert sorted(told) == sorted(commands(root))


def logged(source: str) -> Iterator[str]:
    """Names of events that a module logs."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(name := node.args[0], ast.Constant)
            and isinstance(name.value, str)
        ):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else node.func.id
                if isinstance(node.func, ast.Name)
                else ""
            )
            if called in LOGS and re.fullmatch(r"[a-z]+(_[a-z]+)*", name.value):
                yield name.value
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "BoundedRate"
        ):
            yield node.args[1].value  # type: ignore[attr-defined]


def test_every_event_of_the_log_stands_in_the_table() -> None:
    sources = [
        path
        for top in (
            "raftka/broker",
            "raftka/cluster/host",
            "raftka/cluster/services",
            "compat/zookeeper_bridge",
        )
        for path in (ROOT / top).rglob("*.py")
    ]
    sources.append(ROOT / "raftka/cli/broker.py")
    events = {name for path in sources for name in logged(path.read_text())}
    told = {
        name
        for row in rows("### Events in the log")
        if len(row) == 4
        for name in re.findall(r"`(\w+)`", row[0])
    }

    assert sorted(told) == sorted(events)


def test_every_metric_of_a_host_stands_in_the_table() -> None:
    told = [
        (row[0].strip("`"), row[1], row[2]) for row in rows("| of the host | type") if len(row) == 3
    ][1:]

    assert told[: len(HOST_FAMILIES)] == [
        (name, kind, text) for name, (kind, text) in HOST_FAMILIES.items()
    ]


def test_documents_name_files_that_are_there() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"`((?:raftka|tests|bench|docs)/[\w./-]+)`", document.read_text()):
            assert (ROOT / path).exists(), f"{document.name}: {path}"


# in docs/, as `wc -w` counts: 60,500 to look things up, 9,500 of guides by task
MOST_WORDS = 70_000
WIDEST_LINE = 120
LONGEST_SENTENCE = 30  # words; a code span counts as one


def prose(text: str) -> Iterator[str]:
    """Yield the lines outside of code blocks and tables."""
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|"):
            yield line


def wide_lines(text: str) -> list[str]:
    return [line for line in prose(text) if len(line) > WIDEST_LINE]


def long_sentences(text: str) -> list[str]:
    """Return sentences of paragraphs and list items that are too long."""
    lines = [line.strip() for line in prose(text) if not line.startswith(("#", "!["))]
    paragraphs = re.split(r"\n\n+|\n(?=[-*] |\d+\. )", "\n".join(lines))
    sentences = [
        sentence
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.:!?])\s+", re.sub(r"`[^`]*`", "X", paragraph))
    ]
    return [each for each in sentences if len(re.findall(r"\S*\w\S*", each)) > LONGEST_SENTENCE]


def excess_words(texts: Iterable[str]) -> int:
    """Return the number of words beyond the limit for all pages together."""
    return max(0, sum(len(text.split()) for text in texts) - MOST_WORDS)


def test_documents_have_few_words() -> None:
    pages = [path for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")]

    assert excess_words(page.read_text() for page in pages) == 0


@pytest.mark.parametrize("check", [wide_lines, long_sentences])
def test_documents_have_narrow_lines_and_short_sentences(
    check: Callable[[str], list[str]],
) -> None:
    assert {page.name: wrong for page in DOCUMENTS if (wrong := check(page.read_text()))} == {}


def test_wide_lines_long_sentences_and_many_words_are_found() -> None:
    wide = "x" * (WIDEST_LINE + 1)
    long = "word " * (LONGEST_SENTENCE + 1)

    assert wide_lines(f"{wide}\n|{wide}|\n```\n{wide}\n```\n") == [wide]
    assert long_sentences(f"Short. {long}\n\n- {long[:-5]}\n\n|{long}|\n") == [long.strip()]
    assert excess_words(["word " * MOST_WORDS, "two words"]) == 2


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"\]\(([\w./-]+\.md)\)", document.read_text()):
            assert (document.parent / path).exists(), f"{document.name}: {path}"


LONGEST_PAGE = 2_300  # words: it is read to its end
# Pages for looking things up, and their bounds.
LONGER_PAGES = {
    "bridge.md": 4_000,
    "compatibility.md": 5_100,
    "operations.md": 7_700,
    "performance.md": 5_300,
    "registry.md": 4_000,
    "reliability.md": 4_000,
    "map.md": 3_100,
    "security.md": 5_000,
}


def long_pages(texts: Mapping[str, str]) -> dict[str, int]:
    """Return the pages that are too long, with their words."""
    words = {name: len(text.split()) for name, text in texts.items()}
    return {
        name: count for name, count in words.items() if count > LONGER_PAGES.get(name, LONGEST_PAGE)
    }


def test_pages_are_short() -> None:
    docs = ROOT / "docs"
    texts = {str(page.relative_to(docs)): page.read_text() for page in docs.rglob("*.md")}

    assert long_pages(texts) == {}
    assert long_pages({"new.md": "word " * 2_301, "operations.md": "word " * 2_301}) == {
        "new.md": 2_301
    }


def test_the_columns_of_the_pipelines_status_are_explained() -> None:
    told = re.findall(
        r"`([^`]+)`",
        " ".join(
            row[0]
            for row in rows("## Running", (ROOT / "docs" / "pipeline" / "project.md").read_text())
        ),
    )

    assert [column for column in STATUS if column not in told] == ["flow"]


def unknown_commands(text: str) -> list[str]:
    """Return the commands in code spans of `text` that the command line does not have."""
    unknown = []
    for span in re.findall(r"`raftka ([a-z][^`]*)`", text):
        command: click.Command = root
        for word in span.split():
            if not isinstance(command, click.Group) or not re.fullmatch(r"[a-z-]+", word):
                break
            found = command.get_command(click.Context(command), word)
            if found is None:
                unknown.append(f"raftka {span}")
                break
            command = found
    return unknown


def test_documents_name_commands_that_exist() -> None:
    texts = {document.name: document.read_text() for document in DOCUMENTS}

    assert {name: wrong for name, text in texts.items() if (wrong := unknown_commands(text))} == {}
    assert unknown_commands(
        "`raftka topics crate x`, `raftka topics list`, `raftka chaos ...`"
    ) == ["raftka topics crate x"]


def test_attacks_are_shown_by_tests_and_planted_bugs_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    cited = set(re.findall(r"`(test_[a-z0-9_]+)`", text))
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_[a-z0-9_]+)\(", path.read_text())
    }
    planted = set(re.findall(r"mutant `([a-z0-9_]+)`", text))

    assert len(cited) > 10
    assert cited - written == set()
    assert planted - MUTANTS.keys() == set()


LARGEST_PICTURE = 200_000


def test_pictures_are_there_small_and_shown() -> None:
    """`./run screenshots` takes them."""
    shown = {
        (document.parent / path).resolve()
        for document in DOCUMENTS
        for path in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", document.read_text())
    }

    assert shown == set((ROOT / "docs" / "images").iterdir())
    assert all(
        each.read_bytes().startswith((b"\x89PNG", b"<svg"))
        and each.stat().st_size < LARGEST_PICTURE
        for each in shown
    )
