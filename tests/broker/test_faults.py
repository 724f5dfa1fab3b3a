"""Disks that are full or fail, directories and neighbours that are not ours: an error code or a
clear line in the log, and nobody else disturbed.
"""

import errno
from random import Random
from typing import Any

import msgpack
import pytest

from raftka.broker.controller.peer import MAGIC, Kind
from raftka.log.directory import DirectoryFailure
from raftka.metadata.commands import COMMANDS
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire

CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")


# disks


def test_a_full_disk_is_reported_in_the_log_and_never_answered_with_success() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        assert produced(wire.ask(PRODUCE, produce("t", batch(b"1")))).base_offset == 0
        stage.world.disk("n1").room_bytes = 10

        wire.request(PRODUCE, produce("t", batch(b"2")))

        # some of it may be in the file: no answer is better than a wrong one
        assert wire.frame() is None
        (line,) = stage.events("log_failed")
        assert (line["level"], line["partition"]) == ("error", "t-0")
        assert "ENOSPC" in line["error"]
        # nor can this only node write that it withdraws: it ends
        (line,) = stage.events("metadata_log_failed")
        assert "ENOSPC" in line["error"]
        assert [machine for _, machine, _ in stage.world.failures] == ["n1"]


def test_a_log_that_can_not_be_written_is_a_storage_error_and_the_node_lives() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        assert produced(wire.ask(PRODUCE, produce("t", batch(b"1")))).base_offset == 0
        parked = stage.wire()
        parked.request(FETCH, fetch("t", 1, max_wait_ms=20_000, min_bytes=1))
        stage.wait(lambda: stage.nodes[1].metrics.parked_fetches == 1)
        stage.world.disk("n1").failing_writes = 1

        for acks in (1, -1):
            wire.request(PRODUCE, produce("t", batch(b"2"), acks=acks))
        assert wire.frame() is None

        assert fetched(parked.answer(FETCH)).error_code == Code.KAFKA_STORAGE_ERROR
        again = stage.wire()
        assert (
            produced(again.ask(PRODUCE, produce("t", batch(b"3")))).error_code
            == Code.KAFKA_STORAGE_ERROR
        )
        assert fetched(again.ask(FETCH, fetch("t"))).error_code == Code.KAFKA_STORAGE_ERROR
        assert "EIO" in stage.events("log_failed")[0]["error"]
        assert stage.counted("raftka_log_failures_total") == 1
        assert again.ask(API_VERSIONS, CLIENT).error_code == 0
        assert not stage.world.failures


def test_after_a_full_disk_a_restart_with_room_serves_what_was_acknowledged() -> None:
    with Stage() as stage:
        stage.create("t")
        assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"1")))).base_offset == 0
        stage.world.disk("n1").room_bytes = 10
        stage.wire().request(PRODUCE, produce("t", batch(b"2")))
        stage.wait(lambda: bool(stage.world.failures))
        stage.nodes.pop(1)
        stage.world.disk("n1").room_bytes = None
        stage.start(1)
        stage.wait(
            lambda: (
                stage.nodes[1].ready.is_set()
                and stage.nodes[1].replicas.partitions["t", 0].leader is not None
            )
        )

        assert produced(stage.wire().ask(PRODUCE, produce("t", batch(b"3")))).base_offset == 1
        assert len(fetched(stage.wire().ask(FETCH, fetch("t"))).records or b"") == 2 * len(
            batch(b"1")
        )


def test_a_leader_whose_disk_is_full_gives_way_to_another() -> None:
    with Stage(3) as stage:
        stage.create("t")
        leader = stage.leader("t")
        assert produced(stage.wire(leader).ask(PRODUCE, produce("t", batch(b"1")))).base_offset == 0
        stage.world.disk(f"n{leader}").room_bytes = 10

        stage.wire(leader).request(PRODUCE, produce("t", batch(b"2")))

        stage.wait(lambda: stage.leader("t") not in (leader, -1))
        other = stage.leader("t")
        stage.wait(lambda: leader not in stage.partition("t", node_id=other).image.isr)
        assert produced(stage.wire(other).ask(PRODUCE, produce("t", batch(b"3")))).base_offset == 1


def test_a_topic_for_which_there_is_no_room_is_a_line_in_the_log() -> None:
    with Stage(3) as stage:
        make = stage.nodes[1].logs.get_or_create

        def no_room(topic: str, *rest: Any, **named: Any) -> Any:
            if topic == "u":
                raise DirectoryFailure(
                    stage.nodes[1].logs.directories[0],
                    OSError(errno.ENOSPC, "no space left", "/data/u-0"),
                )
            return make(topic, *rest, **named)

        stage.nodes[1].logs.get_or_create = no_room  # type: ignore[method-assign]
        stage.create("u", 3, opened=False)

        stage.wait(lambda: all(stage.leader("u", i) in (2, 3) for i in range(3)))
        assert {line["partition"] for line in stage.events("log_failed")} == {"u-0", "u-1", "u-2"}
        assert (
            produced(
                stage.wire(stage.leader("u")).ask(PRODUCE, produce("u", batch(b"1")))
            ).error_code
            == 0
        )
        assert not stage.world.failures


def test_a_flush_that_fails_stops_the_node_and_the_answer_never_leaves() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        wire.ask(PRODUCE, produce("t", batch(b"1")))
        stage.world.disk("n1").failing_syncs = 1

        wire.request(PRODUCE, produce("t", batch(b"2")))

        assert wire.frame() is None
        ((_, machine, error),) = stage.world.failures
        assert machine == "n1"
        assert isinstance(error, OSError)
        (line,) = stage.events("flush_failed")
        assert "EIO" in line["error"]


def test_after_a_flush_that_failed_only_what_was_acknowledged_is_believed() -> None:
    with Stage(3) as stage:
        stage.create("t")
        leader = stage.leader("t")
        wire = stage.wire(leader)
        assert produced(wire.ask(PRODUCE, produce("t", batch(b"1")))).base_offset == 0
        stage.world.disk(f"n{leader}").failing_syncs = 1
        wire.request(PRODUCE, produce("t", batch(b"2")))
        assert wire.frame() is None
        stage.nodes.pop(leader)

        stage.wait(lambda: stage.leader("t") not in (leader, -1))
        assert (
            produced(
                stage.wire(stage.leader("t")).ask(PRODUCE, produce("t", batch(b"3")))
            ).error_code
            == 0
        )


# directories


def test_two_nodes_on_one_directory() -> None:
    with Stage() as stage:
        node = stage.start(2, {"node.id": "1"}, disk="n1")

        stage.wait(lambda: 2 in stage.refused)

        assert str(stage.refused[2]) == "/data is in use by another node"
        assert node.broker_port is None
        assert stage.wire().ask(API_VERSIONS, CLIENT).error_code == 0


def test_a_directory_of_another_node() -> None:
    with Stage() as stage:
        stage.kill(1)
        stage.start(1, {"node.id": "2", "controller.quorum.voters": "2@n1:9093"})

        stage.wait(lambda: 1 in stage.refused)

        assert str(stage.refused[1]) == "/data belongs to node 1, this is node 2"


def test_a_refused_directory_is_not_left_locked() -> None:
    with Stage() as stage:
        stage.create("t")
        stage.kill(1)
        stage.start(1, {"node.id": "2", "controller.quorum.voters": "2@n1:9093"})
        stage.wait(lambda: 1 in stage.refused)

        stage.wait(stage.start(1).ready.is_set)
        assert stage.wire().ask(METADATA, METADATA.request(topics=None)).topics[0].name == "t"


def test_a_refused_start_counts_as_no_shutdown() -> None:
    """The broker was shut down in order, and nothing has happened since."""
    with Stage() as stage:
        node = stage.nodes[1]
        epoch = node.lifecycle.broker_epoch
        done: list[bool] = []

        async def shut_down() -> None:
            await node.shutdown()
            done.append(True)

        node.runtime.spawn(shut_down, "shutdown")
        stage.wait(lambda: bool(done))
        stage.kill(1)
        stage.start(1, {"raftka.cluster.id": "AnotherClustersIdIs0AA"})
        stage.wait(lambda: 1 in stage.refused)

        assert stage.start(1).ready is not None
        stage.wait(stage.nodes[1].ready.is_set)
        assert stage.nodes[1].logs.previous_epoch == epoch


# the controller port


def controller(stage: Stage, node_id: int = 1) -> Wire:
    return Wire(stage.world, stage.runtime, f"n{node_id}", CONTROLLER_PORT)


def hello(cluster_id: str | None, node_id: int = 7) -> bytes:
    return bytes(msgpack.packb((int(Kind.HELLO), MAGIC, cluster_id, node_id, True, False)))


def framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def refusals(stage: Stage) -> list[str]:
    return [line["reason"] for line in stage.events("controller_connection_refused")]


STRANGERS = {
    "HTTP": (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
    "TLS": (bytes.fromhex("16030100f8010000f40303") + bytes(200), "TLS"),
    "noise": (b"\x00\x00\x00\x08" + b"\x9b\x17" * 4, "neither a node of raftka nor a Kafka client"),
    "a long greeting": ((5000).to_bytes(4, "big") + b"\x93" * 5000, "5000 bytes"),
    "the magic and then noise": ((60).to_bytes(4, "big") + MAGIC + b"\xc1" * 40, ""),
    "a list as the kind": (framed(msgpack.packb(([1], MAGIC))), "no message of ours"),
    "a map whose key is a list": (
        framed(b"\x93\x81\x91\x01\x02\x01" + msgpack.packb(MAGIC)),
        "no message of ours",
    ),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_strangers_on_the_controller_port_are_closed_with_one_line(name: str) -> None:
    sent, said = STRANGERS[name]
    with Stage() as stage:
        wire = controller(stage)
        wire.send(sent)

        assert wire.frame() is None
        stage.wait(lambda: bool(refusals(stage)))
        (reason,) = refusals(stage)
        assert said in reason
        assert stage.counted("raftka_controller_refusals_total") == 1
        assert stage.wire().ask(API_VERSIONS, CLIENT).error_code == 0
        assert not stage.world.failures


def test_who_says_nothing_to_the_controller_is_closed() -> None:
    with Stage() as stage:
        wire = controller(stage)

        assert wire.frame() is None
        stage.wait(lambda: refusals(stage) == ["no greeting came"])


def test_a_node_of_another_cluster_is_greeted_and_refused() -> None:
    with Stage() as stage:
        mine = stage.nodes[1].image.cluster_id
        wire = controller(stage)
        wire.send_frame(hello("some-other-cluster"))

        assert wire.frame() is not None  # our greeting: its own log can say why
        assert wire.frame() is None
        stage.wait(
            lambda: (
                refusals(stage)
                == [f"refused: node 7 belongs to cluster some-other-cluster, this one to {mine}"]
            )
        )


def test_a_broker_of_another_cluster_does_not_join() -> None:
    """Two clusters in one world: a broker of the second is pointed at the controller of the first,
    and tries for a while.
    """
    with Stage() as stage:
        foreign = stage.start(2, {"controller.quorum.voters": "2@n2:9093"})
        stage.wait(foreign.ready.is_set)
        stage.kill(2)

        stage.start(
            2,
            {
                "process.roles": "broker",
                "listeners": "PLAINTEXT://n2:9092",
                "controller.quorum.voters": "1@n1:9093",
            },
        )

        stage.wait(lambda: sum("belongs to cluster" in reason for reason in refusals(stage)) > 5)
        assert stage.nodes[1].image.brokers.keys() == {1}
        assert not stage.nodes[2].ready.is_set()
        (line,) = stage.events("controller_refused", 2)  # once, though it tries again and again
        assert (line["level"], line["controller"], line["address"]) == ("warning", 1, "n1:9093")
        assert "belongs to cluster" in line["reason"]


MID_STREAM = {
    "noise": b"\x9b\x17\x00\x01" * 8,
    "no message": (5).to_bytes(4, "big") + b"\xc1\xc1\xc1\xc1\xc1",
    "an unknown kind": (3).to_bytes(4, "big") + msgpack.packb((99, 1)),
    "a raft message of who is no voter": b"\x00\x00\x00\x03" + msgpack.packb((int(Kind.RAFT), {})),
    "a call without fields": b"\x00\x00\x00\x02" + msgpack.packb((int(Kind.CALL),)),
    "a call of nothing": b"\x00\x00\x00\x05" + msgpack.packb((int(Kind.CALL), 1, None, [])),
    "an answer to nothing": b"\x00\x00\x00\x02" + msgpack.packb((int(Kind.REPLY),)),
    "a second greeting": b"\x00\x00\x00\x02" + msgpack.packb((int(Kind.HELLO),)),
    "observe from nowhere": b"\x00\x00\x00\x03" + msgpack.packb((int(Kind.OBSERVE), None)),
    "20 MiB announced": (20 << 20).to_bytes(4, "big") + bytes(10),
}


@pytest.mark.parametrize("name", MID_STREAM)
def test_garbage_behind_a_valid_greeting_closes_that_connection_alone(name: str) -> None:
    sent = MID_STREAM[name]
    if name not in ("noise", "no message", "20 MiB announced"):
        sent = (len(sent) - 4).to_bytes(4, "big") + sent[4:]
    with Stage() as stage:
        wire = controller(stage)
        wire.send_frame(hello(stage.nodes[1].image.cluster_id))
        assert wire.frame() is not None  # its own greeting
        wire.send(sent)

        assert wire.frame() is None
        stage.wait(lambda: len(refusals(stage)) == 1)
        assert refusals(stage)[0].startswith("refused:")
        request = CREATE_TOPICS.request
        row = request(topics=[request.topics(name="t", num_partitions=1, replication_factor=1)])
        assert stage.wire().ask(CREATE_TOPICS, row).topics[0].error_code == 0
        assert not stage.world.failures


def anything(random: Random, depth: int = 2) -> object:
    simple = [None, True, -1, 0, 1, 2**63, -(2**63), b"", b"x" * 16, "", "t", "x" * 300]
    return (
        [anything(random, depth - 1) for _ in range(random.randrange(4))]
        if depth and random.random() < 0.4
        else random.choice(simple)
    )


@pytest.mark.parametrize("seed", range(20))
def test_calls_with_any_fields_do_not_stop_the_controller(seed: int) -> None:
    random = Random(seed)
    with Stage() as stage:
        for name, kind in COMMANDS.items():
            wire = controller(stage)
            wire.send_frame(hello(stage.nodes[1].image.cluster_id))
            for number in range(20):
                values = [anything(random) for _ in kind._fields]
                wire.send_frame(msgpack.packb((int(Kind.CALL), number, name, values)))
        stage.world.run(stage.world.now + 1.0)

        assert stage.wire().ask(API_VERSIONS, CLIENT).error_code == 0
        assert not stage.world.failures
        assert not stage.events("command_failed")


def test_a_command_that_the_machine_can_not_bear_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Stage() as stage:
        host = stage.nodes[1].quorum.host
        assert host is not None
        assert host.machine is not None
        monkeypatch.setattr(type(host.machine), "decide", lambda *arguments: 1 // 0)
        request = CREATE_TOPICS.request

        (topic,) = (
            stage.wire()
            .ask(
                CREATE_TOPICS,
                request(topics=[request.topics(name="t", num_partitions=1, replication_factor=1)]),
            )
            .topics
        )

        assert topic.error_code == Code.UNKNOWN_SERVER_ERROR
        assert any(line["command"] == "CreateTopics" for line in stage.events("command_failed"))
        assert not stage.world.failures


def test_a_topic_of_the_longest_name_is_made_and_deleted() -> None:
    """A removed topic's folder has another name for a while; that name must not be too long
    either.
    """
    with Stage() as stage:
        name = "x" * 249
        stage.create(name, 2)
        assert produced(stage.wire().ask(PRODUCE, produce(name, batch(b"1")))).base_offset == 0

        stage.delete(name)
        stage.create(name, 1)

        assert produced(stage.wire().ask(PRODUCE, produce(name, batch(b"1")))).base_offset == 0
        assert not stage.world.failures
