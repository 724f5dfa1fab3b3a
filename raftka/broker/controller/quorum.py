"""The driver of RaftCore and the connections between nodes: steps the core, flushes its journal,
then sends its messages and applies committed entries to the image.

Every node connects to every controller. Raft messages, commands to the controller and the
observers' stream share that connection.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from raftka.broker.context import BrokerContext
from raftka.broker.controller.accepted_connection import AcceptedConnection
from raftka.broker.controller.boot_counter import BootCounter, OlderDisk
from raftka.broker.controller.controller_host import ControllerHost, Done
from raftka.broker.controller.departure import Departure, Link
from raftka.broker.controller.peer import Fields, Hello, Kind, Peer, Traffic
from raftka.broker.controller.peer_login import PeerLogin
from raftka.broker.controller.peer_security import PeerSecurity
from raftka.broker.controller.suspects import Suspects
from raftka.broker.controller.voter_addresses import VoterAddresses, addresses_of
from raftka.broker.controller.voter_membership import VoterMembership
from raftka.broker.network.connection import ServerConnection
from raftka.broker.network.listening import listen
from raftka.limits import CONTROLLER_CONNECTIONS, PEER_OUTPUT_BYTES
from raftka.log.directory import LogDirectoryError
from raftka.log.manager import LogManager
from raftka.metadata.commands import Command, UnknownCommand, from_wire, to_wire
from raftka.metadata.configs.settings import METADATA_DIRECTORY, NodeSettings, Voter
from raftka.metadata.extension import Extension
from raftka.metadata.image import Endpoint
from raftka.metadata.quorum.initial_voters import INITIAL_VOTERS, forget_initial, read_initial
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft import RaftCore
from raftka.metadata.quorum.raft_types import (
    Committed,
    MalformedMessage,
    Message,
    RaftConfig,
    Snapshot,
    WrongCluster,
)
from raftka.metadata.quorum.recovery import check_start
from raftka.runtime.interfaces import Connection, Listener
from raftka.versions import own_features
from raftka.wire.errors import Code, KafkaError, ProtocolError

HELLO_S = 10.0
# an observer pings its voter each PING_S, and leaves it after PINGS without an answer
PING_S, PINGS = 0.5, 4
REMEDY = "empty `log.dirs`, and format the node again"
PIECE_BYTES = 4 * 1024 * 1024  # of a snapshot, in one message


SHAPES: dict[Kind, tuple[type, ...]] = {
    Kind.CALL: (int, str, list),
    Kind.OBSERVE: (int,),
}  # of requests of other nodes, messages of voters apart


def _has_shape(kind: Kind, fields: Fields) -> bool:
    shape = SHAPES.get(kind, ())
    return len(fields) >= len(shape) and all(
        isinstance(field, wanted) for field, wanted in zip(fields, shape, strict=False)
    )


class Quorum:
    def __init__(
        self,
        context: BrokerContext,
        suspects: Suspects,
        apply: Callable[[list[Committed] | Snapshot], None],
        extensions: Mapping[str, Extension],
        admit_client: Callable[[str], ServerConnection | None],
    ) -> None:
        """`apply` is called with committed entries. `admit_client` makes the connection of a Kafka
        client of the listener with that name; None: there are too many.
        """
        self.context = context
        self.extensions = extensions
        self._suspects = suspects
        self._apply = apply
        self._admit_client = admit_client
        self.clock = context.runtime.clock
        self.links: dict[int, Link] = {}  # to the other voters, by node id
        self.addresses = VoterAddresses(context, self.links, self._dial, self._follow)
        self.core: RaftCore | None = None
        self.host: ControllerHost | None = None
        self.inbound: dict[Peer, None] = {}
        self.traffic = Traffic()
        self.listeners: list[Listener] = []
        self._security = PeerSecurity(context)
        self.starts: BootCounter
        self._logs: LogManager
        self._leader: int | None = None  # as a controller reports it to a node without a vote
        self._term = -1
        self._observing: Link | None = None
        self._snapshot = bytearray()
        self._syncing = False
        self._poked = False
        self._step_at = inf
        self._next_call = 0
        # connections of controllers without a vote to this node, by node id
        self.followers: dict[int, Peer] = {}
        self._announced = 0  # index of the set whose addresses were sent to all nodes last
        self._membership: VoterMembership
        self.departure = Departure(context, self.links, self.poke)

    # starting

    def start(self, logs: LogManager) -> None:
        self._logs = logs
        settings, files = self.context.metadata.settings, self.context.runtime.files
        self.starts = BootCounter(
            files,
            self._starts_directory(),
            self.context.incarnation_id,
            self.context.runtime.random("starts"),
        )
        if settings.controller_listener is not None:
            journal = Journal.open(files, settings.metadata_directory, self.context.node_id)
            settings = self._with_initial_voters()
            voters = [voter.node_id for voter in settings.voters]
            check_start(journal, voters)
            config = RaftConfig(
                election_timeout=settings.seconds("controller.quorum.election.timeout.ms"),
                heartbeat=settings.seconds("raftka.quorum.heartbeat.interval.ms"),
                snapshot_every_bytes=settings["metadata.log.max.record.bytes.between.snapshots"],
            )
            self.core = RaftCore(
                self.context.node_id,
                voters,
                journal,
                self.context.runtime.random("raft"),
                self.clock.now(),
                config,
                self.directory_id,
            )
            self.addresses.use_log(self.core)
            self.departure.core = self.core
            self.host = ControllerHost(
                self.context,
                self.core,
                self.poke,
                self.departure.transfer,
                self.extensions,
                self._security.secured,
            )
            self._membership = VoterMembership(
                self.context, self.core, self.directory_id, self.links, self.ask_controller
            )
            for endpoint in settings.controller_listeners:
                accept = self._acceptor(endpoint)
                self.listeners.append(
                    listen(
                        self.context.runtime.network,
                        "listeners",
                        endpoint.host,
                        endpoint.port,
                        accept,
                        first=True,
                    )
                )
            self.feed_image()
        self._security.start()
        self.addresses.start()
        self.poke()

    def _with_initial_voters(self) -> NodeSettings:
        """Use the voters that the directory was formatted with, and return the settings with them.
        Raises OSError, LogDirectoryError.
        """
        metadata = self.context.metadata
        files, directory = self.context.runtime.files, metadata.settings.metadata_directory
        try:
            initial = read_initial(files, directory)
        except ValueError as error:
            raise LogDirectoryError(f"{directory}/{INITIAL_VOTERS}: {error}", REMEDY) from None
        if not initial:
            return metadata.settings
        own = next((each for each in initial if each.node_id == self.context.node_id), None)
        if own is None or own.directory_id != self.directory_id:
            raise LogDirectoryError(
                f"{directory} was formatted for another node or directory", REMEDY
            )
        voters = tuple(Voter(*each[:3]) for each in initial)
        metadata.settings = replace(metadata.settings, voters=voters)
        self.context.kraft_version = 1
        self.addresses.form_with(voters)
        return metadata.settings

    @property
    def directory_id(self) -> bytes:
        """The id of the directory with the metadata log: that of the log directory in which it is,
        or of its own disk.
        """
        settings = self.context.metadata.settings
        for home in self._logs.usable:
            if f"{home.path}/{METADATA_DIRECTORY}" == settings.metadata_directory:
                return home.directory_id
        return self.starts.mine.disk

    def _starts_directory(self) -> str:
        """Return the directory for the counter of starts. A broker without a vote uses the first of
        its log directories that works.
        """
        settings, usable = self.context.metadata.settings, self._logs.usable
        return (
            settings.metadata_directory
            if settings.is_controller
            else f"{usable[0].path}/{METADATA_DIRECTORY}"
        )

    # the engine

    def poke(self) -> None:
        """Step at the end of this turn: a message came, or an entry was proposed."""
        if not self._poked and self.core is not None:
            self._poked = True
            self.clock.at_turn_end(self._step)

    def _step(self) -> None:
        self._poked = False
        core = self.core
        if core is None or self._syncing:
            return  # the end of the flush steps again
        try:
            self._syncing = core.step(self.clock.now())
            files = core.take_sync() if self._syncing else []
        except OSError as error:
            self._stop_node(error)
            return
        if self._syncing:
            self.context.runtime.files.flush(files, self._on_flushed)
            self._send_and_apply()  # messages and entries that need not wait for the flush
        else:
            self._ship()

    def _stop_node(self, error: OSError) -> None:
        """Stop the node: after this error the content of the disk is unknown."""
        self.context.events.error("metadata_log_failed", error=str(error))
        if self.core is not None:
            self.core.journal.abandon()
        self.context.runtime.fail(error)

    def _on_flushed(self, error: OSError | None) -> None:
        if error is not None:
            self._stop_node(error)
            return
        assert self.core is not None
        self._syncing = False
        self.core.synced()
        self._ship()

    def _send_and_apply(self) -> None:
        """Send the core's messages, and apply committed entries."""
        core, host = self.core, self.host
        assert core is not None
        assert host is not None
        for node, message in core.take_outbox():
            link = self.links.get(node)
            peer = link.peer if link is not None and link.up else self.followers.get(node)
            if peer is not None:
                peer.send(Kind.RAFT, message)
        if core.voter_set is not None:
            self._follow_voters()
        self.feed_image()
        host.on_quorum_progress()
        for peer in self.inbound:
            if peer.observed is not None:
                self._send_entries(peer)

    def _ship(self) -> None:
        self._send_and_apply()
        core = self.core
        assert core is not None
        self._publish_leader()
        self.departure.leads(core.state == "leader")
        if core.wants_snapshot and self.context.metadata.image.offset:
            core.snapshot(
                self.context.metadata.image.offset, self.context.metadata.image.to_snapshot()
            )
        if core.has_work:
            self.poke()
        else:
            self._arm(core.next_deadline())

    def _arm(self, when: float) -> None:
        if when < self._step_at or self._step_at <= self.clock.now():
            self._step_at = when
            if when < inf:
                self.clock.call_at(when, self._step_when_due)

    def _step_when_due(self) -> None:
        self._step_at = inf
        self.poke()

    def feed_image(self) -> None:
        """Apply the committed entries that the image does not have yet."""
        core = self.core
        assert core is not None
        while self.context.metadata.image.offset < core.commit_index:
            self._apply(core.observe(self.context.metadata.image.offset + 1))

    def _follow_voters(self) -> None:
        """Connect to the voters of the log. When they are committed, send their addresses to all
        nodes that are connected: one without a vote learns them in no other way.
        """
        core = self.core
        assert core is not None
        self.addresses.use_log(core)
        self._membership.look_from_now_on()
        if self._announced < core.voters_index <= core.commit_index:
            self._announced = core.voters_index
            self._forget_initial_voters()
            for peer in self.inbound:
                if peer.hello is not None:
                    self._send_voters(peer)

    def _forget_initial_voters(self) -> None:
        try:
            forget_initial(
                self.context.runtime.files, self.context.metadata.settings.metadata_directory
            )
        except OSError as error:
            self._stop_node(error)

    def _send_voters(self, peer: Peer) -> None:
        core = self.core
        if core is None or core.voter_set is None or core.voters_index > core.commit_index:
            return
        peer.send(Kind.VOTERS, core.voters_index, addresses_of(core.voter_set))

    # who leads

    @property
    def leader(self) -> int | None:
        return self.core.leader if self.core is not None else self._leader

    @property
    def term(self) -> int:
        """Return the term of the leader; -1 as long as it is unknown."""
        return self.core.term if self.core is not None else self._term

    def _publish_leader(self) -> None:
        core = self.core
        assert core is not None
        if core.leader != self._leader or core.term != self._term:
            self._set_leader(core.leader, core.term)
            for peer in self.inbound:
                if peer.observed is not None:
                    peer.send(Kind.LEADER, core.leader, core.term)

    def _set_leader(self, leader: int | None, term: int) -> None:
        """Send open commands to the new leader, without waiting for the former one: it may hang."""
        if term < self._term:
            return  # a node that was away reports an old leader
        self._term = term
        if leader == self._leader:
            return
        self._leader = leader
        for link in self.links.values() if leader is not None else ():
            calls = {} if link.voter == leader else link.calls
            if calls:
                link.calls = {}
            for done in calls.values():
                done(KafkaError(Code.NETWORK_EXCEPTION), None)

    def ask_controller(self, command: Command, done: Done) -> bool:
        """Send a command to the controller; return False if none is known or connected."""
        if self.host is not None and self.host.active:
            self.host.submit(command, done)
            return True
        leader = self.leader
        link = self.links.get(leader) if leader is not None else None
        if link is None or not link.up:
            if self.core is not None:
                return False  # as a voter this node learns of the election itself
            link = next((each for each in self.links.values() if each.up), None)
        if link is None or link.peer is None:
            return False
        self._next_call += 1
        link.calls[self._next_call] = done
        link.peer.send(Kind.CALL, self._next_call, *to_wire(command))
        return True

    def ask_this_controller(self, command: Command, done: Done) -> bool:
        """Have this node carry out a command; it refuses while it is not the controller."""
        if self.host is not None and self.host.active:
            self.host.submit(command, done)
        else:
            leader = self.leader
            text = (
                "No controller appears to be active."
                if leader is None
                else f"The active controller appears to be node {leader}."
            )
            done(KafkaError(Code.NOT_CONTROLLER, text), None)
        return True

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Return host and port of a voter; empty and -1: they are not known."""
        voters = self.addresses.voters
        return next(
            ((each.host, each.port) for each in voters if each.node_id == node_id), ("", -1)
        )

    def controllers_at(self, listener: str) -> list[Voter]:
        """Return the controllers that have greeted this one, and itself, with their end points of
        that listener. An earlier release does not tell them: a voter then has its address.
        """
        host, me = self.host, self.context.node_id
        assert host is not None
        found = []
        for node_id in sorted({me, *host.greeted}):
            told = (
                self._membership.endpoints() if node_id == me else host.endpoints.get(node_id)
            ) or ()
            at = next((each[1:] for each in told if each[0] == listener), None)
            address = self.address_of(node_id) if at is None else at
            if address[0]:
                found.append(Voter(node_id, *address))
        return found

    # connections to controllers

    def _dial(self, link: Link) -> None:
        def lost(closed: Peer, reason: str) -> None:
            if link.peer is closed:
                self._on_link_closed(link, reason)

        login = self._security.dialing_login()
        peer = link.peer = Peer(
            self._make_hello,
            lambda peer: self._on_controller_hello(link, peer),
            lambda peer, kind, fields: self._on_controller_message(link, peer, kind, fields),
            lost,
            dialed=True,
            traffic=self.traffic,
            login=login,
        )
        self.context.runtime.network.connect(
            link.host, link.port, self._security.dial(peer, link.host)
        )

    def _make_hello(self, whom: int) -> Hello:
        settings = self.context.metadata.settings
        cluster_id = self.context.metadata.image.cluster_id or self._logs.cluster_id
        return Hello(
            cluster_id,
            self.context.node_id,
            settings.is_broker,
            settings.is_controller,
            self.starts.mine,
            self.starts.known(whom),
            own_features(),
            (self._membership.endpoints() or ()) if self.host is not None else (),
        )

    def _check_disks(self, hello: Hello) -> None:
        """Check that neither node runs on an older copy of its disk. Raises ProtocolError."""
        if hello.known is not None and self.starts.mine.is_before(hello.known):
            seen = (
                f"this is its start {self.starts.mine.number}, and node {hello.node_id} has met "
                f"start {hello.known.number}"
            )
            error = OlderDisk(
                f"{self.context.metadata.settings.metadata_directory} is an older copy: {seen}"
            )
            self.context.events.error("older_disk", error=str(error))
            self.context.runtime.fail(error)
            raise ProtocolError("our disk is an older copy")
        if hello.start is not None and self.core is not None:
            try:
                self.starts.met(hello.node_id, hello.start)
            except OSError as error:
                self._stop_node(error)

    def _on_controller_hello(self, link: Link, peer: Peer) -> None:
        if link.peer is not peer or not self.addresses.met(link, peer.node_id):
            raise ProtocolError(
                f"node {peer.node_id} answers where controller.quorum.voters has another"
            )
        assert peer.hello is not None
        self._check_disks(peer.hello)
        if self.host is not None:
            self.host.on_greeting(peer.node_id, peer.hello.features, peer.hello.endpoints)
        link.up, link.left = True, False
        link.failures = 0
        self._suspects.heard(link.voter)
        link.refused_for = ""
        if self.core is not None:
            self.core.peer_up(link.voter)
            self.poke()
        elif self._observing is None:
            self._observe(link)

    def _observe(self, link: Link) -> None:
        self._observing = link
        assert link.peer is not None
        link.peer.send(Kind.OBSERVE, self.context.metadata.image.offset + 1)
        link.pings = 0
        self.clock.call_at(self.clock.now() + PING_S, lambda: self._ping(link, link.peer))

    def _ping(self, link: Link, peer: Peer | None) -> None:
        """Observe another voter if this one does not answer: a voter that hangs keeps its
        connections and sends no entries.
        """
        if self._observing is not link or peer is None or link.peer is not peer:
            return
        if link.pings >= PINGS:
            peer.close("it does not answer")
            return
        link.pings += 1
        peer.send(Kind.PING)
        self.clock.call_at(self.clock.now() + PING_S, lambda: self._ping(link, peer))

    def _on_link_closed(self, link: Link, reason: str) -> None:
        was_up, link.up, link.peer = link.up, False, None
        if "refused:" in reason and reason != link.refused_for:
            self.context.events.warning(
                "controller_refused",
                controller=link.voter,
                address=f"{link.host}:{link.port}",
                reason=reason,
            )
            link.refused_for = reason  # logged once: each attempt gets the same reason
        elif was_up:
            self.context.events.info(
                "controller_connection_lost", controller=link.voter, reason=reason
            )
        self.addresses.lost(link)
        calls, link.calls = link.calls, {}
        for done in calls.values():
            done(KafkaError(Code.NETWORK_EXCEPTION), None)
        if was_up and self.links.get(link.voter) is link:
            self._suspects.broken(link.voter)
        if was_up and self.core is not None and link.voter not in self.followers:
            self.core.peer_lost(link.voter)
            self._follow(link)
            self.poke()
        if self.links.get(link.voter) is link:
            self.departure.voter_away(link)
        if self._observing is link:
            self._observing = None
            other = next((each for each in self.links.values() if each.up), None)
            if other is not None:
                self._observe(other)

    def _follow(self, link: Link) -> None:
        """Talk to a controller that is no voter any more over its own connection to this node,
        which may be older than the change.
        """
        if self.core is None or link.voter in self.links or link.voter in self.followers:
            return
        for peer in self.inbound:
            if peer.node_id == link.voter and peer.hello is not None and peer.hello.controller:
                self.followers[link.voter] = peer
                self.core.peer_up(link.voter)
                self.poke()

    def _on_controller_message(self, link: Link, peer: Peer, kind: Kind, fields: Fields) -> None:
        """Handle a message on a connection that we made."""
        link.pings = 0
        if kind is Kind.REPLY:
            call, code, message, value = fields
            done = link.calls.pop(call, None)
            if done is not None:
                done(KafkaError(Code(code), message) if code else None, value)
        elif kind is Kind.LEADER:
            if self.core is None:
                self._set_leader(*fields)
        elif kind is Kind.GOODBYE:
            self.departure.said_goodbye(peer.node_id)
        elif kind is Kind.VOTERS:
            self.addresses.announced(*fields[:2])
        elif kind is Kind.RAFT and self.core is not None and fields:
            self._on_raft_message(peer, fields[0])
        elif kind is Kind.ENTRIES and self.core is None:
            self._apply([Committed(*entry) for entry in fields[0]])
        elif kind is Kind.SNAPSHOT and self.core is None:
            self._add_snapshot_piece(*fields)
        else:
            raise ProtocolError(f"{kind.name} where it has no meaning")

    def _add_snapshot_piece(
        self, index: int, term: int, size: int, position: int, piece: bytes
    ) -> None:
        if position != len(self._snapshot):
            self._snapshot.clear()
            raise ProtocolError("a piece of a snapshot is missing")
        self._snapshot += piece
        if len(self._snapshot) == size:
            state, self._snapshot = bytes(self._snapshot), bytearray()
            self._apply(Snapshot(index, term, state))

    # connections to us

    def _acceptor(self, endpoint: Endpoint) -> Callable[[], Connection | None]:
        """Raises TlsError."""
        protect = self._security.acceptor(endpoint)
        gate = self._security.client_gate(endpoint)

        def make_client(accepted: AcceptedConnection) -> ServerConnection | None:
            name = accepted.name() if accepted.name is not None else None
            client = self._admit_client(endpoint.listener)
            if client is None:
                return None
            if gate is not None:
                client.gate = gate(client)
            elif name is not None:
                client.session.principal = f"User:{name}"
            del self.inbound[accepted.peer]
            return client

        def accept() -> Connection | None:
            peer = self._accept(self._security.accepting_login(endpoint))
            return peer if peer is None else protect(AcceptedConnection(peer, make_client))

        return accept

    def _accept(self, login: PeerLogin | None) -> Peer | None:
        if len(self.inbound) >= CONTROLLER_CONNECTIONS.value:
            self.context.metrics.refused(CONTROLLER_CONNECTIONS)
            self.context.events.warning(
                "controller_connection_refused", reason=f"there are {len(self.inbound)} connections"
            )
            return None
        peer = Peer(
            self._make_hello,
            self._on_node_hello,
            self._on_node_message,
            self._on_node_closed,
            dialed=False,
            traffic=self.traffic,
            login=login,
        )
        self.inbound[peer] = None
        self.clock.call_at(
            self.clock.now() + HELLO_S,
            lambda: peer.close("no greeting came") if peer.hello is None else None,
        )
        return peer

    def _on_node_hello(self, peer: Peer) -> None:
        if peer.node_id == self.context.node_id:
            raise ProtocolError(f"two nodes with node.id {peer.node_id}")
        assert peer.hello is not None
        self._check_disks(peer.hello)
        if self.host is not None and peer.hello.controller:
            self.host.on_greeting(peer.node_id, peer.hello.features, peer.hello.endpoints)
        self._send_voters(peer)
        for earlier in [
            each for each in self.inbound if each is not peer and each.node_id == peer.node_id
        ]:
            earlier.close("the node has connected anew")  # its machine went without a word
        if peer.hello.controller and peer.node_id not in self.links and self.core is not None:
            self.followers[peer.node_id] = peer
            self.core.peer_up(peer.node_id)
            self.poke()

    def _on_node_message(self, peer: Peer, kind: Kind, fields: Fields) -> None:
        """Handle a message on a connection that another node made."""
        core, host = self.core, self.host
        assert core is not None
        assert host is not None
        # RaftCore looks at its messages itself
        if not (fields if kind is Kind.RAFT else _has_shape(kind, fields)):
            raise ProtocolError(f"{kind.name} without its fields")
        if kind is Kind.RAFT and peer.hello is not None and peer.hello.controller:
            self._on_raft_message(peer, fields[0])
        elif kind is Kind.CALL:
            self._execute_call(peer, *fields[:3])
        elif kind is Kind.OBSERVE:
            peer.observed = fields[0]
            peer.on_drained = self._send_entries
            peer.send(Kind.LEADER, core.leader, core.term)
            self._send_entries(peer)
        elif kind is Kind.PING:
            peer.send(Kind.LEADER, core.leader, core.term)
        elif kind is Kind.GOODBYE:
            self.departure.said_goodbye(peer.node_id)
        else:
            raise ProtocolError(f"{kind.name} where it has no meaning")

    def _on_raft_message(self, peer: Peer, message: Message) -> None:
        """Raises ProtocolError: then the connection is closed."""
        core, host = self.core, self.host
        assert core is not None
        assert host is not None
        try:
            core.receive(peer.node_id, message)
            host.heard[peer.node_id] = self.clock.now()
        except (MalformedMessage, WrongCluster) as error:
            raise ProtocolError(str(error), getattr(error, "limit", None)) from error
        self.poke()

    def _execute_call(self, peer: Peer, call: int, name: str, values: Fields) -> None:
        assert self.host is not None

        def done(error: KafkaError | None, reply: object) -> None:
            peer.send(
                Kind.REPLY,
                call,
                int(error.code) if error is not None else 0,
                error.message if error is not None else None,
                reply,
            )

        try:
            command = from_wire(name, values)
        except UnknownCommand:
            # all else of that node goes on; its client is answered
            told = f"the controller's release does not know {name:.40}"
            done(KafkaError(Code.UNSUPPORTED_VERSION, told), None)
            return
        self.host.submit(command, done)

    def _send_entries(self, peer: Peer) -> None:
        """Send an observer what it does not have, as fast as it takes it."""
        assert self.core is not None
        while peer.observed is not None:
            if peer.crowded:
                if peer.observed <= self.core.commit_index:
                    self.context.metrics.hit(PEER_OUTPUT_BYTES)
                return
            found = self.core.observe(peer.observed)
            if not found:
                return
            if isinstance(found, Snapshot):
                for position in range(0, len(found.state) or 1, PIECE_BYTES):
                    piece = found.state[position : position + PIECE_BYTES]
                    peer.send(
                        Kind.SNAPSHOT, found.index, found.term, len(found.state), position, piece
                    )
                peer.observed = found.index + 1
            else:
                peer.send(Kind.ENTRIES, [[entry.index, entry.term, entry.data] for entry in found])
                peer.observed = found[-1].index + 1

    def _on_node_closed(self, peer: Peer, reason: str) -> None:
        self.inbound.pop(peer, None)
        if self.core is not None and self.followers.get(peer.node_id) is peer:
            del self.followers[peer.node_id]
            link = self.links.get(peer.node_id)
            if link is None or not link.up:
                self.core.peer_lost(peer.node_id)
                self.poke()
        if peer.limit_hit is not None:
            self.context.metrics.refused(peer.limit_hit)
        if peer.hello is None or "refused:" in reason:
            self.context.metrics.count("raftka_controller_refusals_total")
            self.context.events.warning(
                "controller_connection_refused", peer=peer.address, reason=reason
            )
        elif peer.hello.broker and self.host is not None:
            self._suspects.broken(peer.node_id)
            self.host.connection_lost(peer.node_id)

    def stop(self) -> None:
        for listener in self.listeners:
            listener.close()
