"""Ids for producers, in blocks from the controller. Knows no request."""

from typing import TYPE_CHECKING

import trio

from raftka.metadata.commands import AllocateProducerIds, ProducerIdBlock

if TYPE_CHECKING:
    from raftka.broker.node import Node


class ProducerIds:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._next = 0
        self._end = 0
        self._asking: trio.Event | None = None

    async def next(self) -> int:
        """Raises KafkaError when the controller does not answer."""
        while self._next == self._end:
            await self._more()
        self._next += 1
        return self._next - 1

    async def _more(self) -> None:
        """One asks, the others wait for what comes."""
        if self._asking is not None:
            await self._asking.wait()
            return
        self._asking = trio.Event()
        try:
            block: ProducerIdBlock = await self._node.link.ask(AllocateProducerIds(self._node.node_id, self._node.link.broker_epoch))
            first, count = block
            self._next, self._end = first, first + count
        finally:
            self._asking.set()
            self._asking = None
