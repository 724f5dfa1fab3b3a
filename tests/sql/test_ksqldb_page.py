"""The page of ksqlDB's statements, run from its first row to its last in a real Spark."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.pipeline.errors import PipelineError
from raftka.sql.language import StatementError, parse
from raftka.sql.language.statements import CreateAs, InsertQuery, Query
from raftka.sql.session import Session
from raftka.testing import Cluster
from tests.kit.documents import ROOT
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")

PAGE = ROOT / "docs" / "sql-ksqldb.md"
ROW = re.compile(r"^\| (.*?) \| (.*?) \| (works|other words|not yet|no) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
SAME = "the same"
RUNS = ("works", "other words")
PATIENCE_S = 120.0


class Row(NamedTuple):
    ksqldb: str
    here: str
    state: str

    @property
    def own(self) -> str:
        """Return the statement that is tried."""
        code = CODE.fullmatch(self.ksqldb if self.here == SAME or self.state == "no" else self.here)
        assert code is not None, self
        return code[1]


ROWS = [Row(*match.groups()) for match in ROW.finditer(PAGE.read_text())]


def test_each_row_has_a_statement_and_a_state() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]

    assert len(ROWS) == len([line for line in lines if not line.startswith("| ksqlDB ")]) >= 60
    assert {row.state for row in ROWS if row.here == SAME} <= {"works", "not yet"}


def test_statements_do_what_their_page_says(
    new_session: NewSession, cluster: Cluster, tmp_path: Path
) -> None:
    with cluster.registry() as registry:  # for Avro
        session = new_session(tmp_path / "state", registry.url)
        assert wrong_rows(session, ROWS) == []
        planted = Row("`SHOW TABLES`", SAME, "not yet")
        assert wrong_rows(session, [planted]) == [
            "SHOW TABLES: it works, and the page says: not yet"
        ]


def wrong_rows(session: Session, rows: Sequence[Row]) -> list[str]:
    """Return sentences about rows whose state is not true."""
    wrong = []
    for number, row in enumerate(rows):
        later = " ".join(each.own for each in rows[number + 1 :])
        try:
            run(session, row.own, later)
        except (StatementError, PipelineError) as error:
            if row.state in RUNS:
                wrong.append(f"{row.own}: {error}")
        else:
            if row.state not in RUNS:
                wrong.append(f"{row.own}: it works, and the page says: {row.state}")
    return wrong


def run(session: Session, text: str, later: str) -> None:
    """Run a statement. A query that goes on has to write a row, and ends unless `later` statements
    need it. Raise StatementError and PipelineError.
    """
    statement = parse(text)
    if isinstance(statement, Query) and statement.is_push and statement.limit is None:
        session.execute(text).close()
        return
    answer = session.execute(text)
    found = list(answer.rows)
    if isinstance(statement, Query):
        assert found, text
    if isinstance(statement, CreateAs | InsertQuery):
        name = answer.note.split()[0]
        if "is replaced" not in answer.note:  # then it goes on, with rows that come from now on
            wait_for_rows(session, name)
        if name not in later:
            session.execute(f"TERMINATE {name}")


def wait_for_rows(session: Session, query: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = session.execute("SHOW QUERIES")
        names = [each.name for each in answer.columns]
        (shown,) = [dict(zip(names, each, strict=True)) for each in answer.rows if each[0] == query]
        if shown["rows"]:
            return
        assert shown["error"] is None, shown
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
