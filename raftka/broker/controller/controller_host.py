"""The controller on the node that leads the metadata quorum: decide, append, replay, hold every
reply until what was replayed before it is committed.

The machine runs ahead of what is committed; whenever this node's leadership begins or ends it is
made anew from the committed image.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from raftka.broker.context import BrokerContext
from raftka.broker.controller.quorum_state import QuorumView
from raftka.broker.purgatory import Purgatory
from raftka.client.connection import (
    PLAIN,
    Address,
    ClientConnection,
    Opener,
    Secured,
    open_connection,
)
from raftka.limits import PROPOSALS_IN_FLIGHT, LimitExceeded
from raftka.metadata.commands import BrokerLost, Command, DescribeQuorum, Heartbeat
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.decision import Context, Formation, Outcome, Rest
from raftka.metadata.extension import Extension, ExtensionMachine
from raftka.metadata.image import Delta, Endpoint, MetadataImage
from raftka.metadata.quorum.raft_types import Committed, NotLeader, ProposalsFull
from raftka.metadata.records import ExtensionChanged, Record, encode_batch
from raftka.runtime.interfaces import SECRETS
from raftka.wire.errors import Code, KafkaError, limit_of

if TYPE_CHECKING:
    from raftka.metadata.quorum.raft import RaftCore

Done = Callable[[KafkaError | None, Any], None]  # the refusal, or the reply
PROBES, PROBE_AGAIN_S, PROBE_S = 20, 0.01, 1.0
SILENT = "no answer came"
LINKS_SETTLE_S = 0.02  # after an election, before silent brokers are looked for
# of CPU in a turn; the commands behind wait for the next turn, whose requests come first
DECIDING_S = 0.005


class ControllerHost:
    def __init__(
        self,
        context: BrokerContext,
        core: "RaftCore",
        poke: Callable[[], None],
        transfer: Callable[[], bool],
        extensions: Mapping[str, Extension],
    ) -> None:
        self.context = context
        self.core = core
        self.clock = context.runtime.clock
        self.machine: Controller | None = None
        self._poke = poke
        self._transfer = transfer
        self._extensions = extensions
        self._term = -1  # in which the machine decides
        self._delayed = Purgatory()  # replies, by the index that must be committed
        # (index, when) of what is not committed yet
        self._proposed: deque[tuple[int, float]] = deque()
        # entries that the machine has replayed, and that are not committed yet
        self._replayed: deque[_Replayed] = deque()
        self._last_index = 0  # of what the machine has replayed
        self._timer_at = inf
        self._behind: deque[tuple[Command, Done]] = deque()  # commands that wait for another turn
        self._decided_s = 0.0  # in this turn
        self.view = QuorumView(core, self.clock)
        self.heard: dict[int, float] = {}  # when each voter last said anything

    @property
    def active(self) -> bool:
        """Not from the moment on in which the core steps down: the commit index may then be that of
        another leader's entries.
        """
        return self.machine is not None and self.core.active_in(self._term)

    def submit(self, command: Command, done: Done) -> None:
        """`done` is called when the outcome is committed, and all that it or its refusal was
        decided on. NOT_CONTROLLER: ask another node.
        """
        if len(self._behind) >= PROPOSALS_IN_FLIGHT.value:  # it passes, and the link asks again
            self.context.metrics.hit(PROPOSALS_IN_FLIGHT)
            done(KafkaError(Code.NOT_CONTROLLER), None)
        elif self._behind or self._decided_s >= DECIDING_S:
            if not self._behind:
                self.clock.call_at(self.clock.now(), self._next_turn)
            self._behind.append((command, done))
        else:
            self._decide_and_append(command, done)

    def _decide_and_append(self, command: Command, done: Done) -> None:
        machine = self.machine
        if machine is None or not self.active:
            done(KafkaError(Code.NOT_CONTROLLER), None)
            return
        if not self._decided_s:
            self.clock.at_turn_end(self._turn_ended)
        began = self.clock.cpu_s()
        self._carry_out(partial(self._decide, machine, command), done)
        self._decided_s += self.clock.cpu_s() - began

    def _turn_ended(self) -> None:
        self._decided_s = 0.0

    def _next_turn(self) -> None:
        behind = self._behind
        while behind and self._decided_s < DECIDING_S:
            self._decide_and_append(*behind.popleft())
        if behind:
            self.clock.call_at(self.clock.now(), self._next_turn)

    def _carry_out(self, decide: Callable[[], Outcome], done: Done) -> None:
        refused, reply = None, None
        try:
            outcome = decide()
            self._append(outcome.records)
            reply = outcome.reply
            if outcome.rest is not None:
                self._continue_later(outcome.rest, done)
                return
            if outcome.hand_over:
                done = self._handing_over(done)
            if outcome.confirm and not outcome.records:
                self._confirm(done, reply)
                return
        except KafkaError as error:
            refused = error
            for limit in limit_of(error):
                self.context.metrics.hit(limit)
        except ProposalsFull as error:  # it passes, and the link asks again
            self.context.metrics.hit(error.limit)
            refused = KafkaError(Code.NOT_CONTROLLER)
        except LimitExceeded as error:
            self.context.metrics.hit(error.limit)
            refused = KafkaError(Code.POLICY_VIOLATION, str(error))
        self._delayed.add(self._last_index, _Reply(done, refused, reply))
        if self.active:
            self._release()
        self._arm()

    def _continue_later(self, rest: Rest, done: Done) -> None:
        """With what did not go into one entry, in another turn: others are served in between."""
        machine = self.machine

        def go_on() -> None:
            if self.machine is machine and machine is not None and self.active:
                self._carry_out(lambda: self._guarded(machine, rest, "a further portion"), done)
            else:
                done(KafkaError(Code.NETWORK_EXCEPTION), None)

        self.clock.call_at(self.clock.now(), go_on)
        self._arm()

    def _handing_over(self, done: Done) -> Done:
        def answered(error: KafkaError | None, reply: object) -> None:
            done(error, reply)
            if error is None:
                self._transfer()

        return answered

    def _confirm(self, done: Done, reply: object) -> None:
        """A read that must not be of the past: another controller may have begun without our
        knowing.
        """
        term, index = self._term, self._last_index

        def confirmed(read_index: int | None) -> None:
            if read_index is None or not self.active or self._term != term:
                done(KafkaError(Code.NOT_CONTROLLER), None)
            else:
                self._delayed.add(index, _Reply(done, None, reply))
                self._release()

        self.core.read_index(confirmed)
        self._poke()
        self._arm()

    def _decide(self, machine: Controller, command: Command) -> Outcome:
        if isinstance(command, Heartbeat):
            self.view.broker_heard(command)
        elif isinstance(command, DescribeQuorum):
            return Outcome(reply=self.view.describe(self.context.node_id, machine, self.heard))
        return self._guarded(machine, partial(machine.decide, command), type(command).__name__)

    def _guarded(self, machine: Controller, decide: Rest, name: str) -> Outcome:
        """A command that the machine can not bear, a stranger's perhaps, is refused: nothing has
        changed yet.
        """
        try:
            outcome = decide(self._context())
            for limit in machine.take_hits():
                self.context.metrics.hit(limit)
            return outcome
        except (KafkaError, LimitExceeded):
            raise
        except Exception as error:
            self.context.metrics.count("raftka_handler_errors_total")
            self.context.events.error("command_failed", command=name, error=repr(error))
            raise KafkaError(
                Code.UNKNOWN_SERVER_ERROR, f"the controller failed: {error!r}"
            ) from error

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
        decided_at = self.core.last_index + 1
        try:
            data = encode_batch(records, decided_at)
            index = self.core.propose(data)
        except (NotLeader, LimitExceeded):
            machine.not_appended()
            raise
        assert index == decided_at, "only the controller appends while it leads"
        self._proposed.append((index, self.clock.now()))
        if machine.image.offset == committed.offset:
            # the same state; an image made from this object can become the committed one
            machine.image = committed
        before = machine.image
        delta = machine.replay(index, records)
        if len(records) == 1 and type(records[0]) is ExtensionChanged:
            self._replayed.append(_Replayed(index, data, before, machine.image, delta))
        self._last_index = index
        self._poke()

    def replayed(
        self, entry: Committed, before: MetadataImage
    ) -> tuple[MetadataImage, Delta] | None:
        """Return the image and the delta that the machine has made of this very image by this very
        entry; None: it has not.

        It keeps them for a package's changes alone: these are bytes, the same here as in the log.
        In other records a list may become a tuple there.
        """
        waiting = self._replayed
        while waiting and waiting[0].at <= entry.index:
            index, data, base, after, delta = waiting.popleft()
            if index == entry.index and base is before and data == entry.data:
                return after, delta
        return None

    # what the quorum tells

    def advanced(self) -> None:
        """Leadership or the commit index may have changed."""
        active = self.active
        if self.machine is not None and not active:
            self._end()
        if not active:
            if not self.core.active:
                return
            self._begin()
        self.view.voters_heard(self.heard)
        self._release()

    def _release(self) -> None:
        """Called while this node is active."""
        committed = self.core.commit_index
        while self._proposed and self._proposed[0][0] <= committed:
            self.context.metrics.commits.add(self.clock.now() - self._proposed.popleft()[1])
        self._delayed.reached(committed)

    def _begin(self) -> None:
        image = self.context.metadata.image
        assert image.offset == self.core.last_index, (
            "an active leader has applied its own term's first entry, and nobody has appended since"
        )
        self._last_index, self._term = image.offset, self.core.term
        formation = Formation(self.context.runtime.random(SECRETS), self.context.first_users)
        self.machine = Controller(
            image,
            self.context.metadata.settings,
            self.clock.now(),
            self.heard,
            self._machines(image),
            formation,
        )
        if formation.first_users and image.cluster_id is not None:
            self.context.events.info("first_users_not_added", reason="the cluster exists already")
        self.context.events.info("controller_active", term=self.core.term, offset=image.offset)
        self.context.metrics.count("raftka_controller_elections_total")
        self._tick_now()
        self.clock.call_at(self.clock.now() + LINKS_SETTLE_S, self._probe_silent_brokers)

    def _machines(self, image: MetadataImage) -> dict[str, ExtensionMachine]:
        return {
            package: each.machine(image, self.clock.now())
            for package, each in self._extensions.items()
        }

    def _end(self) -> None:
        self.machine = None
        self._proposed.clear()
        self._replayed.clear()
        self.context.events.info("controller_resigned", term=self.core.term)
        # nobody knows what becomes of it; with NOT_CONTROLLER nothing was decided
        self._delayed.fail(Code.NETWORK_EXCEPTION)

    # time

    def _arm(self) -> None:
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
            except (NotLeader, LimitExceeded):
                self._timer_at = self.clock.now() + 0.05
                self.clock.call_at(self._timer_at, self._tick_now)
                return
            self._arm()

    # brokers that died

    def _probe_silent_brokers(self) -> None:
        """Connect to brokers that send nothing: one that died together with the last controller is
        noticed by no other node.
        """
        if self.machine is not None:
            for broker in self.context.metadata.image.brokers.values():
                if broker.alive and broker.broker_id != self.context.node_id:
                    self.connection_lost(broker.broker_id)

    def connection_lost(self, broker_id: int) -> None:
        """A broker's connection to us broke. When its port refuses as well the process is gone: no
        need to wait for its session's end.
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
        """A process that is being killed closes its listener last: it may still take a connection,
        and then breaks it without an answer.
        """

        def refused() -> None:
            self.context.events.info("broker_process_gone", broker=command.broker_id)
            self.submit(command, lambda error, reply: None)

        def again() -> None:
            if probes > 1:
                self.clock.call_at(
                    self.clock.now() + PROBE_AGAIN_S,
                    lambda: self._probe(endpoint, command, probes - 1),
                )

        # it hangs: its session will end
        self.clock.call_at(self.clock.now() + PROBE_S, lambda: probe.close(SILENT))
        probe = open_probe(
            self.context.runtime.network,
            (endpoint.host, endpoint.port),
            refused,
            again,
            self.context.secured(),
        )


class _Replayed(NamedTuple):
    at: int  # index of the entry
    data: bytes  # of the entry
    before: MetadataImage
    after: MetadataImage
    delta: Delta


class _Reply:
    """The answer to a command, to be sent when its outcome is committed."""

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
    """Connect and ask for the versions: a broker that answers lives. `broken`: the connection was
    taken, and ended without an answer.
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
