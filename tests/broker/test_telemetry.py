"""Clients push their metrics (KIP-714) by Kafka's rules, as they were recorded with Apache Kafka
4.4.0; /metrics shows them by client, within limits.
"""

import gzip
from collections.abc import Iterator

import pytest

from raftka.broker.client_metrics.subscriptions import Requested, subscription_id_of
from raftka.broker.exporter.exposition import Exposition
from raftka.broker.exporter.pages import gather
from raftka.limits import (
    CLIENT_METRICS_BYTES,
    CLIENT_METRICS_FIELDS,
    CLIENT_METRICS_INSTANCES,
    CLIENT_METRICS_LABEL_BYTES,
    CLIENT_METRICS_PUSH_BYTES,
    CLIENT_METRICS_SERIES,
    CLIENT_METRICS_SERIES_OF_CLIENT,
    Limit,
)
from raftka.metadata.image import CLIENT_METRICS
from raftka.wire.compression import compress
from raftka.wire.errors import Code
from raftka.wire.messages.api_versions import API_VERSIONS
from tests.broker.conftest import Lower
from tests.broker.otlp import CUMULATIVE, gauge, histogram, push, total
from tests.broker.pushing import PUSHED, ZERO, Client, subscribed
from tests.broker.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(metrics_port="0") as stage:
        yield stage
        assert not stage.world.failures


def later(stage: Stage, seconds: float) -> None:
    stage.world.run(stage.world.now + seconds)


def page(stage: Stage) -> str:
    steps = gather(stage.nodes[1].services)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return Exposition().write(done.value)[1].decode()


def lines(stage: Stage) -> dict[str, str]:
    """Return the value of each series of clients on the page, by its name and labels."""
    found = [line for line in page(stage).splitlines() if line.startswith("kafka_client_")]
    return dict(line.rsplit(" ", 1) for line in found)


# what a client is asked for


def test_without_a_receiver_the_apis_are_not_announced() -> None:
    for plain, announced in ((Stage(), False), (Stage(metrics_port="0"), True)):
        with plain as stage:
            name = API_VERSIONS.request(client_software_name="a", client_software_version="1")
            keys = {each.api_key for each in stage.wire().ask(API_VERSIONS, name).api_keys}
            assert ({71, 72} <= keys) is announced


def test_without_a_subscription_no_metric_is_asked_for(stage: Stage) -> None:
    client = Client(stage)
    first = client.ask()

    assert first.error_code == 0
    assert bytes(first.client_instance_id) != ZERO
    assert first.requested_metrics == []
    assert first.push_interval_ms == 300_000
    assert first.accepted_compression_types == (4, 3, 1, 2)
    assert first.telemetry_max_bytes == 1024 * 1024
    assert first.delta_temporality
    assert client.push(b"") is Code.NONE
    refused = client.ask()
    assert refused.error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert bytes(refused.client_instance_id) == ZERO
    assert not refused.accepted_compression_types
    other = client.ask(ZERO)
    assert bytes(other.client_instance_id) != bytes(first.client_instance_id)


@pytest.mark.parametrize(
    ("instance_id", "metrics", "interval_ms", "recorded"),
    [
        ("b0fbcc497ec14544bb27936cd942a590", (), 300_000, 2023285807),
        ("42277b3cf5234440b2ea616479da9233", (), 300_000, -1460430859),
        ("22749dffb6c54a0eb1d008bc3a27d7cd", ("*",), 2000, 1341076224),
        (
            "ed46fc07d54d42faa25cb27b91a0501a",
            (
                "org.apache.kafka.producer.",
                "org.apache.kafka.consumer.coordinator.rebalance.latency.max",
            ),
            1000,
            1100548556,
        ),
    ],
)
def test_subscription_ids_are_kafkas(
    instance_id: str, metrics: tuple[str, ...], interval_ms: int, recorded: int
) -> None:
    assert (
        subscription_id_of(Requested(metrics, interval_ms), bytes.fromhex(instance_id)) == recorded
    )


def test_a_subscription_reaches_the_clients_that_it_matches(stage: Stage) -> None:
    stage.set(
        CLIENT_METRICS,
        "s1",
        metrics="org.apache.kafka.producer.,b.c",
        interval_ms="1000",
        match="client_software_name=golden,client_id=gold.*",
    )
    stage.set(CLIENT_METRICS, "s2", metrics="b.c,d", interval_ms="5000", match="client_id=go.*en")

    both = Client(stage).ask()
    assert both.requested_metrics == ["org.apache.kafka.producer.", "b.c", "d"]
    assert both.push_interval_ms == 1000
    second = Client(stage, software="other").ask()
    assert (second.requested_metrics, second.push_interval_ms) == (["b.c", "d"], 5000)
    none = Client(stage, client_id="a-golden").ask()  # a pattern matches a whole value
    assert (none.requested_metrics, none.push_interval_ms) == ([], 300_000)

    stage.set(CLIENT_METRICS, "s3", metrics="*", interval_ms="2000")
    every = Client(stage).ask()
    assert (every.requested_metrics, every.push_interval_ms) == (["*"], 1000)


@pytest.mark.parametrize(
    "pattern",
    [
        "client_source_address=client,client_source_port=[0-9]+",
        "client_instance_id=.{8}-.*",
        "client_software_version=1",
        "client_id=nothing,client_id=golden",  # the last one counts
    ],
)
def test_each_field_of_a_client_can_be_matched(stage: Stage, pattern: str) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="a", match=pattern)
    assert Client(stage).ask().requested_metrics == ["a"]


def test_a_pattern_takes_linear_time(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="a", match="client_id=(a*)*b")
    assert Client(stage, client_id="a" * 2000).ask().requested_metrics == []


def test_a_change_of_subscriptions_lets_a_client_ask_at_once(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
    client = subscribed(stage)
    assert client.push() is Code.NONE
    stage.set(CLIENT_METRICS, "s", interval_ms="2000")

    assert client.push() is Code.UNKNOWN_SUBSCRIPTION_ID
    assert client.ask().push_interval_ms == 2000
    stage.set(CLIENT_METRICS, "s", interval_ms=None, metrics=None)
    assert client.ask().requested_metrics == []


# pushes


def test_a_push_before_its_interval_is_refused(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
    client = subscribed(stage)

    assert client.push() is Code.NONE  # the first one after a subscription is not too early
    assert client.push() is Code.THROTTLING_QUOTA_EXCEEDED
    later(stage, 1.0)
    assert client.push() is Code.NONE
    assert client.push(terminating=True) is Code.NONE
    assert client.push() is Code.INVALID_REQUEST  # after the last one
    assert stage.counted("raftka_client_metrics_throttled_total") == 1
    assert stage.counted("raftka_client_metrics_pushes_total") == 3


def test_refused_pushes_have_kafkas_codes(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
    client = subscribed(stage)

    assert client.push(instance_id=ZERO) is Code.INVALID_REQUEST
    assert client.push(instance_id=bytes(15) + b"\1") is Code.INVALID_REQUEST
    assert client.push(instance_id=bytes(14) + b"\3\xe7") is Code.UNKNOWN_SUBSCRIPTION_ID
    wrong = client.subscription_id + 1
    assert client.push(subscription_id=wrong) is Code.UNKNOWN_SUBSCRIPTION_ID
    assert client.push() is Code.THROTTLING_QUOTA_EXCEEDED
    later(stage, 1.0)
    assert client.push(codec=9) is Code.UNSUPPORTED_COMPRESSION_TYPE
    assert client.ask().error_code == 0  # at once after these two codes
    later(stage, 1.0)
    assert client.push(gzip.compress(PUSHED), codec=1) is Code.NONE
    later(stage, 1.0)
    assert client.push(b"not gzip", codec=1) is Code.INVALID_RECORD
    later(stage, 1.0)
    assert client.push(bytes(1024 * 1024 + 1)) is Code.TELEMETRY_TOO_LARGE
    later(stage, 1.0)
    assert client.push(b"boom") is Code.INVALID_RECORD
    later(stage, 1.0)
    assert client.push(b"") is Code.NONE
    assert stage.counted("raftka_client_metrics_unknown_subscriptions_total") == 2
    assert stage.counted("raftka_client_metrics_invalid_pushes_total") == 2


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_each_compression_is_taken(stage: Stage, codec: int) -> None:
    client = subscribed(stage)
    assert client.push(compress(codec, PUSHED), codec=codec) is Code.NONE
    assert len(lines(stage)) == 1


def test_a_smaller_telemetry_max_bytes_holds() -> None:
    with Stage(metrics_port="0", telemetry_max_bytes="20") as stage:
        client = Client(stage)
        assert client.ask().telemetry_max_bytes == 20
        assert client.push(bytes(21)) is Code.TELEMETRY_TOO_LARGE


def test_every_cut_push_is_refused_or_read(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="100")
    client = subscribed(stage)
    whole = push(gauge("a", 1.0, topic="t"), total("b", 2), histogram("c", 1, 2.0), group_id="g")
    for end in range(1, len(whole)):
        later(stage, 0.2)
        assert client.push(whole[:end]) is Code.INVALID_RECORD, end


# the page


def test_the_page_shows_the_series_of_each_client(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
    client = subscribed(stage)
    pushed = push(
        gauge("org.apache.kafka.producer.record.queue.time.avg", 1.5),
        total("org.apache.kafka.producer.record.send.total", 10, topic='a"b'),
        total("org.apache.kafka.x", 7, CUMULATIVE),
        histogram("org.apache.kafka.h", 3, 4.5),
        transactional_id="tx",
        client_id="forged",
    )
    assert client.push(pushed) is Code.NONE
    later(stage, 1.0)
    assert client.push(pushed) is Code.NONE

    name = "-".join(
        client.instance_id.hex()[begin:end]
        for begin, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    )
    own = (
        f'client_id="golden",client_instance_id="{name}",client_software_name="golden",'
        'client_software_version="1"'
    )
    assert lines(stage) == {
        f'kafka_client_producer_record_queue_time_avg{{{own},transactional_id="tx"}}': "1.5",
        "kafka_client_producer_record_send_total"
        f'{{{own},topic="a\\"b",transactional_id="tx"}}': "20.0",  # deltas are added
        f'kafka_client_x_total{{{own},transactional_id="tx"}}': "7.0",
        f'kafka_client_h_count_total{{{own},transactional_id="tx"}}': "6.0",
        f'kafka_client_h_sum_total{{{own},transactional_id="tx"}}': "9.0",
    }
    text = page(stage)
    assert "# TYPE kafka_client_x_total counter\n" in text
    assert "# TYPE kafka_client_producer_record_queue_time_avg gauge\n" in text
    assert "kafka_server_client_metrics_instance_count 1.0\n" in text
    assert "raftka_client_metrics_series 5.0\n" in text


def test_lost_clients_expire(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
    client, other = subscribed(stage), subscribed(stage)
    metrics = stage.nodes[1].client_metrics
    assert client.push() is Code.NONE
    assert other.push() is Code.NONE
    client.wire.close()
    stage.wait(lambda: len(metrics.instances) == 1)  # its connection stood for it

    assert len(lines(stage)) == 2  # what it pushed last is worth a scrape
    later(stage, 50)
    assert other.push() is Code.NONE
    later(stage, 12)
    assert len(lines(stage)) == 1
    later(stage, 60)
    assert lines(stage) == {}
    assert (len(metrics.instances), metrics.series.count, metrics.series.size_bytes) == (0, 0, 0)


def test_a_series_that_is_pushed_no_more_leaves(stage: Stage) -> None:
    stage.set(CLIENT_METRICS, "s", metrics="*", interval_ms="1000")
    client = subscribed(stage)
    assert client.push(push(gauge("a", 1.0), gauge("b", 1.0))) is Code.NONE
    for _ in range(2):
        later(stage, 31)
        assert client.push(push(gauge("a", 1.0))) is Code.NONE
    assert [name.partition("{")[0] for name in lines(stage)] == ["kafka_client_a"]


# limits

CLIENT_LABEL_BYTES = len(
    f'client_id="golden",client_instance_id="{"x" * 36}",client_software_name="golden",'
    'client_software_version="1"'
)


@pytest.mark.parametrize(
    ("limit", "value", "kept"),
    [
        (CLIENT_METRICS_SERIES_OF_CLIENT, 2, 4),
        (CLIENT_METRICS_SERIES, 3, 3),
        (CLIENT_METRICS_LABEL_BYTES, CLIENT_LABEL_BYTES + 8, 4),
        (CLIENT_METRICS_BYTES, 5 * (CLIENT_LABEL_BYTES + len("kafka_client_a")), 4),
    ],
)
def test_series_above_a_limit_are_not_kept(
    stage: Stage, lowered: Lower, limit: Limit, value: int, kept: int
) -> None:
    lowered(limit, value)
    for _ in range(2):
        pushed = push(gauge("a", 1.0), gauge("b", 1.0), gauge("c" + "d" * 8, 1.0))
        assert subscribed(stage).push(pushed) is Code.NONE
    shown = lines(stage)
    assert all(len(each.partition("{")[2]) == CLIENT_LABEL_BYTES + 1 for each in shown)
    assert len(shown) == kept
    assert stage.counted(limit.metric) >= 1


@pytest.mark.parametrize(
    ("limit", "value"), [(CLIENT_METRICS_FIELDS, 3), (CLIENT_METRICS_PUSH_BYTES, 100)]
)
def test_a_push_above_a_limit_is_refused(
    stage: Stage, lowered: Lower, limit: Limit, value: int
) -> None:
    lowered(limit, value)
    client = subscribed(stage)
    large = push(*[gauge("abcdefghijk", 1.0)] * 10)
    assert client.push(gzip.compress(large), codec=1) is Code.INVALID_RECORD
    assert stage.counted(limit.metric) == 1
    assert lines(stage) == {}


def test_the_client_that_was_silent_longest_leaves(stage: Stage, lowered: Lower) -> None:
    lowered(CLIENT_METRICS_INSTANCES, 2)
    first, second = subscribed(stage), subscribed(stage)
    assert first.push() is Code.NONE  # now the second one was silent longer
    subscribed(stage)

    assert len(stage.nodes[1].client_metrics.instances) == 2
    assert second.ask().error_code == 0  # it is new again
    assert first.ask().error_code == 0  # and took the place of the first
    assert stage.counted(CLIENT_METRICS_INSTANCES.metric) >= 2


@pytest.mark.parametrize(("more", "code"), [(0, Code.NONE), (1, Code.INVALID_REQUEST)])
def test_a_client_with_a_long_id_fills_no_page_and_no_memory(
    stage: Stage, more: int, code: Code
) -> None:
    client = Client(stage, client_id="c" * (CLIENT_METRICS_LABEL_BYTES.value + more))

    assert client.ask().error_code == code
    assert len(stage.nodes[1].client_metrics.instances) == 1 - more
    if code is Code.NONE:
        assert client.push(push(gauge("a", 1.0))) is Code.NONE
    assert lines(stage) == {}
    assert stage.counted(CLIENT_METRICS_LABEL_BYTES.metric) == 1
