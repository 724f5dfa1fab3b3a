"""The present code reads every data directory that a release has left, writes on, and reads again.

`python -m bench.data_directory VERSION` makes the files. That of the version which is not released
yet is of the present code; the release makes it anew.
"""

from pathlib import Path
from typing import Any

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.transaction import begin, end
from raftka.versions import LEVELS
from tests.kit.versions.directory import (
    FOLDER,
    PASSWORD,
    USER,
    Running,
    latest,
    plain_login,
    read_records,
    running_on,
    scram_login,
    unpack,
)
from zookeeper_bridge.client.blocking import ZooKeeperClient
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError

DIRECTORIES = sorted(FOLDER.glob("*.tar.xz"))
MORE = [["more", "written by the present code"]]


def test_each_release_with_a_level_has_left_a_directory() -> None:
    left = {path.name.removesuffix(".tar.xz") for path in DIRECTORIES}

    assert {level.release for level in LEVELS} <= left


@pytest.mark.parametrize("path", DIRECTORIES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_all_that_a_release_has_left_is_read(path: Path, tmp_path: Path) -> None:
    expected = unpack(path, tmp_path)

    with running_on(tmp_path) as running:
        check_all(running, expected)
        write_more(running, expected)
    with running_on(tmp_path) as running:
        check_all(running, expected)


def check_all(running: Running, expected: dict[str, Any]) -> None:
    features = {each["feature"]: each for each in running.command("features describe")}
    assert features["raftka.version"]["level"] == expected["level"]
    with running.client() as client:
        check_records(client, expected)
    check_transactions(running, expected)
    check_groups(running, expected["groups"])
    check_topics(running, expected)
    check_security(running, expected)
    for subject, schema in expected["schemas"].items():
        assert running.ask_registry(f"/subjects/{subject}/versions/1") == schema
    check_znodes(running, expected["znodes"])


def check_records(client: Client, expected: dict[str, Any]) -> None:
    for name, records in expected["records"].items():
        topic, _, partition = name.rpartition("-")
        assert read_records(client, (topic, int(partition))) == records, name
    for topic, values in expected["latest"].items():
        assert latest(read_records(client, (topic, 0))) == values, topic
    where = ("transactions", 0)
    assert read_records(client, where) == expected["committed"]
    assert read_records(client, where, committed=False) == expected["uncommitted"]


def check_transactions(running: Running, expected: dict[str, Any]) -> None:
    states = {
        each["transactional_id"]: each["state"] for each in running.command("transactions list")
    }
    for transactional_id, possible in expected["transactions"].items():
        assert states[transactional_id] in possible, transactional_id


def check_groups(running: Running, groups: dict[str, Any]) -> None:
    types = {each["group"]: each["group_type"] for each in running.command("groups list")}
    assert {group: types[group] for group in groups} == {group: group for group in groups}
    for group, of_group in groups.items():
        rows = running.command(f"groups describe {group}")
        offsets = {f"{each['topic']}-{each['partition']}": each["offset"] for each in rows}
        assert offsets == of_group["offsets"], group
        assert {each["member"] for each in rows} == {of_group["member"]}, group


def check_topics(running: Running, expected: dict[str, Any]) -> None:
    names = {each["topic"] for each in running.command("topics list")}
    assert "deleted" not in names
    assert running.command("topics describe moved")[0]["replicas"] == expected["moved"]
    for resource in ("broker", "topic empty"):
        setting, value = expected["configs"][resource.split()[-1]]
        rows = running.command(f"configs describe {resource}")
        assert value in [each["value"] for each in rows if each["setting"] == setting], resource


def check_security(running: Running, expected: dict[str, Any]) -> None:
    principals = [each["principal"] for each in running.command("acls list")]
    assert sorted(principals) == expected["acls"]
    quotas = running.command("quotas list")
    assert any(expected["quota"] in each.values() for each in quotas), quotas
    user, password = expected["user"]
    token, hmac = expected["token"]
    for login in (
        plain_login(USER, PASSWORD),
        scram_login(user, password),
        scram_login(token, hmac, token=True),
    ):
        assert running.command("cluster describe", logged_in=login)


def check_znodes(running: Running, znodes: dict[str, str]) -> None:
    with ZooKeeperClient(running.bridges, "ada:ada-secret") as client:
        for path, data in znodes.items():
            found, stat = client.get(path)
            assert (found or b"").decode() == data
            assert bool(stat.ephemeral_owner) == path.endswith("lock")
    with ZooKeeperClient(running.bridges) as client, pytest.raises(ZooKeeperError) as refused:
        client.get("/app/private")
    assert refused.value.code is Err.NO_AUTH


def write_more(running: Running, expected: dict[str, Any]) -> None:
    """Write a record to each topic, and end the transaction that is open."""
    with running.client() as client:
        for name in expected["records"]:
            topic, _, partition = name.rpartition("-")
            producer = Producer(client)
            producer.add((topic, int(partition)), (b"more", MORE[0][1].encode(), (), 1))
            producer.flush()
            expected["records"][name] += MORE
        identity = begin(client, "id-open", 60_000)
        producer = Producer(client, identity=identity)
        producer.add(("transactions", 0), (b"more", MORE[0][1].encode(), (), 1))
        producer.flush()
        end(client, identity, commit=True)
    expected["committed"] += MORE
    expected["uncommitted"] += MORE
    expected["transactions"]["id-open"] = ["CompleteCommit"]
    running.ask_registry("/subjects/more-value/versions", {"schema": '"string"'})
    with ZooKeeperClient(running.bridges) as client:
        client.put("/app/config", b"changed")
    expected["znodes"]["/app/config"] = "changed"
