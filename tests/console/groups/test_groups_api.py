"""The API of groups on a real cluster: the list, one group, changes with their previews."""

import shlex
import time
from collections.abc import Iterator

import pytest

from raftka.cli.commands import root
from raftka.client.blocking.client import Client
from raftka.client.blocking.groups import DescribedGroup, GroupMember, committed
from raftka.console.groups.history import Awaited, find_awaited
from raftka.console.server import ConsoleServer
from raftka.json_values import Json
from raftka.testing import Cluster
from tests.kit.console import Api, console_of
from tests.kit.groups import ConsumerMember, commit, produce


@pytest.fixture
def console(cluster: Cluster) -> Iterator[ConsoleServer]:
    with console_of(cluster) as console:
        yield console


@pytest.fixture
def api(console: ConsoleServer) -> Api:
    return Api(console.url)


@pytest.fixture
def topic(cluster: Cluster, client: Client) -> str:
    """A topic with ten records in each of two partitions, the oldest 100 s old, one each second."""
    topic = cluster.create_topic("orders", partitions=2)
    now = round(time.time() * 1000)
    for partition in range(2):
        produce(client, (topic, partition), [now - 1_000 * (100 - at) for at in range(10)])
    return topic


def wait_for_lags(api: Api, **query: object) -> Json:
    """The list, when the lags of all groups are known."""
    deadline = time.monotonic() + 30
    while (found := api.get("/api/groups", **query))["pending"]:
        assert time.monotonic() < deadline
    return found


def test_groups_are_sorted_by_lag_with_exact_seconds(client: Client, api: Api, topic: str) -> None:
    commit(client, "slow", {(topic, 0): 2, (topic, 1): 10})
    commit(client, "done", {(topic, 0): 10, (topic, 1): 10})
    commit(client, "slower", {(topic, 0): 0, (topic, 1): 5})
    found = wait_for_lags(api)
    rows = found["rows"]
    assert [(row["name"], row["lag"]) for row in rows] == [("slower", 15), ("slow", 8), ("done", 0)]
    assert found["lag"] == 23
    passed = rows[0]["seconds"] - 100
    assert 0 <= passed < 60  # since the topic was written
    assert rows[1]["seconds"] - 98 == pytest.approx(passed, abs=0.001)
    assert rows[2]["seconds"] == 0
    assert rows[0]["topics"] == ["orders"]
    assert (rows[0]["type"], rows[0]["state"]) == ("classic", "Empty")


def test_groups_are_sorted_by_seconds(client: Client, api: Api, topic: str) -> None:
    commit(client, "many", {(topic, 0): 5, (topic, 1): 5})  # ten records, the oldest 95 s old
    commit(client, "old", {(topic, 0): 10, (topic, 1): 1})  # nine records, the oldest 99 s old
    commit(client, "done", {(topic, 0): 10, (topic, 1): 10})

    def read(sort: str) -> Json:
        deadline = time.monotonic() + 60
        while (found := api.get("/api/groups", sort=sort))["not_sorted"] or found["pending"]:
            assert time.monotonic() < deadline, found
        return found

    found = read("-seconds")
    assert [row["name"] for row in found["rows"]] == ["old", "many", "done"]
    assert all(row["is_sorted"] for row in found["rows"])
    assert found["sorted_age_s"] >= 0
    assert [row["name"] for row in read("seconds")["rows"]] == ["done", "many", "old"]
    assert api.get("/api/groups", sort="name")["sorted_age_s"] is None


def test_groups_whose_seconds_are_not_known_are_last_and_counted(
    client: Client, api: Api, cluster: Cluster, topic: str
) -> None:
    produce(client, (cluster.create_topic("old", partitions=1), 0), [-1])
    commit(client, "timeless", {("old", 0): 0})
    commit(client, "a reader", {(topic, 0): 2})
    for sort in ("seconds", "-seconds"):
        deadline = time.monotonic() + 60
        while (found := api.get("/api/groups", sort=sort))["not_sorted"] != 1:
            assert time.monotonic() < deadline, found
        assert [(row["name"], row["is_sorted"]) for row in found["rows"]] == [
            ("a reader", True),
            ("timeless", False),
        ]


def test_pages_filters_and_orders(client: Client, api: Api, topic: str) -> None:
    for number in range(7):
        commit(client, f"group-{number}", {(topic, 0): number})
    member = ConsumerMember(client, "new", [topic]).join()

    def names(**query: object) -> list[str]:
        return [row["name"] for row in wait_for_lags(api, **query)["rows"]]

    assert names(search="GROUP", sort="name") == [f"group-{number}" for number in range(7)]
    assert names(search="group", sort="lag", page=2, size=3) == ["group-3", "group-2", "group-1"]
    assert names(search="group", sort="-name", size=2) == ["group-6", "group-5"]
    assert names(type="consumer") == ["new"]
    assert names(state="stable") == ["new"]
    assert names(type="share") == []
    assert wait_for_lags(api, state="Empty", size=1)["total"] == 7
    assert api.ask("GET", "/api/groups", {"sort": "colour"}).status == 400
    member.leave()


def test_a_lag_in_seconds_that_is_not_known_says_why(
    client: Client, api: Api, cluster: Cluster
) -> None:
    produce(client, (cluster.create_topic("old", partitions=1), 0), [-1])
    commit(client, "reader", {("old", 0): 0})
    (row,) = api.get("/api/groups")["rows"]
    assert (row["lag"], row["seconds"]) == (1, None)
    assert row["seconds_why"] == "old-0: the record has no time"


def test_a_group_with_its_members(client: Client, api: Api, topic: str) -> None:
    member = ConsumerMember(client, "readers", [topic], instance_id="till-7").join()
    member.commit({(topic, 0): 4})
    found = api.get("/api/groups/readers")
    (shown,) = found["members"]
    assert (shown["instance_id"], shown["assigned"]) == ("till-7", ["orders-0", "orders-1"])
    assert shown["target"] == shown["assigned"]
    assert (shown["epoch"], shown["subscribed"]) == (found["epoch"], ["orders"])
    partition = found["partitions"][0]
    assert (partition["committed"], partition["end"], partition["lag"]) == (4, 10, 6)
    assert partition["seconds"] >= 96
    assert partition["owner"].startswith("till-7 at ")
    assert not partition["still"]["is_exact"]
    assert (found["lag"], found["type"], found["state"]) == (6, "consumer", "Stable")

    member.commit({(topic, 0): 7})
    deadline = time.monotonic() + 30
    while not (found := api.get("/api/groups/readers"))["partitions"][0]["still"]["is_exact"]:
        assert time.monotonic() < deadline
    assert found["partitions"][0]["committed"] == 7
    assert found["lags"][-1] == 3
    member.leave()


def test_a_group_is_watched(client: Client, api: Api, topic: str) -> None:
    commit(client, "readers", {(topic, 0): 4})
    with api.stream("/api/groups/readers", {"every": 1}) as events:
        first = events.next()
        assert first is not None
        assert first.json["lag"] == 6
        commit(client, "readers", {(topic, 0): 10})
        for event in events:
            if event.json["lag"] == 0:
                break


def test_unknown_groups_and_bad_changes_are_refused(client: Client, api: Api, topic: str) -> None:
    assert api.ask("GET", "/api/groups/nobody").status == 404
    assert api.ask("POST", "/api/groups/nobody/delete").status == 404
    commit(client, "readers", {(topic, 0): 4})
    preview = "/api/groups/readers/reset/preview"
    for body, says in [
        ({"to": "moon"}, "earliest or latest"),
        ({"to": "offset"}, "has a value"),
        ({"to": "latest", "value": 1}, "has no value"),
        ({"to": "back", "value": -1}, "not below 0"),
        ({"to": "shift", "value": 1}, "orders-1 has no offset"),
        ({"to": "time", "value": 2**62}, "no time"),
        ({"to": "latest", "partitions": [9]}, "no partition 9"),
    ]:
        answer = api.ask("POST", preview, body=body)
        assert (answer.status, says in answer.json["message"]) == (400, True), answer.json
    for rows in [[], [{"topic": topic}], [{"topic": topic, "partition": 0, "offset": -1}]]:
        answer = api.ask("POST", "/api/groups/readers/reset", body={"offsets": rows})
        assert answer.status == 400
    missing = api.ask("POST", preview, body={"to": "latest", "topics": ["gone"]})
    assert missing.status == 404


RESETS = [
    ("earliest", None, 0),
    ("latest", None, 10),
    ("offset", 3, 3),
    ("offset", 300, 10),
    ("back", 2, 8),
    ("shift", -2, 2),
    ("shift", 2, 6),
    ("duration", 0, 10),
]


@pytest.mark.parametrize(("to", "value", "expected"), RESETS)
def test_a_reset_does_what_its_preview_and_its_command_say(
    client: Client,
    cluster: Cluster,
    api: Api,
    topic: str,
    to: str,
    value: int | None,
    expected: int,
) -> None:
    commit(client, "readers", {(topic, 0): 4})
    body = {"to": to, "value": value, "topics": [topic], "partitions": [0]}
    found = api.post("/api/groups/readers/reset/preview", **body)
    assert found["moves"] == [{"topic": "orders", "partition": 0, "before": 4, "after": expected}]
    assert found["members"] == []
    moves = [
        {"topic": each["topic"], "partition": each["partition"], "offset": each["after"]}
        for each in found["moves"]
    ]
    assert api.post("/api/groups/readers/reset", offsets=moves) == {"changed": 1, "refused": []}
    assert committed(client, "readers") == {(topic, 0): expected}

    commit(client, "readers", {(topic, 0): 4})
    words = shlex.split(found["command"])[1:]
    with pytest.raises(SystemExit) as ended:
        root(["-b", cluster.bootstrap_servers, *words], prog_name="raftka")
    assert ended.value.code == 0
    assert committed(client, "readers") == {(topic, 0): expected}


def test_a_reset_to_a_time(client: Client, api: Api, topic: str) -> None:
    commit(client, "readers", {(topic, 0): 4, (topic, 1): 4})
    now = round(time.time() * 1000)
    found = api.post("/api/groups/readers/reset/preview", to="time", value=now - 95_000)
    (first, second) = [each["after"] for each in found["moves"]]
    assert first == second
    assert 5 <= first <= 10  # the sixth record is 95 s old when the topic has just been written
    assert "+00:00" in found["command"]


def test_a_group_with_members_is_not_changed(client: Client, api: Api, topic: str) -> None:
    member = ConsumerMember(client, "readers", [topic]).join()
    member.commit({(topic, 0): 4})
    found = api.post("/api/groups/readers/reset/preview", to="earliest")
    assert [each.partition(" at ")[0] for each in found["members"]] == ["test"]
    offsets = [{"topic": topic, "partition": 0, "offset": 0}]
    for path, body in [
        ("reset", {"offsets": offsets}),
        ("delete", None),
    ]:
        answer = api.ask("POST", f"/api/groups/readers/{path}", body=body)
        assert (answer.status, answer.json["error"]) == (409, "NON_EMPTY_GROUP")
        assert "test at" in answer.json["message"]
    place = {"topics": [topic], "partitions": [0]}
    refused = api.post("/api/groups/readers/offsets/delete", **place)
    assert refused["changed"] == 0
    assert "reads the topic" in refused["refused"][0]["why"]
    assert committed(client, "readers") == {(topic, 0): 4}

    member.leave()
    assert api.post("/api/groups/readers/offsets/delete", **place)["changed"] == 1
    assert committed(client, "readers") == {}
    assert api.ask("POST", "/api/groups/readers/offsets/delete", body=place).status == 404


def test_a_group_is_deleted(client: Client, api: Api, topic: str) -> None:
    commit(client, "readers", {(topic, 0): 4})
    assert [row["name"] for row in api.get("/api/groups")["rows"]] == ["readers"]
    assert api.post("/api/groups/readers/delete") == {"name": "readers"}
    assert api.get("/api/groups")["rows"] == []
    assert committed(client, "readers") == {}


def test_a_read_only_console_changes_no_group(client: Client, cluster: Cluster, topic: str) -> None:
    commit(client, "readers", {(topic, 0): 4})
    with console_of(cluster, read_only=True) as console:
        api = Api(console.url)
        offsets = [{"topic": topic, "partition": 0, "offset": 0}]
        for path, body in [
            ("reset", {"offsets": offsets}),
            ("offsets/delete", {"topics": [topic]}),
            ("delete", None),
        ]:
            assert api.ask("POST", f"/api/groups/readers/{path}", body=body).status == 403
    assert committed(client, "readers") == {(topic, 0): 4}


def test_a_silent_broker_is_named(client: Client, api: Api, topic: str, cluster: Cluster) -> None:
    commit(client, "readers", {(topic, 0): 4, (topic, 1): 4})
    cluster.move_coordinator("readers", to=cluster.leader(topic, 1))
    wait_for_lags(api)
    cluster.move_leader(topic, 1, to=cluster.group("readers").coordinator)
    gone = cluster.leader(topic, 0)
    if gone == cluster.group("readers").coordinator:
        gone = next(each for each in cluster.nodes if each != gone)
    with cluster.paused(gone):
        deadline = time.monotonic() + 60
        while True:
            answer = api.ask("GET", "/api/groups")
            assert answer.status == 200, answer.body
            if str(gone) in answer.json["missing"]:
                break
            assert time.monotonic() < deadline


def test_a_holder_is_found_where_answers_leave_out_what_is_to_be_given_back() -> None:
    """As Apache Kafka's ConsumerGroupDescribe has it."""
    holder = GroupMember("a", "/h", assigned=[("t", 0)], target=[("t", 0)], epoch=1)
    waiter = GroupMember("b", "/h", target=[("t", 1)], epoch=2)
    group = DescribedGroup("consumer", "Reconciling", "uniform", [holder, waiter], 1, 2, 2)
    assert find_awaited(group, {("t", 1): "a"}) == {("t", 1): Awaited("b", "a")}
    assert find_awaited(group, {}) == {("t", 1): Awaited("b", None)}
    done = GroupMember("a", "/h", assigned=[("t", 0)], target=[("t", 0)], epoch=2)
    group = DescribedGroup("consumer", "Reconciling", "uniform", [done, waiter], 1, 2, 2)
    assert find_awaited(group, {("t", 1): "a"}) == {("t", 1): Awaited("b", None)}
