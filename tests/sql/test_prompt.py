"""`raftka sql` on a real terminal, and with files: what a person sees."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftka.cli.commands import root
from raftka.cli.output import INTERRUPTED
from raftka.sql.client import connect_wanted
from raftka.sql.server.launch import Wanted
from tests.kit.checkout import FROM_CHECKOUT
from tests.kit.sql_server import GATE, kill, wait_for
from tests.kit.terminal import Terminal

Output = subprocess.CompletedProcess[str]
SQL = [sys.executable, "-m", "tests.kit.sql_prompt", "sql"]
CLUSTER = ["-b", "localhost:1"]
COMMAND = [*SQL, *CLUSTER]


def environment() -> dict[str, str]:
    return {**FROM_CHECKOUT, "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}


@pytest.fixture
def terminal(wanted: Wanted) -> Iterator[Terminal]:
    with Terminal(COMMAND, environment()) as terminal:
        terminal.wait_for("sql>")
        yield terminal


def run(*arguments: str, text: str = "") -> Output:
    return subprocess.run(
        [*SQL, *arguments, *CLUSTER],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )


def test_a_statement_may_have_many_lines(terminal: Terminal) -> None:
    terminal.type("rows\r")
    terminal.wait_for(r"\.\.\.>")
    terminal.type("2;\r")

    terminal.wait_for(r"n  text\n0  row 0\n1  row 1\n2 rows \(")
    terminal.type("rows 1 \\G\r")
    terminal.wait_for(r"--- row 1\n   n: 0\ntext: row 0\n1 row \(")


def test_control_c_ends_a_live_answer_and_not_the_prompt(
    terminal: Terminal, wanted: Wanted
) -> None:
    terminal.type("ticks;\r")
    terminal.wait_for(r"\n5\n")
    terminal.type("\x03")

    terminal.wait_for("sql>")
    wait_for(lambda: not connect_wanted(wanted).statements())
    terminal.type("rows 1;\r")
    terminal.wait_for(r"1 row \(")


def test_errors_have_a_caret_and_the_next_statement_runs(terminal: Terminal) -> None:
    terminal.type("bad;\r")
    terminal.wait_for(r"raftka: there is no such thing\nbad\n\^\n")
    terminal.type("rows 1;\r")
    terminal.wait_for(r"1 row \(")


def test_names_are_completed(terminal: Terminal) -> None:
    terminal.wait_for("runs, http")
    terminal.type("trucks.\t")
    terminal.wait_for(r"`trucks\.gps-1`")
    terminal.type("\x03")  # drops the line
    terminal.wait_for("sql>")
    terminal.type("upp\t")
    terminal.wait_for("upper")


def test_the_history_is_for_its_user_alone(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("rows 1;\r")
    terminal.wait_for(r"1 row \(")
    file = tmp_path / "state" / "raftka" / "sql_history"

    assert file.stat().st_mode & 0o777 == 0o600
    assert "+rows 1;" in file.read_text()
    with Terminal(COMMAND, environment()) as another:
        another.wait_for("sql>")
        another.type("\x1b[A")  # up
        another.wait_for("rows 1;")


def test_help_output_and_exit_are_of_the_prompt(terminal: Terminal) -> None:
    terminal.type("help drop\r")
    terminal.wait_for("DROP STREAM trucks;")
    terminal.type("output json;\r")
    terminal.wait_for("sql>")
    terminal.type("rows 1;\r")
    terminal.wait_for(r'\{"n": 0, "text": "row 0"\}')
    terminal.type("exit\r")

    assert terminal.wait_for_end() == 0


def test_a_home_that_cannot_be_written_to_is_no_failure(wanted: Wanted) -> None:
    with Terminal(COMMAND, {**environment(), "XDG_STATE_HOME": "/proc"}) as terminal:
        terminal.wait_for("sql>")
        terminal.type("rows 1;\r")
        terminal.wait_for("raftka: /proc/raftka/sql/")
        terminal.type("exit\r")

        assert terminal.wait_for_end() == 0


def test_a_statement_without_rows_is_done(terminal: Terminal) -> None:
    terminal.type("note;\r")
    terminal.wait_for(r"it is noted\ndone \(")
    terminal.type("show queries;\r")
    terminal.wait_for(r"lag_seconds  failures  error  query\n0 rows \(")


def test_control_d_ends_the_prompt(terminal: Terminal) -> None:
    terminal.type("\x04")

    assert terminal.wait_for_end() == 0


def test_the_start_of_spark_is_shown(wanted: Wanted, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Terminal(COMMAND, {**environment(), GATE: str(gate)}) as terminal:
        terminal.wait_for("sql>")
        terminal.type("rows 1;\r")
        terminal.wait_for(r"Spark starts: \d+ s")
        gate.touch()
        terminal.wait_for(r"1 row \(")


def test_a_prompt_goes_on_with_a_new_server(terminal: Terminal, wanted: Wanted) -> None:
    terminal.type("rows 1;\r")
    terminal.wait_for(r"1 row \(")
    kill(wanted)

    terminal.type("rows 2;\r")

    terminal.wait_for(r"2 rows \(")


def test_a_file_of_statements_runs_until_one_fails(wanted: Wanted, tmp_path: Path) -> None:
    file = tmp_path / "some.sql"
    file.write_text("-- the first\nrows 1;\nbad;\nrows 2")

    done = run("-f", str(file), "-o", "csv")

    assert (done.returncode, done.stdout) == (1, "n,text\n0,row 0\n")
    assert done.stderr == "raftka: there is no such thing\nbad\n^\n"


def test_statements_come_by_option_and_standard_input(wanted: Wanted) -> None:
    assert json.loads(run("-e", "rows 1", "-o", "json").stdout) == {"n": 0, "text": "row 0"}
    assert run(text="rows 2;").stdout == "n  text\n0  row 0\n1  row 1\n"
    assert run("-e", "rows 0").stdout == "n  text\n"
    limited = run("-e", "rows 2", "--rows", "1")
    assert limited.stderr == "there are more than 1 rows\n"


def test_a_live_answer_in_a_script_ends_with_its_reader(wanted: Wanted) -> None:
    process = subprocess.Popen(
        [*COMMAND, "-e", "ticks", "-o", "json"], stdout=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b'{"n": 0}\n'
    process.stdout.close()

    assert process.wait(60) == 0
    wait_for(lambda: not connect_wanted(wanted).statements())


def test_control_c_in_a_script_has_its_exit_code(wanted: Wanted) -> None:
    with Terminal([*COMMAND, "-e", "ticks"], environment()) as terminal:
        terminal.wait_for(r"\n5\n")
        terminal.type("\x03")

        assert terminal.wait_for_end() == INTERRUPTED


def test_a_server_is_listed_and_stopped(wanted: Wanted) -> None:
    assert run("status").returncode == 1
    connection = connect_wanted(wanted)
    with connection.execute("ticks") as rows:
        next(rows)
        listed = json.loads(run("status", "-o", "json").stdout)
        assert (listed["text"], listed["is_live"]) == ("ticks", True)
        assert run("stop", listed["id"]).returncode == 0
        assert [each for each in connection.statements() if each["id"] == listed["id"]] == []
        assert run("stop", "no such").stderr == (
            "raftka: no statement no%20such runs: it has ended\n"
        )
    assert run("stop").returncode == 0
    assert run("stop").stderr.startswith("raftka: no SQL server for localhost:1 runs")
    for options in (("-b", "localhost:1"), ("--bootstrap-server=localhost:1",)):
        told = CliRunner().invoke(root, ["sql", *options, "stop"])
        assert told.stderr.startswith("raftka: no SQL server for localhost:1 runs")


def test_a_server_by_hand_has_its_own_token(wanted: Wanted, tmp_path: Path) -> None:
    token = tmp_path / "token"
    serve = [*SQL, "serve", *CLUSTER, "--port", "0", "--token-file", str(token)]
    with Terminal(serve, environment()) as terminal:
        url = terminal.wait_for(r"SQL server: (http://\S+)")[1].decode()
        assert token.stat().st_mode & 0o777 == 0o600
        address = connect_wanted(wanted).address
        assert (address.url, address.token) == (url, token.read_text().strip())
        assert "an SQL server for this cluster runs" in run("serve").stderr
        terminal.type("\x03")

        assert terminal.wait_for_end() == 0


def test_options_of_a_single_question_are_refused_at_the_prompt(wanted: Wanted) -> None:
    done = run("--last", "3", "-e", "rows 1")

    assert done.returncode == 2
    assert "--last is for a single question" in done.stderr


def test_the_prompt_opens_without_spark_and_without_a_server(wanted: Wanted) -> None:
    program = (
        "import raftka.sql.prompt.terminal, raftka.cli.spark.sql_verbs, sys; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=FROM_CHECKOUT,
    )

    assert not set(done.stdout.split()) & {
        *("pyspark", "pyarrow", "trio", "httptools", "yaml"),
        *("raftka.sql.session", "raftka.sql.server.server", "raftka.broker"),
    }


def test_a_question_that_goes_on_is_for_the_server(wanted: Wanted) -> None:
    done = run("create stream fast as select * from speeds")

    assert done.returncode == 1
    assert "the SQL server failed at this statement" in done.stderr  # it knows no such thing here
