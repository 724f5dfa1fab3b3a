"""Directed simulations of requests that come in one piece, or are carried out in several: see
directed.py.
"""

from raftka.broker.client_metrics.otlp import Kind, Point
from raftka.broker.work.long_work import drained
from raftka.limits import CLIENT_METRICS_SERIES_OF_CLIENT
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.produce import PRODUCE
from tests.broker.pushing import subscribed
from tests.broker.requests import produced
from tests.broker.stage import Stage, decoded
from tests.kit.broker.early_answers import ask_behind_an_early_answer
from tests.kit.broker.sliced_requests import PARTITIONS, busy, sent
from tests.kit.broker.transactions import Client
from tests.kit.broker.uniform_produces import give, many, one, prepared, told
from tests.mutants.directed import finds


@finds
def uniform_batches_get_new_crcs() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, server = prepared(stage)
        sent = many(3)
        give(stage, server, b"".join([sent[0], sent[1][:-5] + b"!" + sent[1][-4:], sent[2]]))
        codes = [produced(decoded(PRODUCE, 12, frame)).error_code for frame in told(stage, wire)[0]]
        assert codes == [0, 2, 0], "a damaged record is acknowledged"


@finds
def requests_begin_inside_a_frame() -> None:
    with Stage() as stage:
        stage.create("t")
        wire, server = prepared(stage)
        inner = b"".join(many(3))
        outer = one(500, value=inner)
        at = outer.index(inner)
        for piece in (outer[:at], inner, outer[at + len(inner) :]):
            give(stage, server, piece)
        told(stage, wire)
        assert stage.partition("t").log.end_offset == 6, (
            "the value of a record is taken for requests"
        )


@finds
def requests_lie_in_the_receive_buffer() -> None:
    with Stage() as stage, busy():
        stage.create("t", PARTITIONS)
        client = Client(stage)
        client.init()
        for partitions in range(7, 16):  # the handler is interrupted while it asks, not before
            assert {code for _, code in sent(client, 0, partitions)} == {0}, (
                "a partition of a transactional request is refused"
            )
            assert client.end() == 0
            client.init()


@finds
def interrupted_handlers_take_a_second_place() -> None:
    with Stage() as stage:
        ask_behind_an_early_answer(stage)


@finds
def another_node_greets() -> None:
    with Stage() as stage:
        row = API_VERSIONS.request(client_software_name="c", client_software_version="1")
        row.cluster_id, row.node_id = stage.nodes[1].image.cluster_id, 2
        answer = stage.wire().ask(API_VERSIONS, row)
        assert answer.error_code == Code.REBOOTSTRAP_REQUIRED, "another node than the one meant"


@finds
def early_pushes_are_taken() -> None:
    with Stage() as stage:
        client = subscribed(stage)
        assert client.push() == Code.NONE
        assert client.push() == Code.THROTTLING_QUOTA_EXCEEDED, "a push comes too early"


@finds
def series_of_clients_have_no_limit() -> None:
    most = CLIENT_METRICS_SERIES_OF_CLIENT.value
    with Stage() as stage:
        series, client = stage.nodes[1].client_metrics.series, bytes(16)
        points = [Point(f"m{i}", Kind.GAUGE, 1.0, [], []) for i in range(most + 1)]
        drained(series.take(client, {}, points, 0.0, 60.0))
        assert series.count == most, "a client has more series than it may have"
