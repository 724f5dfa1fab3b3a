"""The broker's side of the controller: finds the one that is active, asks it, registers, sends heartbeats. Knows no Raft.

A call that got no answer is asked again until its time is up: by then it may have been carried out, which every command allows for.
"""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

import trio

from raftka.metadata.commands import TELL_HELD, Command, Heartbeat, HeartbeatAnswer, RegisterBroker, Registered, read_reply
from raftka.runtime.interfaces import Timer
from raftka.wire.errors import Code, KafkaError

if TYPE_CHECKING:
    from raftka.broker.node import Node

RETRY_S = 0.03
CALL_S = 30.0  # a call without a time-out of its own
Done = Callable[[KafkaError | None, Any], None]


class _Call:
    __slots__ = ("command", "deadline", "done", "timer")

    def __init__(self, command: Command, deadline: float, done: Done) -> None:
        self.command = command
        self.deadline = deadline
        self.done: Done | None = done
        self.timer: Timer | None = None


class ControllerLink:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.clock = node.runtime.clock
        self.broker_epoch = -1
        self._registering = False
        self._beating = False
        self._beat_at = 0.0
        self._stopping: Callable[[], None] | None = None  # called when the controller lets us go
        self._withdrawn_for: set[str] = set()  # reasons: as long as there is one it is not unfenced
        self.answered_at = -inf  # when a controller last answered a heartbeat or the registration
        self._vouched_at = -inf  # when we sent the heartbeat that was last answered, with a word that we are not fenced

    # calls

    def call(self, command: Command, done: Done, timeout_s: float = CALL_S) -> None:
        """`done(error, None)` or `done(None, reply)`, once."""
        now = self.clock.now()
        call = _Call(command, now + timeout_s, done)
        call.timer = self.clock.call_at(call.deadline, lambda: self._finish(call, KafkaError(Code.REQUEST_TIMED_OUT), None))
        self._try(call)

    async def ask(self, command: Command, timeout_s: float = CALL_S) -> Any:
        """The same for async handlers. Raises KafkaError."""
        answered = trio.Event()
        outcome: list[Any] = []

        def done(error: KafkaError | None, reply: Any) -> None:
            outcome.extend((error, reply))
            answered.set()

        self.call(command, done, timeout_s)
        await answered.wait()
        if outcome[0] is not None:
            raise outcome[0]
        return outcome[1]

    def _try(self, call: _Call) -> None:
        if call.done is None:
            return
        if not self.node.quorum.ask_controller(call.command, lambda error, reply: self._answered(call, error, reply)):
            self._again(call)

    def _answered(self, call: _Call, error: KafkaError | None, reply: Any) -> None:
        if error is not None and error.code in (Code.NOT_CONTROLLER, Code.NETWORK_EXCEPTION):
            self._again(call)
            return
        if error is None:
            try:
                reply = read_reply(call.command, reply)
            except ValueError as failure:
                error = KafkaError(Code.UNKNOWN_SERVER_ERROR, f"the controller's reply: {failure}")
        self._finish(call, error, reply if error is None else None)

    def _again(self, call: _Call) -> None:
        if call.done is not None:
            self.clock.call_at(self.clock.now() + RETRY_S, lambda: self._try(call))

    @staticmethod
    def _finish(call: _Call, error: KafkaError | None, reply: Any) -> None:
        done, call.done = call.done, None
        if call.timer is not None:
            call.timer.cancel()
        if done is not None:
            done(error, reply)

    # registration and heartbeats

    def start(self) -> None:
        self._register()

    def _register(self, *, tell_held: bool = False) -> None:
        if self._registering:
            return
        self._registering = True
        node = self.node
        first, *more = node.logs.directory_ids
        command = RegisterBroker(
            node.node_id,
            node.incarnation_id,
            first,
            node.image.cluster_id or node.cluster_id,
            tuple([(each.listener, each.host, each.port, each.security_protocol) for each in node.advertised_endpoints()]),
            node.settings.rack,
            tuple(more),
            len(node.logs.offline),
            node.replicas.directories.held() if tell_held else None,
        )
        self.call(command, self._registered)

    def _registered(self, error: KafkaError | None, reply: Registered | None) -> None:
        self._registering = False
        if error is not None or reply is None:
            fatal = error is not None and error.code in (Code.INCONSISTENT_CLUSTER_ID, Code.INVALID_REGISTRATION)
            self.node.events.warning("registration_refused", error=str(error))
            if fatal and error is not None:
                self.node.runtime.fail(error)
                return
            self.clock.call_at(self.clock.now() + 0.2, self._register)
            return
        if reply.broker_epoch == TELL_HELD:
            self._register(tell_held=True)
            return
        self.broker_epoch = reply.broker_epoch
        self.answered_at = self.clock.now()
        self.node.events.info("registered", broker_epoch=self.broker_epoch)
        self.node.replicas.directories.report()
        self.node.replicas.doubtful.report()
        self.node.caught_up()
        self.beat()

    def beat(self) -> None:
        """A heartbeat now, and one each interval from then on. The first one after registration goes out as soon as we have caught up with it."""
        if self._beating or self.broker_epoch < 0 or self._registering:
            return
        if self.node.image.offset < self.broker_epoch:
            return  # the image that has it calls again
        self._beating = True
        self._beat_at = self.clock.now()
        command = Heartbeat(self.node.node_id, self.broker_epoch, self.node.image.offset, self._stopping is not None, self.withdrawn)
        self.call(command, self._beaten, self.node.settings.seconds("broker.session.timeout.ms"))

    def _beaten(self, error: KafkaError | None, reply: HeartbeatAnswer | None) -> None:
        self._beating = False
        if error is None:
            self.answered_at = self.clock.now()
        if reply is not None:
            self._vouched_at = -inf if reply.fenced else self._beat_at
        if error is not None and error.code in (Code.STALE_BROKER_EPOCH, Code.BROKER_ID_NOT_REGISTERED):
            self.node.events.warning("registration_lost", error=error.code.name)
            self.broker_epoch = -1
            self._register()
            return
        if reply is not None and reply.should_shutdown and self._stopping is not None:
            self._stopping()
            return
        interval = self.node.settings.seconds("broker.heartbeat.interval.ms")
        if self._stopping is not None or (reply is not None and reply.fenced and not self.withdrawn):
            interval = min(interval, 0.02)
        self.clock.call_at(max(self._beat_at + interval, self.clock.now()), self.beat)

    @property
    def vouched_for(self) -> bool:
        """Of what we lead nothing was given to others because we are silent.

        A quarter of the session, for a controller that is cut off as we are goes on for a while, and the next one may count a part of that.
        """
        return self.clock.now() - self._vouched_at < self.node.settings.seconds("broker.session.timeout.ms") / 4

    @property
    def withdrawn(self) -> bool:
        return bool(self._withdrawn_for)

    def withdraw(self, reason: str) -> None:
        """Be fenced, so that others lead, until the node is started again or the reason is over."""
        if reason not in self._withdrawn_for:
            self._withdrawn_for.add(reason)
            self.beat()

    def come_back(self, reason: str) -> None:
        """It is over."""
        self._withdrawn_for.discard(reason)
        self.beat()

    async def leave(self, within_s: float) -> None:
        """Controlled shutdown: our leaderships move first, then the controller lets us go."""
        gone = trio.Event()
        self._stopping = gone.set
        self.beat()
        with trio.move_on_after(within_s):
            await gone.wait()
