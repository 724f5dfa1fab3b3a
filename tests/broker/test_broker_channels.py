"""Requests from one broker to another: answers, brokers that are gone, slow ones, and those that
come back elsewhere.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.network.dispatch import Postponed
from raftka.broker.network.request import Request
from raftka.wire.messages.api_versions import API_VERSIONS
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER, DescribeClusterResponse
from raftka.wire.schema import Row
from tests.broker.stage import Stage

Heard = list[tuple[int | None, str | None]]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(3) as stage:
        yield stage


def channels_of(stage: Stage, timeout_s: float = 30.0) -> BrokerChannels:
    return BrokerChannels(stage.nodes[1].context, "questions", timeout_s=timeout_s)


def ask(stage: Stage, channels: BrokerChannels, broker_id: int, heard: Heard) -> None:
    def on_reply(answer: DescribeClusterResponse | None, error: str | None) -> None:
        heard.append((None if answer is None else answer.error_code, error))

    before = len(heard)
    stage.nodes[1].runtime.take(  # type: ignore[attr-defined]
        lambda _: channels.ask(broker_id, DESCRIBE_CLUSTER, DESCRIBE_CLUSTER.request(), on_reply),
        None,
    )
    assert len(heard) == before  # never from inside


def silent(request: Request[Row]) -> Row | None:
    raise Postponed(1000.0)


def test_answers_come_over_one_connection(stage: Stage) -> None:
    channels, heard = channels_of(stage), list[tuple[int | None, str | None]]()
    known = set(stage.nodes[2].dispatcher.connections)

    for _ in range(3):
        ask(stage, channels, 2, heard)
        stage.wait(lambda: bool(heard))

    stage.wait(lambda: len(heard) == 3)
    assert heard == [(0, None)] * 3
    assert len(set(stage.nodes[2].dispatcher.connections) - known) == 1


def test_brokers_name_the_broker_that_they_mean(stage: Stage) -> None:
    meant = set[tuple[str | None, int]]()

    def see(request: Request[Row]) -> None:
        meant.add((request.body.cluster_id, request.body.node_id))  # type: ignore[attr-defined]

    stage.nodes[2].dispatcher.interceptors = {API_VERSIONS.key: see}
    channels, heard = channels_of(stage), list[tuple[int | None, str | None]]()
    ask(stage, channels, 2, heard)
    stage.wait(lambda: bool(heard))
    stage.create("t", 3, 3)
    stage.wait(lambda: len(stage.nodes[2].dispatcher.connections) > 1)

    assert meant == {(stage.nodes[1].image.cluster_id, 2)}


def test_a_broker_that_is_not_known_is_said_to_be_so(stage: Stage) -> None:
    channels, heard = channels_of(stage), list[tuple[int | None, str | None]]()

    ask(stage, channels, 9, heard)

    stage.wait(lambda: bool(heard))
    assert heard == [(None, "broker 9 is not known here")]


def test_a_dead_broker_is_not_called_again_at_once_and_is_when_it_is_back(stage: Stage) -> None:
    channels, heard = channels_of(stage), list[tuple[int | None, str | None]]()
    stage.kill(3)
    ask(stage, channels, 3, heard)
    stage.wait(lambda: bool(heard))

    ask(stage, channels, 3, heard)
    stage.wait(lambda: len(heard) == 2)

    assert heard[0][0] is heard[1][0] is None
    assert heard[1][1] == "broker 3 could not be reached a moment ago"
    stage.start(3)
    stage.wait(stage.nodes[3].ready.is_set)
    stage.wait(lambda: stage.nodes[1].image.alive(3))
    channels.on_image(stage.nodes[1].image)
    ask(stage, channels, 3, heard)
    stage.wait(lambda: len(heard) == 3)
    assert heard[2] == (0, None)


def test_without_an_answer_in_time_the_connection_is_given_up(stage: Stage) -> None:
    channels, heard = channels_of(stage, timeout_s=2.0), list[tuple[int | None, str | None]]()
    stage.nodes[2].dispatcher.interceptors[DESCRIBE_CLUSTER.key] = silent
    began = stage.world.now
    ask(stage, channels, 2, heard)
    ask(stage, channels, 2, heard)

    stage.wait(lambda: len(heard) == 2)

    assert heard == [(None, "no answer from broker 2 within 2 s")] * 2
    assert 2.0 <= stage.world.now - began < 2.5
    del stage.nodes[2].dispatcher.interceptors[DESCRIBE_CLUSTER.key]
    stage.world.run(stage.world.now + 1.0)
    ask(stage, channels, 2, heard)
    stage.wait(lambda: len(heard) == 3)
    assert heard[2] == (0, None)


def test_connections_to_brokers_that_have_left_are_closed(stage: Stage) -> None:
    channels, heard = channels_of(stage), list[tuple[int | None, str | None]]()
    stage.nodes[2].dispatcher.interceptors[DESCRIBE_CLUSTER.key] = silent
    ask(stage, channels, 2, heard)
    stage.world.run(stage.world.now + 0.1)
    image = stage.nodes[1].image
    stage.nodes[1].metadata.image = image.__class__()

    channels.on_image(stage.nodes[1].image)

    stage.wait(lambda: bool(heard))
    assert heard == [(None, "the broker has left the cluster, or has another address")]
    stage.nodes[1].metadata.image = image


def test_what_the_other_side_does_not_know_is_not_sent(stage: Stage) -> None:
    channels, heard = channels_of(stage), list[tuple[int | None, str | None]]()
    ask(stage, channels, 2, heard)
    stage.wait(lambda: bool(heard))
    channels._channels[2]._connection.versions.pop(DESCRIBE_CLUSTER.key)  # type: ignore[union-attr]

    ask(stage, channels, 2, heard)

    stage.wait(lambda: len(heard) == 2)
    assert heard[1] == (None, "the broker and we have no version of DescribeCluster in common")
