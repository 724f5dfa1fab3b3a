"""Options of the source: what is taken, and what is said of those that are wrong."""

from typing import Any

import pytest

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.topics.options import EARLIEST, LATEST, SourceOptions, source_options

HERE = {"kafka.bootstrap.servers": "a:1, [::1]:2", "subscribe": "trucks"}


def parsed(*, streaming: bool = True, **given: Any) -> SourceOptions:
    return source_options({**HERE, **given}, streaming=streaming)


def test_names_are_taken_in_any_case() -> None:
    options = source_options(
        {"KAFKA.bootstrap.servers": "a:1", "SUBSCRIBE": "b, a,b", "maxoffsetspertrigger": "5"},
        streaming=True,
    )

    assert (options.bootstrap, options.topics, options.max_offsets) == ((("a", 1),), ("a", "b"), 5)


def test_security_is_that_of_kafkas_clients() -> None:
    login: dict[str, Any] = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.ssl.truststore.location": "/ca.pem",
    }
    line = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
        'password="a-secret";'
    )
    login["kafka.sasl.jaas.config"] = line
    security = parsed(**login).security

    assert (security.security_protocol, security.user, security.tls.trust_store.location) == (
        "SASL_SSL",
        "u",
        "/ca.pem",
    )
    assert "a-secret" not in repr(security)


def test_streams_begin_at_the_end_and_batches_at_the_beginning() -> None:
    assert parsed().bootstrap == (("a", 1), ("::1", 2))
    assert parsed().starting.default == LATEST
    assert parsed(streaming=False).starting.default == EARLIEST
    assert parsed(startingOffsets=" Earliest").starting.default == EARLIEST


def test_offsets_and_times_of_partitions() -> None:
    assert parsed(startingOffsets='{"trucks": {"0": 5, "1": -2}}').starting.offsets == {
        ("trucks", 0): 5,
        ("trucks", 1): -2,
    }
    by_time = parsed(
        startingOffsetsByTimestamp='{"trucks": {"0": 7}}',
        startingOffsets="earliest",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert (by_time.starting.times, by_time.starting.latest_if_none) == ({("trucks", 0): 7}, True)
    assert (
        parsed(
            startingTimestamp="9", startingOffsetsByTimestamp='{"trucks": {"0": 7}}'
        ).starting.time
        == 9
    )
    assert parsed(streaming=False, endingTimestamp="9").ending.latest_if_none
    assert not parsed(startingTimestamp="9").starting.latest_if_none


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15m", 900_000),
        ("500ms", 500),
        ("2 hours", 7_200_000),
        ("10 seconds", 10_000),
        ("1 min", 60_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parsed(maxTriggerDelay=text).max_delay_ms == ms


WRONG = [
    ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
    ({"kafka.bootstrap.servers": "a"}, "'a' is not host:port"),
    ({"kafka.bootstrap.servers": "a:1,b:65536"}, "'b:65536' is not host:port"),
    ({"subscribe": ""}, "exactly one of subscribe .* none is given"),
    ({"assign": '{"t": [0]}'}, "assign and subscribe are given"),
    ({"startingOffset": "earliest"}, "there is no option startingoffset: is it startingOffsets"),
    ({"colour": "red"}, "there is no option colour; there are assign"),
    ({"startingOffsets": "first"}, "startingOffsets 'first' is no JSON"),
    ({"startingOffsets": '{"t": 5}'}, "is not of the form"),
    ({"startingOffsets": '{"t": {"0": "5"}}'}, "is not of the form"),
    ({"startingOffsets": '{"t": {"0": -3}}'}, "-3 is no offset"),
    ({"endingOffsets": "latest"}, "endingOffsets is for batch queries"),
    (
        {"maxOffsetsPerTrigger": "0"},
        "maxOffsetsPerTrigger is '0': it is to be a whole number from 1 on",
    ),
    (
        {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
        "minOffsetsPerTrigger 6 is more than maxOffsetsPerTrigger 5",
    ),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'"),
    ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no': true or false"),
    ({"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
    ({"kafka.isolation.level": "committed"}, "read_committed or read_uncommitted"),
    (
        {"kafka.ssl.truststore.location": "/x"},
        "has no meaning with kafka.security.protocol=PLAINTEXT",
    ),
    (
        {"kafka.security.protocol": "SSL", "kafka.sasl.mechanism": "PLAIN"},
        "has no meaning with kafka.security.protocol=SSL",
    ),
    ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol must be"),
    ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism must be"),
    (
        {"kafka.security.protocol": "SSL", "kafka.ssl.enabled.protocols": "SSLv3"},
        "kafka.ssl.enabled.protocols must be",
    ),
    (
        {"kafka.auto.offset.reset": "earliest"},
        "kafka.auto.offset.reset can not be set: startingOffsets is the start",
    ),
    ({"subscribe": "", "subscribePattern": "("}, "is no regular expression"),
    ({"subscribe": "", "assign": '{"t": 1}'}, r'is not of the form \{"topic": \[0, 1\]\}'),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_wrong_options_are_reported(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        parsed(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": "latest"}, r"startingOffsets can not be latest \(-1\)"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "startingOffsets can not be latest"),
        ({"endingOffsets": "earliest"}, r"endingOffsets can not be earliest \(-2\)"),
    ],
)
def test_a_batch_that_would_be_empty_is_reported(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        parsed(streaming=False, **given)
