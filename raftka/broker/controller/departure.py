"""The orderly departure of a node from the quorum: it hands the leadership over and says goodbye to
the other nodes, which note the voters that have left.

A node that ends waits for a controller to move its leaderships. When too few voters are left to
elect a controller, it does not wait.
"""

from collections.abc import Callable, Iterable, Mapping

import trio

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_host import Done
from raftka.broker.controller.peer import Kind, Peer
from raftka.metadata.quorum.raft import RaftCore

HAND_OVER_S = 2.0


class Link:
    """This node's connection to one controller."""

    def __init__(self, voter: int, host: str, port: int) -> None:
        self.voter = voter
        self.host = host
        self.port = port
        self.peer: Peer | None = None
        self.up = False
        self.left = False  # it has said goodbye, and has not been met since
        self.failures = 0
        self.refused_for = ""
        self.pings = 0  # not answered yet
        self.calls: dict[int, Done] = {}


class Departure:
    def __init__(
        self, context: BrokerContext, links: Mapping[int, Link], poke: Callable[[], None]
    ) -> None:
        self.core: RaftCore | None = None  # of a voter
        # called when too few voters are left for an election
        self.on_deserted: Callable[[], None] = lambda: None
        self._context = context
        self._links = links
        self._poke = poke
        self._handing_over: trio.Event | None = None

    # this node's leadership

    def transfer(self) -> bool:
        """Ask the voter with the longest log to lead; voters that stay come first. Return False if
        this node does not lead or no other voter is connected.
        """
        core = self.core
        others = [link.voter for link in self._links.values() if link.up and not link.left]
        if core is None or not others or core.state != "leader":
            return False
        brokers = self._context.metadata.image.brokers
        stay = [
            voter for voter in others if voter not in brokers or not brokers[voter].shutting_down
        ]
        core.transfer(max(stay or others, key=core.acknowledged))
        self._poke()
        return True

    async def hand_over(self) -> None:
        """Let another voter lead before a controlled stop, so that no election has to time out."""
        if not self.transfer():
            return
        self._handing_over = trio.Event()
        with trio.move_on_after(HAND_OVER_S):
            await self._handing_over.wait()

    def leads(self, does: bool) -> None:
        """Note at each step whether this node leads the quorum."""
        if self._handing_over is not None and not does:
            self._handing_over.set()

    # goodbyes

    async def say_goodbye(self, inbound: Iterable[Peer]) -> None:
        """Send GOODBYE to the other nodes, and let the bytes leave: nodes that end too need not
        wait for this one.
        """
        for peer in (
            *inbound,
            *[link.peer for link in self._links.values() if link.up and link.peer is not None],
        ):
            if peer.hello is not None:
                peer.send(Kind.GOODBYE)
        clock, sent = self._context.runtime.clock, trio.Event()
        clock.call_at(clock.now(), sent.set)
        await sent.wait()

    def said_goodbye(self, node_id: int) -> None:
        link = self._links.get(node_id)
        if link is not None:
            link.left = True
            self.voter_away(link)

    def voter_away(self, link: Link) -> None:
        """React to a voter that has left. If this node was handing the leadership over to it,
        another voter gets the leadership.
        """
        if self.core is not None and self._handing_over is not None:
            self.core.keep_leadership(link.voter)
            if not self.transfer():
                self._handing_over.set()
        if self.deserted:
            self.on_deserted()

    @property
    def deserted(self) -> bool:
        """Return whether so many voters have ended in order that those that are left, this node
        among them, elect no leader.
        """
        core = self.core
        here = core is not None and self._context.node_id in core.voters
        voters = len(self._links) + here
        return voters - sum(map(self._has_left, self._links.values())) <= voters // 2

    def _has_left(self, link: Link) -> bool:
        """Return whether the voter has ended in order. Its goodbye may be lost with its connection;
        a broker that is away, with its shutdown in the metadata, has ended in order too.
        """
        broker = self._context.metadata.image.brokers.get(link.voter)
        return link.left or (not link.up and broker is not None and broker.shutting_down)
