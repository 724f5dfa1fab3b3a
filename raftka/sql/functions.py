"""Functions in Python: the decorator that files of functions have, what the prompt sends of such a
file, what a server reads in it without running it, and the function in a worker of Spark.

    import raftka.sql

    @raftka.sql.function(returns="INT")
    def doubled(n):
        return None if n is None else n * 2
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from raftka.json_values import Json, JsonObject
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.fields import Kind
from raftka.sql.language.errors import StatementError
from raftka.sql.language.parser import parse
from raftka.sql.language.reader import Reader
from raftka.sql.language.statements import CreateFunction
from raftka.sql.language.tokens import LONGEST
from raftka.sql.language.types import read_type

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=Callable[..., object])
DECORATOR = "function"
SHOWN = 100  # characters of a call in an error


def function(*, returns: str, arrow: bool = False) -> Callable[[F], F]:
    """Mark a function of SQL. `returns`: the type of its values, such as 'ARRAY<INT>'. `arrow`: it
    takes and returns arrays of pyarrow, with a value for each row; else it is called for each row
    with Python's values, of which NULL is None.
    """

    def mark(marked: F) -> F:
        return marked

    return mark


def with_file(text: str) -> str:
    """Return a statement with the text of its file in place of the file's name; others as they are.
    Raise StatementError.
    """
    if "function" not in text[:LONGEST].lower():
        return text
    try:
        statement = parse(text)
    except StatementError:
        return text  # the server says why
    if not isinstance(statement, CreateFunction) or statement.path is None:
        return text
    try:
        code = Path(statement.path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"{statement.path}: {error}", text, statement.file_at) from None
    escaped = code.replace("\\", "\\\\").replace("'", "''")
    made = (
        f"CREATE {'OR REPLACE ' * statement.is_replacing}FUNCTION "
        f"{'IF NOT EXISTS ' * statement.if_missing}{statement.name} AS '{escaped}'"
    )
    if len(made) > LONGEST:
        raise StatementError(
            f"{statement.path} has too much text: with it the statement has {len(made)} characters "
            f"of {LONGEST}. Next step: install the most of it as a package on the server",
            text,
            statement.file_at,
        )
    return made


class Signature(NamedTuple):
    function: str  # its name in the file
    parameters: tuple[str, ...]
    least: int  # arguments
    most: int | None  # None: any number
    returns: Kind
    takes_arrays: bool

    def takes(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)


def signature_of(name: str, code: str) -> Signature:
    """Return what a file says of the function with this name, or of its one function. Nothing of
    the file is run. Raise StatementError, with its place in the file.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise _refuse(code, getattr(error, "msg", str(error)), line) from None
    except (RecursionError, MemoryError):
        raise _refuse(code, "the file is nested too deeply", None) from None
    found = [
        (each, call)
        for each in tree.body
        if isinstance(each, ast.FunctionDef) and (call := _decorator(each)) is not None
    ]
    chosen = [pair for pair in found if pair[0].name.lower() == name.lower()] or found
    if len(chosen) != 1:
        names = ", ".join(each.name for each, _ in found) or "none"
        raise _refuse(
            code,
            f"no function {name} has the decorator @raftka.sql.function(returns='INT'). There are: "
            f"{names}",
            None,
        )
    return _signature(code, *chosen[0])


def _refuse(code: str, message: str, line: int | None) -> StatementError:
    at = None if line is None else sum(len(each) + 1 for each in code.split("\n")[: line - 1])
    return StatementError(f"the file of the function: {message}", code, at)


def _decorator(definition: ast.FunctionDef) -> ast.Call | None:
    for each in definition.decorator_list:
        if isinstance(each, ast.Call):
            name = each.func.attr if isinstance(each.func, ast.Attribute) else None
            name = each.func.id if isinstance(each.func, ast.Name) else name
            if name == DECORATOR:
                return each
    return None


def _signature(code: str, definition: ast.FunctionDef, call: ast.Call) -> Signature:
    given: dict[str | None, Json] = {}
    for each in call.keywords:
        given[each.arg] = each.value.value if isinstance(each.value, ast.Constant) else None
    returns, arrow = given.get("returns"), given.get("arrow", False)
    if not isinstance(returns, str) or not isinstance(arrow, bool):
        raise _refuse(code, "write returns='INT' and arrow=True or False", call.lineno)
    try:
        reader = Reader(returns)
        kind = read_type(reader)
        reader.end()
    except StatementError as error:
        raise _refuse(code, f"returns={returns!r}: {error.message}", call.lineno) from None
    plain = definition.args
    names = tuple(each.arg for each in (*plain.posonlyargs, *plain.args))
    least = len(names) - len(plain.defaults)
    if any(each is None for each in plain.kw_defaults):
        raise _refuse(code, "arguments of SQL have no names: leave out the *", definition.lineno)
    if not names and plain.vararg is None:
        raise _refuse(code, f"{definition.name} takes no arguments", definition.lineno)
    most = None if plain.vararg is not None else len(names)
    shown = names if plain.vararg is None else (*names, f"*{plain.vararg.arg}")
    return Signature(definition.name, shown, max(least, 1), most, kind, arrow)


@dataclass(frozen=True, slots=True)
class Function:
    """A function that a statement has made."""

    name: str
    code: str  # of its file

    @property
    def signature(self) -> Signature:
        """Raises StatementError."""
        return signature_of(self.name, self.code)


class PythonFunction:
    """A function in a worker. Goes there, pickled. Raises PipelineError, which names the function,
    the line in its file and the arguments.
    """

    def __init__(self, made: Function) -> None:
        self._name, self._code, self._signature = made.name, made.code, made.signature
        self._loaded: Callable[..., Json] | None = None

    def __getstate__(self) -> JsonObject:
        return {**self.__dict__, "_loaded": None}

    def load(self) -> Callable[..., Json]:
        """Run the file, once in a worker."""
        if self._loaded is None:
            names: dict[str, Json] = {"__name__": f"raftka_function_{self._name}"}
            try:
                exec(compile(self._code, self._file, "exec"), names)
                self._loaded = names[self._signature.function]
            except Exception as error:
                raise PipelineError(
                    f"the function {self._name} cannot be loaded: {self._cause(error)}"
                ) from None
        return self._loaded

    def __call__(self, *columns: "pa.Array") -> "pa.Array":
        """Return a value for each row. `columns`: the arguments."""
        import pyarrow as pa

        from raftka.pipeline.records.arrow_types import arrow_type

        if not self._signature.takes(len(columns)):
            parameters = ", ".join(self._signature.parameters)
            raise PipelineError(
                f"the function {self._name}({parameters}) was given {len(columns)} arguments"
            )
        kind = arrow_type(self._signature.returns)
        if self._signature.takes_arrays:
            return self._array(columns, kind)
        lists = [each.to_pylist(maps_as_pydicts="strict") for each in columns]
        rows = list(zip(*lists, strict=True))
        values = list(self._values(rows))
        try:
            return pa.array(values, kind)
        except Exception:  # Arrow does not say which row it refuses
            for row, value in zip(rows, values, strict=True):
                self._check(row, value, kind)
            raise

    def _values(self, rows: Sequence[Sequence[Json]]) -> Iterator[Json]:
        call = self.load()
        for row in rows:
            try:
                yield call(*row)
            except Exception as error:
                raise PipelineError(f"{self._call(row)} failed: {self._cause(error)}") from None

    def _check(self, row: Sequence[Json], value: Json, kind: "pa.DataType") -> None:
        import pyarrow as pa

        try:
            pa.array([value], kind)
        except Exception as error:
            raise PipelineError(
                f"{self._call(row)} has returned {value!r:.{SHOWN}}, which is no {kind}: {error}"
            ) from None

    def _array(self, columns: "Sequence[pa.Array]", kind: "pa.DataType") -> "pa.Array":
        call, count = self.load(), len(columns[0])
        try:
            found = call(*columns).cast(kind)
        except Exception as error:
            raise PipelineError(
                f"the function {self._name} failed: {self._cause(error)}, in {count} rows"
            ) from None
        if len(found) != count:
            raise PipelineError(
                f"the function {self._name} has returned {len(found)} values for {count} rows"
            )
        return found

    @property
    def _file(self) -> str:
        return f"<function {self._name}>"

    def _call(self, row: Sequence[Json]) -> str:
        return f"the function {self._name}({', '.join(map(repr, row)):.{SHOWN}})"

    def _cause(self, error: Exception) -> str:
        """Return the error, and the last line of the file that it went through."""
        line, trace = getattr(error, "lineno", None), error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                line = trace.tb_lineno
            trace = trace.tb_next
        where = "" if line is None else f"line {line}: "
        return f"{where}{type(error).__name__} {' '.join(str(error).split())}".rstrip()
