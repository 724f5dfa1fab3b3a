"""One question to all brokers, one of which is dead or silent: what the others answer comes, and
the missing one is named.
"""

import io
import json
import socket
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

import pytest

from raftka.cli.admin.groups import commit
from raftka.cli.commands import root
from raftka.client.blocking.client import NOT_COORDINATOR, TRANSACTION, Client
from raftka.client.blocking.connection import Unsupported, addresses_of
from raftka.client.blocking.coordinators import find_coordinators
from raftka.client.blocking.every_broker import ask_brokers, ask_every_broker
from raftka.client.blocking.transaction import begin
from raftka.client.blocking.transaction_admin import (
    OpenTransaction,
    coordinators_of_transactions,
    known_to_coordinators,
)
from raftka.testing import Cluster
from raftka.wire.errors import Code
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.metadata import METADATA
from tests.client.future_api import NO_BROKER_KNOWS

WITHIN_S = 1.0
PARTIAL = 3  # exit code


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
        yield client


def run(*words: str) -> tuple[int, str, str]:
    """Run a command of the command line in this process: its exit code, and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        root(list(words), prog_name="raftka")
    return int(ended.value.code or 0), out.getvalue(), err.getvalue()


def test_every_broker_is_asked(cluster: Cluster, client: Client) -> None:
    answers = ask_every_broker(client, LIST_GROUPS, LIST_GROUPS.request())

    assert (sorted(answers.of), answers.missing) == ([1, 2, 3], {})


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_broker_that_does_not_answer_is_named_beside_the_answers_of_others(
    cluster: Cluster, client: Client, how: str
) -> None:
    client.refresh([])
    if how == "killed":
        cluster.kill(2)
    else:
        cluster.pause(2)
    answers = ask_brokers(
        client, LIST_GROUPS, dict.fromkeys(client.brokers, LIST_GROUPS.request()), within_s=WITHIN_S
    )

    assert sorted(answers.of) == [1, 3]
    assert list(answers.missing) == [2]


def test_a_broker_that_is_registered_and_dead_is_named(cluster: Cluster, client: Client) -> None:
    cluster.kill(2)
    while 2 in client.brokers or not client.brokers:  # nobody lists it any more
        client.refresh([])
    answers = ask_every_broker(client, LIST_GROUPS, LIST_GROUPS.request())

    assert sorted(answers.of) == [1, 3]
    assert answers.missing == {2: "it is registered and not alive"}


def test_an_error_that_passes_is_waited_for(cluster: Cluster, client: Client) -> None:
    fault = cluster.fail_next("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    answers = ask_every_broker(
        client, LIST_GROUPS, LIST_GROUPS.request(), passing=NOT_COORDINATOR.__contains__
    )

    assert (sorted(answers.of), fault.hits) == ([1, 2, 3], 2)


def test_an_error_that_stays_makes_a_broker_missing(cluster: Cluster, client: Client) -> None:
    cluster.fail_next("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=10**6)
    answers = ask_every_broker(
        client,
        LIST_GROUPS,
        LIST_GROUPS.request(),
        passing=NOT_COORDINATOR.__contains__,
    )

    assert answers.missing == dict.fromkeys((1, 2, 3), Code.COORDINATOR_LOAD_IN_PROGRESS.name)


def test_an_api_that_no_broker_has_is_an_error(cluster: Cluster, client: Client) -> None:
    with pytest.raises(Unsupported):
        ask_every_broker(client, NO_BROKER_KNOWS, NO_BROKER_KNOWS.request())


def test_a_silent_broker_gives_way_to_the_next_one_and_is_asked_last(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.client.blocking.client.QUICK_S", 0.2)
    first, *others = addresses_of(cluster.bootstrap_servers)
    cluster.pause(1)
    with Client([first, *others], "test") as client:
        asked = []
        ask_at = client.ask_at
        monkeypatch.setattr(
            client,
            "ask_at",
            lambda address, *rest: asked.append(address) or ask_at(address, *rest),  # type: ignore[func-returns-value]
        )
        for _ in range(2):
            client.ask_any(METADATA, METADATA.request(topics=[]))

    assert asked == [first, others[0], others[0]]


def test_a_silent_broker_with_two_addresses_is_waited_for_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.client.blocking.client.QUICK_S", 0.2)
    given = addresses_of(cluster.bootstrap_servers.replace("127.0.0.1", "localhost"))
    cluster.pause(1)
    with Client(given, "test") as client:
        asked = []
        ask_at = client.ask_at
        monkeypatch.setattr(
            client,
            "ask_at",
            lambda address, *rest: asked.append(address) or ask_at(address, *rest),  # type: ignore[func-returns-value]
        )
        client.refresh([])
        assert not set(client.brokers.values()) & set(given)
        client.refresh([])

    assert asked == [given[0], given[1], given[1]]


@pytest.mark.parametrize(
    "words",
    [
        ("groups", "list"),
        ("transactions", "list"),
        ("transactions", "find-hanging"),
        ("cluster", "describe"),
    ],
)
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_commands_that_ask_all_brokers_end_with_what_the_living_say(
    cluster: Cluster, words: tuple[str, ...], how: str
) -> None:
    cluster.create_topic()
    cluster.kill(1) if how == "killed" else cluster.pause(1)
    code, out, err = run(*words, "--bootstrap-server", cluster.bootstrap_servers)

    if words == ("cluster", "describe"):
        assert (code, "controller" in out) == (0, True), err
    elif words[1] == "list":
        assert code == PARTIAL, err
        assert "raftka: warning: broker 1 has not answered" in err
    else:  # the leaders of some partitions may be missing, and are named then
        assert (code == 0) == (not err), err
    assert "Traceback" not in err


@pytest.mark.parametrize("how", ["silent", "fenced"])
def test_settings_of_living_brokers_are_shown_beside_a_dead_one(
    cluster: Cluster, client: Client, how: str
) -> None:
    cluster.pause(1) if how == "silent" else cluster.kill(1)
    while how == "fenced" and (1 in client.brokers or not client.brokers):
        client.refresh([])
    code, out, err = run(
        "configs",
        "describe",
        "broker",
        "1",
        "2",
        "--all",
        "--bootstrap-server",
        cluster.bootstrap_servers,
    )

    assert code == PARTIAL
    assert "num.partitions" in out
    assert "broker 1 has not answered" in err


@pytest.fixture
def patient() -> Iterator[Cluster]:
    """A cluster that does not notice for a while that a broker is silent."""
    with Cluster(3, broker_session_timeout_ms=60_000) as cluster:
        yield cluster
        cluster.heal()


GROUPS = [f"group-{number}" for number in range(9)]  # some for each coordinator


def test_groups_of_living_coordinators_are_described_beside_a_silent_one(patient: Cluster) -> None:
    topic = patient.create_topic(partitions=3, replication_factor=1)
    wheres = [(topic, index) for index in range(3)]
    with Client(addresses_of(patient.bootstrap_servers), "test") as client:
        for group in GROUPS:
            assert commit(client, group, dict.fromkeys(wheres, 0), {}) == []
        owners, _ = find_coordinators(client, GROUPS)
    assert set(owners) == {1, 2, 3}
    patient.pause(2)
    at = ("-o", "json", "--bootstrap-server", patient.bootstrap_servers)
    code, out, err = run("groups", "describe", *GROUPS, *at)

    rows = [json.loads(line) for line in out.splitlines()]
    assert code == PARTIAL, err
    assert {row["group"] for row in rows} == {*owners[1], *owners[3]}
    for row in rows:  # the end is known where the leader lives
        leader = patient.leader(topic, row["partition"])
        assert (row["offset"], row["lag"]) == (0, None if leader == 2 else 0)
    assert f"{', '.join(owners[2])}: its coordinator, broker 2, has not answered" in err
    assert "broker 2 has not answered" in err

    code, out, err = run("offsets", "export", *GROUPS, *at)
    assert code == PARTIAL, err
    assert {json.loads(line)["group"] for line in out.splitlines()} == {*owners[1], *owners[3]}
    assert f"{', '.join(owners[2])}: its coordinator, broker 2, has not answered" in err


def test_a_group_that_is_not_there_is_told_from_one_of_a_silent_coordinator(
    patient: Cluster,
) -> None:
    with Client(addresses_of(patient.bootstrap_servers), "test") as client:
        assert commit(client, GROUPS[0], {}, {}) == []  # the topic of offsets is made
        owners, _ = find_coordinators(client, GROUPS)
    patient.pause(2)
    there, silent = owners[1][0], owners[2][0]
    code, _, err = run(
        "groups", "describe", there, silent, "--bootstrap-server", patient.bootstrap_servers
    )

    assert code == 1  # a failure is more than an answer that is not complete
    assert f"{there}: GROUP_ID_NOT_FOUND" in err
    assert f"{silent}: its coordinator, broker 2, has not answered" in err
    assert f"{silent}: GROUP_ID_NOT_FOUND" not in err


def test_transactions_of_living_coordinators_are_described_beside_a_silent_one(
    patient: Cluster,
) -> None:
    ids = [f"id-{number}" for number in range(9)]
    with Client(addresses_of(patient.bootstrap_servers), "test") as client:
        for each in ids:
            begin(client, each, 10_000)
        owners, _ = find_coordinators(client, ids, TRANSACTION)
    assert set(owners) == {1, 2, 3}
    patient.pause(2)
    code, out, err = run(
        *("transactions", "describe", *ids, "-o", "json"),
        *("--bootstrap-server", patient.bootstrap_servers),
    )

    rows = [json.loads(line) for line in out.splitlines()]
    assert code == PARTIAL, err
    assert {row["transactional_id"] for row in rows} == {*owners[1], *owners[3]}
    assert f"{', '.join(owners[2])}: its coordinator, broker 2, has not answered" in err


def test_an_address_that_takes_connections_and_says_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raftka.cli.admin.client.FIRST_S", 0.2)
    monkeypatch.setattr("raftka.cli.admin.client.FIRST_ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        code, out, err = run("topics", "list", "--bootstrap-server", server)

    assert (code, out) == (1, "")
    assert f"no broker answers at {server}" in err


def test_a_transaction_that_a_missing_coordinator_may_know_is_not_called_hanging(
    cluster: Cluster, client: Client
) -> None:
    begin(client, "id", 10_000)
    hanging = OpenTransaction(("t", 0), 1, 0, 0, 0, 0)
    assert known_to_coordinators(client, [hanging]) == ({}, True, {})
    coordinators = coordinators_of_transactions(client)
    victim = next(node_id for node_id in (2, 3) if node_id in coordinators)
    cluster.pause(victim)
    known = known_to_coordinators(client, [hanging])

    assert (known.by_identity, known.is_complete, set(known.missing)) == ({}, False, {victim})
