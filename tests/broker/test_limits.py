"""Every limit of the broker is hit: what then happens to who went too far, that nobody else feels
it, and that its counter moves.
"""

import os
import resource
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest
import trio

from raftka import limits
from raftka.broker.controller.peer import MAGIC, Kind
from raftka.cluster import launch
from raftka.cluster.processes import running
from raftka.limits import (
    CONNECTIONS,
    CONTROLLER_CONNECTIONS,
    CONTROLLER_FRAME_BYTES,
    DECODED_OBJECTS,
    GREETING_BYTES,
    IDLE_SECONDS,
    KIB,
    MIB,
    OUTPUT_BYTES,
    PARTIAL_BYTES,
    PARTIAL_FRAME_SECONDS,
    PEER_OUTPUT_BYTES,
    PROPOSALS_IN_FLIGHT,
    RAFT_ENTRY_BYTES,
    REQUEST_BYTES,
    REQUESTS_IN_HAND,
    TAGGED_FIELDS,
    Limit,
)
from raftka.metadata.commands import AllocateProducerIds, WriteExtension
from raftka.metadata.image import BROKER
from raftka.wire.errors import Code, KafkaError
from raftka.wire.frame import encode_request
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from tests.broker.conftest import Lower
from tests.broker.requests import fetch
from tests.broker.stage import CONTROLLER_PORT, Stage, Wire
from tests.broker.talk import Line

CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")
HUNDRED_NAMES = METADATA.request(
    topics=[METADATA.request.topics(name=f"no-such-topic-{i}") for i in range(100)],
    allow_auto_topic_creation=False,
)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage
        assert not stage.world.failures


def connected(stage: Stage) -> Wire:
    wire = stage.wire()
    assert wire.ask(API_VERSIONS, CLIENT).error_code == 0
    return wire


def is_closed(wire: Wire, stage: Stage, after_s: float) -> bool:
    stage.world.run(stage.world.now + after_s)
    return wire.close_reason is not None


# clients


def test_connections(stage: Stage, lowered: Lower) -> None:
    lowered(CONNECTIONS, 3)
    wires = [connected(stage) for _ in range(3)]

    assert stage.wire().frame() is None
    assert stage.counted(CONNECTIONS.metric) == 1
    assert stage.events("limit_hit")[0]["limit"] == "connections"
    wires[0].close()
    stage.wait(lambda: len(stage.nodes[1].dispatcher.connections) == 2)
    connected(stage)


def test_requests_in_hand(stage: Stage, lowered: Lower) -> None:
    lowered(REQUESTS_IN_HAND, 4)
    stage.create("t")
    wire = connected(stage)
    for _ in range(10):
        wire.request(FETCH, fetch("t", 0, max_wait_ms=500, min_bytes=1))
    stage.wait(lambda: stage.counted(REQUESTS_IN_HAND.metric) == 1)

    assert stage.nodes[1].metrics.parked_fetches <= 5
    connected(stage)
    assert [wire.answer(FETCH).error_code for _ in range(10)] == [0] * 10


def test_output_bytes(stage: Stage, lowered: Lower) -> None:
    lowered(OUTPUT_BYTES, 10 * KIB)
    wire = connected(stage)
    wire.hold_reading(True)
    asked = [wire.request(METADATA, HUNDRED_NAMES) for _ in range(500)]
    stage.wait(lambda: stage.counted(OUTPUT_BYTES.metric) > 0)
    stage.world.run(stage.world.now + 5.0)

    connection = stage.server_side()
    assert connection.out_bytes < 10 * KIB + 256 * KIB
    connected(stage)
    wire.hold_reading(False)
    came = [int.from_bytes((wire.frame() or b"")[:4]) for _ in asked]
    assert came == asked


def test_idle_seconds(stage: Stage) -> None:
    silent, busy = connected(stage), connected(stage)
    for _ in range(10):
        assert not is_closed(silent, stage, IDLE_SECONDS.value / 12)
        busy.ask(API_VERSIONS, CLIENT)

    assert is_closed(silent, stage, IDLE_SECONDS.value / 4)
    assert stage.counted(IDLE_SECONDS.metric) == 1
    assert stage.events("connection_idle")[0]["limit"] == "idle_seconds"
    assert busy.ask(API_VERSIONS, CLIENT).error_code == 0


@pytest.mark.parametrize("drip", [False, True])
def test_partial_frame_seconds(stage: Stage, drip: bool) -> None:
    wire = connected(stage)
    wire.send((10 * MIB).to_bytes(4, "big") + bytes(10))
    for _ in range(5):
        assert not is_closed(wire, stage, 10.0)
        if drip:
            wire.send(bytes(10))

    for _ in range(5):
        stage.world.run(stage.world.now + 10.0)
        wire.send(bytes(10) if drip else b"")
    assert wire.close_reason is not None
    assert stage.counted(PARTIAL_FRAME_SECONDS.metric) == 1
    assert stage.nodes[1].pool.taken_bytes == 0


def test_who_reads_nothing_is_not_kept_for_ever_by_what_it_should_read(stage: Stage) -> None:
    """Refused, with answers under way that it does not take: closing gently would wait for it."""
    wire = connected(stage)
    wire.hold_reading(True)
    for _ in range(300):
        wire.request(METADATA, HUNDRED_NAMES)
    wire.send(b"\xff\xff\xff\xff")
    stage.wait(lambda: bool(stage.events("connection_refused")))
    assert stage.nodes[1].dispatcher.connections

    stage.world.run(stage.world.now + 3 * PARTIAL_FRAME_SECONDS.value)
    assert not stage.nodes[1].dispatcher.connections


def test_partial_bytes(stage: Stage, lowered: Lower) -> None:
    lowered(PARTIAL_BYTES, 2 * MIB)
    first, second = connected(stage), connected(stage)
    for wire in (first, second):
        wire.send(MIB.to_bytes(4, "big"))
    first.send(bytes(800 * KIB))
    stage.wait(lambda: stage.nodes[1].pool.taken_bytes > 800 * KIB)
    second.send(bytes(800 * KIB))

    assert second.frame() is None
    assert stage.counted(PARTIAL_BYTES.metric) == 1
    assert "partial_bytes" in stage.events("connection_refused")[0]["reason"]
    connected(stage)  # who sends whole frames needs none of it
    first.close()
    stage.wait(lambda: stage.nodes[1].pool.taken_bytes == 0)


@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        (REQUEST_BYTES, (REQUEST_BYTES.value + 1).to_bytes(4, "big")),
        (
            DECODED_OBJECTS,
            encode_request(
                METADATA,
                0,
                1,
                None,
                METADATA.request(topics=[METADATA.request.topics(name="")] * 600_000),
            ),
        ),
        (
            TAGGED_FIELDS,
            b"\0\0\x4e\x2e" + b"\0\x12\0\3\0\0\0\1\xff\xff" + b"\x91\x4e" + b"\5\0" * 10_001,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_one_request(stage: Stage, limit: Limit, sent: bytes) -> None:
    neighbour, wire = connected(stage), connected(stage)
    wire.send(sent)

    assert wire.frame() is None
    assert stage.counted(limit.metric) == 1
    assert neighbour.ask(API_VERSIONS, CLIENT).error_code == 0


# the controller port


def controller(stage: Stage) -> Wire:
    return Wire(stage.world, stage.runtime, "n1", CONTROLLER_PORT)


def greeted(stage: Stage, node_id: int = 7) -> Wire:
    wire = controller(stage)
    wire.send_frame(
        msgpack.packb(
            (int(Kind.HELLO), MAGIC, stage.nodes[1].image.cluster_id, node_id, False, False)
        )
    )
    assert wire.frame() is not None
    return wire


@pytest.mark.parametrize(
    ("connect", "limit"), [(controller, GREETING_BYTES), (greeted, CONTROLLER_FRAME_BYTES)]
)
def test_frames_of_the_controller_port(
    stage: Stage, connect: Callable[[Stage], Wire], limit: Limit
) -> None:
    wire = connect(stage)
    # the byte behind the size tells a node from a Kafka client
    wire.send((limit.value + 1).to_bytes(4, "big") + b"\x93")

    assert wire.frame() is None
    stage.wait(lambda: stage.counted(limit.metric) == 1)


def test_controller_connections(stage: Stage, lowered: Lower) -> None:
    lowered(CONTROLLER_CONNECTIONS, 2)
    for node_id in (7, 8):
        greeted(stage, node_id)

    assert controller(stage).frame() is None
    assert stage.counted(CONTROLLER_CONNECTIONS.metric) == 1
    assert stage.events("controller_connection_refused")[0]["reason"] == "there are 2 connections"


def test_a_node_that_connects_anew_has_one_connection(stage: Stage) -> None:
    """Its machine may have gone without a word: then nobody else ends the earlier one."""
    earlier = greeted(stage)
    greeted(stage)

    assert earlier.frame() is None


def test_output_to_an_observer(stage: Stage, lowered: Lower) -> None:
    lowered(PEER_OUTPUT_BYTES, KIB)
    wire = greeted(stage)
    wire.send_frame(msgpack.packb((int(Kind.OBSERVE), 1)))
    wire.hold_reading(True)
    while not stage.counted(PEER_OUTPUT_BYTES.metric):
        written: list[int] = []
        entry = WriteExtension("test", ((b"key", bytes(100 * KIB)),))
        # done before the next one is made
        stage.nodes[1].controller.call(entry, lambda error, offset: written.append(offset))  # noqa: B023
        stage.wait(lambda: bool(written))  # noqa: B023
        assert written[0] < 100, "it is sent more and more"

    wire.hold_reading(False)
    last = stage.nodes[1].image.offset
    seen = 0
    while seen < last:
        kind, *fields = msgpack.unpackb(wire.frame() or b"")
        if kind == Kind.ENTRIES:
            seen = fields[0][-1][0]


def test_one_entry_of_the_metadata_log(stage: Stage) -> None:
    request = INCREMENTAL_ALTER_CONFIGS.request
    before = stage.nodes[1].image.config(BROKER, "")
    configs = [
        request.resources.configs(name=f"of.a.plugin.{i}", value="x" * 30_000) for i in range(300)
    ]
    row = request(
        resources=[request.resources(resource_type=BROKER, resource_name="", configs=configs)]
    )

    (answer,) = stage.wire().ask(INCREMENTAL_ALTER_CONFIGS, row).responses

    assert answer.error_code == Code.POLICY_VIOLATION
    assert stage.counted(RAFT_ENTRY_BYTES.metric) == 1
    assert stage.nodes[1].image.config(BROKER, "") == before
    stage.create("t")


def test_proposals_in_flight(stage: Stage) -> None:
    """Proposals beyond the limit are sent again by the broker's link, so a client only waits."""
    node = stage.nodes[1]
    stage.world.disk("n1").sync_s = (0.5, 0.5)
    outcomes: list[KafkaError | None] = []

    def flood() -> None:
        for _ in range(PROPOSALS_IN_FLIGHT.value + 10):
            node.controller.call(
                AllocateProducerIds(1, node.lifecycle.broker_epoch),
                lambda error, reply: outcomes.append(error),
            )

    stage.world.at(stage.world.now, flood)
    stage.wait(lambda: len(outcomes) == PROPOSALS_IN_FLIGHT.value + 10)

    assert set(outcomes) == {None}
    assert stage.counted(PROPOSALS_IN_FLIGHT.metric) >= 10


# all of them


HIT_HERE = {
    *(
        CONNECTIONS,
        REQUESTS_IN_HAND,
        OUTPUT_BYTES,
        IDLE_SECONDS,
        PARTIAL_FRAME_SECONDS,
        PARTIAL_BYTES,
        REQUEST_BYTES,
        DECODED_OBJECTS,
    ),
    TAGGED_FIELDS,
    *(
        GREETING_BYTES,
        CONTROLLER_FRAME_BYTES,
        CONTROLLER_CONNECTIONS,
        PEER_OUTPUT_BYTES,
        RAFT_ENTRY_BYTES,
        PROPOSALS_IN_FLIGHT,
    ),
}
ELSEWHERE = {
    "quorum_voters": "simulation/test_voters",
    "automatic_topics": "test_topic_creation",
    "connections_of_listener": "test_connection_quotas",
    "login_bytes": "test_sasl",
    "acls": "test_acls",
    "pending_records": "test_delayed_delivery",
    "held_connections": "test_throttling",
    "quota_sensors": "test_throttling",
    "throttle_seconds": "test_throttling",
    "client_quotas": "test_client_quotas",
    "client_quotas_of_request": "test_client_quotas",
    "quota_name_length": "test_client_quotas",
    "acls_of_request": "test_acls",
    "filtered_acls": "test_acls",
    "decisions_of_session": "test_acls",
    "login_seconds": "test_sasl",
    "principal_length": "test_kerberos",
    "key_set_bytes": "test_oauthbearer",
    "schema_document_bytes": "test_schema_validation",
    "schema_lookup_seconds": "test_schema_validation",
    "schema_lookups": "test_schema_validation",
    "schema_documents": "test_schema_validation",
    "schema_documents_bytes": "test_schema_validation",
    "schemas_of_batch": "test_schema_validation",
    "delegation_tokens": "test_delegation_tokens",
    "delegation_tokens_of_requester": "test_delegation_tokens",
    "token_bytes": "test_delegation_tokens",
    "key_set_seconds": "test_oauthbearer",
    "connections_of_address": "test_connection_quotas",
    "connection_rate": "test_connection_quotas",
    "beside_bytes": "test_recompress",
    "groups_of_coordinator": "test_group_limits",
    "members_of_group": "test_group_limits",
    "pending_members": "test_group_limits",
    "subscribed_names": "test_consumer_groups",
    "long_request_bytes": "test_long_requests",
    "long_requests_waiting_bytes": "test_long_requests",
    "regex_length": "test_consumer_groups",
    "regexes_of_group": "test_consumer_groups",
    "client_tags": "test_streams_groups",
    "tasks_of_group": "test_streams_groups",
    "topology_description_bytes": "test_streams_groups",
    "topics_of_topology": "test_streams_groups",
    "member_protocol_bytes": "test_group_limits",
    "member_bytes_of_coordinator": "test_group_limits",
    "parked_requests": "test_purgatory",
    "held_answers": "test_suspects",
    "host_brokers": "cluster/host/test_plan",
    "host_restarts": "cluster/host/test_supervisor",
    "host_page_bytes": "cluster/host/test_pages",
    "host_page_seconds": "cluster/host/test_pages",
    "client_software": "test_client_software",
    "client_software_characters": "test_client_software",
    "client_metrics_instances": "test_telemetry",
    "client_metrics_push_bytes": "test_telemetry",
    "client_metrics_fields": "test_telemetry",
    "client_metrics_label_bytes": "test_telemetry",
    "client_metrics_series_of_client": "test_telemetry",
    "client_metrics_series": "test_telemetry",
    "client_metrics_bytes": "test_telemetry",
    "otlp_waiting_bytes": "test_telemetry_export",
    "otlp_answer_bytes": "test_telemetry_export",
    "otlp_seconds": "test_telemetry_export",
    "http_connections": "test_http",
    "http_request_bytes": "test_http",
    "http_seconds": "test_http",
    "described_settings": "test_configs",
    "session_partitions": "test_fetch_session",
    "decompressed_bytes": "test_produce",
    "headers_of_record": "test_limits_counted",
    "metadata_snapshot_bytes": "test_limits_counted",
    "partitions_of_request": "test_limits_counted",
    "records_of_request": "test_limits_counted",
    "topics": "test_limits_counted",
    "partitions": "test_limits_counted",
    "brokers": "test_limits_counted",
    "configured_resources": "test_limits_counted",
    "settings_of_resource": "test_limits_counted",
    "producers_of_partition": "test_limits_counted",
    "guards_of_partition": "test_limits_counted",
    "transactional_ids_of_coordinator": "test_transaction_limits",
    "partitions_of_transaction": "test_transaction_limits",
    "transaction_bytes": "test_transaction_limits",
    "transaction_bytes_of_coordinator": "test_transaction_limits",
    "held_by_transaction": "test_transaction_limits",
    "share_partitions_of_coordinator": "test_share_state_limits",
    "share_batches_of_partition": "test_share_state_limits",
    "share_batches_of_coordinator": "test_share_state_limits",
    "share_state_calls": "test_share_persister",
    "backup_hold_ms": "test_backup_requests",
    "backup_read_bytes": "test_backup_requests",
    "share_state_bytes_of_group": "test_share_groups",
    "share_sessions": "test_share_fetch",
    "share_session_partitions": "test_share_fetch",
    "share_partitions": "test_share_fetch",
    "parked_share_fetches": "test_share_fetch",
}


def test_no_limit_is_without_a_test() -> None:
    every = {value.name for value in vars(limits).values() if isinstance(value, Limit)}

    assert every == {limit.name for limit in HIT_HERE} | ELSEWHERE.keys()


# over a real socket


async def test_a_socket_that_nobody_reads_from_is_stopped_and_dropped(lowered: Lower) -> None:
    lowered(OUTPUT_BYTES, 100 * KIB)
    request = encode_request(METADATA, 12, 1, "test", HUNDRED_NAMES) * 50
    async with launch(nodes=1) as cluster:
        node = cluster.nodes[1].node
        assert node is not None
        assert node.broker_port is not None
        with trio.fail_after(30):
            stream = await trio.open_tcp_stream("127.0.0.1", node.broker_port)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send_for_ever, stream, request)
                while not node.metrics.counters.get(OUTPUT_BYTES.metric):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            (connection,) = node.dispatcher.connections
            assert connection.out_bytes < 2 * MIB
            while connection.overdue(IDLE_SECONDS.value) is None:
                pass
            connection.abort("idle")
            while node.dispatcher.connections:
                await trio.lowlevel.checkpoint()
            await stream.aclose()


async def test_some_descriptors_are_kept_for_logs() -> None:
    async with launch(nodes=1) as cluster:
        node = cluster.nodes[1].node
        assert node is not None
        assert node.broker_port is not None
        network: Any = node.runtime.network
        network.last_for_connections = 0

        with trio.fail_after(30):
            async with await trio.open_tcp_stream("127.0.0.1", node.broker_port) as stream:
                assert await stream.receive_some() == b""
        assert "no descriptors are left" in cluster.nodes[1].plan.log_file.read_text(
            encoding="utf-8"
        )
        assert not node.dispatcher.connections


def test_without_descriptors_strangers_are_turned_away_and_neighbours_are_served() -> None:
    with running(nodes=1) as cluster:
        pid = cluster.nodes[1].pid
        with Line(cluster.addresses[0]) as neighbour:
            neighbour.ask(API_VERSIONS, CLIENT)
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors + 10, hard))
            lines = [Line(cluster.addresses[0]) for _ in range(50)]

            assert sum(line.closed() for line in lines[10:]) == 40
            neighbour.ask(API_VERSIONS, CLIENT)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            for line in lines[:10]:
                assert line.ask(API_VERSIONS, CLIENT).error_code == 0
            with Line(cluster.addresses[0]) as newcomer:
                newcomer.ask(API_VERSIONS, CLIENT)
        assert (
            cluster.nodes[1]
            .plan.log_file.read_text(encoding="utf-8")
            .count("no descriptors are left")
            == 40
        )
        for line in lines:
            line.sock.close()


async def _send_for_ever(stream: trio.SocketStream, data: bytes) -> None:
    while True:
        await stream.send_all(data)
