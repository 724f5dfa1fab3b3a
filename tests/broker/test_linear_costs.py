"""No request costs more than linearly in its bytes: for each array of each announced API, n and 2n
items cost about twice as many Python calls.

The requests are made from the messages' own notation, so an API that is new is measured too. Calls
are counted, not seconds: the count does not depend on the machine.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from raftka.broker.network.dispatch import HANDLERS
from raftka.wire.messages.topics import DELETE_TOPICS
from raftka.wire.schema import AnyApi, Api, Req, Resp
from tests.broker.request_costs import ITEMS, Maker, Nobody, arrays, create, open_session, opened
from tests.broker.stage import Stage

RATIO = 2.25
NOISE = 6_000  # calls of timers and heartbeats, while the answer is on its way
NOT_EACH = {  # arrays over which C code goes, not Python's, or which this request does not need
    "acknowledge_types",
    "broker_ids",
    "replicas",
    "assignments",
    "components",  # of a filter: three at most are right
    "configs",
    "configuration_keys",
    "forgotten_topics_data",
    "producer_id_filters",
    "owners",  # with these a client must have logged in
    "renewers",
    "client_tags",
    "copartition_groups",
    "source_topic_regex",  # refused
    "task_offsets",
    "task_end_offsets",
    "topology_description",  # taken with a setting alone
}
# their numbers are taken over in one go
PACKED = {
    "ListPartitionReassignments",
    "ConsumerGroupHeartbeat",
    "DescribeShareGroupOffsets",
    "StreamsGroupHeartbeat",
}
KINDS = ("known", "unknown", "repeated", "refused")


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    with opened() as stage:
        yield stage
        assert not stage.world.failures


def cases() -> list[Any]:
    return [
        pytest.param(api, path, kind, id=f"{api.name}-{'.'.join(path)}-{kind}")
        for api in sorted(
            (registration.api for registration in HANDLERS.values()), key=lambda api: api.key
        )
        for path in arrays(api.request.struct, api.announced.high)
        for kind in KINDS
    ]


def calls(stage: Stage, api: Api[Req, Resp], row: Req) -> int:
    """Return how many Python functions the node calls until it has answered, or closed the
    connection.
    """
    open_session(stage, api)
    wire = stage.wire()
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    wire.request(api, row, api.announced.high)
    sys.setprofile(count)
    try:
        wire.frame()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize(("api", "path", "kind"), cases())
def test_twice_the_items_are_twice_the_calls(
    shared: Stage, api: AnyApi, path: tuple[str, ...], kind: str
) -> None:
    node = shared.nodes[1]
    before = node.dispatcher.authorizer
    try:
        if api is DELETE_TOPICS and kind == "known":
            create(
                shared,
                *[f"gone{count}.{at}" for count in (1, ITEMS, 2 * ITEMS) for at in range(count)],
            )
            shared.world.run(shared.world.now + 5)  # the logs are open
        if kind == "refused":
            node.dispatcher.authorizer = Nobody()
        # from now on the message's code is compiled
        calls(shared, api, Maker(shared, api, path, kind, 1).request())
        some = calls(shared, api, Maker(shared, api, path, kind, ITEMS).request())
        more = calls(shared, api, Maker(shared, api, path, kind, 2 * ITEMS).request())
        # timers may have been due while the first answer was on its way
        if more - some < ITEMS // 2:
            some = min(some, calls(shared, api, Maker(shared, api, path, kind, ITEMS).request()))
    finally:
        node.dispatcher.authorizer = before
    assert more <= RATIO * some + NOISE, f"{some} calls for {ITEMS} items, {more} for {2 * ITEMS}"
    if (
        kind == "known"
        and NOT_EACH.isdisjoint(path)
        and not (api.name in PACKED and "partition" in path[-1])
    ):
        assert more - some >= ITEMS // 2, "the request was answered without a look at its items"
