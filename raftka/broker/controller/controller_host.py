"""The controller on the node that leads the metadata quorum.

For each command the host has the machine decide, appends the records to the metadata log, replays
them at once, and holds the reply until all that was replayed so far is committed. So the machine is
ahead of the committed image. The host makes a new machine of the committed image when this node
becomes the leader, and drops it when the leadership ends.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from raftka.broker.context import BrokerContext
from raftka.broker.controller.quorum_state import QuorumView
from raftka.broker.controller.voter_changes import (
    PENDING,
    WAIT_S,
    changed_set,
    check_answer,
    check_caught_up,
    configured_voters,
    forget_controller,
    raises_kraft_version,
)
from raftka.broker.purgatory import Purgatory
from raftka.client.connection import (
    PLAIN,
    SOFTWARE_VERSION,
    Address,
    ClientConnection,
    Opener,
    Secured,
    open_connection,
)
from raftka.limits import PROPOSALS_IN_FLIGHT, LimitExceeded
from raftka.metadata.commands import (
    AddVoter,
    BrokerLost,
    Command,
    DescribeQuorum,
    Heartbeat,
    OfVoters,
    RemoveVoter,
    UnregisterController,
    UpdateVoter,
    VoterEndpoints,
)
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.decision import Context, Formation, Outcome, Rest
from raftka.metadata.controller.features import FAILED
from raftka.metadata.extension import Extension, ExtensionMachine
from raftka.metadata.image import Delta, Endpoint, MetadataImage
from raftka.metadata.quorum.raft_types import Committed, NotLeader, ProposalsFull, VotersRefused
from raftka.metadata.quorum.voter_sets import VoterSet
from raftka.metadata.records import ExtensionChanged, LevelTooLow, Record, encode_batch
from raftka.runtime.interfaces import SECRETS
from raftka.versions import Features
from raftka.wire.errors import Code, KafkaError, limit_of
from raftka.wire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from raftka.wire.software import SOFTWARE_NAME

if TYPE_CHECKING:
    from raftka.metadata.quorum.raft import RaftCore

Done = Callable[[KafkaError | None, Any], None]  # called with the refusal, or with the reply
PROBES, PROBE_AGAIN_S, PROBE_S = 20, 0.01, 1.0
SILENT = "no answer came"
LINKS_SETTLE_S = 0.02  # after an election, before silent brokers are probed
# CPU time for commands in a turn. Further commands wait for the next turn, whose requests come
# first.
DECIDING_S = 0.005
VOTERS_AGAIN_S = 0.05  # until a change of the voters that was not safe is tried again


class ControllerHost:
    def __init__(
        self,
        context: BrokerContext,
        core: "RaftCore",
        poke: Callable[[], None],
        transfer: Callable[[], bool],
        extensions: Mapping[str, Extension],
        secured: Callable[[], Secured],
    ) -> None:
        """`secured`: TLS and the login of connections to other controllers."""
        self.context = context
        self.core = core
        self.clock = context.runtime.clock
        self.machine: Controller | None = None
        self._poke = poke
        self._transfer = transfer
        self._extensions = extensions
        self._secured = secured
        self._term = -1  # in which the machine decides
        self._delayed = Purgatory()  # replies, by the index that must be committed
        # (index, time) of entries that are not committed yet
        self._proposed: deque[tuple[int, float]] = deque()
        # entries that the machine has replayed, and that are not committed yet
        self._replayed: deque[_Replayed] = deque()
        self._last_index = 0  # of the last entry that the machine has replayed
        self._timer_at = inf
        self._waiting: deque[tuple[Command, Done]] = deque()  # commands for the next turn
        self._deciding_s = 0.0  # CPU time for commands in this turn
        self.view = QuorumView(core, self.clock)
        self.heard: dict[int, float] = {}  # times at which each voter was last heard
        # levels that the release of each controller supports, and its end points
        self.greeted: dict[int, Features] = {}
        self.endpoints: dict[int, VoterEndpoints] = {}
        self._trying: ClientConnection | None = None  # to the end point of a node that comes

    @property
    def active(self) -> bool:
        """Return whether this node is the controller. From the moment in which the core steps down
        it is not: the commit index may then be that of another leader's entries.
        """
        return self.machine is not None and self.core.active_in(self._term)

    def on_greeting(self, node_id: int, features: Features, endpoints: VoterEndpoints) -> None:
        self.greeted[node_id] = features
        self.endpoints[node_id] = endpoints

    def submit(self, command: Command, done: Done) -> None:
        """Execute a command, now or in the next turn. `done` is called when the outcome is
        committed, and all that the outcome or the refusal was decided on.

        The refusal NOT_CONTROLLER means: ask another node, or ask again.
        """
        if len(self._waiting) >= PROPOSALS_IN_FLIGHT.value:
            self.context.metrics.hit(PROPOSALS_IN_FLIGHT)
            done(KafkaError(Code.NOT_CONTROLLER), None)
        elif self._waiting or self._deciding_s >= DECIDING_S:
            if not self._waiting:
                self.clock.call_at(self.clock.now(), self._execute_waiting)
            self._waiting.append((command, done))
        else:
            self._execute(command, done)

    def _execute_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self._deciding_s < DECIDING_S:
            self._execute(*waiting.popleft())
        if waiting:
            self.clock.call_at(self.clock.now(), self._execute_waiting)

    def _execute(self, command: Command, done: Done) -> None:
        """Have the machine decide, then append the records and hold the reply."""
        machine = self.machine
        if machine is None or not self.active:
            done(KafkaError(Code.NOT_CONTROLLER), None)
            return
        if not self._deciding_s:
            self.clock.at_turn_end(self._reset_deciding_time)
        began = self.clock.cpu_s()
        if isinstance(command, (AddVoter, RemoveVoter, UpdateVoter)):
            self._change_voters(command, done, self.clock.now() + WAIT_S)
            return
        if isinstance(command, Heartbeat):
            self.view.broker_heard(command)
        try:
            if isinstance(command, DescribeQuorum):
                reply = self.view.describe(self.context.node_id, machine, self.heard)
                outcome = Outcome(reply=reply)
            elif isinstance(command, UnregisterController):
                forget_controller(command, self.context.node_id, self.greeted)
                outcome = Outcome()
            else:
                outcome = machine.decide(command, self._context())
        except Exception as error:
            self._hold_reply(done, self._make_refusal(error, type(command).__name__))
        else:
            self._append_outcome(machine, outcome, done)
        self._deciding_s += self.clock.cpu_s() - began

    def _change_voters(
        self, command: OfVoters, done: Done, until: float, *, answers: bool = False
    ) -> None:
        """Append the set of voters after the command. A change that is not safe yet is tried again,
        until that time. `answers`: the node that comes has answered at its end point.
        """
        machine, settings = self.machine, self.context.metadata.settings
        if machine is None or not self.active:
            done(KafkaError(Code.NOT_CONTROLLER), None)
            return
        try:
            voters = changed_set(command, self.core, machine.image, settings)
            if isinstance(command, AddVoter):
                if not answers:
                    self._try_endpoint(command, done)
                    return
                check_caught_up(command, self.core)
            self._append_voters(voters, ())
        except VotersRefused as error:
            if self.clock.now() < until:
                self.clock.call_at(
                    self.clock.now() + VOTERS_AGAIN_S,
                    lambda: self._change_voters(command, done, until, answers=answers),
                )
            else:
                self._hold_reply(done, KafkaError(Code.REQUEST_TIMED_OUT, str(error)))
        except NotLeader:
            done(KafkaError(Code.NOT_CONTROLLER), None)
        except (KafkaError, LimitExceeded) as error:
            self._hold_reply(done, self._make_refusal(error))
        else:
            if isinstance(command, AddVoter) and not command.ack_when_committed:
                done(None, None)
            else:
                self._hold_reply(done, None)

    def _try_endpoint(self, command: AddVoter, done: Done) -> None:
        """Ask the node that comes for its versions, at the end point of the default listener; then
        go on with the change. Raises VotersRefused while another one is asked.
        """
        if self._trying is not None:
            raise VotersRefused(PENDING)
        name = self.context.metadata.settings["controller.listener.names"][0]
        host, port = next(each[1:] for each in command.endpoints if each[0] == name)

        def came(answer: ApiVersionsResponse | None, _: str | None) -> None:
            self._trying = None
            connection.close("it has answered")
            try:
                check_answer(command, answer)
            except KafkaError as error:
                if self.active:
                    self._hold_reply(done, error)
                else:
                    done(KafkaError(Code.NOT_CONTROLLER), None)
            else:
                self._change_voters(command, done, self.clock.now() + WAIT_S, answers=True)

        connection = self._trying = open_connection(
            self.context.runtime.network, (host, port), "add voter", secured=self._secured()
        )
        request = API_VERSIONS.request(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        connection.request(API_VERSIONS, request, came)
        self.clock.call_at(self.clock.now() + WAIT_S, lambda: connection.close(SILENT))

    def _append_voters(self, voters: VoterSet, records: Sequence[Record]) -> None:
        """Append a set of voters, and records that take effect with it. Raises VotersRefused,
        NotLeader, LimitExceeded, LevelTooLow.
        """
        machine = self.machine
        assert machine is not None
        level, decided_at = machine.image.level, self.core.last_index + 1
        data = encode_batch(records, decided_at, level) if records else b""
        index = self.core.change_voters(voters, data)
        self._proposed.append((index, self.clock.now()))
        machine.replay(index, records)
        self._last_index = index
        self.context.events.info("voters_changed", voters=str(list(self.core.voters)))
        self._poke()

    def _reset_deciding_time(self) -> None:
        self._deciding_s = 0.0

    def _append_outcome(self, machine: Controller, outcome: Outcome, done: Done) -> None:
        for limit in machine.take_hits():
            self.context.metrics.hit(limit)
        try:
            self._append(outcome.records)
        except (LimitExceeded, LevelTooLow, VotersRefused) as error:
            self._hold_reply(done, self._make_refusal(error))
            return
        if outcome.rest is not None:
            self._continue_later(machine, outcome.rest, done)
            return
        if outcome.hand_over:
            done = self._hand_over_after(done)
        if outcome.confirm and not outcome.records:
            self._confirm_leadership(done, outcome.reply)
        else:
            self._hold_reply(done, None, outcome.reply)

    def _make_refusal(self, error: Exception, command: str = "") -> KafkaError:
        """Return the refusal for an error in a decision, and count it.

        A command that the machine cannot decide, of a newer version perhaps, is refused: no state
        has changed yet.
        """
        match error:
            case KafkaError():
                for limit in limit_of(error):
                    self.context.metrics.hit(limit)
                return error
            case ProposalsFull():  # for a moment only: the client of the controller asks again
                self.context.metrics.hit(error.limit)
                return KafkaError(Code.NOT_CONTROLLER)
            case VotersRefused():
                return KafkaError(Code.INVALID_UPDATE_VERSION, f"{FAILED}kraft.version: {error}")
            case LimitExceeded():
                self.context.metrics.hit(error.limit)
                return KafkaError(Code.POLICY_VIOLATION, str(error))
        self.context.metrics.count("raftka_handler_errors_total")
        self.context.events.error("command_failed", command=command, error=repr(error))
        return KafkaError(Code.UNKNOWN_SERVER_ERROR, f"the controller failed: {error!r}")

    def _hold_reply(self, done: Done, refused: KafkaError | None, reply: object = None) -> None:
        """Answer when all that the machine has replayed is committed."""
        self._delayed.add(self._last_index, _Reply(done, refused, reply))
        if self.active:
            self._release_replies()
        self._arm()

    def _continue_later(self, machine: Controller, rest: Rest, done: Done) -> None:
        """Decide the rest of a command, which did not fit into one entry, in another turn: other
        commands are executed in between.
        """

        def decide_rest() -> None:
            if self.machine is not machine or not self.active:
                done(KafkaError(Code.NETWORK_EXCEPTION), None)
                return
            try:
                outcome = rest(self._context())
            except Exception as error:
                self._hold_reply(done, self._make_refusal(error, "a further portion"))
            else:
                self._append_outcome(machine, outcome, done)

        self.clock.call_at(self.clock.now(), decide_rest)
        self._arm()

    def _hand_over_after(self, done: Done) -> Done:
        """Return a `done` that also hands the leadership over to another node."""

        def answered(error: KafkaError | None, reply: object) -> None:
            done(error, reply)
            if error is None:
                self._transfer()

        return answered

    def _confirm_leadership(self, done: Done, reply: object) -> None:
        """Answer a read when a majority has confirmed that this node leads: another controller may
        have begun without this node's knowledge.
        """
        term, index = self._term, self._last_index

        def confirmed(read_index: int | None) -> None:
            if read_index is None or not self.active or self._term != term:
                done(KafkaError(Code.NOT_CONTROLLER), None)
            else:
                self._delayed.add(index, _Reply(done, None, reply))
                self._release_replies()

        self.core.read_index(confirmed)
        self._poke()
        self._arm()

    def _context(self) -> Context:
        return Context(
            self.clock.now(),
            self.clock.wall_ms(),
            self.context.runtime.random("controller"),
            self.core.last_index + 1,
        )

    def _append(self, records: Sequence[Record]) -> None:
        if not records:
            return
        machine, committed = self.machine, self.context.metadata.image
        assert machine is not None
        if self.core.voter_set is None and raises_kraft_version(records):
            settings = self.context.metadata.settings
            try:
                self._append_voters(configured_voters(self.core, settings), records)
            except (NotLeader, LimitExceeded, LevelTooLow, VotersRefused):
                machine.not_appended()
                raise
            return
        decided_at = self.core.last_index + 1
        try:
            data = encode_batch(records, decided_at, machine.image.level)
            index = self.core.propose(data)
        except (NotLeader, LimitExceeded, LevelTooLow):
            machine.not_appended()
            raise
        assert index == decided_at, "only the controller appends while it leads"
        self._proposed.append((index, self.clock.now()))
        if machine.image.offset == committed.offset:
            # the same state: an image that is made from this object can become the committed one
            machine.image = committed
        before = machine.image
        delta = machine.replay(index, records)
        if len(records) == 1 and type(records[0]) is ExtensionChanged:
            self._replayed.append(_Replayed(index, data, before, machine.image, delta))
        self._last_index = index
        self._poke()

    def take_replayed(
        self, entry: Committed, before: MetadataImage
    ) -> tuple[MetadataImage, Delta] | None:
        """Return the image and the delta that the machine has already made of this image and this
        entry; None if it has not.

        They are kept only for changes of packages. These are bytes, the same here as in the log. In
        other records a list may become a tuple in the log.
        """
        waiting = self._replayed
        while waiting and waiting[0].at <= entry.index:
            index, data, base, after, delta = waiting.popleft()
            if index == entry.index and base is before and data == entry.data:
                return after, delta
        return None

    # events of the quorum

    def on_quorum_progress(self) -> None:
        """React to a change of the leadership or the commit index."""
        active = self.active
        if self.machine is not None and not active:
            self._end_leadership()
        if not active:
            if not self.core.active:
                return
            self._begin_leadership()
        self.view.voters_heard(self.heard)
        self._release_replies()

    def _release_replies(self) -> None:
        """Send the replies whose entries are committed. Called only while this node is active."""
        committed = self.core.commit_index
        while self._proposed and self._proposed[0][0] <= committed:
            self.context.metrics.commits.add(self.clock.now() - self._proposed.popleft()[1])
        self._delayed.reached(committed)

    def _begin_leadership(self) -> None:
        image = self.context.metadata.image
        assert image.offset == self.core.last_index, (
            "an active leader has applied its own term's first entry, and no entry came since"
        )
        self._last_index, self._term = image.offset, self.core.term
        formation = Formation(
            self.context.runtime.random(SECRETS),
            self.context.first_users,
            self.context.metadata.settings["raftka.cluster.id"],
            self.context.kraft_version,
        )
        self.machine = Controller(
            image,
            self.context.metadata.settings,
            self.clock.now(),
            self.heard,
            self._make_machines(image),
            formation,
            self.greeted,
            lambda: self.core.voters,
        )
        if formation.first_users and image.cluster_id is not None:
            self.context.events.info("first_users_not_added", reason="the cluster exists already")
        self.context.events.info("controller_active", term=self.core.term, offset=image.offset)
        self.context.metrics.count("raftka_controller_elections_total")
        self._tick_now()
        self.clock.call_at(self.clock.now() + LINKS_SETTLE_S, self._probe_silent_brokers)

    def _make_machines(self, image: MetadataImage) -> dict[str, ExtensionMachine]:
        return {
            package: each.machine(image, self.clock.now())
            for package, each in self._extensions.items()
        }

    def _end_leadership(self) -> None:
        self.machine = None
        self._proposed.clear()
        self._replayed.clear()
        self.context.events.info("controller_resigned", term=self.core.term)
        # these entries may be committed or not; NOT_CONTROLLER would mean that none was appended
        self._delayed.fail(Code.NETWORK_EXCEPTION)

    # time

    def _arm(self) -> None:
        """Set the timer for the machine's next tick."""
        if self.machine is None:
            return
        when = max(self.machine.deadline(), self.clock.now())
        if when < self._timer_at:
            self._timer_at = when
            self.clock.call_at(when, self._tick_now)

    def _tick_now(self) -> None:
        self._timer_at = inf
        if self.machine is not None and self.core.active:
            try:
                self._append(self.machine.tick(self._context()).records)
            except (NotLeader, LimitExceeded, VotersRefused):
                self._timer_at = self.clock.now() + 0.05
                self.clock.call_at(self._timer_at, self._tick_now)
                return
            self._arm()

    # brokers that died

    def _probe_silent_brokers(self) -> None:
        """Connect to brokers that send nothing: no other node notices a broker that died together
        with the last controller.
        """
        if self.machine is not None:
            for broker in self.context.metadata.image.brokers.values():
                if broker.alive and broker.broker_id != self.context.node_id:
                    self.connection_lost(broker.broker_id)

    def connection_lost(self, broker_id: int) -> None:
        """React to a broken connection of a broker. If its port refuses connections too, its
        process has ended, and its session need not run out.
        """
        broker = self.context.metadata.image.brokers.get(broker_id)
        if self.machine is None or broker is None or not broker.alive or not broker.endpoints:
            return
        endpoint = (
            broker.endpoint(self.context.metadata.settings.inter_broker_listener)
            or broker.endpoints[0]
        )
        self._probe(endpoint, BrokerLost(broker_id, broker.epoch), PROBES)

    def _probe(self, endpoint: Endpoint, command: BrokerLost, probes: int) -> None:
        """Connect to the broker; if it breaks the connection without an answer, try again. A
        process that is being killed closes its listener last, and may still accept connections.
        """

        def refused() -> None:
            self.context.events.info("broker_process_gone", broker=command.broker_id)
            self.submit(command, lambda error, reply: None)

        def probe_again() -> None:
            if probes > 1:
                self.clock.call_at(
                    self.clock.now() + PROBE_AGAIN_S,
                    lambda: self._probe(endpoint, command, probes - 1),
                )

        # a broker that hangs is fenced when its session ends
        self.clock.call_at(self.clock.now() + PROBE_S, lambda: probe.close(SILENT))
        probe = open_probe(
            self.context.runtime.network,
            (endpoint.host, endpoint.port),
            refused,
            probe_again,
            self.context.secured(),
        )


class _Replayed(NamedTuple):
    at: int  # index of the entry
    data: bytes  # of the entry
    before: MetadataImage
    after: MetadataImage
    delta: Delta


class _Reply:
    """The reply to a command, held until its outcome is committed."""

    __slots__ = ("_done", "_refused", "_reply")

    def __init__(self, done: Done, refused: KafkaError | None, reply: Any) -> None:
        self._done = done
        self._refused = refused
        self._reply = reply

    def complete(self, code: Code) -> None:
        if code is Code.NONE:
            self._done(self._refused, self._reply)
        else:
            self._done(KafkaError(code), None)


def open_probe(
    network: Opener,
    address: Address,
    refused: Callable[[], None],
    broken: Callable[[], None],
    secured: Secured = PLAIN,
) -> ClientConnection:
    """Connect and send ApiVersions: a broker that answers is alive. `broken` is called when the
    connection was accepted and then closed without an answer.
    """

    def closed(reason: str) -> None:
        if not probe.opened_once:
            if "refused" in reason.lower():
                refused()
        elif not probe.versions and reason != SILENT:
            broken()

    probe = open_connection(
        network, address, "probe", lambda: probe.close("it lives"), closed, secured=secured
    )
    return probe
