"""The topic of statements on a real cluster: changes that all servers see, and of two at the same
moment one that counts; and planted bugs that these rules find.
"""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from raftka.client.blocking import transaction
from raftka.client.blocking.reader import Reader
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.brokers import STATEMENTS, Brokers
from raftka.pipeline.topics.options import addresses
from raftka.sql import statement_log
from raftka.sql.catalog import PersistentQuery
from raftka.sql.statement_log import StatementLog
from raftka.testing import Cluster

NewLog = Callable[[], StatementLog]
NUMBERS = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as started:
        yield started


@pytest.fixture
def new_log(cluster: Cluster) -> Iterator[NewLog]:
    opened: list[StatementLog] = []

    def new() -> StatementLog:
        where = addresses({"bootstrap.servers": cluster.bootstrap_servers})
        opened.append(StatementLog(Brokers(where, "test", 20.0)))
        return opened[-1]

    yield new
    for each in opened:
        each.close()


def query(name: str, text: str = "SELECT 1") -> PersistentQuery:
    return PersistentQuery(name, "s", text, (), "server", "0" * 32)


def new_name() -> str:
    """Return a name that no entry has: tests share the topic."""
    return f"q{next(NUMBERS)}"


def changes_are_seen_by_others(new_log: NewLog) -> None:
    ours, theirs, first, second = new_log(), new_log(), new_name(), new_name()
    ours.begin().commit({first.upper(): query(first.upper()), second: query(second)})
    assert {first, second} <= theirs.read().entries.keys()
    theirs.begin().commit({first: None, second: query(second, "SELECT 2")})
    assert first not in ours.read().entries
    assert ours.catalog.entries[second] == query(second, "SELECT 2")
    assert new_log().read().entries == ours.catalog.entries


def of_two_changes_one_counts(new_log: NewLog) -> None:
    ours, theirs, name = new_log(), new_log(), new_name()
    late = ours.begin()
    theirs.begin().commit({name: query(name, "SELECT 'theirs'")})
    with pytest.raises(PipelineError, match="at the same moment"):
        late.commit({name: query(name, "SELECT 'ours'")})
    assert ours.read().entries[name] == query(name, "SELECT 'theirs'")
    again = ours.begin()
    assert name in again.catalog.entries


def a_change_that_is_not_ended_is_nothing(new_log: NewLog, patch: pytest.MonkeyPatch) -> None:
    lost, kept = new_name(), new_name()
    with patch.context() as broken:
        broken.setattr(transaction, "end", _killed)
        with pytest.raises(KeyboardInterrupt):
            new_log().begin().commit({lost: query(lost)})
    ours = new_log()
    ours.begin().commit({kept: query(kept)})
    assert lost not in ours.read().entries
    assert lost not in new_log().read().entries
    assert kept in new_log().read().entries


def _killed(*arguments: object, **named: object) -> None:
    raise KeyboardInterrupt


def test_changes_are_seen_by_others(new_log: NewLog) -> None:
    changes_are_seen_by_others(new_log)


def test_of_two_changes_at_the_same_moment_one_counts(new_log: NewLog) -> None:
    of_two_changes_one_counts(new_log)


def test_a_change_whose_server_is_killed_is_as_if_it_had_never_been(
    new_log: NewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_change_that_is_not_ended_is_nothing(new_log, monkeypatch)


def test_too_many_entries_are_refused(new_log: NewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_log, "MOST", 0)
    with pytest.raises(PipelineError, match="as many as are allowed"):
        new_log().begin().commit({"x": query("x")})


def test_the_topic_is_compacted_and_has_one_partition(new_log: NewLog, cluster: Cluster) -> None:
    new_log().begin().commit({"x": query("x")})
    assert {each.partition for each in cluster.records(STATEMENTS)} == {0}


# planted bugs


def each_change_has_an_id_of_its_own(patch: pytest.MonkeyPatch) -> None:
    ids = iter(range(1000))
    begin = transaction.begin
    patch.setattr(
        transaction,
        "begin",
        lambda client, name, timeout_ms: begin(client, f"{name}-{next(ids)}", timeout_ms),
    )


def open_transactions_are_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(statement_log, "READ_COMMITTED", 0)
    patch.setattr(
        statement_log, "Reader", lambda client, at, committed: Reader(client, at, committed=False)
    )


def a_change_is_decided_on_what_was_read_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StatementLog, "read", lambda log: log.catalog)


@pytest.mark.parametrize(
    ("bug", "rule"),
    [
        (each_change_has_an_id_of_its_own, of_two_changes_one_counts),
        (a_change_is_decided_on_what_was_read_before, of_two_changes_one_counts),
        (a_change_is_decided_on_what_was_read_before, changes_are_seen_by_others),
    ],
)
def test_a_planted_bug_is_found(
    new_log: NewLog,
    bug: Callable[[pytest.MonkeyPatch], None],
    rule: Callable[[NewLog], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, KeyError)):
        rule(new_log)


def test_a_planted_bug_of_the_reader_is_found(
    new_log: NewLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_transactions_are_read(monkeypatch)
    with pytest.raises(AssertionError):
        a_change_that_is_not_ended_is_nothing(new_log, monkeypatch)
