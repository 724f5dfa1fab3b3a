"""Joins and tables of tables in Spark's words, with places that lead back; texts and comments are
left as they are.
"""

import pytest

from raftka.sql.language.errors import StatementError
from raftka.sql.language.going_on import Prepared, prepare
from raftka.sql.language.rewriting import Edit, rewrite
from raftka.sql.language.table_joins import Shape

KEYS = {"t": ("id",), "u": ("id",), "w": ("k", "WINDOWSTART")}
SIDES = "LATERAL VIEW inline(array(_side_0))"
CHANGED = "_changed_key AS _row_key, _changed_at AS _row_order"


def prepared(query: str, *, has_changes: bool = False) -> Prepared:
    return prepare(
        query, lambda name: KEYS.get(name.lower()), goes_on=True, has_changes=has_changes
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            "SELECT a.x FROM a JOIN b WITHIN 1 MINUTE ON a.x = b.y OR 1 = 2 WHERE x > 1",
            "SELECT a.x FROM a JOIN b ON (a.x = b.y OR 1 = 2) AND b._timestamp BETWEEN "
            "a._timestamp - INTERVAL 1 minute AND a._timestamp + INTERVAL 1 minute WHERE x > 1",
        ),
        (
            "SELECT *, q.* FROM `a-b` AS q FULL OUTER JOIN b c WITHIN (1 SECOND, 2 DAYS) GRACE "
            "PERIOD 0 SECONDS ON left(q.x, 1) = c.y",
            "SELECT * EXCEPT (q._timestamp, c._timestamp), q.* EXCEPT (_timestamp) FROM `a-b` AS q "
            "FULL OUTER JOIN b c ON (left(q.x, 1) = c.y) AND c._timestamp BETWEEN q._timestamp - "
            "INTERVAL 1 second AND q._timestamp + INTERVAL 2 days",
        ),
        (
            "SELECT x FROM (SELECT * FROM a JOIN b WITHIN 1 DAY ON a.x = b.y) WHERE y = 'WITHIN'",
            "SELECT x FROM (SELECT * EXCEPT (a._timestamp, b._timestamp) FROM a JOIN b ON "
            "(a.x = b.y) AND b._timestamp BETWEEN a._timestamp - INTERVAL 1 day AND a._timestamp "
            "+ INTERVAL 1 day) WHERE y = 'WITHIN'",
        ),
        (
            "SELECT * FROM s JOIN T ON upper(s.k) = T.ID -- JOIN u\n WHERE m > 1",
            f"SELECT s.*, T.* FROM _joined_0 {SIDES} s LATERAL VIEW inline(array(_side_1)) T -- "
            "JOIN u\n WHERE m > 1",
        ),
        (
            "SELECT 1 FROM s x JOIN t ON (t.id = x.k) LEFT JOIN u ON x.k = u.id, s",
            f"SELECT 1 FROM _joined_0 {SIDES} x LATERAL VIEW inline(array(_side_1)) t "
            "LATERAL VIEW inline(array(_side_2)) u, s",
        ),
        ("SELECT x FROM s JOIN r ON s.a = r.a", "SELECT x FROM s JOIN r ON s.a = r.a"),
        (
            "SELECT extract(DAY FROM d), x IS DISTINCT FROM y FROM s",
            "SELECT extract(DAY FROM d), x IS DISTINCT FROM y FROM s",
        ),
    ],
)
def test_joins_of_ksqldb_have_words_of_spark(query: str, text: str) -> None:
    assert prepared(query).text == text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT id FROM t", f"SELECT id, _is_present AS _is_row, {CHANGED} FROM t"),
        (
            "SELECT * FROM t WHERE m > 1 AND x = 'WHERE'",
            "SELECT * EXCEPT (_is_present, _changed_key, _changed_at), _is_present AND "
            f"coalesce((m > 1 AND x = 'WHERE'), false) AS _is_row, {CHANGED} FROM t ",
        ),
        (
            "SELECT id -- of\nFROM t WHERE m -- more\n > 1 -- than one",
            "SELECT id, _is_present AND coalesce((m -- more\n > 1), false) AS _is_row, "
            f"{CHANGED} -- of\nFROM t ",
        ),
        (
            "SELECT a.id FROM t a JOIN u b ON a.id = b.id WHERE m > 1",
            f"SELECT a.id, _is_present AND coalesce((m > 1), false) AS _is_row, {CHANGED} FROM "
            f"_joined_0 {SIDES} a LATERAL VIEW inline(array(_side_1)) b ",
        ),
        (
            "SELECT k, sum(n) AS x FROM s WHERE n > 0 GROUP BY k HAVING x > 1",
            "SELECT k, sum(n) AS x, coalesce((x > 1), false) AS _is_row FROM s WHERE n > 0 "
            "GROUP BY k ",
        ),
        (
            "SELECT k FROM s WINDOW TUMBLING (SIZE 1 DAY) GROUP BY k",
            "SELECT k, unix_millis(window.start) AS WINDOWSTART, unix_millis(window.end) AS "
            "WINDOWEND FROM s      GROUP BY window(_timestamp, '1 day'), k",
        ),
        ("SELECT k, n FROM s", "SELECT k, n FROM s"),
    ],
)
def test_rows_that_leave_a_table_are_among_its_changes(query: str, text: str) -> None:
    assert prepared(query, has_changes=True).text == text


@pytest.mark.parametrize(
    ("query", "message", "place"),
    [
        ("SELECT 1 FROM s JOIN w ON s.k = w.k", "has several columns", "w ON"),
        ("SELECT 1 FROM s JOIN t ON s.k = t.id AND t.m > 1", "is ON its key", "s.k"),
        ("SELECT 1 FROM s JOIN t ON t.m = t.id", "is ON its key", "t.m"),
        ("SELECT 1 FROM s JOIN t USING (id)", "is ON its key", "JOIN"),
        ("SELECT 1 FROM s FULL JOIN t ON s.k = t.id", "FULL JOIN of a stream", "FULL"),
        ("SELECT 1 FROM s JOIN r ON a = b JOIN t ON k = t.id", "r is no table", "r ON"),
        ("SELECT 1 FROM t JOIN s ON t.id = s.k", "s is no table", "s ON"),
        ("SELECT 1 FROM t RIGHT JOIN u ON t.m = u.id", "that is no key", "RIGHT"),
        ("SELECT 1 FROM t SEMI JOIN u ON t.id = u.id", "SEMI JOIN of tables", "SEMI"),
        ("SELECT 1 FROM t FULL JOIN u ON t.m = u.id", "that is no key", "FULL"),
        (
            "SELECT 1 FROM t JOIN u ON t.id = u.id JOIN t x ON x.id = t.id",
            "a join of tables has two",
            "JOIN t x",
        ),
        ("SELECT 1 FROM (SELECT 1) JOIN t ON 1 = t.id", "begins with a name", "JOIN"),
        ("SELECT 1 FROM s JOIN t WITHIN 1 DAY ON k = t.id", "leave WITHIN out", "t WITHIN"),
        ("SELECT 1 FROM s JOIN r WITHIN 0 DAYS ON k = t.id", "begins at 1", "0 DAYS"),
        ("SELECT 1 FROM s JOIN r WITHIN 1 DAY WHERE x", "ON should be here", "WHERE"),
        ("SELECT 1 FROM (SELECT 1) JOIN r WITHIN 1 DAY ON a = b", "is of two streams", "WITHIN"),
        (
            "SELECT array_length(a), AS_MAP(b) FROM s JOIN r WITHIN 1 DAY ON a = b",
            "AS_MAP is not there",
            "AS_MAP",
        ),
    ],
)
def test_joins_without_a_meaning_are_refused_at_their_place(
    query: str, message: str, place: str
) -> None:
    with pytest.raises(StatementError) as caught:
        prepared(query)
    assert message in caught.value.message
    assert query[caught.value.at or 0 :].startswith(place)


def test_groups_of_a_table_are_refused_at_their_place() -> None:
    query = "SELECT m, count(*) FROM t GROUP BY m"
    with pytest.raises(StatementError, match="GROUP BY of a table") as caught:
        prepared(query, has_changes=True)
    assert caught.value.at == query.index("GROUP")


def test_a_place_behind_all_changes_leads_back() -> None:
    query = "SELECT array_length(x) FROM s JOIN t ON s.k = t.id WHERE wrong > 1"
    found = prepared(query)
    assert found.place(found.text.index("wrong")) == query.index("wrong")
    query = "SELECT id, array_length(x) AS wrong FROM t WHERE m > 1"
    found = prepared(query, has_changes=True)
    assert found.place(found.text.index("wrong")) == query.index("wrong")


def test_a_join_says_what_it_joins() -> None:
    (found,) = prepared("SELECT 1 FROM s x JOIN t ON x.k = t.id JOIN u ON t.m = u.id").joins
    assert (found.shape, found.expression, found.right) == (Shape.LOOKUP, "t.m", "u")
    assert found.below is not None
    assert (found.below.left, found.below.right, found.below.names) == ("s", "t", ["x", "t"])
    (found,) = prepared("SELECT 1 FROM t a LEFT JOIN u ON u.id = upper(a.m)").joins
    assert (found.shape, found.expression, found.kind) == (Shape.FOREIGN, "upper(a.m)", "LEFT")
    (found,) = prepared("SELECT 1 FROM t a JOIN u ON u.id = a.id").joins
    assert found.shape is Shape.BY_KEY


def test_a_row_alone_needs_a_time_to_wait() -> None:
    text = "SELECT 1 FROM a LEFT JOIN b WITHIN 1 DAY{} ON a.x = b.x"
    with pytest.raises(StatementError, match="GRACE PERIOD 1 MINUTE"):
        prepared(text.format("")).all_delays(lambda name: None)
    assert prepared(text.format("")).all_delays(lambda name: "1 day") == {}
    grace = prepared(text.format(" GRACE PERIOD 2 SECONDS")).all_delays(lambda name: "1 day")
    assert grace == {"a": "2 seconds", "b": "2 seconds"}
    inner = prepared(text.format("").replace("LEFT ", "")).all_delays(lambda name: None)
    assert inner == {"a": "24 hours", "b": "24 hours"}


def test_pieces_of_a_text_lead_back() -> None:
    found = rewrite("a bb ccc", [Edit(2, 4, "new"), Edit(5, 5, "("), Edit(8, 8, ")")])
    assert found.text == "a new (ccc)"
    assert [found.place(at) for at in (0, 2, 4, 6, 7, 9, 10)] == [0, 2, 2, 5, 5, 7, 8]
    assert rewrite("", []).place(3) == 3


def test_windows_of_a_table_have_their_bounds_when_they_are_closed() -> None:
    query = "SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k"
    found = prepare(query, KEYS.get, goes_on=True, has_changes=False, is_final=True)

    assert found.changes.text.startswith("SELECT k, COUNT(*) AS n, WINDOWSTART, WINDOWEND FROM s")
    again = query.replace("k,", "k, WINDOWSTART, WINDOWEND,")
    found = prepare(again, KEYS.get, goes_on=True, has_changes=False, is_final=True)
    assert found.changes.text == again
