"""Statements in a text: their ends, and what is no end."""

import pytest

from raftka.sql.language import parse
from raftka.sql.prompt.help import STATEMENTS, help_text
from raftka.sql.prompt.terminal import is_whole
from raftka.sql.prompt.texts import Typed, statements_of


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", [], ""),
        ("select 1", [], "select 1"),
        ("select 1;", [("select 1", False)], ""),
        ("select 1\\G", [("select 1", True)], ""),
        ("a; b\\G c", [("a", False), ("b", True)], "c"),
        (";; -- nothing\n;", [], ""),
        ("select ';' as `a;b`, \";\";", [("select ';' as `a;b`, \";\"", False)], ""),
        ("select 'it\\'s;';", [("select 'it\\'s;'", False)], ""),
        ("a -- ;\n;", [("a -- ;", False)], ""),
        ("a /* ; */ b;", [("a /* ; */ b", False)], ""),
        ("select 'open;", [], "select 'open;"),
        ("a; /* open;", [("a", False)], "/* open;"),
    ],
)
def test_ends_in_quotes_and_comments_are_none(
    text: str, statements: list[tuple[str, bool]], rest: str
) -> None:
    assert statements_of(text) == ([Typed(*each) for each in statements], rest)


@pytest.mark.parametrize("part", ["'", "/*", '"', "`", ";", "'a", "\\", "--\n", "/* "])
def test_splitting_is_linear(part: str) -> None:
    statements_of(part * 200_000)


@pytest.mark.parametrize("text", ["select 1;", "help", "help select", "exit", " ", "-- a", "a\\G "])
def test_enter_ends_a_whole_text(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize("text", ["select 1", "select ';", "a; b", "helpless"])
def test_enter_begins_a_line_in_a_text_without_its_end(text: str) -> None:
    assert not is_whole(text)


def test_help_has_each_statement() -> None:
    text = help_text("")

    assert all(form in text for form, _, _ in STATEMENTS.values())
    assert "CREATE TABLE owners" in help_text("create  table")
    assert help_text("create").count("CREATE ") >= 4
    assert "is it DESCRIBE?" in help_text("descrbe")


@pytest.mark.parametrize("name", STATEMENTS)
def test_examples_of_the_help_are_statements(name: str) -> None:
    (typed,), rest = statements_of(STATEMENTS[name][2])

    assert rest == ""
    parse(typed.text)
