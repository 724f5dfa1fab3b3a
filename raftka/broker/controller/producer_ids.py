"""Ids for producers, in blocks from the controller. Knows no request."""

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
        """Raises KafkaError when the controller does not answer."""
        while (taken := self.take()) is None:
            await self._more()
        return taken

    def take(self) -> int | None:
        """One that is at hand; None: `fill` first."""
        if self._returned:
            return self._returned.pop()
        if self._next == self._end:
            return None
        self._next += 1
        return self._next - 1

    def give_back(self, producer_id: int) -> None:
        """Take back an id that no producer has got."""
        self._returned.append(producer_id)

    async def fill(self) -> None:
        """Ask the controller where none is at hand; nobody waits for it, so nobody hears that it
        does not answer.
        """
        if self._next == self._end:
            with suppress(KafkaError):
                await self._more()

    async def _more(self) -> None:
        """One asks, the others wait for what comes."""
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
