"""The addresses of the voters, to which every node connects.

They come from controller.quorum.voters, from controller.quorum.bootstrap.servers (without ids), and
from the cluster: the log of a controller, or what a voter sends to a node without a vote. What the
cluster says counts, the newest set of it.
"""

from collections.abc import Callable, Sequence

from raftka.broker.context import BrokerContext
from raftka.broker.controller.departure import Link
from raftka.limits import QUORUM_VOTERS
from raftka.metadata.configs.settings import Voter
from raftka.metadata.quorum.raft import RaftCore
from raftka.metadata.quorum.voter_sets import VoterSet
from raftka.wire.errors import ProtocolError

RECONNECT_S = (0.02, 0.5)
LEAVE_S = 3.0  # after a set without a voter, until the connection to it is closed
FOUND_S = 10.0  # a cluster is found by then, if there is one
UNREACHED = 12  # attempts, about five seconds, after which other addresses are tried
UNKNOWN = -1  # the id of a voter of which only the address is known

Address = tuple[int, str, int]  # node id, host, port


def addresses_of(voters: VoterSet) -> list[Address]:
    """Return where the controller of each voter listens: the first of its end points."""
    return [(each.node_id, *each.endpoints[0][1:]) for each in voters if each.endpoints]


class VoterAddresses:
    def __init__(
        self,
        context: BrokerContext,
        links: dict[int, Link],
        dial: Callable[[Link], None],
        left: Callable[[Link], None],
    ) -> None:
        """`links`: to the other voters, by id; kept up to date. `dial`: connect, and call `met` and
        `lost` later. `left`: called with the link to a node that is no voter any more.
        """
        self._context = context
        self._links = links
        self._dial = dial
        self._left = left
        self._bootstrap: list[Link] = []  # links to addresses without an id
        self.index = 0  # of the set that is used, in the log; 0: the properties file
        self._voters: dict[int, tuple[str, int]] = {}  # addresses in that set, without this node's
        self._started = False
        self._announced = 0  # index of the last set that a voter has sent
        # all voters, as far as this node knows
        self.voters: tuple[Voter, ...] = ()
        self.on_change: Callable[[], None] = lambda: None  # called when `voters` are others
        self.form_with(context.metadata.settings.voters)

    def form_with(self, voters: tuple[Voter, ...]) -> None:
        """Use these voters as long as the log has none; before `start`."""
        self.voters = voters
        for voter in voters:
            if voter.node_id != self._context.node_id:
                self._links[voter.node_id] = Link(*voter)

    def start(self) -> None:
        self._started = True
        if self.index and self._context.metadata.settings.voters:
            self._context.events.warning("configured_voters_not_used")
        for link in self._links.values():
            self._dial(link)
        if not self._links:
            self._dial_bootstrap()
            clock = self._context.runtime.clock
            clock.call_at(clock.now() + FOUND_S, self._warn_of_no_cluster)

    def _warn_of_no_cluster(self) -> None:
        if self._context.metadata.image.cluster_id is None:
            self._context.events.warning("no_cluster_found")

    def _dial_bootstrap(self) -> None:
        """Connect to controller.quorum.bootstrap.servers: no voter is known, or none is reached.
        Addresses of known voters are left out. A second connection would end the first one.
        """
        if self._bootstrap or any(link.up for link in self._links.values()):
            return
        settings = self._context.metadata.settings
        known = {(each.host, each.port) for each in self._links.values()}
        known |= {(each.host, each.port) for each in settings.controller_listeners}
        self._bootstrap = [
            Link(UNKNOWN, host, port)
            for host, port in settings.bootstrap_servers
            if (host, port) not in known
        ]
        for link in self._bootstrap:
            self._dial(link)

    def met(self, link: Link, node_id: int) -> bool:
        """Take the id of the node that answers; return False if another one was wanted, or the node
        is connected already.
        """
        if link.voter != UNKNOWN:
            return link.voter == node_id
        link.voter = node_id
        self._bootstrap.remove(link)
        if node_id == self._context.node_id or node_id in self._links:
            return False
        self._links[node_id] = link
        return True

    def lost(self, link: Link) -> None:
        """Connect again after a while, if the address is still one of a voter."""
        first, most = RECONNECT_S
        wait = min(most, first * 2.0 ** min(link.failures, 10))
        link.failures += 1
        clock = self._context.runtime.clock
        clock.call_at(clock.now() + wait, lambda: self._again(link))

    def _again(self, link: Link) -> None:
        nobody = not any(each.up for each in self._links.values())
        if self._links.get(link.voter) is link:
            self._dial(link)
            if nobody and link.failures >= UNREACHED:
                self._dial_bootstrap()
        elif link in self._bootstrap:
            if nobody:
                self._dial(link)
            else:
                self._bootstrap.remove(link)
        elif not self._links:
            self._dial_bootstrap()

    def use_log(self, core: RaftCore) -> None:
        """Use the voters of the log, if they are others than before. A log that lacks what a voter
        has announced is passed over.
        """
        index = core.voters_index
        if core.voter_set is not None and index != self.index and index >= self._announced:
            self._use(index, addresses_of(core.voter_set))

    def announced(self, index: object, voters: object) -> None:
        """Use what a voter has sent, if it is newer. Raises ProtocolError."""
        if not isinstance(index, int) or not isinstance(voters, list):
            raise ProtocolError("no addresses of voters")
        if index <= self._announced:
            return
        found = []
        for row in voters[: QUORUM_VOTERS.value]:
            match row:
                case [int(node_id), str(host), int(port)] if 0 < port < 65536:
                    found.append((node_id, host, port))
                case _:
                    raise ProtocolError("no addresses of voters")
        self._announced = index
        if index > self.index:
            self._use(index, found)

    def _use(self, index: int, voters: Sequence[Address]) -> None:
        self.index = index
        me, links = self._context.node_id, self._links
        self.voters = tuple(Voter(*each) for each in voters)
        self._voters = {node_id: (host, port) for node_id, host, port in voters if node_id != me}
        for node_id, (host, port) in self._voters.items():
            if node_id not in links:
                links[node_id] = link = Link(node_id, host, port)
                if self._started:
                    self._dial(link)
            else:  # a connection to an earlier address is used as long as it lasts
                links[node_id].host, links[node_id].port = host, port
        clock = self._context.runtime.clock
        clock.call_at(clock.now() + LEAVE_S, self._leave_others)
        self.on_change()

    def _leave_others(self) -> None:
        """Close connections to nodes that are no voters any more. One of them may have been the
        leader, whose last answers were on their way.
        """
        for node_id, link in list(self._links.items()):
            if node_id not in self._voters:
                del self._links[node_id]
                if link.peer is not None:
                    link.peer.close("it is no voter any more")
                self._left(link)
