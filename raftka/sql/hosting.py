"""Queries that go on: the part of a session that a server alone has. They are started again from
their checkpoints after the server was killed.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Slow
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.json_values import Json
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.locks import locked
from raftka.pipeline.records.registry_client import SchemaRefused
from raftka.sql.answers import Answer, table
from raftka.sql.catalog import Catalog, PersistentQuery, Stream
from raftka.sql.context import Context
from raftka.sql.language.errors import StatementError
from raftka.sql.language.statements import Control, CreateAs, Format, InsertQuery, Role
from raftka.sql.registration import registered_id
from raftka.sql.replacing import PREFIXES, check_replaced_stream, replaced_query

if TYPE_CHECKING:
    from raftka.pipeline.flows.supervisor import Reported
    from raftka.sql.engine.analysis import Analyzed, Asked
    from raftka.sql.engine.persistent import Queries

ID, LOCK = "server-id", "queries.lock"
LEFT_S, POLL_S = 30.0, 0.1  # Java of a killed server ends within a second or two
PATIENCE_S = 60.0  # a statement waits so long for Spark and for the queries to be started
PAUSE_S = 2.0  # before brokers that are away are asked again
SHOWN = (
    ("name", "STRING"),
    ("state", "STRING"),
    ("writes", "STRING"),
    ("rows", "BIGINT"),
    ("rows_per_second", "DOUBLE"),
    ("lag", "BIGINT"),
    ("lag_seconds", "DOUBLE"),
    ("failures", "INT"),
    ("error", "STRING"),
    ("query", "STRING"),
)
ELSEWHERE = "elsewhere"  # another server runs it
Persistent = CreateAs | InsertQuery


class HostState:
    """The folder of a server: its id, and the lock that one process at a time has. Java has it too:
    after a SIGKILL the next server waits until nothing writes there any more.
    """

    def __init__(self, folder: Path) -> None:
        """Wait for the lock. Raise PipelineError when another process keeps it."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise PipelineError(f"the folder {folder} cannot be written to: {error}") from None
        deadline = time.monotonic() + LEFT_S
        while not locked(self.lock):
            if time.monotonic() > deadline:
                os.close(self.lock)
                raise PipelineError(
                    f"another process runs the queries of {folder}. Next step: end that one, or "
                    "use its server"
                )
            time.sleep(POLL_S)
        self.server = self._id()

    def _id(self) -> str:
        path = self.folder / ID
        if not path.is_file():
            fresh = path.with_suffix(".part")
            fresh.write_text(uuid.uuid4().hex)
            fresh.replace(path)
        return path.read_text().strip()

    def close(self) -> None:
        os.close(self.lock)


class QueryHost:
    def __init__(self, context: Context, folder: Path) -> None:
        self._context, self._folder = context, folder
        self._state: HostState | None = None
        self._running: Future[Queries] = Future()
        self._blind_hosts: Sequence[str] = ()  # machines that do not see the folder
        self._has_spark = threading.Event()  # or has none, for an error
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._begin, name="sql server", daemon=True)
        self._thread.start()

    # starting

    def _begin(self) -> None:
        """Start Spark and the queries of this server. Brokers may be away for hours."""
        try:
            try:
                self._state = HostState(self._folder)
                spark = self._context.spark(self._state.lock)
            finally:
                self._has_spark.set()
            from raftka.sql.engine.persistent import Queries, hosts_without

            if not spark.sparkContext._jsc.sc().isLocal():
                self._blind_hosts = hosts_without(spark, self._folder)
            queries = Queries(spark, self._folder, self._context.connection, self._context.sources)
        except Exception as error:  # of Spark or of the folder: each statement says it
            self._running.set_exception(error)
            return
        catalog = self._known()
        if catalog is None:
            queries.close()
            self._running.set_exception(PipelineError("the server is ending"))
            return
        kept = []
        for query in catalog.queries():
            target = catalog.stream(query.target)
            if query.server == self._state.server and target is not None:
                kept.append(query)
                if not query.is_paused:
                    queries.add(query, target)
        queries.forget_others(kept)
        self._running.set_result(queries)

    def _known(self) -> Catalog | None:
        """Return the entries; None: the server ends before the brokers were there."""
        while not self._stopping.is_set():
            try:
                return self._context.catalog()
            except PipelineError as error:
                logging.getLogger(__name__).warning("statements cannot be read yet: %s", error)
                self._stopping.wait(PAUSE_S)
        return None

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        if not self._running.exception():
            self._running.result().close()
        if self._state is not None:
            self._state.close()

    def wait_for_spark(self) -> None:
        """Wait until Spark was started with the lock, however long that takes. Raise the error of
        its start.
        """
        self._has_spark.wait()
        if self._context.spark_if_started is None:
            self._running.result()

    @property
    def has_queries(self) -> bool:
        """Return whether queries of this server go on."""
        return (
            self._running.done()
            and self._running.exception() is None
            and self._running.result().has_any
        )

    def _queries(self) -> "Queries":
        try:
            return self._running.result(PATIENCE_S)
        except Slow:
            raise PipelineError(
                "Spark and the queries are still being started. Next step: try again in a moment"
            ) from None

    # statements

    def execute(self, statement: Persistent | Control) -> Answer:
        """Raises StatementError and PipelineError."""
        queries = self._queries()
        if isinstance(statement, Control):
            return self._control(statement, queries)
        return self._create(statement, queries)

    def _create(self, statement: Persistent, queries: "Queries") -> Answer:
        from raftka.sql.engine.analysis import Asked, words_of
        from raftka.sql.engine.outputs import check_streaming, check_target, mode_of
        from raftka.sql.engine.persistent import beginning
        from raftka.sql.engine.state import check_state
        from raftka.sql.engine.table_keys import check_keys, check_tables, keys_of

        assert self._state is not None, "the queries are there"
        asked = Asked(statement.text, statement.query, statement.query_at)
        self._check_sight(asked)
        context, old, known = self._context, None, None
        with context.brokers() as brokers, context.changing() as change:
            if isinstance(statement, CreateAs):
                known = change.catalog.stream(statement.name)
                if known is not None and statement.if_missing:
                    return Answer(note=f"{known.name} is there already")
                old = replaced_query(change.catalog, statement, self._state.server)
                kind, is_final = statement.kind, statement.is_final
            else:
                kind = context.target(change.catalog, statement.name, statement).kind
                is_final = False
            begin = beginning(kind, is_final=is_final)
            found = queries.analyze(asked, brokers, begin)
            mode = mode_of(found.frame, kind, is_final=is_final)
            check_tables(found, asked, change.catalog, has_changes=mode == "update")
            if isinstance(statement, CreateAs):
                target = self._new_target(statement, found, change.catalog, asked)
                prefix = PREFIXES[statement.kind]
            else:
                target = context.target(change.catalog, statement.name, statement)
                if mode == "update":
                    check_keys(keys_of(found, asked, change.catalog), target, asked)
                prefix = "insert"
            check_streaming(found.frame, asked, words_of(statement.query), mode)
            check_target(found.frame, target, asked)
            _check_no_loop(change.catalog, statement, target, found.sources)
            query = PersistentQuery(
                change.catalog.new_name(f"{prefix}_{target.name.lower()}"),
                target.name,
                statement.query,
                found.sources,
                self._state.server,
                uuid.uuid4().hex,
                is_final=is_final,
            )
            if isinstance(statement, CreateAs) and old is not None and known is not None:
                check_replaced_stream(known, target, statement)
                before = queries.analyze(Asked(old.query, old.query, 0), brokers, begin)
                check_state(before, found, asked)
                query = replace(query, name=old.name, run=old.run, is_paused=old.is_paused)
            query = replace(query, schema_id=self._schema_id(statement, target, asked))
            context.make_topic(brokers, target)
            change.commit({target.name: target, query.name: query})
        if old is not None:
            queries.stop(old, forget=False)
        if not query.is_paused:
            queries.add(query, target)
        done = "writes" if old is None else "is replaced and writes"
        return Answer(note=f"{query.name} {done} to the topic {target.topic}")

    def _check_sight(self, asked: "Asked") -> None:
        """Raise StatementError where Spark's machines do not see the checkpoints."""
        if self._blind_hosts:
            raise asked.error(
                f"{', '.join(self._blind_hosts)} of Spark's machines cannot see the checkpoints in "
                f"{self._folder}. Next step: start the server with XDG_STATE_HOME in a folder that "
                "all of them share, at the same path"
            )

    def _new_target(
        self, statement: CreateAs, found: "Analyzed", catalog: Catalog, asked: "Asked"
    ) -> Stream:
        """Return the stream that a query makes. Raise StatementError."""
        from raftka.sql.engine.outputs import columns_of
        from raftka.sql.engine.table_keys import keys_of

        is_table = statement.kind == "TABLE"
        partition_by = () if statement.key is None else (statement.key,)
        keys = keys_of(found, asked, catalog) if is_table else partition_by
        options = replace(
            statement.options,
            topic=statement.options.topic or statement.name,
            format=statement.options.format or Format.JSON,
        )
        target = Stream(statement.kind, statement.name, (), options)
        role = Role.PRIMARY_KEY if is_table else Role.KEY
        columns = columns_of(found.frame, keys, target.format, asked, role)
        target = replace(target, columns=columns)
        self._context.check_options(target, statement)
        return target

    def _schema_id(self, statement: Persistent, target: Stream, asked: "Asked") -> int | None:
        """Return the id of the schema for the rows of a query. Raise StatementError."""
        try:
            return registered_id(
                self._context.registry, target, is_new=isinstance(statement, CreateAs)
            )
        except SchemaRefused as refused:
            raise asked.error(str(refused)) from None

    def _control(self, statement: Control, queries: "Queries") -> Answer:
        assert self._state is not None, "the queries are there"
        with self._context.changing() as change:
            found = change.catalog.query(statement.name)
            if found is None:
                known = ", ".join(each.name for each in change.catalog.queries()) or "none"
                raise StatementError(
                    f"there is no query {statement.name}. There are: {known}",
                    statement.text,
                    statement.at,
                )
            if found.server != self._state.server:
                raise StatementError(
                    f"{found.name} is run by another server, {found.server}. Next step: give the "
                    "statement there",
                    statement.text,
                    statement.at,
                )
            changed = replace(found, is_paused=statement.action == "PAUSE")
            target = change.catalog.stream(found.target)
            is_over = statement.action == "TERMINATE"
            change.commit({found.name: None if is_over else changed})
        if is_over:
            queries.stop(found, forget=True)
            return Answer(note=f"{found.name} is terminated; its rows stay in the topic")
        if changed.is_paused or target is None:
            queries.stop(found, forget=False)
        elif found.is_paused:
            queries.add(changed, target)
        return Answer(note=f"{found.name} is {'paused' if changed.is_paused else 'running'}")

    def restart(self, queries: Sequence[PersistentQuery]) -> None:
        """Start queries anew from their checkpoints, those of this server that run."""
        running, catalog = self._queries(), self._context.catalog()
        for query in queries:
            target = catalog.stream(query.target)
            if self.state_of(query)[1] is not None and target is not None:
                running.stop(query, forget=False)
                running.add(query, target)

    def state_of(self, query: PersistentQuery) -> tuple[str, "Reported | None"]:
        """Return the state of a query in a word, and the report of one that runs here."""
        if self._state is None or query.server != self._state.server:
            return ELSEWHERE, None
        is_there = self._running.done() and not self._running.exception()
        reported = self._running.result().reported(query.name) if is_there else None
        if reported is None:
            return "paused" if query.is_paused else "starting", None
        return reported.state, reported


def _check_no_loop(
    catalog: Catalog, statement: Persistent, target: Stream, sources: Sequence[str]
) -> None:
    """Raise StatementError for a query that reads its own target."""
    streams = {name: catalog.stream(name) for name in sources}
    topics = [name if found is None else found.topic for name, found in streams.items()]
    if target.topic.lower() in [topic.lower() for topic in topics]:
        raise StatementError(
            f"the query reads the topic {target.topic} that it writes: it would never end. "
            "Next step: write to another stream",
            statement.text,
            statement.at,
        )


def shown_queries(catalog: Catalog, server: QueryHost | None) -> Answer:
    """Return a row for each query of the cluster. `server`: that of this context."""
    rows = []
    for query in catalog.queries():
        state, reported = (ELSEWHERE, None) if server is None else server.state_of(query)
        report: list[Json] = [None] * 6
        if reported is not None:
            report = [
                reported.rows,
                reported.rows_per_second,
                reported.lag,
                reported.age_s,
                reported.failures,
                reported.error,
            ]
        rows.append([query.name, state, query.target, *report, query.query])
    return table(SHOWN, rows)
