"""Materialised tables on a real cluster, without Spark: rows by key, as new as the question, of
committed records alone; limits; and planted bugs that these rules find.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from raftka.client.blocking import transaction
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import Reader
from raftka.client.blocking.topics import create_topics, delete_topics
from raftka.limits import Limit
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records.registry_client import RegistryAccess
from raftka.pipeline.topics.brokers import Brokers
from raftka.pipeline.topics.options import addresses
from raftka.pipeline.topics.planning import Topic
from raftka.sql.answers import Answer
from raftka.sql.limits import TABLE_BYTES, TABLES
from raftka.sql.session import Session
from raftka.sql.tables import materialised, view
from raftka.sql.tables.rows import wanted_of
from raftka.sql.tables.store import Found, Kept, RecordStore, StoreFull
from raftka.sql.tables.view import TableView
from raftka.testing import Cluster
from raftka.wire.messages.delete_records import DELETE_RECORDS
from tests.kit.sql_server import wait_for
from tests.kit.sql_tables import NO_SPARK, TIMEOUT_MS, no_spark, rows, send, send_in_transaction

NUMBERS = count()
BY_SPARK = Answer(note="by Spark")


class Setup(NamedTuple):
    session: Session
    brokers: Brokers
    name: str  # of a table (id STRING PRIMARY KEY, n INT), and of its topic
    patch: pytest.MonkeyPatch

    def n_of(self, key: str) -> list[Any]:
        return [
            each[0] for each in rows(self.session, f"SELECT n FROM {self.name} WHERE id = '{key}'")
        ]

    @property
    def topic_id(self) -> str:
        return self.brokers.topics([self.name])[self.name].topic_id


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as started:
        yield started


@pytest.fixture
def brokers(cluster: Cluster) -> Iterator[Brokers]:
    found = Brokers(addresses({"bootstrap.servers": cluster.bootstrap_servers}), "test", 20.0)
    yield found
    found.close()


@pytest.fixture
def new_session(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Session]]:
    monkeypatch.setattr(view, "PATIENCE_S", 60.0)
    opened: list[Session] = []

    def new(registry: str | None = None) -> Session:
        access = None if registry is None else RegistryAccess((registry,))
        state = tmp_path / f"server-{len(opened)}"
        opened.append(
            Session(cluster.bootstrap_servers, registry=access, state=state, start_spark=no_spark)
        )
        return opened[-1]

    yield new
    for each in opened:
        each.close()


@pytest.fixture
def setup(
    new_session: Callable[[], Session], brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> Setup:
    name = f"t{next(NUMBERS)}"
    session = new_session()
    session.execute(f"CREATE TABLE {name} (id STRING PRIMARY KEY, n INT) WITH (PARTITIONS=1)")
    return Setup(session, brokers, name, monkeypatch)


# rules


def updates_are_seen_at_once(setup: Setup) -> None:
    """The thread is held until a question has asked where the records end."""
    has_asked = threading.Event()
    put, new_mark = RecordStore.put, TableView._new_mark

    def put_later(store: RecordStore, records: Any) -> None:
        has_asked.wait()
        put(store, records)

    def ask_first(asked: TableView) -> view.Mark:
        mark = new_mark(asked)
        has_asked.set()
        return mark

    setup.patch.setattr(RecordStore, "put", put_later)
    setup.patch.setattr(TableView, "_new_mark", ask_first)
    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 0), ('b', 0)")
    for n in range(1, 30):
        has_asked.clear()
        setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', {n})")
        assert setup.n_of("a") == [n]
    assert setup.n_of("b") == [0]


def a_record_without_a_value_deletes_its_row(setup: Setup) -> None:
    send(setup.brokers, setup.name, (b"a", b'{"n": 1}'), (b"b", b'{"n": 2}'), (b"c", None))
    assert setup.n_of("a") == [1]
    send(setup.brokers, setup.name, (b"a", None))
    assert (setup.n_of("a"), setup.n_of("b"), setup.n_of("c")) == ([], [2], [])
    send(setup.brokers, setup.name, (b"a", b'{"n": 3}'))
    assert setup.n_of("a") == [3]


def only_committed_records_count(setup: Setup) -> None:
    send_in_transaction(setup.brokers, setup.name, (b"a", b'{"n": 1}'), commit=True)
    send_in_transaction(
        setup.brokers, setup.name, (b"a", b'{"n": 2}'), (b"b", b'{"n": 2}'), commit=False
    )
    assert (setup.n_of("a"), setup.n_of("b")) == ([1], [])
    # one that is still open, and is committed then
    identity = transaction.begin(setup.brokers, f"open-{setup.name}", TIMEOUT_MS)
    producer = Producer(setup.brokers, identity=identity)
    producer.add((setup.name, 0), (b"a", b'{"n": 3}', (), 0))
    producer.flush()
    assert setup.n_of("a") == [1]
    transaction.end(setup.brokers, identity, commit=True)
    wait_for(lambda: setup.n_of("a") == [3])


def a_table_that_is_dropped_is_gone(setup: Setup) -> None:
    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 1)")
    assert setup.n_of("a") == [1]
    assert threads(setup) == 1
    setup.session.execute(f"DROP TABLE {setup.name} DELETE TOPIC")
    wait_for(lambda: threads(setup) == 0)
    with pytest.raises(PipelineError, match=NO_SPARK):
        setup.n_of("a")


def threads(setup: Setup) -> int:
    return sum(each.name == f"table {setup.name}" for each in threading.enumerate())


def a_topic_that_was_made_anew_has_its_own_rows(setup: Setup) -> None:
    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 1), ('b', 1)")
    assert setup.n_of("a") == [1]
    before = setup.topic_id
    delete_topics(setup.brokers, [setup.name])
    wait_for(lambda: not setup.brokers.topics([setup.name]))
    create_topics(setup.brokers, [setup.name], 2, -1, {})
    wait_for(lambda: setup.brokers.topics([setup.name]) and setup.topic_id != before)
    send(setup.brokers, setup.name, (b"b", b'{"n": 2}'), partition=1)
    setup.patch.setattr(Session, "_ask_spark", lambda *_: BY_SPARK)
    wait_for(lambda: "materialised table, " in ask(setup, "b").note)  # the first one is Spark's
    assert (setup.n_of("a"), setup.n_of("b")) == ([], [2])


def ask(setup: Setup, key: str) -> Answer:
    return setup.session.execute(f"SELECT n FROM {setup.name} WHERE id = '{key}'")


def deleted_records_are_no_rows(setup: Setup) -> None:
    name = f"{setup.name}_deleted"
    create_topics(setup.brokers, [name], 1, -1, {})  # of a compacted one nothing is deleted so
    setup.session.execute(f"CREATE TABLE {name} (id STRING PRIMARY KEY, n INT)")
    setup = setup._replace(name=name)
    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 1), ('b', 2)")
    assert (setup.n_of("a"), setup.n_of("b")) == ([1], [2])
    topic = DELETE_RECORDS.request.topics
    partition = topic.partitions(partition_index=0, offset=1)
    asked = DELETE_RECORDS.request(
        topics=[topic(name=setup.name, partitions=[partition])], timeout_ms=10_000
    )
    answer = setup.brokers.ask_leader((setup.name, 0), DELETE_RECORDS, asked)
    assert answer.topics[0].partitions[0].error_code == 0
    wait_for(lambda: setup.n_of("a") == [])
    assert setup.n_of("b") == [2]


RULES = (
    updates_are_seen_at_once,
    a_record_without_a_value_deletes_its_row,
    only_committed_records_count,
    a_table_that_is_dropped_is_gone,
    a_topic_that_was_made_anew_has_its_own_rows,
    deleted_records_are_no_rows,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda each: each.__name__)
def test_rules_of_materialised_tables(setup: Setup, rule: Callable[[Setup], None]) -> None:
    rule(setup)


# answers


def test_columns_and_types_are_those_of_the_table(
    new_session: Callable[[], Session], brokers: Brokers
) -> None:
    name, session = f"t{next(NUMBERS)}", new_session()
    create_topics(brokers, [name], 1, -1, {})  # one that takes records without a key
    session.execute(
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, Day DATE, price DECIMAL(9, 2), x FLOAT, "
        "tags ARRAY<STRING>, o STRUCT<a INT, b BOOLEAN>, m MAP<STRING, INT>)"
    )
    value = (
        b'{"Day": "2024-05-06", "price": 1.5, "x": 0.1, "tags": ["u"], "o": {"a": 1}, '
        b'"m": {"k": 2}}'
    )
    send(
        brokers, name, (b"7", value), (b" +07", b"{}"), (b"x", value), (None, value), (b"8", b"no")
    )

    answer = session.execute(f"SELECT * FROM {name} WHERE id = 7")
    assert [tuple(each) for each in answer.columns] == [
        ("id", "bigint"),
        ("Day", "date"),
        ("price", "decimal(9,2)"),
        ("x", "float"),
        ("tags", "array<string>"),
        ("o", "struct<a:int,b:boolean>"),
        ("m", "map<string,int>"),
    ]
    found = sorted((list(each) for each in answer.rows), key=str)
    assert [str(each) for each in found] == [
        "[7, '2024-05-06', Decimal('1.50'), 0.10000000149011612, ['u'], "
        "{'a': 1, 'b': None}, {'k': 2}]",
        "[7, None, None, None, None, None, None]",
    ]
    assert rows(session, f"SELECT DAY, ID FROM {name} WHERE id IN (8, 7)", 1) in (
        [["2024-05-06", 7]],
        [[None, 7]],
    )
    assert (
        "more than 1 rows; from" in session.execute(f"SELECT id FROM {name} WHERE id = 7", 1).note
    )


def test_values_of_a_registry_are_read(
    new_session: Callable[..., Session], cluster: Cluster
) -> None:
    pytest.importorskip("fastavro", reason="needs raftka[pipeline]")
    pytest.importorskip("jsonschema_rs", reason="needs raftka[registry]")
    from tests.registry.rest import Rest, record

    name = f"t{next(NUMBERS)}"
    with cluster.registry() as registry:
        with Rest(registry) as rest:
            rest.register(f"{name}-value", record("Row", n="long", t=["null", "string"]))
        session = new_session(registry.url)
        session.execute(
            f"CREATE TABLE {name} (id STRING PRIMARY KEY) WITH (VALUE_FORMAT='avro', PARTITIONS=1)"
        )
        session.execute(f"INSERT INTO {name} VALUES ('a', 7, 'x')")
        assert rows(session, f"SELECT * FROM {name} WHERE id = 'a'") == [["a", 7, "x"]]


@pytest.mark.parametrize(
    ("table", "question"),
    [
        (
            "TABLE {name} (id STRING PRIMARY KEY, n INT)",
            "SELECT _offset FROM {name} WHERE id = 'a'",
        ),
        ("TABLE {name} (id STRING PRIMARY KEY, n INT)", "SELECT * FROM {name} WHERE n = 1"),
        ("TABLE {name} (id STRING PRIMARY KEY, n INT)", "SELECT * FROM {name} WHERE id = 1"),
        ("TABLE {name} (id INT PRIMARY KEY, n INT)", "SELECT * FROM {name} WHERE id = '1'"),
        ("TABLE {name} (id DOUBLE PRIMARY KEY, n INT)", "SELECT * FROM {name} WHERE id = 1"),
        ("STREAM {name} (id STRING KEY, n INT)", "SELECT * FROM {name} WHERE id = 'a'"),
        ("STREAM {name} (id STRING KEY, n INT)", "SELECT * FROM {name}_t WHERE id = 'a'"),
    ],
)
def test_other_questions_are_for_spark(
    new_session: Callable[[], Session], table: str, question: str
) -> None:
    name, session = f"t{next(NUMBERS)}", new_session()
    session.execute(f"CREATE {table.format(name=name)} WITH (PARTITIONS=1)")
    with pytest.raises(PipelineError, match=NO_SPARK):
        session.execute(question.format(name=name))


def test_delimited_lines_are_for_spark(new_session: Callable[[], Session]) -> None:
    name, session = f"t{next(NUMBERS)}", new_session()
    options = "PARTITIONS=1, VALUE_FORMAT='delimited'"
    session.execute(f"CREATE TABLE {name} (id STRING PRIMARY KEY, n INT) WITH ({options})")
    with pytest.raises(PipelineError, match=NO_SPARK):
        session.execute(f"SELECT * FROM {name} WHERE id = 'a'")


def test_a_new_server_reads_the_topic_again(
    setup: Setup, new_session: Callable[[], Session]
) -> None:
    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 1)")
    assert setup.n_of("a") == [1]
    assert rows(new_session(), f"SELECT n FROM {setup.name} WHERE id = 'a'") == [[1]]


def test_a_server_that_was_killed_has_the_rows_again(
    setup: Setup, cluster: Cluster, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.kit.sql_tables", cluster.bootstrap_servers]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for n in (1, 2):
        setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', {n})")
        killed = subprocess.Popen(
            [*command, str(tmp_path / "killed")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SQLITE_TMPDIR": str(temporary)},
        )
        with killed:
            assert killed.stdin is not None
            assert killed.stdout is not None
            killed.stdin.write(f"SELECT * FROM {setup.name} WHERE id = 'a'\n")
            killed.stdin.flush()
            found = killed.stdout.readline()
            killed.kill()
        assert json.loads(found) == [["a", n]]
    assert list(temporary.iterdir()) == []


# a view that is behind


def test_until_the_topic_is_read_spark_answers(setup: Setup) -> None:
    gate = threading.Event()
    put = RecordStore.put

    def slowly(store: RecordStore, records: Any) -> None:
        gate.wait()
        put(store, records)

    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 1), ('b', 2)")
    setup.patch.setattr(RecordStore, "put", slowly)
    setup.patch.setattr(Session, "_ask_spark", lambda *_: BY_SPARK)
    with setup.patch.context() as hasty:
        hasty.setattr(view, "PATIENCE_S", 0.01)
        assert ask(setup, "a").note == (
            f"by Spark; {setup.name} is being materialised for questions by key: 0 of 2 records "
            "are read"
        )
    gate.set()
    assert setup.n_of("a") == [1]
    gate.clear()
    setup.session.execute(f"INSERT INTO {setup.name} VALUES ('a', 2)")
    setup.patch.setattr(view, "PATIENCE_S", 0.01)
    old = ask(setup, "a")
    assert [list(each) for each in old.rows] == [[1]]  # and says how old it is
    gate.set()
    wait_for(lambda: setup.n_of("a") == [2])


# limits


def test_a_table_that_is_too_large_is_read_by_spark(setup: Setup) -> None:
    setup.patch.setattr(view, "TABLE_BYTES", Limit(TABLE_BYTES.name, 40_960, ""))
    setup.patch.setattr(Session, "_ask_spark", lambda *_: BY_SPARK)
    send(setup.brokers, setup.name, *((b"%d" % n, b" " * 1000) for n in range(100)))
    for _ in range(2):
        assert ask(setup, "a").note == (
            f"by Spark; {setup.name} is not materialised: it needs more than sql_table_bytes, "
            "40960 bytes, or the disk is full"
        )
    assert setup.session.limit_hits == {TABLE_BYTES.name: 1}


def test_of_too_many_tables_the_one_that_was_not_asked_for_longest_ends(setup: Setup) -> None:
    setup.patch.setattr(materialised, "TABLES", Limit(TABLES.name, 2, ""))
    names = [f"{setup.name}_{n}" for n in range(3)]
    for name in names:
        setup.session.execute(f"CREATE TABLE {name} (id STRING PRIMARY KEY) WITH (PARTITIONS=1)")
    for name in (names[0], names[1], names[0], names[2]):
        assert rows(setup.session, f"SELECT * FROM {name} WHERE id = 'a'") == []

    def running() -> set[str]:
        return {each.name for each in threading.enumerate()} & {f"table {name}" for name in names}

    wait_for(lambda: running() == {f"table {names[0]}", f"table {names[2]}"})
    assert setup.session.limit_hits == {TABLES.name: 1}


# the store


@pytest.fixture
def store() -> Iterator[RecordStore]:
    opened = RecordStore(1 << 30)
    yield opened
    opened.close()


def test_each_of_10_000_keys_is_found_without_a_scan(store: RecordStore) -> None:
    keys = [b"key %d" % n for n in range(10_000)]
    store.put(Kept(key, key, 0, at, b"value %d" % at) for at, key in enumerate(keys))
    steps = 0

    def count_step() -> None:
        nonlocal steps
        steps += 1

    assert store._database is not None
    store._database.set_progress_handler(count_step, 1)
    for at, key in enumerate(keys):
        assert store.find(key) == [Found(0, at, b"value %d" % at, key)]
    assert steps < 50 * len(keys)  # of SQLite's machine: a scan has some for each row


def test_a_file_of_a_store_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    monkeypatch.setattr("raftka.sql.tables.store.CACHE_KIB", 64)
    store = RecordStore(1 << 30)
    store.put(Kept(b"%d" % n, b"%d" % n, 0, n, b"x" * 1000) for n in range(2000))
    assert list(tmp_path.iterdir()) == []
    store.close()
    assert store.find(b"1") is None


def test_a_store_that_is_full_says_so() -> None:
    store = RecordStore(1 << 16)
    with pytest.raises(StoreFull):
        store.put(Kept(b"%d" % n, b"%d" % n, 0, n, b"x" * 1000) for n in range(100))
    store.close()


@pytest.mark.parametrize(
    ("key", "kind", "wanted"),
    [
        (b"a\xff", "string", b"a\xff"),
        (b"7", "int", b"7"),
        (b" +007\n", "int", b"7"),
        (b"-0", "bigint", b"0"),
        (b"2147483648", "int", None),
        (b"2147483648", "bigint", b"2147483648"),
        (b"9" * 5000, "bigint", None),
        (b"7.0", "int", None),
        (b"", "int", None),
    ],
)
def test_keys_are_named_as_spark_casts_them(key: bytes, kind: str, wanted: bytes | None) -> None:
    assert wanted_of(key, kind) == wanted


# keys of several columns


def windows_of_a_key_are_found(setup: Setup) -> None:
    name, session = f"{setup.name}_w", setup.session
    session.execute(
        f"CREATE TABLE {name} (k STRING PRIMARY KEY, b INT PRIMARY KEY, WINDOWSTART BIGINT PRIMARY "
        "KEY, WINDOWEND BIGINT, n INT) WITH (PARTITIONS=2)"
    )
    session.execute(
        f"INSERT INTO {name} VALUES ('a', 1, 120, 180, 3), ('a', 1, 60, 120, 2), "
        "('a', 1, 0, 60, 1), ('a', 2, 0, 60, 8), ('b', 1, 0, 60, 9), ('a', 1, 180, 240, NULL)"
    )

    def found(conditions: str, columns: str = "WINDOWSTART, n") -> list[Any]:
        return rows(session, f"SELECT {columns} FROM {name} WHERE {conditions}")

    key = "k = 'a' AND b = 1"
    assert found(key) == [[0, 1], [60, 2], [120, 3], [180, None]]
    assert found(f"{key} AND WINDOWSTART >= 60 AND WINDOWEND <= 180") == [[60, 2], [120, 3]]
    assert found(f"{key} AND windowstart = 60", "*") == [["a", 1, 60, 120, 2]]
    assert found("b IN (1, 2) AND k = 'a' AND WINDOWSTART < 60", "b") == [[1], [2]]
    assert found(f"{key} AND n > 1", "n") == [[2], [3]]
    session.execute(f"INSERT INTO {name} (k, b, WINDOWSTART, n) VALUES ('a', 1, 0, 7)")
    assert found(f"{key} AND WINDOWSTART = 0", "n") == [[7]]
    for other in ("k = 'a'", f"{key} AND n > 'x'", "WINDOWSTART = 0 AND k = 'a' AND b = 1"):
        with pytest.raises(PipelineError, match=NO_SPARK):
            found(other)


def test_windows_of_a_key_are_found_without_spark(setup: Setup) -> None:
    windows_of_a_key_are_found(setup)


# planted bugs: a rule that waits looks again a few times only


def _briefly(condition: Callable[[], object]) -> None:
    for _ in range(50):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came")


def answers_do_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableView, "_is_at", lambda *_: True)


def tombstones_are_left_out(patch: pytest.MonkeyPatch) -> None:
    put = RecordStore.put
    patch.setattr(
        RecordStore,
        "put",
        lambda store, records: put(store, [each for each in records if each.value is not None]),
    )


def open_transactions_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "Reader", lambda *given, committed: Reader(*given, committed=False))


def dropped_tables_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(materialised.MaterialisedTables, "end_dropped", lambda *_: None)


def a_topic_is_known_by_its_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableView, "_find_topic", lambda view: Topic("", (0,)))


def starts_of_logs_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableView, "_find", lambda view, wanted: view._store.find(wanted))


def windows_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("raftka.sql.tables.rows._holds", lambda value, condition: True)


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (answers_do_not_wait, updates_are_seen_at_once),
        (tombstones_are_left_out, a_record_without_a_value_deletes_its_row),
        (open_transactions_are_read, only_committed_records_count),
        (dropped_tables_stay, a_table_that_is_dropped_is_gone),
        (a_topic_is_known_by_its_name, a_topic_that_was_made_anew_has_its_own_rows),
        (starts_of_logs_are_not_looked_at, deleted_records_are_no_rows),
        (windows_are_not_compared, windows_of_a_key_are_found),
    ],
    ids=lambda each: each.__name__,
)
def test_a_planted_bug_is_found(
    setup: Setup, bug: Callable[[pytest.MonkeyPatch], None], rule: Callable[[Setup], None]
) -> None:
    bug(setup.patch)
    setup.patch.setattr("tests.sql.test_tables.wait_for", _briefly)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        rule(setup)
