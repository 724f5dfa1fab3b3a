"""Pushes of clients go to a collector by OTLP over HTTP: each once it is there again, none holding
up a client, within a limit.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.client_metrics.otlp import Point, read_points
from raftka.limits import OTLP_ANSWER_BYTES, OTLP_SECONDS, OTLP_WAITING_BYTES
from raftka.metadata.image import CLIENT_METRICS
from raftka.wire.errors import Code
from tests.broker.conftest import Lower
from tests.broker.otlp import gauge, push
from tests.broker.pushing import Client, subscribed
from tests.broker.stage import Stage
from tests.kit.broker.http_answers import Answers

HOST, PORT = "collector", 4318
OK, UNAVAILABLE, BAD = "200 OK", "503 Service Unavailable", "400 Bad Request"


class Collector:
    """A collector in the simulated world, which answers with one status after the other."""

    def __init__(self, stage: Stage, *statuses: str, body: bytes = b"") -> None:
        """The last status is that of all later answers; empty: none is given."""
        self.statuses = list(statuses or (OK,))
        self.body = body
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        stage.world.node(HOST).network.listen(HOST, PORT, lambda: Answers(self.take))

    def take(self, head: str, body: bytes) -> bytes:
        self.heads.append(head)
        self.bodies.append(body)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if not status:
            return b""
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(self.body)}\r\n\r\n".encode() + self.body

    def points(self) -> list[Point]:
        return [each for body in self.bodies for each in read_points(body) if each is not None]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(raftka_telemetry_otlp_endpoint=f"http://{HOST}:{PORT}") as stage:
        stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
        yield stage
        assert not stage.world.failures


def pushed(stage: Stage, client: Client, *names: str) -> None:
    for name in names:
        assert client.push(push(gauge(name, 1.0, topic="t"), client_rack="r")) is Code.NONE
        stage.world.run(stage.world.now + 1.0)


def counted(stage: Stage) -> tuple[int, int]:
    return (
        stage.counted("raftka_otlp_pushes_total"),
        stage.counted("raftka_otlp_failures_total"),
    )


def test_each_push_reaches_the_collector_with_the_clients_fields(stage: Stage) -> None:
    collector = Collector(stage)
    pushed(stage, subscribed(stage), "a", "b")

    stage.wait(lambda: counted(stage) == (2, 0))
    assert collector.heads[0].startswith("POST /v1/metrics HTTP/1.1\r\n")
    assert "Content-Type: application/x-protobuf" in collector.heads[0]
    first, second = collector.points()
    assert (first.name, second.name) == ("a", "b")
    attributes = dict(first.attributes + first.of_resource)
    assert attributes["topic"] == "t"
    assert attributes["client_rack"] == "r"
    assert attributes["client_id"] == attributes["client_software_name"] == "golden"
    assert attributes["client_source_address"] == "client"
    assert attributes["broker_id"] == "1"
    assert attributes["client_instance_id"]


@pytest.mark.parametrize("first", [UNAVAILABLE, ""])
def test_pushes_wait_for_a_collector_that_is_away(stage: Stage, first: str) -> None:
    collector = Collector(stage, first, OK)
    pushed(stage, subscribed(stage), "a", "b", "c")

    stage.wait(lambda: counted(stage)[0] == 3)
    names = [point.name for point in collector.points()]
    assert names == ["a", "a", "b", "c"]  # the first request is made anew
    assert counted(stage) == (3, 1)
    assert len(stage.events("otlp_collector_away")) == 1
    assert len(stage.events("otlp_collector_back")) == 1
    assert stage.counted(OTLP_SECONDS.metric) == (first == "")


def test_a_collector_that_nobody_reaches_keeps_no_client_waiting(stage: Stage) -> None:
    client = subscribed(stage)
    pushed(stage, client, "a", "b")
    assert counted(stage)[1] >= 1
    collector = Collector(stage)
    stage.wait(lambda: counted(stage)[0] == 2)
    assert [point.name for point in collector.points()] == ["a", "b"]


def test_a_push_that_the_collector_refuses_is_not_sent_again(stage: Stage) -> None:
    collector = Collector(stage, BAD, OK)
    pushed(stage, subscribed(stage), "a", "b")
    stage.wait(lambda: counted(stage) == (1, 1))
    assert [point.name for point in collector.points()] == ["a", "b"]


def test_the_oldest_pushes_are_dropped_above_the_limit(stage: Stage, lowered: Lower) -> None:
    client = subscribed(stage)
    lowered(OTLP_WAITING_BYTES, 1000)
    pushed(stage, client, *"abcdef")
    export = stage.nodes[1].client_metrics.export
    assert export is not None
    assert export.waiting_bytes <= 1000
    dropped = stage.counted(OTLP_WAITING_BYTES.metric)
    assert dropped >= 1

    collector = Collector(stage)
    stage.wait(lambda: export.waiting_bytes == 0)
    names = [point.name for point in collector.points()]
    assert names[-1] == "f"
    assert len(names) == 6 - dropped


def test_an_answer_that_is_too_long_is_a_failure(stage: Stage, lowered: Lower) -> None:
    lowered(OTLP_ANSWER_BYTES, 10)
    Collector(stage, body=bytes(1000))
    pushed(stage, subscribed(stage), "a")
    stage.wait(lambda: counted(stage)[1] >= 1)
    assert stage.counted(OTLP_ANSWER_BYTES.metric) >= 1


def test_what_is_pushed_is_sent_whole(stage: Stage) -> None:
    """Descriptions, exemplars and unknown fields go on; attributes of the resource are added."""
    collector = Collector(stage)
    strange = b"\x98\x06\x07"  # field 99, a varint
    inside = push(gauge("a", 1.0), client_rack="r")
    body = inside[2:] + strange
    assert subscribed(stage).push(b"\x0a" + bytes([len(body)]) + body) is Code.NONE
    stage.wait(lambda: counted(stage) == (1, 0))
    assert strange in collector.bodies[0]
