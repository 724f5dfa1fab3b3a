"""This controller's place among the voters of the log: it joins them by itself
(controller.quorum.auto.join.enable), and has its end points and its directory written there when
they have changed.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_host import Done
from raftka.broker.controller.departure import Link
from raftka.metadata.commands import AddVoter, Command, UpdateVoter, VoterEndpoints
from raftka.metadata.quorum.voter_sets import QuorumVoter

if TYPE_CHECKING:
    from raftka.metadata.quorum.raft import RaftCore

LOOK_S = 1.0  # between two looks at the set
EVERYWHERE = ("", "0.0.0.0", "::")


class VoterMembership:
    def __init__(
        self,
        context: BrokerContext,
        core: "RaftCore",
        directory_id: bytes,
        links: Mapping[int, Link],
        ask_controller: Callable[[Command, Done], bool],
    ) -> None:
        self._context = context
        self._core = core
        self._directory_id = directory_id
        self._links = links
        self._ask_controller = ask_controller
        self._looking = False

    def look_from_now_on(self) -> None:
        """The log has its voters: look after this node's place, at once and every LOOK_S."""
        if not self._looking:
            self._looking = True
            self._look()

    def _look(self) -> None:
        clock = self._context.runtime.clock
        command = self._wanted()
        if command is None or not self._ask_controller(command, self._answered):
            clock.call_at(clock.now() + LOOK_S, self._look)

    def _answered(self, error: object, _: object) -> None:
        clock = self._context.runtime.clock
        if error is not None:
            self._context.events.info("own_voter_not_written", reason=str(error))
        clock.call_at(clock.now() + LOOK_S, self._look)

    def _wanted(self) -> AddVoter | UpdateVoter | None:
        core, voters, me = self._core, self._core.voter_set, self._context.node_id
        endpoints = self.endpoints()
        if voters is None or endpoints is None or not core.formed:
            return None
        known = next((each for each in voters if each.node_id == me), None)
        cluster_id = self._context.metadata.image.cluster_id
        if known is None:
            joins = self._context.metadata.settings["controller.quorum.auto.join.enable"]
            return AddVoter(cluster_id, me, self._directory_id, endpoints) if joins else None
        if known != QuorumVoter(me, self._directory_id, endpoints):
            return UpdateVoter(cluster_id, me, self._directory_id, endpoints)
        return None

    def endpoints(self) -> VoterEndpoints | None:
        """Return where this controller listens. None: its address is not known yet."""
        settings = self._context.metadata.settings
        configured = next((v for v in settings.voters if v.node_id == self._context.node_id), None)
        found: list[tuple[str, str, int]] = []
        for listener in settings.controller_listeners:
            host, port = listener.host, listener.port
            if configured is not None and not found:
                host, port = configured.host, configured.port
            if host in EVERYWHERE:
                host = self._own_host()
            if not host:
                return None
            found.append((listener.listener, host, port))
        return tuple(found)

    def _own_host(self) -> str:
        network = self._context.runtime.network
        ways = (network.address_towards(link.host, link.port) for link in self._links.values())
        return next((way for way in ways if way), "")
