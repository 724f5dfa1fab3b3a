"""A broker with a ceiling answers as a broker of that release: what it announces, what it refuses,
and that raftka's own nodes and tools see everything.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from raftka.broker.handlers.api_versions import TELEMETRY
from raftka.broker.network.dispatch import HANDLERS, OWN_HANDLERS
from raftka.client.connection import SOFTWARE_VERSION
from raftka.wire.api_ceilings import RELEASES, Ceiling
from raftka.wire.errors import Code
from raftka.wire.frame import encode_request
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.rows import NO_VERSION
from raftka.wire.software import SOFTWARE_NAME
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.sasl import SECURE
from tests.broker.stage import Stage, decoded

CLIENT = API_VERSIONS.request(client_software_name="test", client_software_version="1")
OURS = API_VERSIONS.request(
    client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
)
NO_TOPICS = METADATA.request(topics=[])


def ranges(answer: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


def levels(rows: Iterable[Any]) -> dict[str, int]:
    return {row.name: getattr(row, "max_version", -1) for row in rows}


# the table


@pytest.mark.parametrize("release", RELEASES)
def test_a_ceiling_only_takes_away(release: str) -> None:
    ceiling = Ceiling(release)

    for key, entry in HANDLERS.items():
        shown = ceiling.announced(entry.api)
        assert shown == NO_VERSION or (
            entry.api.announced.low <= shown.low <= shown.high <= entry.api.announced.high
        ), key


def test_versions_and_features_grow_with_the_releases() -> None:
    ceilings = [Ceiling(release) for release in RELEASES]

    for older, newer in pairwise(ceilings):
        for key, versions in older.versions.items():
            # UnregisterBroker was no API of brokers from 3.0 to 3.2
            assert key == 64 or versions.high <= newer.versions[key].high, key
        for name, level in older.features.items():
            assert level <= newer.features[name]


def test_logins_are_the_same_at_every_ceiling() -> None:
    """The gate of SASL knows no ceiling for its own two APIs."""
    for release in RELEASES:
        for api in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            assert Ceiling(release).announced(api) == api.versions


# what is announced


@pytest.mark.parametrize("release", ["2.8", "3.6", "3.9", "4.0", "4.3"])
def test_no_version_above_the_release_is_announced(release: str) -> None:
    with Stage(raftka_api_ceiling=release) as stage:
        version = Ceiling(release).versions[API_VERSIONS.key].high
        found = ranges(stage.wire().ask(API_VERSIONS, CLIENT, version))

    known = Ceiling(release).versions
    assert found.keys() == (HANDLERS.keys() & known.keys()) - set(TELEMETRY)
    for key, (low, high) in found.items():
        assert known[key].low <= low <= high <= known[key].high, key


def test_what_came_later_is_not_there() -> None:
    """Topic ids in Fetch came in 3.1, consumer groups (KIP-848) in 3.7."""
    shown = {}
    for release in ("3.0", "3.1", "3.6", "3.7", "4.0"):
        with Stage(raftka_api_ceiling=release) as stage:
            shown[release] = ranges(stage.wire().ask(API_VERSIONS, CLIENT, 3))

    assert [shown[each][FETCH.key] for each in ("3.0", "3.1", "4.0")] == [(4, 12), (4, 13), (4, 17)]
    assert 68 not in shown["3.6"]
    assert (shown["3.7"][68], shown["4.0"][68]) == ((0, 0), (0, 1))


OF_4_0 = {
    "metadata.version": 25,
    "group.version": 1,
    "transaction.version": 2,
    "eligible.leader.replicas.version": 1,
}


@pytest.mark.parametrize(
    ("release", "supported", "finalized"),
    [
        ("3.2", {}, {}),
        ("3.9", {"metadata.version": 21, "kraft.version": 1}, {"metadata.version": 21}),
        (
            "4.0",
            {**OF_4_0, "kraft.version": 1},
            OF_4_0,
        ),
    ],
)
def test_features_are_those_of_the_release(
    release: str, supported: dict[str, int], finalized: dict[str, int]
) -> None:
    with Stage(raftka_api_ceiling=release) as stage:
        version = Ceiling(release).versions[API_VERSIONS.key].high
        answer = stage.wire().ask(API_VERSIONS, CLIENT, version)

    assert levels(answer.supported_features) == supported
    assert {row.name: row.max_version_level for row in answer.finalized_features} == finalized


# what is refused


def test_an_api_versions_above_the_release_is_answered_in_version_0() -> None:
    with Stage(raftka_api_ceiling="3.8") as stage:
        wire = stage.wire()
        wire.request(API_VERSIONS, CLIENT, 4)
        frame = wire.frame()
        assert frame is not None
        refusal = decoded(API_VERSIONS, 0, frame)
        again = wire.ask(API_VERSIONS, CLIENT, 3)

    assert (refusal.error_code, ranges(refusal)) == (Code.UNSUPPORTED_VERSION, {18: (0, 3)})
    assert again.error_code == Code.NONE


def test_a_login_begins_with_the_version_of_the_release() -> None:
    """The refused ApiVersions does not count as the one that is allowed before a login."""
    with Stage(raftka_api_ceiling="3.8", **SECURE) as stage:
        wire = stage.wire()
        wire.request(API_VERSIONS, CLIENT, 4)
        wire.frame()
        versions = wire.ask(API_VERSIONS, CLIENT, 3)
        handshake = wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism="PLAIN"))

    assert (versions.error_code, handshake.error_code) == (Code.NONE, Code.NONE)


@pytest.mark.parametrize(
    ("release", "version", "answered"), [("3.0", 12, False), ("3.1", 12, True)]
)
def test_a_request_above_the_release_ends_the_connection(
    release: str, version: int, answered: bool
) -> None:
    with Stage(raftka_api_ceiling=release) as stage:
        wire = stage.wire()
        wire.send(encode_request(METADATA, version, 1, "test", NO_TOPICS))
        assert (wire.frame() is not None) is answered
        assert (wire.close_reason is None) is answered


def test_records_are_read_at_the_lowest_ceiling() -> None:
    with Stage(raftka_api_ceiling="2.8") as stage:
        stage.create("t")
        wire = stage.wire()
        assert produced(wire.ask(PRODUCE, produce("t", batch(b"a")), 9)).error_code == Code.NONE
        assert fetched(wire.ask(FETCH, fetch("t"), 12)).records


# raftka's own


def test_raftkas_own_tools_see_everything() -> None:
    with Stage(raftka_api_ceiling="2.8") as stage:
        wire = stage.wire()
        found = wire.ask(API_VERSIONS, OURS, 3)
        wire.ask(METADATA, NO_TOPICS, METADATA.max_version)

    assert ranges(found) == {
        key: tuple(each.api.announced)
        for key, each in (HANDLERS | OWN_HANDLERS).items()
        if key not in TELEMETRY
    }
    assert "raftka.version" in levels(found.supported_features)


def test_replicas_follow_below_every_ceiling() -> None:
    """acks=all is answered when followers have fetched, in a version that the ceiling lacks."""
    with Stage(nodes=3, raftka_api_ceiling="2.8") as stage:
        stage.create("t")
        wire = stage.wire(stage.leader("t"))
        assert produced(wire.ask(PRODUCE, produce("t", batch(b"a")), 9)).error_code == Code.NONE
        assert fetched(wire.ask(FETCH, fetch("t"), 12)).high_watermark == 1
