"""Directed simulations of clients with quotas: see directed.py."""

from raftka.metadata.quotas import CLIENT_ID, USER
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.broker.quotas import alter, fetching
from tests.broker.requests import batch, fetch, produce
from tests.broker.stage import Stage, Wire
from tests.mutants.directed import finds

ME = "ANONYMOUS"


def told_s(wire: Wire, size: int, client_id: str = "test") -> float:
    """Write so many bytes; the seconds that the answer tells."""
    wire.client_id = client_id
    return wire.ask(PRODUCE, produce("t", batch(bytes(size)), acks=1)).throttle_time_ms / 1000


def waited_s(wire: Wire) -> float:
    began = wire.world.now
    wire.ask(METADATA, METADATA.request(topics=[]))
    return wire.world.now - began


def with_quota(stage: Stage, client_id: str | None = "test", **quota: float) -> None:
    stage.create("t")
    assert alter(stage.wire(), {CLIENT_ID: client_id}, **quota) == 0


@finds
def throttle_is_told_and_not_enforced() -> None:
    with Stage() as stage:
        with_quota(stage, producer_byte_rate=1000.0)
        wire = stage.wire()
        told = told_s(wire, 20_000)
        assert 9 < told < 11
        assert waited_s(wire) > told - 0.1, "a client that was told to wait does not have to"


@finds
def default_quota_is_shared() -> None:
    with Stage() as stage:
        with_quota(stage, None, producer_byte_rate=1000.0)
        assert told_s(stage.wire(), 20_000, "busy") > 9
        assert told_s(stage.wire(), 1_000, "other") == 0, "a client waits for what another has used"


@finds
def fetch_beyond_its_quota_sends_records() -> None:
    with Stage() as stage:
        with_quota(stage, consumer_byte_rate=1000.0)
        for _ in range(3):
            stage.wire().ask(PRODUCE, produce("t", batch(bytes(4_000))))
        wire = stage.wire()
        answers = [wire.ask(FETCH, fetch("t", 0), 12) for _ in range(2)]
        assert answers[0].responses
        assert answers[1].throttle_time_ms > 0
        assert not answers[1].responses, "records were sent beyond the quota"


@finds
def what_was_not_sent_is_counted() -> None:
    with Stage() as stage:
        with_quota(stage, consumer_byte_rate=10_000.0)
        for _ in range(3):
            stage.wire().ask(PRODUCE, produce("t", batch(bytes(40_000))))
        reader = fetching(stage, "test", 90_000)
        began = stage.world.now
        stage.world.run(began + 200.0)
        assert reader.per_s(began + 40, stage.world.now) > 5_000, (
            "a reader gets a small part of its quota"
        )


@finds
def short_way_knows_no_quota() -> None:
    with Stage() as stage:
        stage.create("t")
        wire = stage.wire()
        for _ in range(3):
            told_s(wire, 10)
        assert alter(stage.wire(), {CLIENT_ID: "test"}, producer_byte_rate=1000.0) == 0
        assert told_s(wire, 20_000) > 9, "requests that look alike are not counted"


@finds
def change_of_a_quota_counts_for_new_connections_alone() -> None:
    with Stage() as stage:
        with_quota(stage, producer_byte_rate=1e9)
        wire = stage.wire()
        assert told_s(wire, 10) == 0
        assert alter(stage.wire(), {CLIENT_ID: "test"}, producer_byte_rate=1000.0) == 0
        assert told_s(wire, 20_000) > 9, "an old connection goes on with its old quota"


@finds
def overdraft_is_forgiven() -> None:
    with Stage() as stage:
        assert alter(stage.wire(), {USER: ME}, controller_mutation_rate=1.0) == 0
        row = CREATE_TOPICS.request.topics
        errors = []
        for name, count in (("a", 60), ("b", 1)):
            wanted = CREATE_TOPICS.request(
                topics=[row(name=name, num_partitions=count, replication_factor=1)], timeout_ms=3000
            )
            errors += [topic.error_code for topic in stage.wire().ask(CREATE_TOPICS, wanted).topics]
        assert errors == [0, Code.THROTTLING_QUOTA_EXCEEDED], (
            "partitions beyond the quota cost nothing"
        )


@finds
def silence_is_not_forgotten() -> None:
    with Stage() as stage:
        with_quota(stage, producer_byte_rate=1000.0)
        wire = stage.wire()
        for _ in range(3):
            assert told_s(wire, 9_000) == 0, "a client waits for what it used long ago"
            stage.world.run(stage.world.now + 15.0)
