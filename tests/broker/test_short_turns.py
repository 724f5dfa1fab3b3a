"""No request keeps the loop: of each announced API, 5,000 entries of each shape. CPU time is
counted in calls (turns.py).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.broker.fetch.fetch import FetchAnswer
from raftka.broker.network.dispatch import HANDLERS, LONG_FRAME_BYTES
from raftka.wire.frame import encode_request
from raftka.wire.messages.fetch import FETCH
from raftka.wire.schema import AnyApi
from tests.broker import request_costs
from tests.broker.request_costs import Maker, Nobody, arrays, opened
from tests.broker.stage import Stage
from tests.broker.turns import TURN_CALLS, Calls, counting, most_calls

ENTRIES = 5_000
SMALL_ENTRIES = 20_000  # of a byte or two
KNOWN = 300  # topics, and partitions of one
KINDS = ("known", "unknown", "repeated", "refused")


@pytest.fixture(scope="module")
def calls() -> Iterator[Calls]:
    with counting() as calls:
        yield calls


class Shaped(Maker):
    """Of existing things there are KNOWN, so they come again and again."""

    def one(self, field: Any, path: tuple[str, ...], index: int) -> Any:
        return super().one(field, path, index % KNOWN if self.kind == "known" else index)


def shapes() -> list[Any]:
    return [
        pytest.param(api, path, id=f"{api.name}-{'.'.join(path)}")
        for api in sorted(
            (registration.api for registration in HANDLERS.values()), key=lambda api: api.key
        )
        for path in arrays(api.request.struct, api.announced.high)
    ]


@pytest.fixture(scope="module")
def shared(calls: Calls) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_costs, "ITEMS", KNOWN // 2)
        with opened() as stage:
            yield stage
            assert not stage.world.failures


@pytest.mark.parametrize(("api", "path"), shapes())
def test_no_request_of_many_entries_keeps_the_loop(
    calls: Calls, shared: Stage, api: AnyApi, path: tuple[str, ...]
) -> None:
    node = shared.nodes[1]
    longest: dict[str, int] = {}
    before = node.dispatcher.authorizer
    for kind in KINDS:
        try:
            node.dispatcher.authorizer = Nobody() if kind == "refused" else before
            # from now on the message's code is compiled
            most_calls(calls, shared, api, Shaped(shared, api, path, kind, 1).request())
            row = Shaped(shared, api, path, kind, ENTRIES).request()
            if len(encode_request(api, api.announced.high, 1, None, row)) <= LONG_FRAME_BYTES:
                row = Shaped(shared, api, path, kind, SMALL_ENTRIES).request()
            assert len(encode_request(api, api.announced.high, 1, None, row)) > LONG_FRAME_BYTES
            most_calls(calls, shared, api, row)
            longest[kind] = calls.most
            assert calls.total > ENTRIES // 100, "nothing was counted"
        finally:
            node.dispatcher.authorizer = before
    assert max(longest.values()) <= TURN_CALLS, longest


def test_an_answer_that_is_encoded_in_one_piece_is_found(
    calls: Calls, shared: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FetchAnswer, "finish_topics", lambda *_: iter(()))

    most_calls(
        calls, shared, FETCH, Shaped(shared, FETCH, ("topics",), "unknown", ENTRIES).request()
    )

    assert calls.most > TURN_CALLS
