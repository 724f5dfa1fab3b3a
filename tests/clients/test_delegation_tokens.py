"""Delegation tokens with the command line and Kafka's own tools: they make, list, renew and end
them, and log in with one.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.testing import Cluster
from tests.clients.java import JavaTools
from tests.clients.sasl import PASSWORD, PROPERTIES, USER, raftka
from tests.kit.toolchains import Program

OPTIONS = [
    "security.protocol=SASL_PLAINTEXT",
    "sasl.mechanism=PLAIN",
    f"sasl.username={USER}",
    f"sasl.password={PASSWORD}",
]
AS_ALICE = [part for each in OPTIONS for part in ("-X", each)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        3, properties={**PROPERTIES, "delegation.token.secret.key": "not-a-secret"}
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def token(cluster: Cluster) -> dict[str, str]:
    done = raftka(cluster, "tokens", "create", "--renewer", "node", "-o", "json", *AS_ALICE)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def as_token(token: dict[str, str], hmac: str | None = None) -> list[str]:
    line = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    line += f' username="{token["token"]}" password="{hmac or token["hmac"]}" tokenauth="true";'
    options = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.jaas.config={line}",
    ]
    return [part for each in options for part in ("-X", each)]


def test_command_line_logs_in_with_a_token(cluster: Cluster, token: dict[str, str]) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    assert topic in raftka(cluster, "topics", "list", *as_token(token)).stdout
    refused = raftka(cluster, "topics", "list", *as_token(token, "bm90aGluZw=="))
    assert refused.returncode != 0
    assert "invalid credentials" in refused.stderr
    refused = raftka(cluster, "tokens", "create", *as_token(token))
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr


def test_command_line_lists_tokens_with_their_hmacs_only_when_asked(
    cluster: Cluster, token: dict[str, str]
) -> None:
    shown = raftka(cluster, "tokens", "list", *AS_ALICE).stdout
    assert token["token"] in shown
    assert token["hmac"] not in shown
    assert (
        token["hmac"]
        in raftka(cluster, "tokens", "list", "--owner", USER, "--hmac", *AS_ALICE).stdout
    )


def test_command_line_renews_and_ends_a_token(cluster: Cluster, tmp_path: Path) -> None:
    found = json.loads(raftka(cluster, "tokens", "create", "-o", "json", *AS_ALICE).stdout)
    file = tmp_path / "hmac"
    file.write_text(found["hmac"] + "\n")
    assert (
        raftka(
            cluster, "tokens", "renew", "--hmac-file", str(file), "--period-ms", "60000", *AS_ALICE
        ).returncode
        == 0
    )
    assert raftka(cluster, "tokens", "expire", "--hmac-file", str(file), *AS_ALICE).returncode == 0
    assert (
        "DELEGATION_TOKEN_NOT_FOUND"
        in raftka(cluster, "tokens", "renew", "--hmac-file", str(file), *AS_ALICE).stderr
    )
    assert raftka(cluster, "topics", "list", *as_token(found)).returncode != 0
    file.write_text("no base64!")
    refused = raftka(cluster, "tokens", "renew", "--hmac-file", str(file), *AS_ALICE)
    assert "must be base64" in refused.stderr
    assert "no base64!" not in refused.stderr


def written(file: Path, mechanism: str, jaas: str) -> str:
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    return str(file)


def test_kafkas_tools_make_a_token_and_log_in_with_it(
    cluster: Cluster, java_tools: Program, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=3)
    package = "org.apache.kafka.common.security"
    alice = written(
        tmp_path / "alice",
        "PLAIN",
        f'{package}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";',
    )
    with JavaTools(java_tools, cluster.bootstrap_servers) as kafka:
        printed = kafka.run(
            f"kafka-delegation-tokens --create --max-life-time-period -1 --command-config {alice}"
        )
        row = next(line.split() for line in printed.splitlines() if f"User:{USER}" in line)
        token_id, hmac = row[0], row[1]
        line = (
            f'{package}.scram.ScramLoginModule required username="{token_id}" password="{hmac}" '
            'tokenauth="true";'
        )
        token = written(tmp_path / "token", "SCRAM-SHA-256", line)
        assert topic in kafka.run(f"kafka-topics --list --command-config {token}")
        assert token_id in kafka.run(
            f"kafka-delegation-tokens --describe --owner-principal User:{USER} --command-config "
            f"{alice}"
        )
        kafka.run(
            f"kafka-delegation-tokens --renew --renew-time-period -1 --hmac {hmac} "
            f"--command-config {alice}"
        )
        kafka.run(
            f"kafka-delegation-tokens --expire --expiry-time-period -1 --hmac {hmac} "
            f"--command-config {alice}"
        )
        assert token_id not in kafka.run(
            f"kafka-delegation-tokens --describe --owner-principal User:{USER} --command-config "
            f"{alice}"
        )
