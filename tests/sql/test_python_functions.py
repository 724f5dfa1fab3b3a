"""Functions in Python without Spark: what is read in their files, and what a worker does."""

import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")

import pyarrow as pa

from raftka.pipeline.errors import PipelineError
from raftka.sql import session
from raftka.sql.catalog import decode, encode
from raftka.sql.functions import Function, PythonFunction, signature_of, with_file
from raftka.sql.language import StatementError, parse
from raftka.sql.language.statements import CreateFunction, DescribeFunction, DropFunction
from raftka.sql.language.types import type_text
from raftka.sql.server.folder import ServerFolder
from raftka.sql.server.launch import Wanted
from raftka.sql.server.process import open_session

CODE = """
import raftka.sql
from raftka.sql import function

@raftka.sql.function(returns="ARRAY<INT>")
def divided(n, by=2, *more):
    return [n // by]

@function(returns='STRING', arrow=True)
def shout(words):
    import pyarrow.compute as pc
    return pc.utf8_upper(words)

def helper():
    "no function of SQL"
"""


def call(name: str, *columns: Any, code: str = CODE) -> Any:
    function = pickle.loads(pickle.dumps(PythonFunction(Function(name, code))))
    return function(*(pa.array(each) for each in columns)).to_pylist()


def test_a_file_says_what_its_functions_are() -> None:
    found = signature_of("DIVIDED", CODE)
    assert (found.parameters, type_text(found.returns)) == (("n", "by", "*more"), "ARRAY<INT>")
    assert [count for count in range(5) if found.takes(count)] == [1, 2, 3, 4]
    assert signature_of("shout", CODE).takes_arrays
    only = "@function(returns='INT')\ndef other(a, b=1):\n    return a"
    assert signature_of("name", only).function == "other"
    assert [count for count in range(4) if signature_of("x", only).takes(count)] == [1, 2]


@pytest.mark.parametrize(
    ("code", "message", "line"),
    [
        ("x = 1\ndef f(:", "invalid syntax", "def f(:"),
        ("def f(a): pass", "no function f has the decorator", None),
        (CODE, "There are: divided, shout", None),
        ("@function(returns=int)\ndef f(a): pass", "returns='INT'", "@function"),
        ("@function(returns='INTO')\ndef f(a): pass", "INTO is no type", "@function"),
        ("@function(returns='INT')\ndef f(): pass", "takes no arguments", "def f()"),
        ("@function(returns='INT')\ndef f(a, *, b): pass", "have no names", "def f(a"),
        ("(" * 10_000, "", None),
    ],
)
def test_files_without_a_function_are_refused(code: str, message: str, line: str | None) -> None:
    with pytest.raises(StatementError) as refused:
        signature_of("f", code)
    assert message in refused.value.message
    if line is not None:
        assert line in str(refused.value)


def test_rows_and_arrays_are_computed() -> None:
    assert call("divided", [7, 9], [2, 3]) == [[3], [3]]
    assert call("divided", [7]) == [[3]]
    assert call("shout", ["a", None]) == ["A", None]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return 1 / (a - 2)", "f(2) failed: line 3: ZeroDivisionError division by zero"),
        ("    return 'text'", "f(1) has returned 'text', which is no int32"),
        ("    return a\nraise ValueError('no')", "f cannot be loaded: line 4: ValueError no"),
        ("    return a\nimport no_such", "f cannot be loaded: line 4: ModuleNotFoundError"),
    ],
)
def test_errors_name_the_function_the_line_and_the_arguments(body: str, message: str) -> None:
    code = f"@__import__('raftka.sql').sql.function(returns='INT')\ndef f(a):\n{body}"
    with pytest.raises(PipelineError) as failed:
        call("f", [1, 2], code=code)
    assert f"the function {message}" in str(failed.value)


def test_a_wrong_number_of_arguments_or_values_is_an_error() -> None:
    with pytest.raises(PipelineError, match=r"shout\(words\) was given 2 arguments"):
        call("shout", ["a"], ["b"])
    code = "from raftka.sql import function\n@function(returns='INT', arrow=True)\ndef f(a):\n"
    with pytest.raises(PipelineError, match="1 values for 2 rows"):
        call("f", [1, 2], code=f"{code}    return a[:1]")
    with pytest.raises(PipelineError, match="the function f failed: line 4: KeyError"):
        call("f", [1], code=f"{code}    raise KeyError(1)")


def test_statements_about_functions() -> None:
    made = parse("CREATE OR REPLACE FUNCTION f FROM 'a.py'")
    assert isinstance(made, CreateFunction)
    assert (made.name, made.path, made.code, made.is_replacing) == ("f", "a.py", None, True)
    made = parse("CREATE FUNCTION IF NOT EXISTS f AS 'it''s \\\\n'")
    assert isinstance(made, CreateFunction)
    assert (made.code, made.if_missing) == ("it's \\n", True)
    assert isinstance(parse("DROP FUNCTION IF EXISTS f"), DropFunction)
    assert isinstance(parse("DESCRIBE FUNCTION f"), DescribeFunction)
    for text, message in (
        ("CREATE FUNCTION `a b` AS 'x'", "letters, digits and _"),
        ("CREATE FUNCTION f AS ' '", "a file should be here"),
        ("CREATE FUNCTION f", "FROM or AS should be here"),
    ):
        with pytest.raises(StatementError, match=message):
            parse(text)


def test_the_prompt_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.py"
    path.write_text("a = 'it\\n'  # é\n")
    made = parse(with_file(f"create function if not exists f from /* here */ '{path}';"))
    assert isinstance(made, CreateFunction)
    assert (made.code, made.if_missing) == (path.read_text(), True)
    assert with_file("SELECT f(1)") == "SELECT f(1)"
    assert with_file("CREATE FUNCTION") == "CREATE FUNCTION"
    path.write_text("#" * 70_000)
    with pytest.raises(StatementError, match="too much text"):
        with_file(f"CREATE FUNCTION f FROM '{path}'")
    with pytest.raises(StatementError, match="No such file"):
        with_file(f"CREATE FUNCTION f FROM '{tmp_path / 'none.py'}'")


def test_a_function_is_kept_as_a_record() -> None:
    made = Function("f", CODE)
    assert decode(encode(made), "here") == made


def test_a_server_is_told_whether_functions_are_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[bool] = []

    class Recorder:
        def __init__(self, *_: object, has_functions: bool, **__: object) -> None:
            found.append(has_functions)

        def wait_for_spark(self) -> None:
            """Be ready."""

    monkeypatch.setattr(session, "Session", Recorder)
    for allowed in (True, False):
        wanted = Wanted("localhost:1", has_functions=allowed)
        open_session(wanted.order, ServerFolder(tmp_path), None)
    assert found == [True, False]
