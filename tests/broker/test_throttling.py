"""Clients with quotas are told how long to wait, and their connections are not read for as long: on
virtual time, with Kafka's own numbers.
"""

from collections.abc import Iterator
from typing import NoReturn

import pytest

from raftka.broker.network.quotas.client_quotas import ClientQuotas
from raftka.limits import HELD_CONNECTIONS, QUOTA_SENSORS, THROTTLE_SECONDS
from raftka.metadata.quotas import CLIENT_ID, IP, USER
from raftka.runtime.simulated.clock import SimulatedTimer
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.partitions import CREATE_PARTITIONS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from tests.broker.conftest import Lower
from tests.broker.quotas import alter
from tests.broker.requests import batch, fetch, fetched, produce
from tests.broker.sasl import SECURE, logged_in
from tests.broker.stage import Stage, Wire

ME = "ANONYMOUS"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.create("t")
        yield stage
        assert not stage.world.failures


def asked(wire: Wire) -> float:
    """Return how long an answer to Metadata takes."""
    began = wire.world.now
    wire.ask(METADATA, METADATA.request(topics=[]))
    return wire.world.now - began


def produce_in(wire: Wire, size: int, acks: int = -1) -> float:
    """Write one batch of about so many bytes; returns the seconds that the answer tells to wait."""
    return wire.ask(PRODUCE, produce("t", batch(bytes(size)), acks=acks)).throttle_time_ms / 1000


def test_produce_beyond_the_quota_is_answered_at_once_and_muted(stage: Stage) -> None:
    wire, other = stage.wire(), stage.wire()
    assert alter(stage.wire(), {USER: ME, CLIENT_ID: "test"}, producer_byte_rate=2000.0) == 0
    frame = len(encode_request(PRODUCE, 12, 1, "test", produce("t", batch(bytes(19_800))))) - 4
    took, told = [], []
    for _ in range(2):
        began = stage.world.now
        told.append(produce_in(wire, 19_800))
        took.append(stage.world.now - began)
    assert told[0] == 0
    assert told[1] == pytest.approx(2 * frame / 2000 - 10 - took[1], abs=0.005)
    assert max(took) < 0.1
    assert asked(other) < 0.1
    assert asked(wire) == pytest.approx(told[1], abs=0.1)
    assert stage.partition("t").log.end_offset == 2
    assert stage.counted("raftka_throttled_by_producer_byte_rate_total") == 1
    assert stage.counted("raftka_throttle_milliseconds_total") == round(told[1] * 1000)


def test_producer_that_waits_for_no_answer_is_muted(stage: Stage) -> None:
    wire = stage.wire()
    assert alter(stage.wire(), {CLIENT_ID: "test"}, producer_byte_rate=1000.0) == 0
    wire.request(PRODUCE, produce("t", batch(bytes(15_000)), acks=0))
    assert 4.9 < asked(wire) < 5.2


def test_what_comes_behind_a_request_that_is_too_much_waits_with_it(stage: Stage) -> None:
    """All in one packet, and by the short way too, once there is a plan."""
    wire = stage.wire()
    for _ in range(3):
        produce_in(wire, 10, acks=1)
    assert PRODUCE.key in stage.server_side().plans
    assert alter(stage.wire(), {CLIENT_ID: "test"}, producer_byte_rate=1000.0) == 0
    frames = [
        encode_request(PRODUCE, 12, at, "test", produce("t", batch(bytes(6_000)), acks=1))
        for at in range(10, 14)
    ]
    began = stage.world.now
    wire.send(b"".join(frames))
    arrived = []
    for _ in frames:
        wire.answer(PRODUCE)
        arrived.append(stage.world.now - began)
    assert arrived[1] < 0.1
    assert 2.1 < arrived[2] < 2.3
    assert 10.1 < arrived[3] < 10.5


def test_muted_connection_is_not_idle_and_its_client_is_missed(stage: Stage) -> None:
    wire, gone = stage.wire(), stage.wire()
    assert alter(stage.wire(), {CLIENT_ID: "test"}, producer_byte_rate=10.0) == 0
    wire.request(PRODUCE, produce("t", batch(bytes(10_000)), acks=0))
    gone.request(PRODUCE, produce("t", batch(bytes(10_000)), acks=0))
    stage.world.run(stage.world.now + 1.0)
    gone.close()
    stage.world.run(stage.world.now + 700.0)
    assert wire.close_reason is None
    assert len(stage.nodes[1].dispatcher.connections) == 1
    stage.world.run(stage.world.now + 300.0)
    assert asked(wire) < 0.1


def test_fetch_beyond_the_quota_is_empty_and_counts_nothing(stage: Stage) -> None:
    writer, wire = stage.wire(), stage.wire()
    for _ in range(6):
        writer.ask(PRODUCE, produce("t", batch(bytes(4000))))
    assert alter(stage.wire(), {USER: ME}, consumer_byte_rate=1000.0) == 0
    request = fetch("t", 0, min_bytes=50_000, max_wait_ms=3000, max_bytes=1 << 20)
    first = wire.ask(FETCH, request, 12)
    size = len(fetched(first).records or b"")
    assert (first.throttle_time_ms, 8_000 < size <= 10_000) == (0, True)
    second = wire.ask(FETCH, request, 12)
    assert second.responses == []
    expected = 2 * (size + 60) / 1000 - 10
    assert expected - 0.2 < second.throttle_time_ms / 1000 < expected
    began = stage.world.now
    third = wire.ask(FETCH, request, 12)
    assert stage.world.now - began > expected - 0.3
    assert len(fetched(third).records or b"") == size


def test_answer_that_never_fits_goes_when_nothing_else_was_sent(stage: Stage) -> None:
    """One batch of more than the whole window's worth: else its reader would wait for ever."""
    wire = stage.wire()
    stage.wire().ask(PRODUCE, produce("t", batch(bytes(60_000))))
    assert alter(stage.wire(), {USER: ME}, consumer_byte_rate=1000.0) == 0
    first = wire.ask(FETCH, fetch("t", 0), 12)
    assert len(fetched(first).records or b"") > 60_000
    assert 49_000 < first.throttle_time_ms < 51_000
    assert 49 < asked(wire) < 51


def test_fetch_session_loses_nothing_when_it_is_throttled(stage: Stage) -> None:
    writer, wire = stage.wire(), stage.wire()
    for _ in range(3):
        writer.ask(PRODUCE, produce("t", batch(bytes(4000))))
    assert alter(stage.wire(), {USER: ME}, consumer_byte_rate=1000.0) == 0
    begun = wire.ask(FETCH, fetch("t", 0, session_epoch=0), 12)
    assert begun.session_id
    again = FETCH.request(session_id=begun.session_id, session_epoch=1, max_bytes=1 << 20)
    throttled = wire.ask(FETCH, again, 12)
    assert (throttled.session_id, throttled.error_code, throttled.responses) == (
        begun.session_id,
        0,
        [],
    )
    assert throttled.throttle_time_ms > 0
    for epoch in range(2, 5):
        again.session_epoch = epoch
        if (answer := wire.ask(FETCH, again, 12)).responses:
            break
    assert len(fetched(answer).records or b"") > 8000


def test_waiting_fetch_that_would_be_too_much_is_answered_empty(stage: Stage) -> None:
    writer, wire = stage.wire(), stage.wire()
    assert alter(stage.wire(), {USER: ME, CLIENT_ID: "reader"}, consumer_byte_rate=1000.0) == 0
    wire.client_id = "reader"
    writer.ask(PRODUCE, produce("t", batch(bytes(9_000))))
    begun = wire.ask(FETCH, fetch("t", 0, session_epoch=0), 12)
    assert len(fetched(begun).records or b"") > 9_000
    request = fetch(
        "t", 1, session_id=begun.session_id, session_epoch=1, max_wait_ms=30_000, min_bytes=1
    )
    wire.request(FETCH, request, 12)
    stage.world.run(stage.world.now + 0.2)
    assert stage.nodes[1].metrics.parked_fetches == 1
    writer.ask(PRODUCE, produce("t", batch(bytes(5_000))))
    throttled = wire.answer(FETCH, 12)
    assert (throttled.responses, throttled.session_id) == ([], begun.session_id)
    assert 3_000 < throttled.throttle_time_ms < 5_000
    assert stage.nodes[1].metrics.parked_fetches == 0
    again = FETCH.request(
        session_id=begun.session_id,
        session_epoch=2,
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=1 << 20,
    )
    for epoch in range(2, 6):
        again.session_epoch = epoch
        if (answer := wire.ask(FETCH, again, 12)).responses:
            break
    assert len(fetched(answer).records or b"") > 5_000


def test_client_that_leaves_while_it_is_muted_leaves_nothing_behind(stage: Stage) -> None:
    """A day is a long time for a timer, with a connection and all that came on it."""
    assert alter(stage.wire(), {USER: ME}, producer_byte_rate=1.0) == 0
    wire = stage.wire()
    wire.request(PRODUCE, produce("t", batch(bytes(100_000)), acks=0))
    stage.world.run(stage.world.now + 1.0)
    connection = stage.server_side()
    timer = connection._unmutes
    assert isinstance(timer, SimulatedTimer)
    wire.close()
    stage.world.run(stage.world.now + 60.0)
    assert connection not in stage.nodes[1].dispatcher.connections
    assert timer.action is None


def test_user_is_counted_over_all_connections_and_default_gives_each_its_own(stage: Stage) -> None:
    admin = stage.wire()
    assert alter(admin, {USER: ME}, producer_byte_rate=1000.0) == 0
    assert [produce_in(stage.wire(), 9_000) > 0 for _ in range(2)] == [False, True]
    assert alter(admin, {USER: ME}, producer_byte_rate=None) == 0
    assert alter(admin, {CLIENT_ID: None}, producer_byte_rate=1000.0) == 0
    for client in ("a", "b"):
        wire = stage.wire()
        wire.send(encode_request(PRODUCE, 12, 1, client, produce("t", batch(bytes(9_000)))))
        assert wire.answer(PRODUCE).throttle_time_ms == 0


def test_default_user_is_each_user_by_himself() -> None:
    with Stage(**SECURE) as stage:
        node = logged_in(stage, user="node", password="n-secret")
        assert created(node, 7, ("t", 1)) == (0, [0])
        stage.wait(lambda: ("t", 0) in stage.nodes[1].replicas.partitions)
        assert alter(node, {USER: None}, producer_byte_rate=1000.0) == 0
        assert produce_in(node, 20_000) > 9
        assert produce_in(logged_in(stage), 9_000) == 0
        assert produce_in(logged_in(stage), 9_000) > 7, "the same user on another connection"


def test_who_only_says_that_it_is_a_broker_has_a_quota(stage: Stage) -> None:
    assert alter(stage.wire(), {USER: ME}, request_percentage=0.0001) == 0
    assert stage.wire().ask(FETCH, fetch("t", 0, replica_id=1), 12).throttle_time_ms == 1000


def test_without_quotas_of_clients_nothing_is_counted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by the short way nor by the long one; a quota of an address changes nothing for
    requests.
    """

    def counted(*_: object) -> NoReturn:
        raise AssertionError("a request is counted")

    for name in ("of", "limits", "meter"):
        monkeypatch.setattr(ClientQuotas, name, counted)
    assert alter(stage.wire(), {IP: None}, connection_creation_rate=1000.0) == 0
    wire = stage.wire()
    for _ in range(3):
        assert produce_in(wire, 1_000, acks=1) == 0
        assert fetched(wire.ask(FETCH, fetch("t", 0), 12)).error_code == 0
    assert {PRODUCE.key, FETCH.key} <= stage.server_side().plans.keys()
    assert not stage.events("handler_failed")


def test_client_with_a_quota_does_not_slow_the_short_way_of_another(stage: Stage) -> None:
    assert alter(stage.wire(), {CLIENT_ID: "limited"}, producer_byte_rate=1000.0) == 0
    limited, free = stage.wire(), stage.wire()
    limited.client_id, free.client_id = "limited", "free"
    for _ in range(3):
        produce_in(limited, 10)
        produce_in(free, 10)
    with_plans = {
        connection.session.client_id
        for connection in stage.nodes[1].dispatcher.connections
        if PRODUCE.key in connection.plans
    }
    assert with_plans == {"free"}


def test_quota_counts_for_the_next_request_of_a_connection(stage: Stage) -> None:
    wire, admin = stage.wire(), stage.wire()
    assert produce_in(wire, 20_000) == 0
    assert alter(admin, {USER: ME}, producer_byte_rate=1000.0) == 0
    assert produce_in(wire, 20_000) > 9
    assert alter(admin, {USER: ME}, producer_byte_rate=None) == 0
    stage.world.run(stage.world.now + 15)
    assert produce_in(wire, 100_000) == 0


def test_loop_time_counts_for_every_request(stage: Stage) -> None:
    """In the simulation each reading of the CPU clock takes 0.1 ms."""
    wire = stage.wire()
    assert alter(stage.wire(), {USER: ME, CLIENT_ID: "test"}, request_percentage=0.0001) == 0
    answers = [wire.ask(METADATA, METADATA.request(topics=[])) for _ in range(3)]
    assert [answer.throttle_time_ms for answer in answers] == [1000] * 3
    assert 0.9 < asked(wire) < 1.2
    assert stage.counted("raftka_throttled_by_request_percentage_total") >= 3


def test_throttled_answers_take_no_time_from_brokers() -> None:
    """With a quota for everybody, replication goes on at full speed."""
    with Stage(3) as stage:
        stage.create("t", replication_factor=3)
        assert (
            alter(stage.wire(), {USER: None}, request_percentage=0.0001, consumer_byte_rate=1.0)
            == 0
        )
        stage.wait(lambda: all(node.dispatcher.quotas.active for node in stage.nodes.values()))
        wire = stage.wire(stage.leader("t"))
        for _ in range(3):
            began = stage.world.now
            assert wire.ask(PRODUCE, produce("t", batch(b"x"))).throttle_time_ms == 1000
            assert stage.world.now - began < 1.4
        assert [stage.partition("t", node_id=each).log.end_offset for each in stage.nodes] == [
            3,
            3,
            3,
        ]


def test_sensors_are_bounded(stage: Stage, lowered: Lower) -> None:
    lowered(QUOTA_SENSORS, 3)
    assert alter(stage.wire(), {CLIENT_ID: None}, producer_byte_rate=1e9) == 0
    wire = stage.wire()
    for at in range(6):
        wire.send(encode_request(PRODUCE, 12, at, f"client {at}", produce("t", batch(b"x"))))
        wire.answer(PRODUCE)
    quotas = stage.nodes[1].dispatcher.quotas
    assert (len(quotas.sensors), stage.counted(QUOTA_SENSORS.metric)) == (3, 3)
    stage.world.run(stage.world.now + 20)
    wire.send(encode_request(PRODUCE, 12, 9, "another", produce("t", batch(b"x"))))
    wire.answer(PRODUCE)
    assert len(quotas.sensors) == 2, "those that are idle go as others come"


def test_nobody_waits_longer_than_a_day(stage: Stage) -> None:
    assert alter(stage.wire(), {USER: ME}, producer_byte_rate=1.0) == 0
    assert produce_in(stage.wire(), 900_000) == THROTTLE_SECONDS.value


# connections


def test_connections_that_come_too_fast_are_held_and_closed(stage: Stage) -> None:
    """Exchange 680 of a recorded Apache Kafka 4.3.1: at 1 a second ten pass, then each is closed
    within a second; others go on.
    """
    assert alter(stage.wire(), {IP: None}, connection_creation_rate=1.0) == 0
    served = [stage.wire() for _ in range(10)]
    assert max(asked(wire) for wire in served) < 0.1
    began, late = stage.world.now, stage.wire()
    late.request(METADATA, METADATA.request(topics=[]))
    assert late.frame() is None
    assert 0.5 < stage.world.now - began < 1.1
    assert asked(served[0]) < 0.1
    assert stage.counted("raftka_throttled_connections_total") == 1
    stage.world.run(stage.world.now + 12)
    assert asked(stage.wire()) < 0.1


def test_connections_of_an_address_with_a_rate_of_its_own(stage: Stage) -> None:
    admin = stage.wire()
    assert alter(admin, {IP: None}, connection_creation_rate=1.0) == 0
    assert alter(admin, {IP: "10.0.0.9"}, connection_creation_rate=1.0) == 0
    assert alter(admin, {IP: None}, connection_creation_rate=None) == 0
    assert max(asked(stage.wire()) for _ in range(30)) < 0.1


def test_few_connections_are_held(stage: Stage, lowered: Lower) -> None:
    lowered(HELD_CONNECTIONS, 2)
    assert alter(stage.wire(), {IP: None}, connection_creation_rate=1.0) == 0
    wires = [stage.wire() for _ in range(15)]
    stage.world.run(stage.world.now + 0.2)
    assert sum(wire.close_reason is not None for wire in wires) == 3
    assert stage.counted(HELD_CONNECTIONS.metric) == 3
    stage.world.run(stage.world.now + 1.0)
    assert sum(wire.close_reason is not None for wire in wires) == 5


# topics


def created(
    wire: Wire, version: int, *topics: tuple[str, int], validate_only: bool = False
) -> tuple[float, list[int]]:
    row = CREATE_TOPICS.request.topics
    asked = [row(name=name, num_partitions=count, replication_factor=1) for name, count in topics]
    answer = wire.ask(
        CREATE_TOPICS,
        CREATE_TOPICS.request(topics=asked, validate_only=validate_only, timeout_ms=3000),
        version,
    )
    return answer.throttle_time_ms / 1000, [topic.error_code for topic in answer.topics]


def test_mutations_as_kafka_counts_them(stage: Stage) -> None:
    """Exchanges 668 to 679 of a recorded Apache Kafka 4.3.1: each on a connection of its own, so
    that none waits for another.
    """
    over = int(Code.THROTTLING_QUOTA_EXCEEDED)
    assert alter(stage.wire(), {USER: ME}, controller_mutation_rate=1.0) == 0
    began = stage.world.now

    def now() -> float:
        return stage.world.now - began

    assert created(stage.wire(), 7, ("m1", 30)) == (0, [0])
    wait, errors = created(stage.wire(), 7, ("m4", 3), ("m5", 3))
    assert errors == [over, over]
    assert wait == pytest.approx(19 - now(), abs=0.2)
    assert created(stage.wire(), 7, ("m1", 1)) == (0, [Code.TOPIC_ALREADY_EXISTS])
    wait, errors = created(stage.wire(), 5, ("m3", 1))
    assert errors == [0]
    assert wait == pytest.approx(20 - now(), abs=0.2)
    assert created(stage.wire(), 7, ("m9", 1), validate_only=True)[1] == [over]
    more = CREATE_PARTITIONS.request(
        topics=[CREATE_PARTITIONS.request.topics(name="m1", count=31, assignments=None)],
        timeout_ms=1000,
    )
    (refused,) = stage.wire().ask(CREATE_PARTITIONS, more, 3).results
    assert (refused.error_code, refused.error_message) == (over, None)
    more.topics[0].count = 32
    delayed = stage.wire().ask(CREATE_PARTITIONS, more, 2)
    assert delayed.results[0].error_code == 0
    assert delayed.throttle_time_ms / 1000 == pytest.approx(22 - now(), abs=0.2)
    by_name = DELETE_TOPICS.request(topic_names=["m1"], timeout_ms=1000)
    for version, request in (
        (6, DELETE_TOPICS.request(topics=[DELETE_TOPICS.request.topics(name="m1")])),
        (5, by_name),
    ):
        (topic,) = stage.wire().ask(DELETE_TOPICS, request, version).responses
        assert (topic.name, topic.error_code) == ("m1", over)
    gone = stage.wire().ask(DELETE_TOPICS, by_name, 4)
    assert gone.responses[0].error_code == 0
    assert gone.throttle_time_ms / 1000 == pytest.approx(54 - now(), abs=0.3)
    assert "m1" not in stage.nodes[1].image.topic_ids


def test_first_topic_of_a_request_may_overdraw_and_the_refused_cost_nothing(stage: Stage) -> None:
    over = int(Code.THROTTLING_QUOTA_EXCEEDED)
    assert alter(stage.wire(), {USER: ME}, controller_mutation_rate=1.0) == 0
    assert created(stage.wire(), 7, ("a.b", 5), ("a_b", 100)) == (
        0,
        [0, Code.INVALID_TOPIC_EXCEPTION],
    ), "refused by the controller"
    wait, errors = created(stage.wire(), 7, ("c", 9), ("d", 1))
    assert errors == [0, over]
    assert wait == pytest.approx(3, abs=0.3)
    wire = stage.wire()
    assert created(wire, 7, ("e", 1))[1] == [over]
    assert 2.5 < asked(wire) < 3.1
    assert created(wire, 7, ("e", 1)) == (0, [0])


def test_topics_that_are_created_on_the_way_count_too(stage: Stage) -> None:
    assert alter(stage.wire(), {USER: ME}, controller_mutation_rate=1.0) == 0
    stage.create("many", partitions=30)
    wire, row = stage.wire(), METADATA.request.topics
    for _ in range(3):
        answer = wire.ask(
            METADATA, METADATA.request(topics=[row(name="new")], allow_auto_topic_creation=True)
        )
        assert answer.throttle_time_ms == 0
    stage.world.run(stage.world.now + 1.0)
    assert stage.nodes[1].image.topic_named("new") is None
    stage.world.run(stage.world.now + 20.0)
    wire.ask(METADATA, METADATA.request(topics=[row(name="new")], allow_auto_topic_creation=True))
    stage.wait(lambda: stage.nodes[1].image.topic_named("new") is not None)


@pytest.mark.parametrize("seed", range(4))
def test_node_that_was_away_holds_quotas_that_were_set_meanwhile(seed: int) -> None:
    """From its first connection on; however it went, and whether it was the controller."""
    with Stage(3, seed=seed) as stage:
        away = 1 + seed % 3
        stays = 1 + away % 3
        stage.kill(away, power_loss=seed % 2 == 0)
        stage.wait(lambda: all(node.image.alive(away) is False for node in stage.nodes.values()))
        assert alter(stage.wire(stays), {"user": ME}, producer_byte_rate=1000.0) == 0

        node, throttled = stage.start(away), list[int]()
        while not node.ready.is_set() or not throttled:
            wire = stage.wire(away)
            wire.request(PRODUCE, produce("not-there", batch(bytes(50_000))))
            stage.world.run(
                lambda wire=wire: bool(wire.frames) or wire.close_reason is not None,  # type: ignore[misc]
                at_most_s=1.0,
            )
            if wire.frames:
                throttled.append(wire.answer(PRODUCE).throttle_time_ms)
            wire.close()
            stage.world.run(stage.world.now + 0.01)

        assert min(throttled) > 0
        assert not stage.world.failures
