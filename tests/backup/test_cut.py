"""The order of a cut, against brokers that are played: commits held first, coordinators before
records, schemas last; a hold that was lost, a leader that moved, a topic that was deleted.
"""

from collections.abc import Callable
from typing import Any

import pytest

from raftka.backup import cut as module
from raftka.backup.cut import Cutter, Interrupted
from raftka.backup.errors import BackupError
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import Unsupported
from raftka.metadata.image import BrokerImage, MetadataImage
from raftka.metadata.records import TopicCreated, TopicDeleted
from raftka.wire.errors import Code
from raftka.wire.messages.backup import (
    BACKUP_CUT,
    BACKUP_DROP,
    BACKUP_HOLD,
    BACKUP_METADATA,
)

NAMES = ("_schemas", "__transaction_state", "orders", "__consumer_offsets")


def cluster(epoch: int = 5, leader: int = 1) -> MetadataImage:
    records = [
        TopicCreated(name, bytes(15) + bytes([at]), (((1, 2), (1, 2), leader),))
        for at, name in enumerate(NAMES)
    ]
    image, _ = MetadataImage().apply(1, list(records))
    brokers = {
        each: BrokerImage(each, epoch, bytes(16), bytes(16), (), None, False, False)
        for each in (1, 2)
    }
    return MetadataImage(offset=1, topics=image.topics, topic_ids=image.topic_ids, brokers=brokers)


class Played(Client):
    """Answers as two brokers, and notes what they were asked."""

    def __init__(self) -> None:
        super().__init__([("host", 1)])
        self.asked: list[str] = []
        self.image = cluster()
        self.held = {1: False, 2: False}
        self.pending = [0]
        self.codes: dict[str, list[int]] = {}  # of a topic: of its next cuts
        self.least: list[int] = []  # as the last cuts of orders were asked
        self.on: dict[str, Callable[[], None]] = {}  # called before the answer
        self.old: set[int] = set()  # of a release without backups

    def refresh(self, names: Any, **_: Any) -> Any:
        self.brokers = {1: ("host", 1), 2: ("host", 2)}

    def ask(self, api: Any, row: Any, version: Any = None, *, passing: Any = None) -> Any:
        assert api is BACKUP_METADATA
        self.note("metadata")
        return api.response(error_message=None, image=self.image.to_snapshot())

    def ask_at(self, address: Any, api: Any, row: Any, *_: Any) -> Any:
        return self.ask_broker(address[1], api, row)

    def ask_broker(
        self, node_id: int, api: Any, row: Any, version: Any = None, *, passing: Any = None
    ) -> Any:
        if node_id in self.old:
            raise Unsupported(api.name)
        if api is BACKUP_DROP:
            self.note(f"drop {node_id}")
            return api.response(error_message=None)
        if api is BACKUP_HOLD:
            return self.answer_hold(node_id, row.hold_ms)
        assert api is BACKUP_CUT
        topics = []
        for topic in row.topics:
            self.note(f"cut {topic.name}")
            code = self.codes.get(topic.name, [0]).pop(0) if self.codes.get(topic.name) else 0
            if topic.name == "orders":
                self.least.append(topic.partitions[0].at_least)
            rows = [
                api.response.topics.partitions(
                    index=each.index, error_code=code, at_least=max(each.at_least, 9), end_offset=9
                )
                for each in topic.partitions
            ]
            topics.append(api.response.topics(name=topic.name, partitions=rows))
        return api.response(error_message=None, topics=topics)

    def answer_hold(self, node_id: int, hold_ms: int) -> Any:
        if hold_ms or self.held[node_id]:
            self.note(f"hold {node_id}" if hold_ms else f"release {node_id}")
        held, self.held[node_id] = self.held[node_id], bool(hold_ms)
        pending = self.pending[0] if len(self.pending) == 1 else self.pending.pop(0)
        return BACKUP_HOLD.response(error_message=None, held=held, pending=pending)

    def note(self, what: str) -> None:
        self.asked.append(what)
        if what in self.on:
            self.on.pop(what)()


@pytest.fixture
def played() -> Played:
    return Played()


def test_a_hold_is_renewed_while_partitions_are_cut(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEWED_S", -1.0)
    Cutter(played, "id").cut()
    for at, each in enumerate(played.asked):
        if each.startswith("cut") and not played.asked[at - 1].startswith("cut"):
            assert played.asked[at - 2 : at] == ["hold 1", "hold 2"]

    played.on = {"cut orders": lambda: played.held.update({2: False})}
    cutter = Cutter(played, "id")
    monkeypatch.setattr(module, "TRIES", 1)
    with pytest.raises(Interrupted, match="did not hold commits all the time"):
        cutter.cut()


def test_a_broker_of_an_earlier_release_is_named_and_the_others_are_released(
    played: Played,
) -> None:
    played.old = {1}
    cutter = Cutter(played, "id")
    with pytest.raises(BackupError, match="broker 1 is no raftka, or one of an earlier release"):
        cutter.cut()
    played.old, played.asked = {2}, []
    with pytest.raises(BackupError, match="broker 2 is"):
        cutter.cut()
    cutter.drop()

    assert played.asked == ["metadata", "hold 1", "release 1", "drop 1"]


def test_the_order_of_a_cut(played: Played) -> None:
    found = Cutter(played, "id").cut()

    order = [each for each in played.asked if not each.startswith("release")]
    assert order == [
        "metadata",
        "hold 1",
        "hold 2",
        "cut __transaction_state",
        "cut __consumer_offsets",
        "metadata",
        "cut orders",
        "cut _schemas",
        "metadata",
    ]
    assert played.asked[-2:] == ["release 1", "release 2"]
    assert {each.topic for each in found.partitions} == set(NAMES)
    assert found.begun_ms <= found.cut_ms


def test_commits_that_were_decided_are_awaited(played: Played) -> None:
    played.pending = [0, 2, 0, 1, 0, 0]

    Cutter(played, "id").cut()

    first_cut = played.asked.index("cut __transaction_state")
    assert played.asked[:first_cut].count("hold 2") == 3


def test_a_hold_that_was_lost_makes_the_cut_anew(played: Played) -> None:
    """As of a broker that was started again."""
    played.on["cut orders"] = lambda: played.held.update({2: False})

    Cutter(played, "id").cut()

    assert played.asked.count("cut orders") == 2


def test_a_broker_that_came_back_makes_the_cut_anew(played: Played) -> None:
    played.on["cut orders"] = lambda: setattr(played, "image", cluster(epoch=6))

    Cutter(played, "id").cut()

    assert played.asked.count("cut orders") == 2


def test_a_cluster_that_never_rests_is_not_backed_up(played: Played) -> None:
    def lose() -> None:
        played.held[2] = False
        played.on["cut orders"] = lose

    played.on["cut orders"] = lose
    with pytest.raises(Interrupted, match="did not hold commits all the time"):
        Cutter(played, "id").cut()
    assert not any(played.held.values())


def test_a_cut_comes_to_the_end_that_the_log_had_first(played: Played) -> None:
    played.codes["orders"] = [Code.OFFSET_NOT_AVAILABLE, Code.OFFSET_NOT_AVAILABLE]

    Cutter(played, "id").cut()

    assert played.least == [-1, 9, 9]


def test_a_leader_that_moved_is_asked_for_its_own_end(played: Played) -> None:
    played.codes["orders"] = [Code.OFFSET_NOT_AVAILABLE, Code.NOT_LEADER_OR_FOLLOWER]
    played.on["cut orders"] = lambda: setattr(played, "image", cluster(leader=2))

    Cutter(played, "id").cut()

    assert played.least == [-1, -1, -1]


def test_a_topic_that_is_deleted_meanwhile_is_left_out(played: Played) -> None:
    def delete() -> None:
        gone = played.image.topic_ids["orders"]
        image, _ = played.image.apply(2, [TopicDeleted(gone)])
        played.image = image

    played.codes["orders"] = [Code.NOT_LEADER_OR_FOLLOWER]
    played.on["cut orders"] = delete

    found = Cutter(played, "id").cut()

    assert {each.topic for each in found.partitions} == set(NAMES) - {"orders"}


def test_a_partition_without_a_leader_is_named(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.0)
    played.image = cluster(leader=-1)

    with pytest.raises(BackupError, match="has a partition without a leader"):
        Cutter(played, "id").cut()


def test_brokers_are_told_that_the_backup_is_over(played: Played) -> None:
    cutter = Cutter(played, "id")
    cutter.cut()
    cutter.drop()

    assert played.asked[-2:] == ["drop 1", "drop 2"]
