"""The last line of an export that could not read all: its content, and that no reader takes it."""

import json
from collections.abc import Iterator

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.client.json_lines import read_line
from raftka.console.api import records as module
from raftka.console.search.asked import Range, range_of
from raftka.json_values import Json
from raftka.limits import HEADERS_OF_RECORD
from raftka.testing import Cluster
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.records import NewRecord
from tests.kit.console import Api, console_of


@pytest.fixture
def client(raftka_cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(raftka_cluster.bootstrap_servers), "test") as client:
        yield client


def record(value: bytes) -> NewRecord:
    return None, value, [], 1


def write(client: Client, topic: str, partition: int, records: list[NewRecord]) -> None:
    producer = Producer(client)
    for each in records:
        producer.add((topic, partition), each)
    producer.flush()


def exported(api: Api, topic: str, **query: object) -> tuple[list[str], Json]:
    """The values of the records, and what the last line says; None where there is no such line."""
    answer = api.ask("GET", f"/api/topics/{topic}/export", query)
    assert answer.status == 200, answer.body
    rows = [json.loads(line) for line in answer.body.splitlines()]
    told = rows.pop()["left_out"] if rows and "left_out" in rows[-1] else None
    assert all("left_out" not in row for row in rows)
    return [row["value"] for row in rows], told


def test_unreadable_records_are_counted_and_named(
    raftka_cluster: Cluster, client: Client, api: Api
) -> None:
    topic = raftka_cluster.create_topic(partitions=1)
    many = [(str(each), b"") for each in range(HEADERS_OF_RECORD.value + 1)]
    write(client, topic, 0, [record(b"a"), (None, b"b", many, 0), record(b"c")])
    assert exported(api, topic) == (
        ["a", "c"],
        {
            "unreadable": 1,
            "first_unreadable": [f"{topic}-0@1: a record with {len(many)} headers"],
        },
    )


def test_a_whole_export_has_no_such_line(raftka_cluster: Cluster, client: Client, api: Api) -> None:
    topic = raftka_cluster.create_topic(partitions=1)
    write(client, topic, 0, [record(b"a")])
    assert exported(api, topic) == (["a"], None)
    assert exported(api, topic, text="nothing") == ([], None)


def test_records_that_were_deleted_meanwhile_are_counted(
    raftka_cluster: Cluster, client: Client, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = raftka_cluster.create_topic(partitions=1)
    write(client, topic, 0, [record(b"%d" % each) for each in range(5)])

    def then_delete(*asked: Json) -> Range:
        found = range_of(*asked)
        rows = DELETE_RECORDS.request.topics
        partition = rows.partitions(partition_index=0, offset=3)
        client.ask_leader(
            (topic, 0),
            DELETE_RECORDS,
            DELETE_RECORDS.request(topics=[rows(name=topic, partitions=[partition])]),
        )
        return found

    monkeypatch.setattr(module, "range_of", then_delete)
    assert exported(api, topic) == (["3", "4"], {"lost": 3})


def test_partitions_without_a_leader_are_named() -> None:
    with Cluster(3) as cluster, console_of(cluster) as console:
        topic = cluster.create_topic(partitions=2, replication_factor=1)
        with Client(addresses_of(cluster.bootstrap_servers), "test") as client:
            for partition in range(2):
                write(client, topic, partition, [record(b"in %d" % partition)])
        gone = cluster.leader(topic, 1)
        with cluster.killed(gone):
            api = Api(console.url)
            left = {"partitions": {"1": "no broker leads it now"}}
            cluster.wait_for(lambda: cluster.leader(topic, 1) < 0)
            assert exported(api, topic) == (["in 0"], left)
            assert exported(api, topic, partition=1) == ([], left)


def test_the_last_line_is_no_record_for_any_reader(raftka_cluster: Cluster, api: Api) -> None:
    line = '{"left_out": {"lost": 3}}'
    says = 'is no record, but what the export has left out: {"lost": 3}'
    with pytest.raises(ValueError, match="left out"):
        read_line(line.encode())
    topic = raftka_cluster.create_topic(partitions=1)
    lines = '{"value": "x"}\n' + line + "\n"
    answer = api.post(f"/api/topics/{topic}/import", lines=lines, preview=True)
    (error,) = answer["errors"]
    assert (error["line"], says in error["message"]) == (2, True)
