"""A session of SQL: statements in, answers out.

The session of a server keeps persistent queries running; any other one answers questions and
changes streams and tables.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.client.blocking.connection import LoginRefused
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.security import read_client_config
from raftka.sql import topics
from raftka.sql.answers import Answer, Words, table
from raftka.sql.catalog import MOST_SHOWN, Stream
from raftka.sql.class_archive import make_later
from raftka.sql.context import Context, StartSpark, start_java
from raftka.sql.function_statements import (
    create_function,
    describe_function,
    drop_function,
    shown_functions,
)
from raftka.sql.functions import Function
from raftka.sql.hosting import QueryHost, shown_queries
from raftka.sql.language import StatementError, parse
from raftka.sql.language.functions import ALIASES, call_of, shown
from raftka.sql.language.lookups import lookup_of
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
)
from raftka.sql.language.types import quoted, type_text, written_name
from raftka.sql.login_file import LoginFile
from raftka.sql.registered import registered_columns
from raftka.sql.tables.materialised import MaterialisedTables
from raftka.sql.tables.view import NotMaterialised
from raftka.sql.warm_up import ask_one_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_WORDS = 10_000  # of each kind, for completion


class Session:
    """May be used by several threads. Raises StatementError and PipelineError."""

    def __init__(
        self,
        bootstrap: str,
        config: Path | None = None,
        *,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        log: Path | None = None,
        registry: RegistryAccess | None = None,
        state: Path | None = None,
        start_spark: StartSpark | None = None,
        has_functions: bool = True,
    ) -> None:
        """`config`: a file with client properties. `master`, `settings`: Spark's. `log`: where
        Java prints. `registry`: None: that of the environment. `state`: the folder of a server,
        which then runs its queries. `start_spark`: starts Spark in another way, given the
        descriptor that Java is to hold. `has_functions`: whether statements may make functions in
        Python.
        """
        self._bootstrap, self._config = bootstrap, config
        self._login: LoginFile | None = None  # of a user, for whom this session is
        start = start_spark or partial(
            start_java, log or (None if state is None else state / "spark.log"), master, settings
        )
        self._context = Context(bootstrap, config, registry, start, has_functions=has_functions)
        self._functions: list[str] = []
        self._host = None if state is None else QueryHost(self._context, state)
        self._tables = (
            None
            if state is None
            else MaterialisedTables(self._context.open_brokers, self._context.registry)
        )

    @property
    def has_queries(self) -> bool:
        """Return whether queries go on without a client."""
        return self._host is not None and self._host.has_queries

    @property
    def has_lost_java(self) -> bool:
        """Return whether Java has ended by itself: no statement of Spark's can be done here."""
        return self._context.has_lost_java

    @property
    def limit_hits(self) -> Counter[str]:
        """Return how often the limits of materialised tables were hit, by name."""
        return Counter() if self._tables is None else Counter(self._tables.hits)

    def wait_for_spark(self) -> None:
        """Wait until Spark was started, for the session of a server. Raise the error of its
        start.
        """
        if self._host is not None:
            self._host.wait_for_spark()

    def for_login(self, user: str, password: str, mechanism: str) -> "Session | None":
        """Return a session that asks the brokers as a user, with the Spark of this one; it runs no
        queries that go on. None: the brokers refuse the password. Raises PipelineError. Blocks.
        """
        file = LoginFile(
            {} if self._config is None else read_client_config(self._config),
            mechanism,
            user,
            password,
        )
        session = Session(
            self._bootstrap,
            file.path,
            registry=self._context.registry,
            start_spark=self._context.spark,
            has_functions=self._context.has_functions,
        )
        session._login = file
        try:
            with session._context.brokers() as brokers:
                brokers.names()
        except BaseException as error:
            session.close()
            if isinstance(error, LoginRefused) or isinstance(error.__cause__, LoginRefused):
                return None
            raise
        return session

    def ask_one_row(self) -> None:
        """Make the next questions fast. Raises StatementError, PipelineError, Spark's errors."""
        with self._context.brokers() as brokers:
            ask_one_row(brokers, self._context.catalog(), self.execute)

    def warm_up(self, *, is_asked: bool) -> None:
        with suppress(Exception):  # the user's first question is as slow as it would be
            if not is_asked and not self._context.catalog().queries():
                self.ask_one_row()
        make_later(self._bootstrap, self._config)

    def close(self) -> None:
        """End the queries between two batches; their checkpoints stay. Spark stays."""
        if self._tables is not None:
            self._tables.close()
        host, self._host = self._host, None
        if host is not None:
            host.close()
        self._context.close()
        if self._login is not None:
            self._login.close()

    def execute(self, text: str, limit: int | None = None) -> Answer:
        """Do one statement. `limit`: rows of the answer at most."""
        statement = parse(text)
        match statement:
            case Query():
                return self._query(statement, limit)
            case Explain():
                return self._explain(statement)
            case Print():
                return self._print(statement, limit)
            case Show():
                return self._show(statement)
            case Describe():
                return self._describe(statement)
            case Create():
                return self._create(statement)
            case CreateFunction() | DropFunction() if self._login is not None:
                raise StatementError(
                    "functions in Python run with the server's rights. Next step: give this "
                    "statement with the server's token, not with a login",
                    text,
                    statement.at,
                )
            case CreateFunction():
                restart = (lambda users: None) if self._host is None else self._host.restart
                return create_function(self._context, statement, self._check_function, restart)
            case DropFunction():
                return drop_function(self._context, statement)
            case DescribeFunction():
                return describe_function(self._context, statement, self._spark_function)
            case CreateAs() | InsertQuery() | Control():
                if self._host is None:
                    raise StatementError(
                        "queries that go on are run by a server, with its own login. Next step: "
                        "give this statement to the prompt of `raftka sql`",
                        text,
                        statement.at,
                    )
                return self._host.execute(statement)
            case InsertValues():
                return self._insert(statement)
            case Drop():
                return self._drop(statement)
        raise AssertionError(f"{type(statement).__name__} is a statement that is not done")

    def words(self) -> Words:
        """Return words to complete; functions when Spark is there."""
        catalog = self._context.catalog()
        spark = self._context.spark_if_started
        if spark is not None and not self._functions:
            names = [str(row[0]) for row in spark.sql("SHOW FUNCTIONS").collect()]
            self._functions = [*names, *ALIASES]
        with self._context.brokers() as brokers:
            names = list(brokers.names())
        streams = [each for kind in ("STREAM", "TABLE") for each in catalog.streams(kind)]
        own = [each.name for each in catalog.functions()]
        fields = {column.name for each in streams for column in each.columns}
        return Words(
            names[:MOST_WORDS],
            [*(each.name for each in streams), *(each.name for each in catalog.queries())],
            sorted(fields)[:MOST_WORDS],
            [*self._functions, *own],
        )

    # questions

    def _spark(self) -> "SparkSession":
        self.wait_for_spark()
        return self._context.spark()

    def _query(self, query: Query, limit: int | None) -> Answer:
        lookup = None if self._tables is None else lookup_of(query)
        if self._tables is None or lookup is None:
            return self._ask_spark(query, limit)
        try:
            return self._tables.answer(lookup, self._context.catalog(), limit)
        except NotMaterialised as reason:
            answer = self._ask_spark(query, limit)
            note = "; ".join(filter(None, (answer.note, str(reason))))
            return replace(answer, note=note)

    def _ask_spark(self, query: Query, limit: int | None) -> Answer:
        spark = self._spark()
        from raftka.sql.engine.questions import pull, push

        with self._context.brokers() as brokers:
            sources = self._context.sources(brokers)
            if query.is_push:
                return push(spark, query, sources, query.limit)
            return pull(spark, query, sources, limit)

    def _explain(self, statement: Explain) -> Answer:
        catalog = self._context.catalog()
        goes_on = catalog.query(statement.name)
        if goes_on is None and statement.query is None:
            known = ", ".join(each.name for each in catalog.queries()) or "none"
            raise StatementError(
                f"there is no query {statement.name}. There are: {known}. Next step: EXPLAIN one "
                "of them, or SELECT ...",
                statement.text,
                statement.at,
            )
        spark = self._spark()
        from raftka.sql.engine.analysis import Asked
        from raftka.sql.engine.persistent import BEGIN
        from raftka.sql.engine.questions import asked_of, explain

        with self._context.brokers() as brokers:
            sources = self._context.sources(brokers)
            if statement.query is not None:
                begin = BEGIN if statement.query.is_push else None
                return explain(spark, asked_of(statement.query), sources, begin)
            assert goes_on is not None, "it was found"
            found = explain(spark, Asked(goes_on.query, goes_on.query, 0), sources, BEGIN)
        return replace(found, note=f"{found.note}, writes {goes_on.target}")

    def _print(self, statement: Print, limit: int | None) -> Answer:
        brokers = self._context.open_brokers()
        with ExitStack() as failing:
            failing.callback(brokers.close)
            if statement.topic not in brokers.topics([statement.topic]):
                known = ", ".join(brokers.names()[:MOST_SHOWN]) or "none"
                raise StatementError(
                    f"there is no topic {statement.topic}. There are: {known}",
                    statement.text,
                    statement.at,
                )
            answer = topics.print_topic(
                brokers,
                statement.topic,
                self._context.registry,
                from_beginning=statement.from_beginning,
                limit=statement.limit or limit,
            )
            failing.pop_all()
        return answer

    def _show(self, statement: Show) -> Answer:
        if statement.what == "TOPICS":
            with self._context.brokers() as brokers:
                return topics.show_topics(brokers)
        if statement.what == "FUNCTIONS":
            functions = [[str(row[0]), ""] for row in self._spark().sql("SHOW FUNCTIONS").collect()]
            functions += [
                [call_of(name, form), shown(form)]
                for name, forms in ALIASES.items()
                for form in forms
            ]
            functions += shown_functions(self._context)
            return table((("function", "STRING"), ("means", "STRING")), functions)
        catalog = self._context.catalog()
        if statement.what == "QUERIES":
            return shown_queries(catalog, self._host)
        rows = [
            [each.name, each.topic, str(each.format), ", ".join(key.name for key in each.keys)]
            for each in catalog.streams(statement.what.removesuffix("S"))
        ]
        names = ("name", "topic", "format", "key")
        return table([(name, "STRING") for name in names], rows)

    def _describe(self, statement: Describe) -> Answer:
        catalog = self._context.catalog()
        stream = catalog.stream(statement.name)
        columns = (("column", "STRING"), ("type", "STRING"), ("from", "STRING"))
        if stream is not None:
            rows = [[each.name, type_text(each.kind), _origin(each)] for each in stream.columns]
            note = f"{stream.kind.lower()} over the topic {stream.topic}, {stream.format}"
            if statement.is_extended:
                users = ", ".join(catalog.users(stream.name)) or "no query"
                note += f"; read or written by {users}. {stream.text}"
            return table(columns, rows, note)
        with self._context.brokers() as brokers:
            if statement.name in brokers.topics([statement.name]):
                rows = [[name, kind, ""] for name, kind in topics.DESCRIBED]
                return table(columns, rows, "a topic without a stream: its records as text")
            sentence = catalog.no_source(statement.name, brokers.names())
        raise StatementError(sentence, statement.text, statement.at)

    def _check_function(self, made: Function) -> None:
        """Raises StatementError, and PipelineError with the error of the function's file."""
        spark = self._spark()
        from raftka.pipeline.sql import failure
        from raftka.sql.engine.python_functions import check_loads

        try:
            check_loads(spark, made)
        except StatementError:
            raise
        except Exception as error:  # Spark's are of many kinds
            raise failure(error) from None

    def _spark_function(self, name: str) -> list[str]:
        """Return Spark's lines about a function. Raise PipelineError."""
        spark = self._spark()
        from raftka.pipeline.sql import failure

        try:
            return [str(row[0]) for row in spark.sql(f"DESCRIBE FUNCTION {quoted(name)}").collect()]
        except Exception as error:
            raise failure(error) from None

    # changes

    def _create(self, statement: Create) -> Answer:
        def refuse(message: str) -> StatementError:
            return StatementError(message, statement.text, statement.at)

        with self._context.brokers() as brokers, self._context.changing() as change:
            found = change.catalog.entries.get(statement.name.lower())
            if found is not None and statement.if_missing and isinstance(found, Stream):
                return Answer(note=f"{found.name} is there already")
            if found is not None and not (statement.is_replacing and isinstance(found, Stream)):
                raise refuse(
                    f"{found.name} is there already. Next step: CREATE OR REPLACE, or DROP it first"
                )
            if users := change.catalog.users(statement.name):
                query = written_name(users[0])
                raise refuse(f"{users[0]} uses {statement.name}. Next step: TERMINATE {query}")
            options = replace(
                statement.options,
                topic=statement.options.topic or statement.name,
                format=statement.options.format or Format.JSON,
            )
            columns = self._columns(statement, options)
            stream = Stream(statement.kind, statement.name, columns, options)
            self._context.check_options(stream, statement)
            self._ensure_topic(brokers, stream, refuse)
            change.commit({stream.name: stream})
        return Answer(
            note=f"{stream.name} is a {stream.kind.lower()} over the topic {stream.topic}"
        )

    def _columns(self, statement: Create, options: Options) -> tuple[Column, ...]:
        """Return the columns of the statement; of the value, if it has none, those of the
        registry.
        """
        given = statement.columns or ()
        has_schema = options.format is not None and options.format.has_schema
        if any(each.role is Role.VALUE for each in given) or (given and not has_schema):
            return given
        if options.format is Format.DELIMITED:
            raise StatementError(
                "a delimited record has no names in it. Next step: name the columns",
                statement.text,
                statement.at,
            )
        found = registered_columns(
            self._context.registry, str(options.topic), options.format or Format.JSON
        )
        taken = {each.name.lower() for each in given}
        return (*given, *(each for each in found if each.name.lower() not in taken))

    def _ensure_topic(
        self, brokers: Brokers, stream: Stream, refuse: Callable[[str], StatementError]
    ) -> None:
        if stream.topic in brokers.topics([stream.topic]):
            return
        if stream.options.partitions is None:
            raise refuse(
                f"there is no topic {stream.topic}. Next step: WITH (PARTITIONS=1) makes it"
            )
        self._context.make_topic(brokers, stream)

    def _insert(self, statement: InsertValues) -> Answer:
        target = self._context.target(self._context.catalog(), statement.name, statement)
        with self._context.brokers() as brokers:
            count = topics.insert(brokers, target, statement, self._context.registry)
        return Answer(note=f"{count} {'row' if count == 1 else 'rows'} written to {target.topic}")

    def _drop(self, statement: Drop) -> Answer:
        with self._context.brokers() as brokers, self._context.changing() as change:
            found = change.catalog.stream(statement.name)
            if found is None and statement.if_there:
                return Answer(note=f"there is no {statement.name}")
            if found is None or found.kind != statement.kind:
                known = [each.name for each in change.catalog.streams(statement.kind)]
                raise StatementError(
                    f"there is no {statement.kind.lower()} {statement.name}. There are: "
                    f"{', '.join(known) or 'none'}",
                    statement.text,
                    statement.at,
                )
            if users := change.catalog.users(found.name):
                raise StatementError(
                    f"{users[0]} uses {found.name}. Next step: TERMINATE {written_name(users[0])}",
                    statement.text,
                    statement.at,
                )
            change.commit({found.name: None})
            if self._tables is not None:
                self._tables.end_dropped(change.catalog)
            if statement.deletes_topic:
                topics.remove_topic(brokers, found.topic)
        end = f", and its topic {found.topic}" if statement.deletes_topic else ""
        return Answer(note=f"{found.name} is dropped{end}")


def _origin(column: Column) -> str:
    if column.role is Role.HEADER:
        return f"HEADER('{column.header}')"
    return str(column.role)
