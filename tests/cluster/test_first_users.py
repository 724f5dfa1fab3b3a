"""First users of a cluster (--add-scram): what is read, what of it is passed on, and that a cluster
may begin with logins by SCRAM alone.
"""

import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from raftka.broker.node import Node
from raftka.cluster.secured.first_users import from_text, read_first_users, to_text
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime.interfaces import Runtime
from raftka.security.scram import SHA_256, make_credential
from tests.broker.sasl import logged_in, works
from tests.broker.stage import Stage

SCRAM = "SCRAM-SHA-256=[name=a,password=p=1]"
SCRAM_ALONE: dict[str, Any] = {
    "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl_enabled_mechanisms": SHA_256,
    "sasl_mechanism_inter_broker_protocol": SHA_256,
    "listener.name.plaintext.sasl.jaas.config": (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="node" '
        'password="n1";'
    ),
    "super_users": "User:node",
}


def test_credential_is_made_of_the_password_and_has_nothing_of_it() -> None:
    (user,) = read_first_users(
        ["SCRAM-SHA-512=[name=a,iterations=8192,salt=c2FsdA==,password=secret]"]
    )
    assert (user.mechanism, user.user) == (2, "a")
    assert (user.salt, user.stored_key, user.server_key, user.iterations) == make_credential(
        "SCRAM-SHA-512", "secret", b"salt", 8192
    )
    assert from_text(to_text((user,))) == (user,)
    assert "secret" not in to_text((user,))
    assert from_text("") == ()


def test_each_user_gets_a_salt_of_its_own_and_a_file_may_have_one(tmp_path: Path) -> None:
    file = tmp_path / "user"
    file.write_text("SCRAM-SHA-256=[name=b,password=p=1]\n")
    one, other = read_first_users([SCRAM, f"@{file}"])
    assert (one.user, other.user) == ("a", "b")
    assert one.salt != other.salt


@pytest.mark.parametrize(
    "values",
    [
        ["name=a,password=hidden"],
        ["PLAIN=[name=a,password=hidden]"],
        ["SCRAM-SHA-256=[name=a]"],
        ["SCRAM-SHA-256=[password=hidden]"],
        ["SCRAM-SHA-256=[name=a,password=]"],
        ["SCRAM-SHA-256=[name=a,password=hid,den]"],
        ["SCRAM-SHA-256=[name=a,name=b,password=hidden]"],
        ["SCRAM-SHA-256=[name=a,password=hidden,iterations=4095]"],
        ["SCRAM-SHA-256=[name=a,password=hidden,iterations=16385]"],
        ["SCRAM-SHA-256=[name=a,password=hidden,salt=hidden!]"],
        ["SCRAM-SHA-256=[name=a,password=hidden,saltedpassword=aGlkZGVu]"],
        ["SCRAM-SHA-256=[name=a,saltedpassword=aGlkZGVu,salt=c2FsdA==]"],
        ["SCRAM-SHA-256=[name=a,saltedpassword=aGlkZGVu]"],
        [SCRAM, SCRAM],
    ],
)
def test_what_is_wrong_is_told_without_the_password(values: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^[^!]+$") as error:
        read_first_users(values)
    assert "hid" not in str(error.value)
    assert "aGlk" not in str(error.value)


def test_command_line_tells_it_without_the_password() -> None:
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        "broker",
        "start",
        "x",
        "--add-scram",
        "SCRAM-SHA-256=[name=a,pasword=hidden]",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "--add-scram" in done.stderr
    assert "hidden" not in done.stderr + done.stdout


class StageWithUsers(Stage):
    """Each node would add its own."""

    def make(self, runtime: Runtime, settings: NodeSettings, log: IO[str]) -> Node:
        return Node(
            runtime,
            settings,
            log,
            read_first_users([f"SCRAM-SHA-256=[name=node,password=n{settings.node_id}]"]),
        )


def test_cluster_begins_with_scram_alone_and_keeps_what_it_has() -> None:
    with StageWithUsers(**SCRAM_ALONE) as stage:
        assert works(logged_in(stage, SHA_256, "node", "n1"))
        log = stage.logs[1].getvalue()
        stage.kill(1)
        stage.start(1)
        stage.wait(stage.nodes[1].ready.is_set)
        assert works(logged_in(stage, SHA_256, "node", "n1"))
        assert stage.events("first_users_not_added")
        assert not any(each.stored_key.hex() in log for each in stage.nodes[1].image.scram.values())


def test_every_node_makes_up_the_same_salt_and_no_client_can() -> None:
    with StageWithUsers(3, **SCRAM_ALONE) as stage:
        stage.wait(lambda: all(node.image.cluster_id for node in stage.nodes.values()))
        secrets = {node.image.secret for node in stage.nodes.values()}
        assert len(secrets) == 1
        assert len(secrets.pop()) == 32
        users = {tuple(node.image.scram.values()) for node in stage.nodes.values()}
        assert len(users) == 1, "those of the controller that formed the cluster"
