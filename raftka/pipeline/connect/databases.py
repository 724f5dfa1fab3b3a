"""Databases by their URLs: SQLite by Python's own driver, PostgreSQL by psycopg. Connections,
names, placeholders, and errors as sentences.

Statements are written with `?`; names of tables and columns that have `?`, `%` or quotes in them
are refused.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol
from urllib.parse import parse_qs, quote, urlsplit

from raftka.json_values import Json
from raftka.pipeline.connect.options import from_environment
from raftka.pipeline.errors import OptionRefused, PipelineError

CONNECT_S = 10
NAME = re.compile(r'[^"`?%\x00-\x1f]{1,63}')


class Cursor(Protocol):
    def fetchone(self) -> Sequence[Json] | None: ...

    def fetchmany(self, size: int) -> list[Sequence[Json]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Database:
    url: str
    password_from: str | None = None  # an environment variable
    timeout_s: int = 300  # of one statement; SQLite: of waiting for others

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    @property
    def where(self) -> str:
        """For messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def database(url: str, password_from: str | None, timeout_s: int) -> Database:
    """Raises OptionRefused."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise OptionRefused(f"the table's url is none: {error}") from None
    if parts.scheme not in ("sqlite", "postgresql") or not parts.path.strip("/"):
        raise OptionRefused(
            "the table's url is to be postgresql://user@host/database or sqlite:///path/to/file"
        )
    if parts.scheme == "sqlite" and (parts.netloc or parts.query or password_from):
        raise OptionRefused(
            "an SQLite url is sqlite:/// and a path; there is no host, no option and no password"
        )
    if parts.password is not None or "password" in parse_qs(parts.query):
        raise OptionRefused(
            "the table's url has a password: name an environment variable in password_from "
            "instead, or take PGPASSFILE"
        )
    return Database(url, password_from, timeout_s)


class Connection:
    """An open connection. Statements are committed one by one but for those in a `transaction`."""

    def __init__(self, opened: object, *, is_sqlite: bool) -> None:
        """`opened`: of the driver."""
        self._opened: Json = opened
        self.is_sqlite = is_sqlite

    def execute(self, statement: str, values: Sequence[Json] = ()) -> Cursor:
        found: Cursor = self._opened.execute(self._said(statement), tuple(values))
        return found

    def insert(self, statement: str, rows: Iterable[Sequence[Json]]) -> None:
        cursor = self._opened.cursor()
        cursor.executemany(self._said(statement), rows)
        cursor.close()

    def one(self, statement: str, values: Sequence[Json] = ()) -> Json:
        """The first column of the first row."""
        row = self.execute(statement, values).fetchone()
        return None if row is None else row[0]

    def stream(
        self, statement: str, values: Sequence[Json], rows: int
    ) -> Iterator[list[Sequence[Json]]]:
        """So many rows at a time, within a transaction: never all of them."""
        cursor = self._opened.cursor() if self.is_sqlite else self._opened.cursor("raftka")
        try:
            cursor.execute(self._said(statement), tuple(values))
            while found := cursor.fetchmany(rows):
                yield found
        finally:
            cursor.close()

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        self.execute("BEGIN IMMEDIATE" if self.is_sqlite and writes else "BEGIN")
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        self.execute("COMMIT")

    def _roll_back(self) -> None:
        try:
            self.execute("ROLLBACK")
        except Exception:
            pass  # the connection is broken: the database rolls back by itself

    def _said(self, statement: str) -> str:
        """SQLite takes a name in double quotes that it does not know for a text."""
        return statement.replace('"', "`") if self.is_sqlite else statement.replace("?", "%s")


@contextmanager
def connected(to: Database) -> Iterator[Connection]:
    """Raises PipelineError for all that goes wrong with the database while it is open."""
    import sqlite3

    if to.is_sqlite:
        try:
            opened = sqlite3.connect(
                f"file:{quote(_path(to.url))}?mode=rw",
                timeout=to.timeout_s,
                isolation_level=None,
                uri=True,
            )
            try:
                yield Connection(opened, is_sqlite=True)
            finally:
                opened.close()
        except sqlite3.Error as error:
            raise failed(to, error) from error
        return
    psycopg = _psycopg()
    secret = (
        {}
        if to.password_from is None
        else {"password": from_environment(to.password_from, "the password")}
    )
    try:
        opened = psycopg.connect(
            to.url, connect_timeout=CONNECT_S, autocommit=True, application_name="raftka", **secret
        )
        try:
            opened.execute(f"SET statement_timeout = {to.timeout_s * 1000}")
            opened.execute("SET TIME ZONE 'UTC'")
            yield Connection(opened, is_sqlite=False)
        finally:
            opened.close()
    except psycopg.Error as error:
        raise failed(to, error) from error


def failed(to: Database, error: Exception) -> PipelineError:
    text = " ".join(str(error).split())
    return PipelineError(
        f"the database {to.where}: {text}. A batch that was to be written does not count; it is "
        "done again when the query is started again"
    )


def _psycopg() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise OptionRefused(
            "tables of PostgreSQL need psycopg on the driver and all executors: pip install "
            "'raftka[jdbc]'"
        ) from None
    driver: ModuleType = psycopg
    return driver


def _path(url: str) -> str:
    """`sqlite:///x` counts from where the process runs, `sqlite:////x` is /x."""
    return os.path.abspath(url.removeprefix("sqlite:///"))


def quoted(name: str) -> str:
    """A table, perhaps with its schema, or a column. Raises OptionRefused."""
    parts = name.split(".")
    for each in parts:
        if NAME.fullmatch(each) is None:
            raise OptionRefused(
                f"{name!r} can not be a name in SQL here: no quotes, ? and %, and at most 63 "
                "characters"
            )
    return ".".join(f'"{each}"' for each in parts)


def column(name: str) -> str:
    """A column's name, which may have dots."""
    if NAME.fullmatch(name) is None:
        raise OptionRefused(
            f"{name!r} can not be a column's name here: no quotes, ? and %, and at most 63 "
            "characters"
        )
    return f'"{name}"'
