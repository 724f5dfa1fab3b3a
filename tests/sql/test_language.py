"""Text to statements: all that the language has, the place of each error, and time that grows with
the text.
"""

import pytest

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Exact, Field, Group, Many, MapOf
from raftka.sql.catalog import Catalog, PersistentQuery, Stream, decode, encode
from raftka.sql.language import StatementError, parse, split
from raftka.sql.language.statements import (
    Column,
    Control,
    Create,
    CreateAs,
    Describe,
    Drop,
    Explain,
    Format,
    InsertQuery,
    InsertValues,
    Print,
    Query,
    Role,
    Show,
)
from raftka.sql.language.tokens import LONGEST


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ; ;", []),
        ("SHOW STREAMS", ["SHOW STREAMS"]),
        ("a; b ; c", ["a", "b", "c"]),
        ("SELECT ';', \";\", `;` -- ;\n; /* ; */ b;", ["SELECT ';', \";\", `;` -- ;", "/* ; */ b"]),
        ("SELECT 'it''s; \\'; '; b", ["SELECT 'it''s; \\'; '", "b"]),
        ("SELECT 'no end; b", ["SELECT 'no end; b"]),
    ],
)
def test_statements_end_with_semicolons_outside_of_quotes(text: str, statements: list[str]) -> None:
    assert split(text) == statements


@pytest.mark.parametrize("what", ["STREAMS", "TABLES", "QUERIES", "TOPICS", "FUNCTIONS"])
def test_show(what: str) -> None:
    found = parse(f"show {what.lower()};")
    assert isinstance(found, Show)
    assert found.what == what
    assert parse(f"LIST {what}") == Show(f"LIST {what}", 5, what)


def test_short_statements() -> None:
    found = parse("DESCRIBE EXTENDED `a-b`")
    assert isinstance(found, Describe)
    assert (found.name, found.is_extended) == ("a-b", True)
    assert parse("PRINT 'a.b' FROM BEGINNING LIMIT 3") == Print(
        "PRINT 'a.b' FROM BEGINNING LIMIT 3", 6, "a.b", True, 3
    )
    assert parse("PRINT t") == Print("PRINT t", 6, "t", False, None)
    drop = parse("DROP STREAM IF EXISTS s DELETE TOPIC")
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name, drop.deletes_topic, drop.if_there) == ("STREAM", "s", True, True)
    assert parse("EXPLAIN csas_q;") == Explain("EXPLAIN csas_q;", 8, None, "csas_q")
    for action in ("PAUSE", "RESUME", "TERMINATE"):
        assert parse(f"{action} q") == Control(f"{action} q", len(action) + 1, action, "q")


def test_queries_are_sparks_up_to_emit() -> None:
    text = (
        "SELECT sum(a) OVER (PARTITION BY b) FROM s -- end\n EMIT CHANGES FROM BEGINNING LIMIT 5;"
    )
    found = parse(text)
    assert isinstance(found, Query)
    assert found.query == "SELECT sum(a) OVER (PARTITION BY b) FROM s -- end"
    assert (found.is_push, found.from_beginning, found.limit) == (True, True, 5)
    plain = parse("  WITH x AS (SELECT 1) SELECT * FROM x LIMIT 2")
    assert isinstance(plain, Query)
    assert (plain.at, plain.is_push, plain.limit) == (2, False, None)
    assert plain.query.endswith("LIMIT 2")


def test_explain_has_a_query() -> None:
    found = parse("EXPLAIN SELECT a FROM s EMIT CHANGES")
    assert isinstance(found, Explain)
    assert found.query is not None
    assert (found.query.query, found.query.at, found.query.is_push) == ("SELECT a FROM s", 8, True)


def test_create_stream_with_all_kinds_of_columns_and_options() -> None:
    found = parse(
        "CREATE OR REPLACE STREAM s (id VARCHAR KEY, a INTEGER NOT NULL, b DECIMAL(10, 2), "
        "c ARRAY<MAP<STRING, BIGINT>>, d STRUCT<x DOUBLE, `y z`: TIMESTAMP>, "
        "h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, t STRING HEADER('trace')) WITH ("
        "kafka_topic='t-1', VALUE_FORMAT='AVRO', 'partitions'=3, replicas='2', timestamp='d', "
        "watermark='1 minute')"
    )
    assert isinstance(found, Create)
    assert found.is_replacing
    assert found.columns is not None
    bytes_of = Group(
        (Field("key", "string", nullable=True), Field("value", "binary", nullable=True))
    )
    assert found.columns == (
        Column("id", "string", Role.KEY),
        Column("a", "int", is_required=True),
        Column("b", Exact(10, 2)),
        Column("c", Many(MapOf("bigint"))),
        Column(
            "d",
            Group((Field("x", "double", nullable=True), Field("y z", "timestamp", nullable=True))),
        ),
        Column("h", Many(bytes_of), Role.HEADERS),
        Column("t", "string", Role.HEADER, "trace"),
    )
    options = found.options
    assert (options.topic, options.format, options.partitions) == ("t-1", Format.AVRO, 3)
    assert (options.replicas, options.timestamp, options.watermark) == (2, "d", "1 minute")


def test_create_stream_as_select_and_inserts() -> None:
    made = parse(
        "CREATE STREAM s WITH (PARTITIONS=1) AS SELECT a FROM b PARTITION BY a EMIT CHANGES"
    )
    assert isinstance(made, CreateAs)
    assert (made.name, made.query, made.key) == ("s", "SELECT a FROM b", "a")
    query = parse("INSERT INTO s SELECT * FROM b;")
    assert isinstance(query, InsertQuery)
    assert (query.name, query.query) == ("s", "SELECT * FROM b")
    values = parse(
        "INSERT INTO s (a, b) VALUES (1, 'it''s'), (-2.5, NULL), (ARRAY[], TRUE), "
        "(MAP('k' := 1), STRUCT(x := ARRAY[1, 2]))"
    )
    assert isinstance(values, InsertValues)
    assert values.columns == ("a", "b")
    assert [[str(each) for each in row] for row in values.rows] == [
        ["1", "it's"],
        ["-2.5", "None"],
        ["[]", "True"],
        ["{'k': 1}", "{'x': [1, 2]}"],
    ]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SELCT 1", "SELCT", "Is it SELECT?"),
        ("SELECT ';' ; SELECT 1", "SELECT", "one at a time"),
        ("GRANT x", "GRANT", "begins with GRANT. There are: SELECT, CREATE STREAM"),
        ("SET 'a' = 'b'", "SET", "Next step: EMIT CHANGES FROM BEGINNING"),
        ("ALTER STREAM s ADD COLUMN a INT", "ALTER", "Next step: CREATE OR REPLACE STREAM"),
        ("CREATE STREAM s AS SELECT a FROM b PARTITION BY a, c", ", c", "to_json(struct"),
        ("CREATE TABLE t AS SELECT a FROM b GROUP BY a EMIT FINAL", "EMIT", "leave it out, or"),
        ("CREATE TYPE x AS STRING", "TYPE", "CREATE TYPE is not there"),
        ("CREATE TABLE t AS SELECT a FROM b PARTITION BY a", "SELECT", "its column in GROUP BY"),
        ("CREATE STREAM s (a FLOT)", "FLOT", "is no type"),
        ("CREATE STREAM s (a INT, a INT)", "s (", "there twice"),
        ("CREATE STREAM s (a INT PRIMARY KEY)", "a INT", "a stream has a KEY"),
        ("CREATE TABLE s (a INT KEY)", "a INT", "a table has a PRIMARY KEY"),
        ("CREATE TABLE s (a INT)", "s (", "a table has a PRIMARY KEY"),
        ("CREATE STREAM s (_a INT)", "_a", "of the record"),
        ("CREATE STREAM s (a DECIMAL(40, 2))", "(40", "1 to 38 digits"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPC='t')", "KAFKA_TOPC", "is it KAFKA_TOPIC?"),
        ("CREATE STREAM s (a INT) WITH (WINDOW_TYPE='x')", "WINDOW_TYPE", "There are KAFKA_TOPIC"),
        ("CREATE STREAM s (a INT) WITH (VALUE_FORMAT='kafka')", "'kafka'", "There are json, avro"),
        ("CREATE STREAM s (a INT) WITH (KEY_FORMAT='avro')", "'avro'", "KEY_FORMAT='string'"),
        ("CREATE STREAM s (a INT) WITH (PARTITIONS=0)", "0)", "from 1 to"),
        ("CREATE STREAM s (a INT) WITH (REPLICAS=1, REPLICAS=1)", "REPLICAS=1)", "there twice"),
        ("CREATE STREAM s (a INT) WITH (VALUE_DELIMITER='|')", "'|'", "VALUE_FORMAT='delimited'"),
        ("CREATE STREAM s (a INT", "", "a comma or ) should be here"),
        ("CREATE STREAM s (a INT) AS SELECT 1", "s (", "are those of the query"),
        ("INSERT INTO s VALUES (1 + 1)", "+", "a comma or )"),
        ("INSERT INTO s VALUES (now())", "now", "a value should be here"),
        ("INSERT INTO s (a) SELECT 1", "SELECT", "names its columns with AS"),
        ("INSERT INTO s SELECT a FROM b PARTITION BY a", "SELECT", "no PARTITION BY"),
        ("SELECT a FROM b PARTITION BY a", "PARTITION", "of CREATE STREAM"),
        ("SELECT a FROM b EMIT FINAL", "EMIT", "leave it out"),
        ("EXPLAIN SELECT a FROM b EMIT CHANGES x", "x", "should end here"),
        ("EXPLAIN 'a'", "'a'", "or SELECT"),
        ("EXPLAIN q x", "x", "should end here"),
        ("SELECT a FROM b EMIT CHANGES LIMIT 0", "0", "begins at 1"),
        ("SELECT a FROM b EMIT CHANGES x", "x", "should end here"),
        ("SELECT 'a", "'a", "has no end"),
        ("SELECT 1 /* a", "/*", "has no end"),
        (f"INSERT INTO s VALUES (-{'9' * 1001})", "9" * 1001, "more than 1000 digits"),
        (f"PRINT t LIMIT {'9' * 5000}", "9" * 5000, "more than 1000 digits"),
        ("DROP STREAM", "", "the name of a stream"),
        ("PRINT a.b-c", "a.b", "PRINT 'a.b-c'"),
        ("SHOW THINGS", "THINGS", "STREAMS or TABLES"),
    ],
)
def test_an_error_has_a_sentence_and_a_place(text: str, place: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.at == (text.rindex(place) if place else len(text))


def test_an_error_shows_its_line_and_a_caret() -> None:
    with pytest.raises(StatementError) as caught:
        parse("CREATE STREAM s (\n\ta INT,\n\tb FLOT\n)")
    first, line, mark = str(caught.value).splitlines()
    assert first.startswith("FLOT is no type")
    assert line == "line 3:  b FLOT"
    assert mark.index("^") == line.index("FLOT")


def test_a_long_line_is_shown_in_part() -> None:
    with pytest.raises(StatementError) as caught:
        parse(f"CREATE STREAM s (a INT, {'b' * 60} INT, {'c' * 60} FLOT)")
    _, line, mark = str(caught.value).splitlines()
    assert len(line) < 120
    assert mark.index("^") == line.index("FLOT")


def test_an_empty_text_and_one_that_is_too_long_are_refused() -> None:
    with pytest.raises(StatementError, match="there is no statement"):
        parse(" -- nothing\n ;")
    with pytest.raises(StatementError, match=f"more than {LONGEST} characters"):
        parse("SELECT " + "1" * LONGEST)


@pytest.mark.parametrize("text", ["ARRAY[" * 1000, "ARRAY<" * 1000])
def test_values_and_types_have_a_depth(text: str) -> None:
    statement = f"INSERT INTO s VALUES ({text}" if "[" in text else f"CREATE STREAM s (a {text}"
    with pytest.raises(StatementError, match="more than 50 deep"):
        parse(statement)


# the catalog


def test_a_stream_is_kept_as_the_statement_that_makes_it() -> None:
    made = parse(
        "CREATE TABLE `a-b` (id STRING PRIMARY KEY, `x``y` STRUCT<a DECIMAL(5, 1), b "
        "MAP<STRING, ARRAY<DATE>>>, n INT NOT NULL, h BYTES HEADER('it''s \\\\')) WITH "
        "(KAFKA_TOPIC='t', VALUE_FORMAT='delimited', VALUE_DELIMITER='''', TIMESTAMP='at', "
        "WATERMARK='1 day')"
    )
    assert isinstance(made, Create)
    assert made.columns is not None
    stream = Stream(made.kind, made.name, made.columns, made.options)
    assert decode(encode(stream), "here") == stream


def test_a_query_is_kept_and_a_removed_one_is_not() -> None:
    query = PersistentQuery("q", "s", "SELECT 1", ("a", "b"), "server", "0" * 32, is_paused=True)
    catalog = Catalog()
    catalog.replay("q", encode(query), "here")
    assert list(catalog.queries()) == [query]
    assert (catalog.users("A"), catalog.users("s"), catalog.users("z")) == (["q"], ["q"], [])
    assert (catalog.new_name("x"), catalog.new_name("Q")) == ("x", "Q_2")
    catalog.replay("q", None, "here")
    assert catalog.entries == {}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"no JSON", "no statement"),
        (b"{}", "no statement"),
        (b'{"version": 1}', "up to version 0"),
        (b'{"version": 0, "statement": "SHOW STREAMS"}', "no statement"),
        (b'{"version": 0, "statement": "CREATE"}', "no statement"),
        (
            b'{"version": 0, "name": "q", "query": "", "target": "s", "sources": [], '
            b'"server": "x", "run": "../x", "paused": false}',
            "no statement",
        ),
    ],
)
def test_records_that_are_no_statements_are_refused(value: bytes, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        Catalog().replay("a", value, "topic at offset 7")
