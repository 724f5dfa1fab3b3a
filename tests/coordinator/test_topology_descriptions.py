"""Descriptions of the topologies of streams groups, as a coordinator keeps them."""

from itertools import pairwise
from random import Random

import pytest

from raftka.coordinator.streams.descriptions import PAUSE_S, SPREAD, Descriptions
from raftka.limits import TOPOLOGY_DESCRIPTION_BYTES
from raftka.wire.errors import Code, KafkaError

FIRST_S, LONGEST_S = PAUSE_S


def test_members_are_asked_more_and_more_rarely() -> None:
    descriptions, random = Descriptions(), Random(1)
    asked = [now for now in range(20_000) if descriptions.ask("g", 0, now, random)]

    pauses = [after - before for before, after in pairwise(asked)]
    wanted = [min(FIRST_S * 2**at, LONGEST_S) for at in range(len(pauses))]
    assert asked[0] == 0
    assert wanted[-1] == LONGEST_S
    for pause, planned in zip(pauses, wanted, strict=True):
        assert planned * (1 - SPREAD) <= pause <= planned * (1 + SPREAD) + 1


def test_a_member_is_asked_for_another_topology() -> None:
    descriptions, random = Descriptions(), Random(1)
    descriptions.keep("g", 0, "first", 10)

    assert not descriptions.ask("g", 0, 0.0, random)
    assert descriptions.ask("g", 1, 0.0, random)
    assert (descriptions.find("g", 0), descriptions.find("g", 1)) == ("first", None)


def test_topology_description_bytes() -> None:
    descriptions, limit = Descriptions(), TOPOLOGY_DESCRIPTION_BYTES.value
    descriptions.keep("g", 0, "first", limit - 10)
    descriptions.keep("g", 0, "second", limit - 5)  # in place of the first
    with pytest.raises(KafkaError) as refused:
        descriptions.keep("h", 0, "third", 6)
    assert refused.value.code is Code.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
    assert descriptions.find("g", 0) == "second"

    descriptions.forget("g")
    descriptions.keep("h", 0, "third", limit)
    assert descriptions.find("g", 0) is None
