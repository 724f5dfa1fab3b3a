"""The pages of share groups and of streams groups, through the API on a real cluster."""

import time
from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.share_groups import alter_share_offsets, share_offsets
from raftka.console.groups.diagnosis import Finding, Thresholds, diagnose
from raftka.console.groups.facts import PartitionFacts, read_facts
from raftka.console.groups.memory import Memory
from raftka.console.view.view import View
from raftka.json_values import Json
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.groups import LEAVE, produce, share_beat, streams_beat, streams_join


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Api]:
    with console_of(cluster) as console:
        yield Api(console.url)


@pytest.fixture
def topic(cluster: Cluster, client: Client) -> str:
    """A topic of two partitions with five records in the first."""
    topic = cluster.create_topic(partitions=2)
    produce(client, (topic, 0), [round(time.time() * 1000)] * 5)
    return topic


def causes(found: Json) -> list[str]:
    return [each["cause"] for each in found["findings"]]


def test_a_share_group_is_shown_moved_and_deleted(
    cluster: Cluster, client: Client, api: Api, topic: str
) -> None:
    share_beat(client, "workers", 0, [topic])
    share_beat(client, "workers", LEAVE)
    found = api.post("/api/groups/workers/reset/preview", to="earliest", topics=[topic])
    moves = [
        {"topic": topic, "partition": partition, "offset": offset}
        for partition, offset in ((0, 2), (1, 0))
    ]
    assert [each["after"] for each in found["moves"]] == [0, 0]
    assert api.post("/api/groups/workers/reset", offsets=moves) == {"changed": 2, "refused": []}

    def read() -> Json:
        found = api.get("/api/groups/workers", sort="place")
        return found if found["members"] and found["members"][0]["assigned"] else None

    for member in "ab":
        share_beat(client, "workers", 0, [topic], member * 22)
    page = cluster.wait_for(read)
    assert (page["type"], page["state"], page["member_count"]) == ("share", "Stable", 2)
    first, second = page["partitions"]
    assert (first["committed"], first["lag"], first["end"], first["done_ahead"]) == (2, 3, 5, 0)
    assert first["seconds"] >= 0
    assert first["owner"].count("test at") >= 1
    assert (second["committed"], second["lag"]) == (0, 0)
    assert page["lag"] == 3
    assert causes(page) == ["moving"]
    assert [each["assigned"] for each in page["members"]] != [[], []]

    (known,) = api.get("/api/clients", search="workers")["clients"]
    assert (known["members"], known["groups"]) == (2, ["workers"])
    refused = api.ask("POST", "/api/groups/workers/reset", body={"offsets": moves})
    assert (refused.status, refused.json["error"]) == (409, "NON_EMPTY_GROUP")
    assert "test at" in refused.json["message"]
    for member in "ab":
        share_beat(client, "workers", LEAVE, member_id=member * 22)
    some = {"topics": [topic], "partitions": [0]}
    assert api.ask("POST", "/api/groups/workers/offsets/delete", body=some).status == 400
    assert api.post("/api/groups/workers/offsets/delete", topics=[topic])["changed"] == 2
    assert share_offsets(client, "workers") == {}
    assert api.post("/api/groups/workers/delete") == {"name": "workers"}


def test_a_share_group_that_stands_still(
    cluster: Cluster, client: Client, view: View, memory: Memory, topic: str
) -> None:
    share_beat(client, "idle", 0, [topic])
    share_beat(client, "idle", LEAVE)
    assert alter_share_offsets(client, "idle", {(topic, 0): 0}) == {}
    share_beat(client, "idle", 0, [topic])

    def find() -> list[Finding]:
        facts = read_facts(view, client, "idle", memory.histories, memory.times)
        found = diagnose(facts, Thresholds(still=0.0))
        return [each for each in found if each.cause == "share_stands_still"]

    (found,) = cluster.wait_for(find)
    assert (found.level, found.partitions) == ("stuck", [(topic, 0)])
    share_beat(client, "idle", LEAVE)


def test_records_that_are_done_ahead_of_the_start() -> None:
    assert PartitionFacts(("t", 0), 2, lag=3, end=10).done_ahead == 5
    assert PartitionFacts(("t", 0), 2, lag=None, end=10).done_ahead is None


def test_a_streams_group_has_its_topology_and_tasks(
    cluster: Cluster, client: Client, api: Api, topic: str
) -> None:
    epoch = streams_join(client, "app", topic).member_epoch

    def assigned() -> Json:
        streams_beat(client, "app", epoch_of_member())
        found = api.get("/api/groups/app")
        return found if found["members"][0]["tasks"]["active"] else None

    def epoch_of_member() -> int:
        members = api.get("/api/groups/app")["members"]
        return int(members[0]["epoch"]) if members else epoch

    found = cluster.wait_for(assigned)
    (member,) = found["members"]
    assert member["tasks"] == {"active": ["0_0", "0_1"], "standby": [], "warmup": []}
    assert (member["endpoint"], member["process_id"]) == ("app:7070", "process")
    assert found["topology"] == [
        {
            "id": "0",
            "sources": [topic],
            "repartition_sources": [],
            "sinks": [],
            "changelogs": ["app-store-changelog"],
            "active_tasks": 2,
            "copies": 0,
        }
    ]
    assert found["missing_topics"] == []
    assert {each["topic"] for each in found["partitions"]} == {topic}


def test_a_streams_group_without_a_topic_is_not_ready(client: Client, api: Api) -> None:
    streams_join(client, "waits", "no-such-source")
    found = api.get("/api/groups/waits")
    assert found["state"] == "NotReady"
    assert "no-such-source" in found["missing_topics"]
    assert causes(found)[0] == "not_ready"
    assert found["findings"][0]["command"] == "raftka topics create no-such-source"
    streams_beat(client, "waits", LEAVE)
