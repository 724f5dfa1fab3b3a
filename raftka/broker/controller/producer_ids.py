"""Ids for producers, taken from blocks that the controller allocates."""

from contextlib import suppress

import trio

from raftka.broker.controller.broker_lifecycle import BrokerLifecycle
from raftka.metadata.commands import AllocateProducerIds, ProducerIdBlock
from raftka.wire.errors import KafkaError


class ProducerIds:
    def __init__(self, node_id: int, lifecycle: BrokerLifecycle) -> None:
        self._node_id = node_id
        self._lifecycle = lifecycle
        self._next = 0
        self._end = 0
        self._under_way: trio.Event | None = None
        self._returned: list[int] = []

    async def next(self) -> int:
        """Return an id. Raises KafkaError when the controller does not answer."""
        while (taken := self.take()) is None:
            await self._fetch_block()
        return taken

    def take(self) -> int | None:
        """Return an id of the present block; None if it is used up: call `fill`."""
        if self._returned:
            return self._returned.pop()
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    def give_back(self, producer_id: int) -> None:
        """Take back an id that was not given to a producer."""
        self._returned.append(producer_id)

    async def fill(self) -> None:
        """Ask the controller for a block if this one is used up. Errors are ignored: no request
        waits for it.
        """
        if self._next == self._end:
            with suppress(KafkaError):
                await self._fetch_block()

    async def _fetch_block(self) -> None:
        """Ask for a block, or wait for the block that another task has asked for."""
        if self._under_way is not None:
            await self._under_way.wait()
            return
        self._under_way = trio.Event()
        try:
            block: ProducerIdBlock = await self._lifecycle.controller.ask(
                AllocateProducerIds(self._node_id, self._lifecycle.broker_epoch)
            )
            first, count = block
            self._next, self._end = first, first + count
        finally:
            self._under_way.set()
            self._under_way = None
