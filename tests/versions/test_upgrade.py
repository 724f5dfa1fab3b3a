"""An upgrade of features: which nodes stop it, which records are written before and after it, and
who cannot register any more.
"""

import msgpack
import pytest

from raftka.broker.controller.peer import features_of
from raftka.metadata.records import (
    KINDS,
    LevelTooLow,
    PartitionChanged,
    decode_batch,
    encode_batch,
)
from raftka.versions import (
    ELR_LEVEL,
    ELR_VERSION,
    FORMED_WITH,
    RAFTKA_VERSION,
    SUPPORTED,
    own_features,
)
from raftka.wire.errors import ProtocolError
from tests.kit.versions.later_release import LEVEL, RemarkSet, play_later_release
from tests.scenario import Words
from tests.scripts.controller.stage import ControllerStage

NEWER = f"supports=raftka.version:1-{LEVEL}"
OLDER = f"supports=raftka.version:1-{LEVEL - 1}"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> ControllerStage:
    """The controller is of a later release, which knows the next level."""
    monkeypatch.setitem(SUPPORTED, RAFTKA_VERSION, (1, LEVEL))
    return ControllerStage()


def play(stage: ControllerStage, line: str) -> list[str]:
    verb, _, words = line.partition(" ")
    return list(stage.do(verb, Words(words)))


def upgrade(stage: ControllerStage, more: str = "") -> str:
    return play(stage, f"features raftka.version={LEVEL} {more}".rstrip())[0]


def test_an_upgrade_is_made_when_all_nodes_support_it(stage: ControllerStage) -> None:
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")
    play(stage, f"register broker=2 {NEWER}")

    assert f"FeatureLevelSet name=raftka.version level={LEVEL}" in upgrade(stage)
    assert stage.image.level == LEVEL


def test_an_upgrade_that_is_validated_only_changes_nothing(stage: ControllerStage) -> None:
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")

    assert upgrade(stage, "validate-only") == "reply done"
    assert stage.image.level == LEVEL - 1


def test_each_broker_that_does_not_support_the_level_is_named(stage: ControllerStage) -> None:
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")
    for broker in (2, 3):
        play(stage, f"register broker={broker} {OLDER}")

    refused = upgrade(stage)

    assert refused.startswith("error INVALID_UPDATE_VERSION")
    assert refused.endswith(
        f"Invalid update version {LEVEL} for feature raftka.version. Broker 2 only supports "
        f"versions 1-{LEVEL - 1}; Broker 3 only supports versions 1-{LEVEL - 1}"
    )
    assert stage.image.level == LEVEL - 1


def test_a_broker_that_is_away_stops_an_upgrade_until_it_is_unregistered(
    stage: ControllerStage,
) -> None:
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")
    play(stage, f"register broker=2 {OLDER}")
    play(stage, "at 60")  # its session has ended

    assert f"Broker 2 only supports versions 1-{LEVEL - 1}" in upgrade(stage)
    play(stage, "unregister broker=2")
    assert f"level={LEVEL}" in upgrade(stage)


def test_a_controller_stops_an_upgrade_until_it_has_said_that_it_supports_it(
    stage: ControllerStage,
) -> None:
    play(stage, "settings controller.quorum.voters=1@host:9093,2@other:9093")
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")

    assert "controller 2 has not registered, and may not support this feature" in upgrade(stage)
    play(stage, f"greet voter=2 {OLDER}")
    assert f"Controller 2 only supports versions 1-{LEVEL - 1}" in upgrade(stage)
    play(stage, f"greet voter=2 {NEWER}")
    assert f"level={LEVEL}" in upgrade(stage)


@pytest.mark.parametrize("kind", [2, 3])
def test_the_level_never_goes_down(stage: ControllerStage, kind: int) -> None:
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")
    upgrade(stage)

    (refused,) = play(stage, f"features raftka.version={LEVEL - 1} type={kind}")

    assert f"Unsupported raftka.version downgrade from {LEVEL} to {LEVEL - 1}" in refused
    assert stage.image.level == LEVEL


def test_a_broker_whose_release_is_too_old_cannot_register(stage: ControllerStage) -> None:
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")
    upgrade(stage)

    (refused,) = play(stage, f"register broker=2 {OLDER}")

    assert refused == (
        f"error UNSUPPORTED_VERSION this cluster has raftka.version {LEVEL}, and the release of "
        f"broker 2 supports 1 to {LEVEL - 1}: start it with a release that the other nodes run"
    )
    assert 2 not in stage.image.brokers


def test_records_have_the_version_of_the_clusters_level(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(KINDS)
    play_later_release(monkeypatch)
    changed = PartitionChanged(b"t" * 16, 0, 1, 1, (1,), 1, (1,), (), ())

    _, (row,) = msgpack.unpackb(encode_batch([changed], 7, LEVEL - 1), use_list=False)

    assert row == (21, known[21][1], tuple(changed))
    assert decode_batch(encode_batch([changed], 7, LEVEL)) == (7, [changed])


def test_what_an_older_version_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    play_later_release(monkeypatch)
    eligible = PartitionChanged(b"t" * 16, 0, 1, 1, (1,), 1, None, None, None, None, (2,))

    for record, level in ((eligible, ELR_LEVEL), (RemarkSet("new"), LEVEL)):
        told = f"needs raftka.version {level}, and the cluster has {level - 1}"
        with pytest.raises(LevelTooLow, match=told):
            encode_batch([record], 7, level - 1)  # type: ignore[list-item]
        encode_batch([record], 7, level)  # type: ignore[list-item]


def test_fields_that_an_older_version_lacks_are_left_out() -> None:
    changed = PartitionChanged(b"t" * 16, 0, 1, 1, (1,), 1, (1,), (), ())

    _, (row,) = msgpack.unpackb(encode_batch([changed], 7, ELR_LEVEL - 1), use_list=False)

    assert row == (21, 2, tuple(changed)[:10])


def test_features_of_a_greeting_are_read() -> None:
    assert features_of([list(each) for each in own_features()]) == own_features()
    assert features_of(None) == ()
    with pytest.raises(ProtocolError):
        features_of([["raftka.version", 1]])


def test_eligible_replicas_need_the_level_whose_records_have_them(
    stage: ControllerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMED_WITH, RAFTKA_VERSION, ELR_LEVEL - 1)
    monkeypatch.setitem(FORMED_WITH, ELR_VERSION, 0)
    play(stage, "at 0")
    play(stage, f"register broker=1 {NEWER}")

    (refused,) = play(stage, f"features {ELR_VERSION}=1")

    assert refused.endswith(
        f"It needs raftka.version {ELR_LEVEL}, and the cluster has {ELR_LEVEL - 1}: `raftka "
        "features upgrade` raises both."
    )
    assert not stage.image.brokers[1].flushes, "no record of that level says it"
    assert play(stage, f"features {ELR_VERSION}=1 raftka.version={ELR_LEVEL}") == [
        f"record 3 FeatureLevelSet name={ELR_VERSION} level=1",
        "record 3 ConfigSet broker: min.insync.replicas=1",
        f"record 3 FeatureLevelSet name=raftka.version level={ELR_LEVEL}",
        "reply done",
    ]


def test_before_their_level_partitions_keep_their_last_replicas_in_the_isr(
    stage: ControllerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all records and snapshots are as the first level has them."""
    monkeypatch.setitem(FORMED_WITH, RAFTKA_VERSION, ELR_LEVEL - 1)
    monkeypatch.setitem(FORMED_WITH, ELR_VERSION, 0)
    play(stage, "brokers 1 2")
    play(stage, "create t assign=0:1,2")
    play(stage, "lost broker=1")

    changed = play(stage, "lost broker=2")

    assert "PartitionChanged t-0 leader=-1 epoch=2 isr=2 partition-epoch=2" in changed[1]
    encode_batch([PartitionChanged(b"t" * 16, 0, -1, 2, (2,), 2)], 9, stage.image.level)
