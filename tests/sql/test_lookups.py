"""Questions by key are told from all others; only what Spark reads in the same way is a lookup."""

import pytest

from raftka.sql.language import parse
from raftka.sql.language.lookups import MOST_CONDITIONS, MOST_KEYS, Condition, Lookup, lookup_of
from raftka.sql.language.statements import Query


def read(text: str) -> Lookup | None:
    query = parse(text)
    assert isinstance(query, Query)
    return lookup_of(query)


@pytest.mark.parametrize(
    ("text", "lookup"),
    [
        ("SELECT * FROM t WHERE id = 'a'", Lookup("t", None, "id", ("a",))),
        (
            "select N, `two words` from T where ID=-7 ;",
            Lookup("T", ("N", "two words"), "ID", (-7,)),
        ),
        ("SELECT n FROM t WHERE id IN (1, 2, 1)", Lookup("t", ("n",), "id", (1, 2))),
        (
            "SELECT n FROM t WHERE id = 'a' AND WINDOWSTART >= 5 AND b < 'x'",
            Lookup(
                "t",
                ("n",),
                "id",
                ("a",),
                (Condition("WINDOWSTART", ">=", 5), Condition("b", "<", "x")),
            ),
        ),
        ("SELECT n -- all\nFROM t WHERE id = ''", Lookup("t", ("n",), "id", ("",))),
    ],
)
def test_a_question_by_key_is_a_lookup(text: str, lookup: Lookup) -> None:
    assert read(text) == lookup


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT * FROM t WHERE id = 'a' EMIT CHANGES",
        "SELECT * FROM t WHERE id = 'a' OR n = 1",
        "SELECT * FROM t WHERE id = 'a' AND n <> 1",
        "SELECT * FROM t WHERE id = 'a' AND n = m",
        f"SELECT * FROM t WHERE id = 'a'{' AND n = 1' * (MOST_CONDITIONS + 1)}",
        "SELECT * FROM t WHERE id = 'a' LIMIT 1",
        "SELECT * FROM t WHERE id > 'a'",
        "SELECT * FROM t WHERE id = n",
        "SELECT * FROM t WHERE id = NULL",
        "SELECT * FROM t WHERE id = 1.0",
        "SELECT * FROM t WHERE id = 7L",
        "SELECT * FROM t WHERE id = -'a'",
        "SELECT * FROM t WHERE id = 'it''s'",
        "SELECT * FROM t WHERE id = 'a\\n'",
        'SELECT * FROM t WHERE id = "a"',
        "SELECT * FROM t WHERE id IN ()",
        "SELECT * FROM t WHERE id IN (SELECT 1)",
        "SELECT DISTINCT n FROM t WHERE id = 'a'",
        "SELECT n AS m FROM t WHERE id = 'a'",
        "SELECT n + 1 FROM t WHERE id = 'a'",
        "SELECT t.n FROM t WHERE id = 'a'",
        "SELECT n FROM t, u WHERE id = 'a'",
        "FROM t WHERE id = 'a'",
        f"SELECT * FROM t WHERE id IN ({', '.join(map(str, range(MOST_KEYS + 1)))})",
    ],
)
def test_any_other_question_is_none(text: str) -> None:
    assert read(text) is None
