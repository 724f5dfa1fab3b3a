"""Text to statements."""

import difflib
import re
from collections.abc import Callable
from dataclasses import replace

from raftka.sql.language.dialect import translate
from raftka.sql.language.errors import StatementError
from raftka.sql.language.reader import Reader
from raftka.sql.language.statements import (
    Column,
    Control,
    Create,
    CreateAs,
    CreateFunction,
    Describe,
    DescribeFunction,
    Drop,
    DropFunction,
    Explain,
    Format,
    InsertQuery,
    InsertValues,
    Options,
    Print,
    Query,
    Role,
    Show,
    Statement,
)
from raftka.sql.language.tokens import Kind, Token, split
from raftka.sql.language.types import read_type

SHOWN = ("STREAMS", "TABLES", "QUERIES", "TOPICS", "FUNCTIONS")
QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
OPTIONS = (
    "KAFKA_TOPIC",
    "VALUE_FORMAT",
    "KEY_FORMAT",
    "PARTITIONS",
    "REPLICAS",
    "TIMESTAMP",
    "WATERMARK",
    "VALUE_DELIMITER",
)
FORMS = (
    "SELECT",
    "CREATE STREAM",
    "CREATE STREAM ... AS SELECT",
    "CREATE TABLE",
    "CREATE TABLE ... AS SELECT",
    "CREATE FUNCTION",
    "INSERT INTO",
    "PRINT",
    "SHOW",
    "DESCRIBE",
    "EXPLAIN",
    "DROP STREAM",
    "DROP TABLE",
    "DROP FUNCTION",
    "PAUSE",
    "RESUME",
    "TERMINATE",
)
NEXT_STEPS = {  # for words that begin statements of ksqlDB
    "SET": "EMIT CHANGES FROM BEGINNING; a query that writes begins there",
    "ALTER": "CREATE OR REPLACE STREAM, with the new column",
    "RUN": "raftka sql -f FILE",
    "DEFINE": "raftka sql -e, with variables of the shell",
}
NEAR = 0.75  # of 1: a word so close is a slip of the pen; SET is not SELECT
PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
WINDOW = re.compile("window", re.IGNORECASE)
DELIMITERS = {"SPACE": " ", "TAB": "\t"}


def parse(text: str) -> Statement:
    """Return the one statement of a text. Raise StatementError."""
    several = split(text)
    if len(several) > 1:
        at = text.index(several[1], text.index(several[0]) + len(several[0]))
        raise StatementError(
            "a second statement begins here. Next step: give one at a time", text, at
        )
    reader = Reader(text)
    first = reader.next
    if first.kind is Kind.END:
        raise StatementError("there is no statement")
    if _begins_query(first):
        return _query(reader)
    readers: dict[str, Callable[[Reader], Statement]] = {
        "SHOW": _show,
        "LIST": _show,
        "DESCRIBE": _describe,
        "DESC": _describe,
        "EXPLAIN": _explain,
        "PRINT": _print,
        "CREATE": _create,
        "INSERT": _insert,
        "DROP": _drop,
        "PAUSE": _control,
        "RESUME": _control,
        "TERMINATE": _control,
    }
    if first.word not in readers:
        near = difflib.get_close_matches(first.text.upper(), [*readers, *QUERIES], 1, NEAR)
        hint = f" Is it {near[0]}?" if near else ""
        if first.word in NEXT_STEPS:
            reader.refuse(
                f"{first.word} begins no statement here. Next step: {NEXT_STEPS[first.word]}"
            )
        reader.refuse(f"no statement begins with {first.text}.{hint} There are: {', '.join(FORMS)}")
    statement = readers[first.word](reader)
    reader.end()
    return statement


def _show(reader: Reader) -> Show:
    reader.take()
    at = reader.next.at
    return Show(reader.text, at, reader.one_of(*SHOWN))


def _describe(reader: Reader) -> Statement:
    reader.take()
    is_extended = reader.skip("EXTENDED")
    if not is_extended and reader.skip("FUNCTION"):
        at = reader.next.at
        return DescribeFunction(reader.text, at, reader.name("a function"))
    at = reader.next.at
    return Describe(reader.text, at, reader.name("a stream, a table or a topic"), is_extended)


def _print(reader: Reader) -> Print:
    reader.take()
    token = reader.next
    topic = reader.take().value if token.kind is Kind.TEXT else reader.name("a topic")
    if reader.next.text in (".", "-"):
        reader.refuse("a topic with dots or dashes stands in quotes: PRINT 'a.b-c'", token.at)
    from_beginning = reader.skip("FROM", "BEGINNING")
    return Print(reader.text, token.at, topic, from_beginning, _limit(reader))


def _limit(reader: Reader) -> int | None:
    if not reader.skip("LIMIT"):
        return None
    at = reader.next.at
    number = reader.number("the number of rows")
    if not number:
        reader.refuse("the number of rows begins at 1", at)
    return number


def _control(reader: Reader) -> Control:
    action = reader.take().word
    reader.skip("QUERY")
    at = reader.next.at
    return Control(reader.text, at, action, reader.name("a query (SHOW QUERIES lists them)"))


def _drop(reader: Reader) -> Statement:
    reader.take()
    if reader.skip("FUNCTION"):
        is_there = reader.skip("IF", "EXISTS")
        at = reader.next.at
        return DropFunction(reader.text, at, reader.name("a function"), is_there)
    kind = reader.one_of("STREAM", "TABLE")
    if_there = reader.skip("IF", "EXISTS")
    at = reader.next.at
    name = reader.name(f"a {kind.lower()}")
    return Drop(reader.text, at, kind, name, reader.skip("DELETE", "TOPIC"), if_there)


# queries


def _begins_query(token: Token) -> bool:
    return token.word in QUERIES or token.text == "("


def _explain(reader: Reader) -> Explain:
    reader.take()
    at = reader.next.at
    if _begins_query(reader.next):
        return Explain(reader.text, at, _query(reader))
    return Explain(reader.text, at, None, reader.name("a query, or SELECT ...,"))


def _query(reader: Reader) -> Query:
    begin = reader.next
    query, _ = spark_part(reader)
    if (by := reader.find("PARTITION", "BY")) is not None:
        reader.refuse(
            "PARTITION BY is of CREATE STREAM. Next step: "
            "leave it out, or CREATE STREAM name AS SELECT",
            by.at,
        )
    if reader.sees("EMIT", "FINAL"):
        reader.refuse(
            "EMIT FINAL is of CREATE TABLE ... AS SELECT with a WINDOW. Next step: leave it out"
        )
    is_push = reader.skip("EMIT", "CHANGES")
    from_beginning = is_push and reader.skip("FROM", "BEGINNING")
    limit = _limit(reader) if is_push else None
    reader.end()
    return Query(reader.text, begin.at, query, is_push, from_beginning, limit)


def spark_part(reader: Reader) -> tuple[str, int]:
    """Take a query up to PARTITION BY or EMIT; return it and its place. Raise StatementError for
    the words of ksqlDB in it that Spark has no others for.
    """
    begin = reader.next
    ends = [
        found
        for words in (("PARTITION", "BY"), ("EMIT", "CHANGES"), ("EMIT", "FINAL"))
        if (found := reader.find(*words)) is not None
    ]
    end = min(ends, key=lambda token: token.at, default=None)
    if end is not None:
        reader.jump(end)
        query = reader.text[begin.at : end.at].rstrip()
    else:
        while reader.next.kind is not Kind.END:
            last = reader.take()
        query = reader.text[begin.at : last.end]
    try:
        translate(query)  # Spark's words are made anew where the query runs
    except StatementError as error:
        reader.refuse(error.message, begin.at + (error.at or 0))
    return query, begin.at


def _written_query(reader: Reader, *, of_table: bool = False) -> tuple[str, int, str | None, bool]:
    """Take the query of a statement that writes to a topic: its text, its place, its key, and
    whether each row is written once, when it is final.
    """
    if reader.next.word not in ("SELECT", "WITH"):
        reader.refuse("SELECT should be here")
    query, at = spark_part(reader)
    key = reader.name("a column") if reader.skip("PARTITION", "BY") else None
    if key is not None and reader.sees(","):
        reader.refuse(
            "PARTITION BY has one column. Next step: SELECT to_json(struct(a, b)) AS k for several"
        )
    if reader.sees("EMIT", "FINAL") and not of_table:
        reader.refuse(
            "EMIT FINAL is of CREATE TABLE: a stream's windows are written when they are closed. "
            "Next step: leave it out"
        )
    if reader.sees("EMIT", "FINAL") and not WINDOW.search(query):
        reader.refuse(
            "EMIT FINAL is of windows: other rows change for ever. Next step: leave it out, or "
            "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 MINUTE) before GROUP BY"
        )
    is_final = reader.skip("EMIT", "FINAL")
    if not is_final:
        reader.skip("EMIT", "CHANGES")  # that is what it does
    return query, at, key, is_final


# CREATE


def _create(reader: Reader) -> Statement:
    reader.take()
    is_replacing = reader.skip("OR", "REPLACE")
    begin = reader.next
    if reader.skip("FUNCTION"):
        return _create_function(reader, is_replacing)
    if not (reader.skip("STREAM") or reader.skip("TABLE")):
        reader.refuse(
            f"CREATE {begin.text} is not there. There are CREATE STREAM and CREATE TABLE, also "
            "with AS SELECT, and CREATE FUNCTION"
        )
    if_missing = reader.skip("IF", "NOT", "EXISTS")
    at = reader.next.at
    name = reader.name(f"the new {begin.word.lower()}")
    columns = None
    if reader.skip("("):
        columns = tuple(reader.in_brackets(lambda: _column(reader, begin.word)))
        _check_columns(reader, columns, begin.word, at)
    options = _options(reader)
    if not reader.skip("AS"):
        return Create(reader.text, at, begin.word, name, columns, options, is_replacing, if_missing)
    if columns is not None:
        reader.refuse(
            "with AS SELECT the columns are those of the query. Next step: leave these out", at
        )
    query, query_at, key, is_final = _written_query(reader, of_table=begin.word == "TABLE")
    if key is not None and begin.word == "TABLE":
        reader.refuse(
            "the key of a table is its column in GROUP BY. Next step: leave PARTITION BY out",
            query_at,
        )
    return CreateAs(
        reader.text,
        at,
        begin.word,
        name,
        options,
        query,
        query_at,
        key,
        is_final,
        is_replacing,
        if_missing,
    )


def _create_function(reader: Reader, is_replacing: bool) -> CreateFunction:
    if_missing = reader.skip("IF", "NOT", "EXISTS")
    begin = reader.next
    name = reader.name("the new function")
    if PLAIN_NAME.fullmatch(name) is None:
        reader.refuse("a function has a name of letters, digits and _, a letter first", begin.at)
    is_file = reader.one_of("FROM", "AS") == "FROM"
    token = reader.next
    if token.kind is not Kind.TEXT or not token.value.strip():
        reader.refuse("a file should be here: FROM 'file.py', or its text behind AS, in quotes")
    value = reader.take().value
    code, path = (None, value) if is_file else (value, None)
    return CreateFunction(
        reader.text, begin.at, name, code, path, token.at, is_replacing, if_missing
    )


def _column(reader: Reader, of: str) -> Column:
    begin = reader.next
    name = reader.name("a column")
    if name.startswith("_"):
        reader.refuse(
            "names with _ before them are of the record: _topic, _offset, ... Next step: "
            "another name",
            begin.at,
        )
    column = Column(name, read_type(reader))
    if reader.skip("PRIMARY", "KEY"):
        if of == "STREAM":
            reader.refuse(
                "a stream has a KEY, a table a PRIMARY KEY. Next step: write KEY", begin.at
            )
        return replace(column, role=Role.PRIMARY_KEY, is_required=True)
    if reader.skip("KEY"):
        if of == "TABLE":
            reader.refuse(
                "a table has a PRIMARY KEY, a stream a KEY. Next step: write PRIMARY KEY", begin.at
            )
        return replace(column, role=Role.KEY)
    if reader.skip("HEADERS"):
        return replace(column, role=Role.HEADERS)
    if reader.skip("HEADER", "("):
        if reader.next.kind is not Kind.TEXT:
            reader.refuse("the name of a header should be here, in single quotes")
        header = reader.take().value
        reader.expect(")")
        return replace(column, role=Role.HEADER, header=header)
    return replace(column, is_required=reader.skip("NOT", "NULL"))


def _check_columns(reader: Reader, columns: tuple[Column, ...], of: str, at: int) -> None:
    names = [each.name.lower() for each in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        reader.refuse(f"the column {twice[0]} is there twice. Next step: leave one out", at)
    keys = [each for each in columns if each.role in (Role.KEY, Role.PRIMARY_KEY)]
    for each in keys:
        if not isinstance(each.kind, str):
            reader.refuse(f"the key {each.name} is of a plain type, such as STRING or BIGINT", at)
    if of == "TABLE" and not keys:
        reader.refuse("a table has a PRIMARY KEY: id STRING PRIMARY KEY", at)
    for each in columns:
        if each.role is Role.HEADERS:
            _check_headers(reader, each, at)
        if each.role is Role.HEADER and each.kind not in ("binary", "string"):
            reader.refuse(f"{each.name}: the content of a header is BYTES or STRING", at)


def _check_headers(reader: Reader, column: Column, at: int) -> None:
    wanted = Reader("ARRAY<STRUCT<key STRING, value BYTES>>")
    if column.kind != read_type(wanted):
        reader.refuse(f"{column.name}: all headers are an {wanted.text}", at)


# WITH


def _options(reader: Reader) -> Options:
    if not reader.skip("WITH", "("):
        return Options()
    found: dict[str, Token] = {}

    def option() -> None:
        name = reader.next
        key = (name.word or name.text.strip("'`").upper()).replace(".", "_")
        if key not in OPTIONS:
            near = difflib.get_close_matches(key, OPTIONS, 1)
            reader.refuse(
                f"there is no option {name.text}"
                + (f": is it {near[0]}?" if near else "")
                + f" There are {', '.join(OPTIONS)}"
            )
        if key in found:
            reader.refuse(f"the option {key} is there twice. Next step: leave one out")
        reader.take()
        reader.expect("=")
        if reader.next.kind not in (Kind.TEXT, Kind.NUMBER):
            reader.refuse(f"the value of {key} should be here: 'text' or a number")
        found[key] = reader.take()

    reader.in_brackets(option)
    return _read_options(reader, found)


def _read_options(reader: Reader, found: dict[str, Token]) -> Options:
    def text(key: str) -> str | None:
        token = found.get(key)
        if token is None:
            return None
        value = token.value if token.kind is Kind.TEXT else token.text
        if not value:
            reader.refuse(f"the value of {key} is empty", token.at)
        return value

    def number(key: str, most: int) -> int | None:
        value = text(key)
        if value is not None and not (value.isdecimal() and 1 <= int(value) <= most):
            reader.refuse(f"{key} is a whole number from 1 to {most}", found[key].at)
        return None if value is None else int(value)

    given = text("VALUE_FORMAT")
    if given is not None and given.lower() not in set(Format):
        reader.refuse(
            f"there is no format {given}. There are {', '.join(Format)}", found["VALUE_FORMAT"].at
        )
    if (text("KEY_FORMAT") or "string").lower() != "string":
        reader.refuse("a key is the text of its value: KEY_FORMAT='string'", found["KEY_FORMAT"].at)
    delimiter = text("VALUE_DELIMITER")
    if delimiter is not None:
        delimiter = DELIMITERS.get(delimiter.upper(), delimiter)
        if len(delimiter) != 1 or given is None or given.lower() != Format.DELIMITED:
            reader.refuse(
                "VALUE_DELIMITER is one letter, SPACE or TAB, of VALUE_FORMAT='delimited'",
                found["VALUE_DELIMITER"].at,
            )
    return Options(
        text("KAFKA_TOPIC"),
        None if given is None else Format(given.lower()),
        number("PARTITIONS", 100_000),
        number("REPLICAS", 1000),
        text("TIMESTAMP"),
        text("WATERMARK"),
        delimiter,
    )


# INSERT


def _insert(reader: Reader) -> Statement:
    reader.take()
    reader.expect("INTO")
    at = reader.next.at
    name = reader.name("a stream")
    columns = None
    if reader.skip("("):
        columns = tuple(reader.in_brackets(lambda: reader.name("a column")))
    if not reader.skip("VALUES"):
        if columns is not None:
            reader.refuse("VALUES should be here: INSERT INTO ... SELECT names its columns with AS")
        query, query_at, key, _ = _written_query(reader)
        if key is not None:
            reader.refuse(
                f"INSERT INTO has no PARTITION BY: the key is that of {name}. Next step: "
                "leave it out",
                query_at,
            )
        return InsertQuery(reader.text, at, name, query, query_at)
    rows = [_row(reader)]
    while reader.skip(","):
        rows.append(_row(reader))
    return InsertValues(reader.text, at, name, columns, rows)


def _row(reader: Reader) -> list[object]:
    reader.expect("(")
    return reader.in_brackets(reader.value)
