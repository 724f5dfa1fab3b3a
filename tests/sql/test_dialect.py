"""Words of ksqlDB in Spark's: windows, functions, and the way back to the place of an error."""

from pathlib import Path

import pytest

from raftka.sql.language import StatementError, parse
from raftka.sql.language.dialect import translate
from raftka.sql.language.functions import ALIASES, FLAGGED, FORMATS, OTHERS

PAGE = Path(__file__).parents[2] / "docs" / "sql-functions.md"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("window", "call"),
    [
        ("TUMBLING (SIZE 1 MINUTE)", "window(_timestamp, '1 minute')"),
        ("tumbling (size 10 seconds)", "window(_timestamp, '10 seconds')"),
        ("HOPPING (SIZE 2 HOURS, ADVANCE BY 1 DAY)", "window(_timestamp, '2 hours', '1 day')"),
        ("SESSION (500 MILLISECONDS)", "session_window(_timestamp, '500 milliseconds')"),
    ],
)
def test_windows_are_functions_in_the_group(window: str, call: str) -> None:
    found = translate(f"SELECT k, count(*) FROM s WINDOW {window} WHERE n > 1 GROUP BY k")
    assert words(found.text) == f"SELECT k, count(*) FROM s WHERE n > 1 GROUP BY {call}, k"
    assert found.delays == {}


def test_bounds_of_a_window_are_milliseconds_under_their_names() -> None:
    found = translate(
        "SELECT WindowStart, WINDOWEND AS till, f(WINDOWSTART), s.windowstart FROM s "
        "WINDOW SESSION (1 HOUR) GROUP BY k HAVING WINDOWEND > 1"
    )
    start = "unix_millis(session_window.start)"
    end = "(unix_millis(session_window.end) - 3600000)"
    assert words(found.text) == (
        f"SELECT {start} AS WindowStart, {end} AS till, f({start}), s.windowstart FROM s "
        f"GROUP BY session_window(_timestamp, '1 hour'), k HAVING {end} > 1"
    )


def test_each_select_has_its_own_window() -> None:
    found = translate(
        "WITH a AS (SELECT WINDOWSTART FROM s WINDOW TUMBLING (SIZE 1 DAY, GRACE PERIOD 0 SECONDS) "
        "GROUP BY k) SELECT WINDOWSTART, x IS DISTINCT FROM y FROM a, b UNION SELECT 1, 2 FROM c "
        "WINDOW SESSION (1 DAY, GRACE PERIOD 2 HOURS) GROUP BY z"
    )
    assert words(found.text) == (
        "WITH a AS (SELECT unix_millis(window.start) AS WINDOWSTART FROM s GROUP BY "
        "window(_timestamp, '1 day'), k) SELECT WINDOWSTART, x IS DISTINCT FROM y FROM a, b UNION "
        "SELECT 1, 2 FROM c GROUP BY session_window(_timestamp, '1 day'), z"
    )
    assert found.delays == {"s": "0 seconds", "c": "2 hours"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'WINDOW TUMBLING (SIZE 1', `topk(a)`, \"FIELD(a)\" FROM s -- WINDOWSTART topk(a)\n",
        "/* WINDOW SESSION (x) */ SELECT sum(a) OVER w FROM s WINDOW w AS (PARTITION BY topk)",
        "SELECT WINDOWSTART, x.topk(1), topk FROM s -- 'end\n /* topk( */",
        "SELECT topk(a FROM s",
        "",
    ],
)
def test_texts_comments_names_and_sparks_own_words_stay(text: str) -> None:
    assert translate(text).text == text


def test_functions_are_sparks_also_in_each_other() -> None:
    found = translate(
        "SELECT Topk(ARRAY_LENGTH(array[1, 2]), 3), latest_by_offset(a -- newest\n + b) FROM s"
    )
    assert found.text == (
        "SELECT max_by(array_size(array[1, 2]), array_size(array[1, 2]), 3), "
        "max_by(a -- newest\n + b, nvl2(a -- newest\n + b, _offset, NULL)) FROM s"
    )


def test_arrows_of_lambdas_are_sparks_and_named_arguments_stay() -> None:
    found = translate(
        "SELECT transform(a, x => mask(x, digitChar => '9')), Reduce(b, 0, (s, x) => s + x), x => 1"
    )
    assert found.text == (
        "SELECT transform(a, x -> mask(x, digitChar => '9')), Reduce(b, 0, (s, x) -> s + x), x => 1"
    )


def test_a_flag_says_whether_null_counts() -> None:
    assert translate("latest_by_offset(a, false)").text == (
        "if(false, max_by(a, nvl2(a, _offset, NULL)), max_by(a, _offset))"
    )
    assert translate("latest_by_offset(a, 3)").text == (
        "reverse(max_by(a, nvl2(a, _offset, NULL), 3))"
    )


def test_places_lead_back_to_the_query() -> None:
    query = "SELECT WINDOWSTART, topk(nope, 3) FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k, last"
    found = translate(query)
    for word in ("SELECT", "nope", "FROM", "GROUP", "k, last"):
        assert found.place(found.text.index(word)) == query.index(word)
    assert found.place(found.text.index("max_by")) == query.index("topk")
    assert found.place(found.text.index("unix_millis")) == query.index("WINDOWSTART")
    assert found.place(found.text.index("window(")) == query.index("BY")


@pytest.mark.parametrize(
    ("query", "place", "message"),
    [
        ("SELECT 1 FROM s WINDOW TUMBLING (SIZE 1 WEEK) GROUP BY k", "WEEK", "MINUTE or"),
        ("SELECT 1 FROM s WINDOW TUMBLING (SIZE 0 DAYS) GROUP BY k", "0", "begins at 1"),
        ("SELECT 1 FROM s WINDOW TUMBLING (1 DAY) GROUP BY k", "1 DAY", "SIZE should"),
        ("SELECT 1 FROM s WINDOW HOPPING (SIZE 1 DAY) GROUP BY k", ")", ", should"),
        (
            "SELECT 1 FROM s WINDOW SESSION (1 DAY, RETENTION 2 DAYS) GROUP BY k",
            "RETENTION",
            "leave it out",
        ),
        ("SELECT 1 FROM s WINDOW SESSION (1 DAY)", "WINDOW", "GROUP BY the key"),
        ("SELECT k FROM s WINDOW SESSION (1 DAY) GROUP BY ALL", "WINDOW", "names its columns"),
        (
            "SELECT 1 FROM s WINDOW SESSION (1 DAY) WINDOW SESSION (1 DAY) GROUP BY k",
            "WINDOW",
            "leave one out",
        ),
        (
            "SELECT 1 FROM s JOIN t ON x WINDOW SESSION (1 DAY) GROUP BY k",
            "WINDOW",
            "session_window(a._timestamp, '1 day')",
        ),
        (
            "SELECT 1 FROM (SELECT 1) WINDOW SESSION (1 DAY, GRACE PERIOD 1 DAY) GROUP BY k",
            "WINDOW",
            "FROM the stream",
        ),
        (
            "SELECT 1 FROM s WINDOW SESSION (1 DAY, GRACE PERIOD 1 DAY) GROUP BY k UNION "
            "SELECT 1 FROM S WINDOW SESSION (1 DAY, GRACE PERIOD 2 DAYS) GROUP BY k",
            "WINDOW",
            "one for both",
        ),
        ("SELECT topk(a) FROM s", "topk", "TOPK(a, b), which is max_by("),
        ("SELECT latest_by_offset() FROM s", "latest", "LATEST_BY_OFFSET(a), which is max_by("),
        ("SELECT 1, as_map(a, b) FROM s", "as_map", "map_from_arrays"),
        ("SELECT format_date(a, 'yyyy-ww') FROM s", "'yyyy-ww'", "w in a format"),
        ("SELECT parse_date(a, 'EEE') FROM s", "'EEE'", "use y, M, d"),
        ("SELECT parse_date(a, b) FROM s", "b)", "in single quotes"),
    ],
)
def test_words_without_a_place_in_spark_are_refused(query: str, place: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse(f"CREATE STREAM x AS {query}")
    assert message in caught.value.message
    assert caught.value.at == len("CREATE STREAM x AS ") + query.rindex(place)


@pytest.mark.parametrize("depth", [30, 60])
def test_calls_in_calls_have_a_bound(depth: int) -> None:
    with pytest.raises(StatementError, match=r"characters in Spark's words|50 deep"):
        translate(f"SELECT {'latest_by_offset(' * depth}a{')' * depth} FROM s")


def test_plain_text_of_a_format_may_have_any_letters() -> None:
    query = "SELECT format_timestamp(t, 'yyyy-MM-dd''T''HH:mm', 'UTC') FROM s"
    assert "'yyyy-MM-dd''T''HH:mm')" in translate(query).text


def test_tables_of_functions_do_not_contradict_each_other() -> None:
    assert not ALIASES.keys() & OTHERS.keys()
    assert FORMATS.keys() | FLAGGED.keys() <= ALIASES.keys()


def test_the_page_has_each_function() -> None:
    assert words(PAGE.read_text().split("```")[1]) == f"text {', '.join(ALIASES)}"
