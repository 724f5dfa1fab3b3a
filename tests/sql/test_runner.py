"""Statements one after the other: which of them may be sent again."""

from pathlib import Path

import pytest

from raftka.sql.client import NO_SERVER, SERVER_LOST, Connection, Rows, SqlError
from raftka.sql.prompt.runner import Runner
from raftka.sql.prompt.texts import Typed


class Broken:
    """A connection whose statements fail with these codes, one after the other."""

    def __init__(self, *codes: str) -> None:
        self.codes, self.sent = list(codes), 0

    def execute(self, text: str, limit: int | None) -> Rows:
        self.sent += 1
        raise SqlError(text, self.codes.pop(0))

    def health(self) -> dict[str, object]:
        return {"state": "ready"}


def sent_with(*codes: str) -> tuple[int, int]:
    """Return how often a statement was sent, and how many connections were made for it."""
    connection, made = Broken(*codes), []

    def connect() -> Connection:
        made.append(1)
        return connection  # type: ignore[return-value]

    assert Runner(connect, "csv", None).run(Typed("insert")) == 1
    return connection.sent, len(made)


def test_a_statement_that_may_have_been_done_is_not_sent_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sent_with(SERVER_LOST) == (1, 1)
    assert capsys.readouterr().err == "raftka: insert\n"


def test_a_statement_that_reached_no_server_is_sent_to_a_new_one() -> None:
    assert sent_with(NO_SERVER, NO_SERVER) == (2, 2)
    assert sent_with(NO_SERVER, "STATEMENT_REFUSED") == (2, 2)


def test_a_statement_that_is_refused_is_not_sent_again() -> None:
    assert sent_with("STATEMENT_REFUSED") == (1, 1)


def test_the_file_of_a_function_is_read_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = Broken("STATEMENT_REFUSED")
    runner = Runner(lambda: connection, "csv", None)  # type: ignore[arg-type, return-value]
    path = tmp_path / "f.py"
    assert runner.run(Typed(f"CREATE FUNCTION f FROM '{path}'")) == 1
    assert (connection.sent, "No such file" in capsys.readouterr().err) == (0, True)
    path.write_text("a = 1\n")
    assert runner.run(Typed(f"CREATE FUNCTION f FROM '{path}'")) == 1
    assert capsys.readouterr().err == "raftka: CREATE FUNCTION f AS 'a = 1\n'\n"
