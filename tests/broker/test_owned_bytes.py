"""On a busy node a request goes on in a later turn, when the bytes it was received in have been
overwritten: it owns its own.

The simulated network overwrites what it has handed out when the turn ends, as the arena of a real
one is filled again. A busy node is one whose CPU clock runs fast, so that long work is interrupted
after a few steps.
"""

from typing import Any

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.runtime.simulated import clock
from raftka.wire.schema import AnyApi
from tests.broker.request_costs import Maker, arrays, opened
from tests.broker.stage import Stage
from tests.kit.broker.sliced_requests import BUSY_S, PARTITIONS, busy, sent
from tests.kit.broker.transactions import Client

ITEMS = 40
CLOCKED = {"DescribeProducers"}  # tells when a producer has written last


@pytest.mark.parametrize("seed", range(3))
def test_a_transaction_begins_in_every_partition_of_a_request(seed: int) -> None:
    with Stage(seed=seed) as stage, busy():
        stage.create("t", PARTITIONS)
        client = Client(stage)
        client.init()

        for sequence in range(2):
            assert sent(client, sequence) == [(at, 0) for at in range(PARTITIONS)]

        assert client.end() == 0
        for at in range(PARTITIONS):
            producers = stage.partition("t", at).log.producers
            assert producers.producers[client.pair[0]].next_sequence in (0, 2)
            assert not producers.guards


def cases() -> list[Any]:
    return [
        pytest.param(api, path, id=f"{api.name}-{'.'.join(path)}")
        for api in sorted(
            (registration.api for registration in HANDLERS.values()), key=lambda api: api.key
        )
        for path in arrays(api.request.struct, api.announced.high)
        if api.name not in CLOCKED
    ]


def answers_of(reading_s: float) -> dict[tuple[str, tuple[str, ...]], bytes | None]:
    """The answers of a node to the requests of all cases."""
    answers = {}
    with opened() as stage, busy(reading_s):
        for case in cases():
            api, path = case.values
            wire = stage.wire()
            wire.request(api, Maker(stage, api, path, "known", ITEMS).request(), api.announced.high)
            answers[api.name, path] = wire.frame()
    return answers


@pytest.fixture(scope="module")
def answers() -> tuple[dict[Any, bytes | None], dict[Any, bytes | None]]:
    return answers_of(clock.READING_S), answers_of(BUSY_S)


@pytest.mark.parametrize(("api", "path"), cases())
def test_a_request_has_the_same_answer_on_a_busy_node(
    answers: tuple[dict[Any, bytes | None], dict[Any, bytes | None]], api: AnyApi, path: Any
) -> None:
    idle, busy = answers

    assert busy[api.name, path] == idle[api.name, path]
