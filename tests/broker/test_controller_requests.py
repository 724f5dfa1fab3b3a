"""Requests of brokers to the controller that fail as a whole: no caller is left waiting, and none
takes more than it was given.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import trio
import trio.testing

from raftka.broker.controller.producer_ids import ProducerIds
from raftka.broker.replica.alter_partition_manager import AlterPartitionManager
from raftka.metadata.commands import ProducerIdBlock
from raftka.replication.partition import AlterIsr
from raftka.wire.errors import Code, KafkaError


def test_each_partition_hears_that_its_isr_was_not_changed() -> None:
    calls: list[Callable[[Any, Any], None]] = []
    heard: list[tuple[str, Code]] = []
    turn_end: Callable[[Callable[[], None]], None] = lambda action: action()  # noqa: E731
    events = SimpleNamespace(debug=lambda *_, **__: None)
    context = SimpleNamespace(
        events=events,
        node_id=1,
        runtime=SimpleNamespace(clock=SimpleNamespace(at_turn_end=turn_end)),
    )
    lifecycle = SimpleNamespace(
        broker_epoch=5, controller=SimpleNamespace(call=lambda command, done: calls.append(done))
    )
    finished: list[None] = []
    manager = AlterPartitionManager(
        context,  # type: ignore[arg-type]
        lifecycle,  # type: ignore[arg-type]
        lambda partition, effect, answer: heard.append((partition.name, answer)),  # type: ignore[arg-type]
        lambda: finished.append(None),
    )
    for name in ("t-0", "t-1"):
        manager.ask(
            SimpleNamespace(name=name, topic_id=bytes(16), index=0),  # type: ignore[arg-type]
            AlterIsr(((1, 5),), 0, 0),
        )
    while calls:
        calls.pop()(KafkaError(Code.STALE_BROKER_EPOCH), None)

    assert heard == [("t-0", Code.STALE_BROKER_EPOCH), ("t-1", Code.STALE_BROKER_EPOCH)]
    assert len(finished) == 2


def test_who_waited_for_a_block_of_producer_ids_that_did_not_come_asks_again() -> None:
    asked = 0

    async def ask(_: object) -> ProducerIdBlock:
        nonlocal asked
        asked += 1
        await trio.testing.wait_all_tasks_blocked()
        if asked == 1:
            raise KafkaError(Code.REQUEST_TIMED_OUT)
        return ProducerIdBlock(7000, 1000)

    found: list[int | Code] = []

    async def take(ids: ProducerIds) -> None:
        try:
            found.append(await ids.next())
        except KafkaError as error:
            found.append(error.code)

    async def both() -> None:
        ids = ProducerIds(1, SimpleNamespace(broker_epoch=5, controller=SimpleNamespace(ask=ask)))  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take, ids)
            nursery.start_soon(take, ids)

    trio.run(both)

    assert sorted(found, key=str) == sorted([Code.REQUEST_TIMED_OUT, 7000], key=str)
