"""Tables of all commands: the words of raftka/cli/columns.py, the same as the keys of JSON."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pytest

from raftka.cli.admin.groups import commit
from raftka.cli.columns import COLUMNS
from raftka.cli.commands import root
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.transaction import begin
from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.security.client_security import ClientSecurity
from raftka.testing import Cluster
from tests.clients.sasl import PROPERTIES

LOGIN = ClientSecurity("SASL_PLAINTEXT", "PLAIN", "node", "node-secret")

# For each command with --output: a call that prints rows. The order counts.
CALLS = {
    "topics create": "made --config retention.ms=5000",
    "topics list": "",
    "topics describe": "orders",
    "topics alter": "orders -p 3",
    "groups list": "",
    "groups describe": "billing",
    "groups reset-offsets": "billing --to start",
    "offsets export": "billing",
    "offsets import": "offsets.json",
    "groups delete": "billing billing-2",
    "transactions list": "",
    "transactions describe": "writer",
    "transactions fence": "writer",
    "configs alter": "topic orders -c retention.ms=5000",
    "configs describe": "topic orders",
    "configs list": "topic",
    "config show": "--given",
    "features describe": "",
    "controllers list": "",
    "acls create": "--topic orders --principal User:eve --operation read",
    "acls list": "",
    "acls delete": "--principal User:eve",
    "users set": "eve --password-file password",
    "users list": "",
    "users delete": "eve",
    "quotas set": "producer_byte_rate=1000 --user eve",
    "quotas list": "",
    "quotas delete": "--user eve",
    "topics delete": "made",
}
READS = {
    path for path in CALLS if path.rpartition(" ")[2] in ("list", "describe", "show", "export")
}
# keys of JSON alone
MORE = {
    "configs describe": ("read_only", "synonyms"),
    "topics describe": ("elr", "last_known_elr"),
}
# Commands whose output is no table, or whose tables need more than a cluster; with the reason.
OTHERS = {
    "cluster describe": "a page, in JSON one object",
    "balance": "in JSON one object with the plan",
    "brokers add": "in JSON one object with the plan",
    "brokers drain": "in JSON one object with the plan",
    "doctor": "sentences",
    "produce": "offsets of records",
    "consume": "records",
    "log dump": "the words of Kafka's DumpLogSegments",
    "dead-letters describe": "tests/cli/test_dead_letters.py",
    "dead-letters redrive": "tests/cli/test_dead_letters.py",
    "reassign plan": "in JSON the plan, as Kafka's tool takes it",
    "reassign execute": "tests/cli/test_administration.py",
    "reassign status": "tests/cli/test_administration.py",
    "reassign cancel": "tests/cli/test_administration.py",
    "partitions elect": "tests/cli/test_administration.py",
    "transactions find-hanging": "tests/cli/test_transactions.py",
    "transactions abort": "tests/cli/test_transactions.py",
    "tokens create": "tests/clients/test_delegation_tokens.py",
    "tokens list": "tests/clients/test_delegation_tokens.py",
    "tokens renew": "tests/clients/test_delegation_tokens.py",
    "tokens expire": "tests/clients/test_delegation_tokens.py",
    "offsets delete": "tests/cli/test_groups.py",
    "controllers add": "tests/simulation/test_voters.py",
    "controllers remove": "tests/simulation/test_voters.py",
    "backup create": "tests/backup/test_commands.py",
    "backup list": "tests/backup/test_commands.py",
    "backup verify": "tests/backup/test_commands.py",
    "backup drill": "tests/backup/test_commands.py",
    "features upgrade": "prints what changes, which is nothing at the highest levels",
    "features downgrade": "prints what changes",
    "chaos sim": "one result",
    "chaos live": "one result",
    "pipeline status": "tests/pipeline/test_project.py",
    "pipeline streams": "tests/pipeline/test_statements.py",
    "audit": "columns of its own",
    "sql ask": "columns of the query",
    "sql status": "tests/sql/test_prompt.py",
    "config from-env": "a properties file",
    "bridge ls": "names",
    "bridge stat": "ZooKeeper's words",
    "bridge watch": "events",
    "bridge explain": "a page",
    "bridge offsets export": "tests of the bridge",
    "bridge offsets import": "tests of the bridge",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    properties = {
        **PROPERTIES,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node",
    }
    with Cluster(1, properties=properties) as cluster:
        cluster.create_topic("orders", partitions=2)
        at = addresses_of(cluster.bootstrap_servers)
        with Client(at, "test", security=LOGIN) as client:
            assert commit(client, "billing", {("orders", 0): 0}, {}) == []
            begin(client, "writer", 10_000)
        yield cluster


def run(cluster: Cluster, line: str) -> list[str]:
    """Run a command in this process: the lines that it prints."""
    words = ["-b", cluster.bootstrap_servers]
    for name, value in {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "node",
        "sasl.password": "node-secret",
    }.items():
        words += ["-X", f"{name}={value}"]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        root([*words, *line.split()], prog_name="raftka")
    assert ended.value.code == 0, f"{line}: {err.getvalue()}"
    return out.getvalue().splitlines()


def with_output(group: click.Group = root, path: str = "") -> Iterator[str]:
    """Yield the commands that have --output."""
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        if isinstance(each, click.Group):
            yield from with_output(each, f"{path}{name} ")
        elif each is not None and any(param.name == "output" for param in each.params):
            yield f"{path}{name}"


def test_every_command_with_rows_is_called_here_or_has_a_reason() -> None:
    assert sorted(with_output()) == sorted([*CALLS, *OTHERS])


def test_tables_and_json_have_the_same_words(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "offsets.json").write_text(
        '{"group": "billing-2", "topic": "orders", "partition": 0, "offset": 0}\n'
    )
    for path, options in CALLS.items():
        rows = [json.loads(row) for row in run(cluster, f"{path} {options} -o json")]
        assert rows, f"{path} prints nothing"
        for row in rows:
            unknown = [key for key in row if key not in {*COLUMNS, *MORE.get(path, ())}]
            assert not unknown, f"{path} has {unknown}"
            assert row.keys() == rows[0].keys()
        if path in READS:
            header = run(cluster, f"{path} {options}")[0].split()
            if len(rows[0]) > 1:
                assert header == [name for name in rows[0] if name not in MORE.get(path, ())], path
