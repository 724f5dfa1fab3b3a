"""`raftka groups`, `raftka offsets` and `raftka consume --group` against three live nodes: what
they print, what they change, what they refuse.
"""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.wire.messages.streams_groups import STREAMS_GROUP_HEARTBEAT


@pytest.fixture
def read(raftka: Any, topic: str) -> str:
    """A group that has read 10 records, and has 5 more to read."""
    lines = "".join(f"{i}\n" for i in range(10))
    assert raftka(f"produce {topic} -p 0", lines).code == 0
    done = raftka(f"consume {topic} --group {topic} --from start -n 10")
    assert (done.code, done.out) == (0, lines)
    assert raftka(f"produce {topic} -p 0", "a\nb\nc\nd\ne\n").code == 0
    return topic


def offsets(raftka: Any, group: str) -> dict[int, int]:
    return {
        row["partition"]: row["offset"] for row in raftka(f"offsets export {group} -o json").rows
    }


def test_a_group_goes_on_where_it_has_been(raftka: Any, read: str) -> None:
    assert raftka(f"consume {read} --group {read} --exit-at-end").out == "a\nb\nc\nd\ne\n"
    assert raftka(f"consume {read} --group {read} --exit-at-end").out == ""
    assert raftka(f"consume {read} --group {read} -p 1").code == 1


def test_groups_are_listed_and_described(raftka: Any, read: str) -> None:
    assert [read, "Empty", "classic", "consumer"] in raftka("groups list").table
    assert raftka("groups list --state Stable").code == 0
    (row,) = [
        row for row in raftka(f"groups describe {read} -o json").rows if row["partition"] == 0
    ]
    assert row == {
        "group": read,
        "state": "Empty",
        "topic": read,
        "partition": 0,
        "offset": 10,
        "end": 15,
        "lag": 5,
        "member": None,
        "host": None,
    }

    missing = raftka(f"groups describe {read} nobody")
    assert missing.code == 1
    assert "nobody" in missing.err
    assert read in missing.out


def test_groups_of_the_new_protocol_are_described(raftka: Any, cluster: Any, topic: str) -> None:
    group = f"new-{topic}"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while len(consumer.assignment()) < 3:
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    listed, rows = raftka("groups list").table, raftka(f"groups describe {group} -o json").rows
    consumer.close()

    assert [group, "Stable", "consumer", "consumer"] in listed
    assert [(row["topic"], row["partition"], row["state"]) for row in rows] == [
        (topic, index, "Stable") for index in range(3)
    ]
    assert len({(row["member"], row["host"]) for row in rows}) == 1


def test_streams_groups_are_listed_and_described(raftka: Any, cluster: Any, topic: str) -> None:
    group, row = f"app-{topic}", STREAMS_GROUP_HEARTBEAT.request
    topology = row.topology(
        subtopologies=[row.topology.subtopologies(subtopology_id="0", source_topics=[topic])]
    )
    none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    join = row(
        group_id=group,
        member_id="m",
        rebalance_timeout_ms=5000,
        topology=topology,
        process_id="p",
        **none,
    )
    with Client(addresses_of(cluster.bootstrap_servers), "test", 20.0) as client:
        answer = client.ask_coordinator(group, STREAMS_GROUP_HEARTBEAT, join)
        deadline = time.monotonic() + 30
        while not answer.active_tasks:
            time.sleep(0.2)
            beat = row(group_id=group, member_id="m", member_epoch=answer.member_epoch)
            answer = client.ask_coordinator(group, STREAMS_GROUP_HEARTBEAT, beat)
            assert time.monotonic() < deadline
    listed, rows = (
        raftka("groups list --state stable").table,
        raftka(f"groups describe {group} -o json").rows,
    )

    assert [group, "Stable", "streams", "streams"] in listed
    assert raftka("groups list --state not-ready").code == 0
    assert [(row["topic"], row["partition"], row["state"], row["member"]) for row in rows] == [
        (topic, index, "Stable", "m") for index in range(3)
    ]


def test_offsets_are_moved(raftka: Any, read: str) -> None:
    for to, expected in {"start": 0, "end": 15, "-2": 13, "1d": 0, "2999-01-01": 15}.items():
        assert (
            raftka(f"groups reset-offsets {read} --to {to} -p 0 --dry-run -o json").rows[0][
                "offset"
            ]
            == expected
        )
    assert offsets(raftka, read)[0] == 10

    (row,) = raftka(f"groups reset-offsets {read} {read} --to 3 -p 0 -o json").rows

    assert (row["before"], row["offset"]) == (10, 3)
    assert offsets(raftka, read)[0] == 3


def test_offsets_are_moved_from_where_they_are(raftka: Any, read: str) -> None:
    reset = f"groups reset-offsets {read} {read} -p 0 -o json"
    for how, expected in {
        "--by -3": 7,
        "--by 2": 12,
        "--by 100": 15,
        "--by -100": 0,
        "--to current": 10,
        "--to PT24H": 0,
    }.items():
        assert raftka(f"{reset} {how} --dry-run").rows[0]["offset"] == expected
    assert raftka(f"{reset} --by -3").code == 0
    assert offsets(raftka, read)[0] == 7

    for wrong, says in {
        "": "--to or --by",
        "--to 3 --by 3": "--to or --by",
        "--to start -p 99": "no partition 99",
    }.items():
        refused = raftka(f"{reset} {wrong}")
        assert (refused.code, says in refused.err) == (1, True)
    nowhere = raftka(f"groups reset-offsets {read}-nobody {read} --by 1")
    assert (nowhere.code, f"{read}-0 has no offset" in nowhere.err) == (1, True)
    assert offsets(raftka, read)[0] == 7


def test_offsets_are_exported_and_imported(raftka: Any, read: str) -> None:
    exported = raftka(f"offsets export {read} -o json").out

    assert raftka(f"offsets import - --group {read}-copy --dry-run", exported).code == 0
    assert offsets(raftka, f"{read}-copy") == {}
    assert raftka(f"offsets import - --group {read}-copy", exported).code == 0

    assert offsets(raftka, f"{read}-copy") == offsets(raftka, read)
    refused = raftka("offsets import -", "no json\n")
    assert (refused.code, "line 1" in refused.err) == (1, True)
    assert (
        raftka("offsets import -", exported.replace(f'"topic": "{read}"', '"topic": "gone"')).code
        == 1
    )


def test_offsets_of_a_topic_are_deleted(raftka: Any, cluster: Any, read: str) -> None:
    assert raftka(f"groups reset-offsets {read} {read} --to 3").code == 0
    assert set(offsets(raftka, read)) == {0, 1, 2}

    done = raftka(f"offsets delete {read} {read} -p 1 -o json")

    assert done.rows == [{"group": read, "topic": read, "partition": 1}]
    assert set(offsets(raftka, read)) == {0, 2}
    nowhere = raftka(f"offsets delete {read} {read} -p 1")
    assert (nowhere.code, "no offset there" in nowhere.err) == (1, True)

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": read})
    consumer.subscribe([read])
    deadline = time.monotonic() + 30
    while len(consumer.assignment()) < 3:
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    refused = raftka(f"offsets delete {read} {read}")
    consumer.close()
    assert (refused.code, "a member of the group reads the topic" in refused.err) == (1, True)


def test_a_group_is_deleted_with_its_offsets(raftka: Any, read: str) -> None:
    assert raftka(f"groups delete {read}").code == 0

    assert offsets(raftka, read) == {}
    again = raftka(f"groups delete {read}")
    assert again.code == 1
    assert "GROUP_ID_NOT_FOUND" in again.err
