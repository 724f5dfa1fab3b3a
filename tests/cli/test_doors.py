"""Fields and names in users' files and options: one that would have no effect is refused by name,
or passed over as the docs say.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from raftka.chaos.simulated.swarm import PLANS
from raftka.cli.admin import profiles
from raftka.cli.admin.groups import import_offsets
from raftka.cli.admin.reassign import from_json
from raftka.cli.chaos.replay import given_settings
from raftka.cli.output import CommandFailed
from raftka.cli.records.produce import _from_json
from raftka.client.json_lines import FIELDS
from raftka.cluster.host.plan import plan_host
from raftka.cluster.plan import plan_cluster, ports_from
from raftka.cluster.secured.first_users import read_first_users
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError
from raftka.security.client_properties import PASSED_OVER, USED
from raftka.security.client_security import client_security

NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9093",
}


def test_properties_of_a_node_and_of_a_host() -> None:
    for name in ("num.partition", "ssl.keystore.lokation", "zookeeper.bridge.prot", "qqq"):
        with pytest.raises(SettingError, match=f"there is no setting {name}"):
            NodeSettings.from_properties({**NODE, name: "1"})
        with pytest.raises(SettingError, match=f"there is no setting {name}"):
            plan_host({**NODE, name: "1"}, 2, "rack")


def test_settings_of_cluster_start(tmp_path: Path) -> None:
    (plan,) = plan_cluster(tmp_path, ports_from(20_000, 1), {"num.partition": "1"})
    with pytest.raises(
        SettingError, match=r"there is no setting num.partition; did you mean num.partitions\?"
    ):
        NodeSettings.from_properties(dict(plan.properties))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("security.protcol", "security.protocol"),
        ("securityprotocol", "security.protocol"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("sasl.user.name", "sasl.username"),
        ("ssl.trustore.location", "ssl.truststore.location"),
        ("ssl.endpoint.identification.algoritm", "ssl.endpoint.identification.algorithm"),
    ],
)
def test_a_mistake_in_a_client_property_opens_no_connection(name: str, meant: str) -> None:
    with pytest.raises(
        ValueError, match=rf"the client property {name} is not one of ours; did you mean {meant}\?"
    ):
        client_security({name: "SSL"})


@pytest.mark.parametrize(
    "name",
    [
        "security.providers",
        "ssl.engine.factory.class",
        "sasl.login.class",
        "sasl.client.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class",
    ],
)
def test_client_properties_that_load_classes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"the client property {name} is not one of ours"):
        client_security({name: "com.example.Class"})


def test_classes_of_kafkas_own_in_client_properties_are_passed_over() -> None:
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"

    assert client_security({"sasl.login.callback.handler.class": handler}).source is None


def test_client_properties_that_are_passed_over() -> None:
    of_others = (
        "acks",
        "group.id",
        "linger.ms",
        "enable.auto.commit",
        "client.id",
        "bootstrap.servers",
        "key.deserializer",
        "metadata.max.age.ms",
    )
    properties = dict.fromkeys((*PASSED_OVER, *of_others), "x")
    assert client_security(properties).security_protocol == "PLAINTEXT"
    assert not set(USED) & set(PASSED_OVER)


def test_properties_of_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "raftka").mkdir()
    (tmp_path / "raftka" / "profiles.toml").write_text(
        '[one]\nbootstrap_server = "h:1"\nsecurity.protocoll = "SSL"\n'
    )
    with pytest.raises(
        ValueError, match=r"security.protocoll is not one of ours; did you mean security.protocol\?"
    ):
        client_security(profiles.find_profile("one").properties)


def test_records_in_json() -> None:
    row: dict[str, Any] = {
        "key": "k",
        "value": "v",
        "headers": [],
        "partition": 0,
        "topic": "t",
        "offset": 1,
        "timestamp": 2,
    }
    assert set(row) == set(FIELDS)
    assert _from_json(json.dumps(row).encode(), 1).value == b"v"
    for name in ("partiton", "header", "time"):
        with pytest.raises(
            CommandFailed, match=f"line 3: there is no field {name}; there are key, value"
        ):
            _from_json(json.dumps({**row, name: 1}).encode(), 3)


def test_offsets_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"group": "g", "topic": "t", "partition": 0, "offset": 1, "metdata": "m"}
    assert import_offsets(io.StringIO(json.dumps(row)), None, True, "h:1", "text") == 1
    assert (
        "line 1: there is no field metdata; there are group, topic, partition, offset, metadata"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"partitions": [], "throttle": 5}, "there is no field throttle"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "leader": 1}]},
            "there is no field leader",
        ),
        (
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]},
            "log_dirs: no log directory can be chosen here",
        ),
    ],
)
def test_reassignment_plans(plan: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandFailed, match=said):
        from_json(json.dumps(plan))


def test_first_users_and_settings_of_lives() -> None:
    with pytest.raises(ValueError, match="the parts are name, password"):
        read_first_users(["SCRAM-SHA-256=[name=a,password=b,role=c]"])
    with pytest.raises(CommandFailed, match="there is no setting nodez"):
        given_settings(1, next(iter(PLANS)), ["nodez=3"])
