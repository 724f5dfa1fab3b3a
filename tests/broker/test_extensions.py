"""A package's machine beside the controller: it decides where the controller is, in its batches,
and every node is told what became so.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, cast

import pytest

from raftka.broker.controller.controller_host import _Replayed
from raftka.metadata.commands import (
    CreatedTopic,
    CreateTopics,
    ExtensionCommand,
    NewTopic,
    WriteExtension,
)
from raftka.metadata.controller.administration import decide_in_draft
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.draft import Draft
from raftka.metadata.extension import of_package
from raftka.metadata.image import Delta, MetadataImage
from raftka.metadata.quorum.raft_types import Committed
from raftka.metadata.records import ExtensionChanged, ExtensionPut, Record, TopicCreated
from raftka.wire.errors import Code, KafkaError
from tests.broker.stage import Stage

COUNTER = b"counter"


class Counting:
    """Adds what it is asked to add; at `at` it adds a hundred by itself."""

    def __init__(self, image: MetadataImage, at: float) -> None:
        self.value = int(of_package(image, "count").entries.get(COUNTER, b"0"))
        self.at = at

    def decide(self, payload: bytes, context: Context, draft: Draft) -> Outcome:
        if payload == b"?":
            return Outcome(reply=b"%d" % self.value, confirm=True)
        if payload == b"!":
            raise KafkaError(Code.POLICY_VIOLATION, "not that")
        if payload == b"over":
            return Outcome(reply=b"", hand_over=True)
        if payload.startswith(b"topics"):
            return self._create(payload.decode().split()[1:], draft)
        return Outcome(
            [ExtensionPut("count", COUNTER, b"%d" % (self.value + int(payload)))],
            b"%d at %d" % (self.value, context.next_offset),
        )

    def _create(self, names: Sequence[str], draft: Draft) -> Outcome:
        """All of them or none, each in a draft above that of those before it; counts them in the
        same batch.
        """
        whole = draft.branch()
        for name in names:
            part = whole.branch()
            (created,) = cast(
                "tuple[CreatedTopic]", decide_in_draft(part, CreateTopics((NewTopic(name),)))
            )
            if created.error:
                return Outcome(reply=str(Code(created.error).name).encode())
            whole.take(part)
        assert set(names) <= set(whole.image.topic_ids)
        assert not set(names) & set(draft.image.topic_ids)
        draft.take(whole)
        return Outcome([*draft.records, ExtensionPut("count", COUNTER, b"%d" % len(names))], b"")

    def beside(
        self, records: Sequence[Record], context: Context, image: MetadataImage
    ) -> Sequence[Record]:
        created = sum(isinstance(record, TopicCreated) for record in records)
        return [ExtensionPut("count", COUNTER, b"%d" % (self.value + created))] if created else ()

    def replay(self, offset: int, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, ExtensionPut) and record.package == "count":
                self.value = int(record.value)

    def deadline(self) -> float:
        return self.at

    def tick(self, context: Context) -> Outcome:
        self.at = inf
        return Outcome([ExtensionPut("count", COUNTER, b"%d" % (self.value + 100))])


class Count:
    package = "count"

    def __init__(self, tick_after_s: float = inf) -> None:
        self.tick_after_s = tick_after_s
        self.seen: list[tuple[int, list[tuple[bytes, bytes | None]]]] = []

    def applied(self, image: MetadataImage, delta: Delta) -> None:
        if "count" in delta.extensions_changed:
            self.seen.append((image.offset, delta.extensions_changed["count"]))

    def machine(self, image: MetadataImage, now: float) -> Counting:
        return Counting(image, now + self.tick_after_s)


def counting(nodes: int = 3, on: Sequence[int] = (1, 2, 3), tick_after_s: float = inf) -> Stage:
    stage = Stage(nodes, wait=False)
    for node_id in set(on) & set(stage.nodes):
        stage.nodes[node_id].extensions["count"] = Count(tick_after_s)
    stage.wait(lambda: all(node.ready.is_set() for node in stage.nodes.values()))
    return stage


def ask(stage: Stage, node_id: int, payload: bytes) -> Any:
    told: list[Any] = []
    stage.nodes[node_id].controller.call(
        ExtensionCommand("count", payload),
        lambda error, reply: told.append(error.code if error else reply),
    )
    stage.wait(lambda: bool(told))
    return told[0]


def test_any_node_may_ask_and_all_are_told_the_same() -> None:
    with counting() as stage:
        replies = [ask(stage, node_id, b"1") for node_id in (1, 2, 3)]
        end = int(replies[-1].split()[-1])
        stage.wait(lambda: all(node.image.offset >= end for node in stage.nodes.values()))

        assert [reply.split()[0] for reply in replies] == [b"0", b"1", b"2"]
        seen = [node.extensions["count"].seen for node in stage.nodes.values()]  # type: ignore[attr-defined]
        assert (
            seen[0]
            == seen[1]
            == seen[2]
            == [(int(r.split()[-1]), [(COUNTER, b"%d" % (i + 1))]) for i, r in enumerate(replies)]
        )
        assert ask(stage, 2, b"?") == b"3"
        assert ask(stage, 2, b"!") == Code.POLICY_VIOLATION


def test_a_machine_sees_what_else_is_written_in_the_packages_name() -> None:
    with counting(1, (1,)) as stage:
        stage.nodes[1].controller.call(
            WriteExtension("count", ((COUNTER, b"40"),)), lambda error, reply: None
        )

        assert ask(stage, 1, b"2").split()[0] == b"40"


def test_a_controller_without_the_package_refuses_and_keeps_its_entries() -> None:
    with counting(1, ()) as stage:
        assert ask(stage, 1, b"1") == Code.UNSUPPORTED_VERSION
        told: list[Any] = []
        stage.nodes[1].controller.call(
            WriteExtension("count", ((COUNTER, b"40"),)), lambda error, reply: told.append(reply)
        )
        stage.wait(lambda: bool(told))
        image = MetadataImage.from_snapshot(stage.nodes[1].image.to_snapshot())
        assert of_package(image, "count").entries == {COUNTER: b"40"}


def test_time_is_a_command() -> None:
    with counting(1, (1,), tick_after_s=1.0) as stage:
        stage.wait(lambda: of_package(stage.nodes[1].image, "count").entries.get(COUNTER) == b"100")
        assert ask(stage, 1, b"1").split()[0] == b"100"


def test_what_must_be_of_now_is_not_answered_by_a_leader_that_may_have_been_replaced() -> None:
    with counting() as stage:
        assert ask(stage, 1, b"1")
        leader = next(
            node
            for node in stage.nodes.values()
            if node.quorum.host is not None and node.quorum.host.active
        )
        stage.world.network.isolate(f"n{leader.node_id}")
        told: list[Any] = []
        assert leader.quorum.host is not None
        leader.quorum.host.submit(
            ExtensionCommand("count", b"?"),
            lambda error, reply: told.append(error.code if error else reply),
        )
        stage.wait(lambda: bool(told))

        assert told == [Code.NOT_CONTROLLER]


class Once:
    """Counts how often each node computes what an entry makes of an image."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.applied = 0
        apply = MetadataImage.apply

        def counted(
            image: MetadataImage, offset: int, records: Sequence[Record]
        ) -> tuple[MetadataImage, Delta]:
            self.applied += 1
            return apply(image, offset, records)

        monkeypatch.setattr(MetadataImage, "apply", counted)


class Writing(Counting):
    def decide(self, payload: bytes, context: Context, draft: Draft) -> Outcome:
        return Outcome(
            [ExtensionChanged("count", [(COUNTER, payload), (b"more", None)])],
            b"%d" % context.next_offset,
        )


class Writer(Count):
    def machine(self, image: MetadataImage, now: float) -> Counting:
        return Writing(image, inf)


def test_the_leader_applies_what_a_machine_wrote_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage(1) as stage:
        node = stage.nodes[1]
        node.extensions["count"] = seen = Writer()
        host = node.quorum.host
        assert host is not None
        assert host.machine is not None
        host.machine._machines = {"count": seen.machine(node.image, 0.0)}
        once = Once(monkeypatch)

        offset = int(ask(stage, 1, b"7"))

        assert once.applied == 1
        assert node.image is host.machine.image
        assert seen.seen == [(offset, [(COUNTER, b"7"), (b"more", None)])]
        assert of_package(node.image, "count").entries == {COUNTER: b"7"}


@pytest.mark.parametrize("other", ["entry", "image", "index"])
def test_only_this_very_entry_on_this_very_image_is_taken_as_replayed(other: str) -> None:
    with Stage(1) as stage:
        node = stage.nodes[1]
        host = node.quorum.host
        assert host is not None
        before, delta = node.image, Delta()
        after = replace(before, offset=before.offset + 1)
        for changed in (None, other):
            host._replayed.append(_Replayed(after.offset, b"entry", before, after, delta))
            entry = Committed(
                after.offset + (changed == "index"),
                1,
                b"another" if changed == "entry" else b"entry",
            )

            found = host.take_replayed(entry, replace(before) if changed == "image" else before)

            assert found == (None if changed else (after, delta))
            assert not host._replayed


def test_a_machine_has_the_controllers_commands_decided_in_its_own_batch() -> None:
    with counting(1, (1,)) as stage:
        node = stage.nodes[1]
        assert ask(stage, 1, b"topics a b.c") == b""
        assert ask(stage, 1, b"?") == b"2"
        assert sorted(node.image.topic_ids) == ["a", "b.c"]
        assert {each.created_at for each in node.image.topics.values()} == {
            of_package(node.image, "count").changed_at
        }

        assert ask(stage, 1, b"topics d a") == b"TOPIC_ALREADY_EXISTS"
        assert ask(stage, 1, b"topics e_f e.f") == b"INVALID_TOPIC_EXCEPTION"
        assert ask(stage, 1, b"topics b_c") == b"INVALID_TOPIC_EXCEPTION"
        assert sorted(node.image.topic_ids) == ["a", "b.c"]


def test_a_machine_writes_beside_what_the_controller_decides_for_others() -> None:
    with counting(1, (1,)) as stage:
        assert ask(stage, 1, b"topics a b") == b""
        stage.create("c")
        assert ask(stage, 1, b"?") == b"3"
        image = stage.nodes[1].image
        topic = image.topic_named("c")
        assert topic is not None
        assert of_package(image, "count").changed_at == topic.created_at


def test_leadership_is_handed_over_once_the_answer_is_there() -> None:
    with counting() as stage:
        leader = next(
            node
            for node in stage.nodes.values()
            if node.quorum.host is not None and node.quorum.host.active
        )
        term = leader.quorum.core.term  # type: ignore[union-attr]
        assert ask(stage, leader.node_id, b"over") == b""
        stage.wait(lambda: leader.quorum.leader not in (None, leader.node_id))
        assert leader.quorum.core.term == term + 1  # type: ignore[union-attr]
        assert ask(stage, leader.node_id, b"1")


def test_leadership_stays_where_nobody_else_is() -> None:
    with counting(1, (1,)) as stage:
        assert ask(stage, 1, b"over") == b""
        assert ask(stage, 1, b"1")
