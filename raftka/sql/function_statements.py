"""CREATE, DROP and DESCRIBE FUNCTION."""

from collections.abc import Callable, Sequence

from raftka.pipeline.errors import PipelineError
from raftka.sql.answers import Answer, table
from raftka.sql.catalog import PersistentQuery
from raftka.sql.context import Context
from raftka.sql.functions import Function, signature_of
from raftka.sql.language.errors import StatementError
from raftka.sql.language.functions import ALIASES, OTHERS, call_of, shown
from raftka.sql.language.statements import CreateFunction, DescribeFunction, DropFunction, Statement
from raftka.sql.language.types import type_text, written_name

COLUMNS = (("function", "STRING"), ("means", "STRING"))
RestartQueries = Callable[[Sequence[PersistentQuery]], None]


def _refusal(statement: Statement, message: str) -> StatementError:
    return StatementError(message, statement.text, statement.at)


def create_function(
    context: Context,
    statement: CreateFunction,
    check: Callable[[Function], None],
    restart: RestartQueries,
) -> Answer:
    """Make a function. `check`: runs its file in a worker, and raises its errors. `restart`: takes
    the queries that call a function that was replaced. Raise StatementError and PipelineError.
    """
    if not context.has_functions:
        raise _refusal(statement, "functions in Python are switched off on this server")
    if statement.code is None:
        raise _refusal(
            statement,
            "the prompt reads the file, and a program gives its text. Next step: "
            f"CREATE FUNCTION {statement.name} AS 'the text of the file'",
        )
    if statement.name.upper() in (*ALIASES, *OTHERS):
        raise _refusal(statement, f"{statement.name} is a function of ksqlDB. Next step: another")
    made = Function(statement.name, statement.code)
    signature_of(made.name, made.code)
    check(made)
    with context.changing() as change:
        found = change.catalog.entries.get(made.name.lower())
        if isinstance(found, Function) and statement.if_missing:
            return Answer(note=f"{found.name} is there already")
        if found is not None and not (statement.is_replacing and isinstance(found, Function)):
            raise _refusal(
                statement,
                f"{found.name} is there already. Next step: another name, or CREATE OR REPLACE of "
                "a function",
            )
        change.commit({made.name: made})
        users = change.catalog.function_users(made.name)
    restart(users)
    return Answer(note=f"{_call(made)} is a function")


def drop_function(context: Context, statement: DropFunction) -> Answer:
    """Raises StatementError and PipelineError."""
    with context.changing() as change:
        found = change.catalog.entries.get(statement.name.lower())
        if not isinstance(found, Function):
            if statement.if_there:
                return Answer(note=f"there is no function {statement.name}")
            known = ", ".join(each.name for each in change.catalog.functions()) or "none"
            raise _refusal(statement, f"there is no function {statement.name}. There are: {known}")
        if users := change.catalog.function_users(found.name):
            query = users[0].name
            raise _refusal(
                statement, f"{query} calls {found.name}. Next step: TERMINATE {written_name(query)}"
            )
        change.commit({found.name: None})
    return Answer(note=f"{found.name} is dropped")


def describe_function(
    context: Context, statement: DescribeFunction, describe: Callable[[str], Sequence[str]]
) -> Answer:
    """`describe`: returns Spark's lines about a function of its own; it raises PipelineError. Raise
    StatementError.
    """
    found = context.catalog().entries.get(statement.name.lower())
    if isinstance(found, Function):
        lines = found.code.rstrip().splitlines()
        return table(COLUMNS, [[_call(found), line] for line in lines], "Python")
    if (forms := ALIASES.get(statement.name.upper())) is not None:
        return table(
            COLUMNS, [[call_of(statement.name.upper(), each), shown(each)] for each in forms]
        )
    if (other := OTHERS.get(statement.name.upper())) is not None:
        raise _refusal(statement, f"{statement.name} is not there. Next step: {other}")
    try:
        return table(COLUMNS, [[statement.name, line] for line in describe(statement.name)])
    except PipelineError:
        raise _refusal(
            statement, f"there is no function {statement.name}. Next step: SHOW FUNCTIONS"
        ) from None


def shown_functions(context: Context) -> list[list[str]]:
    """Return a row for each function in Python."""
    return [[_call(each), "Python"] for each in context.catalog().functions()]


def _call(made: Function) -> str:
    """Return how a function is called, and its type."""
    signature = made.signature
    parameters = ", ".join(signature.parameters)
    return f"{made.name}({parameters}) {type_text(signature.returns)}"
