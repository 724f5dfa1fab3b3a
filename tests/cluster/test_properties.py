"""server.properties: read as java.util.Properties reads it, written so that it reads back the
same.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.cluster.properties import parse, render


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc: 3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n   \n  a=1", {"a": "1"}),
        ("a=1,\\\n    2,\\\n    3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        (
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093",
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        ),
        ("a\\=b=c\\u0020d\\t", {"a=b": "c d\t"}),
        ("empty=\nalso", {"empty": "", "also": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x # not a comment", {"a": "x # not a comment"}),
        ("a=last\\", {"a": "last"}),
    ],
)
def test_a_file_is_parsed_as_java_does(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


def test_a_broken_escape_is_an_error() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse("a=\\u12x4")


TEXT = st.text(st.characters(codec="ascii", exclude_characters="\x0b\x1c\x1d\x1e\x1f"))


@given(st.dictionaries(TEXT.filter(bool), TEXT.map(str.rstrip)))
def test_written_properties_are_read_back(properties: dict[str, str]) -> None:
    assert parse(render(properties, "a heading\nof two lines")) == properties
