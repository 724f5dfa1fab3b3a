"""The broker's membership in the cluster: registers with the controller, sends heartbeats,
withdraws, comes back, leaves.
"""

from collections.abc import Callable
from math import inf

import trio

from raftka.broker.context import BrokerContext
from raftka.broker.controller.controller_client import ControllerClient
from raftka.metadata.commands import (
    TELL_HELD,
    Heartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
)
from raftka.wire.errors import Code, KafkaError


class BrokerLifecycle:
    def __init__(
        self,
        context: BrokerContext,
        controller: ControllerClient,
        registration: Callable[[bool], RegisterBroker],
        registered: Callable[[], None],
    ) -> None:
        """`registration` makes the command; True: with the replicas that lie here. `registered` is
        called when the controller has taken it.
        """
        self.context = context
        self.clock = context.runtime.clock
        self.controller = controller
        self._registration = registration
        self._on_registered = registered
        self.broker_epoch = -1
        self._registering = False
        self._beating = False
        self._beat_at = 0.0
        self._stopping: Callable[[], None] | None = None  # called when the controller lets us go
        self._withdrawn_for: set[str] = set()  # reasons: as long as there is one it is not unfenced
        self.answered_at = -inf  # when a controller last answered a heartbeat or the registration
        # when we sent the heartbeat that was last answered, with a word that we are not fenced
        self._vouched_at = -inf

    def start(self) -> None:
        self._register()

    def _register(self, *, tell_held: bool = False) -> None:
        if self._registering:
            return
        self._registering = True
        self.controller.call(self._registration(tell_held), self._registered)

    def _registered(self, error: KafkaError | None, reply: Registered | None) -> None:
        self._registering = False
        if error is not None or reply is None:
            fatal = error is not None and error.code in (
                Code.INCONSISTENT_CLUSTER_ID,
                Code.INVALID_REGISTRATION,
            )
            self.context.events.warning("registration_refused", error=str(error))
            if fatal and error is not None:
                self.context.runtime.fail(error)
                return
            self.clock.call_at(self.clock.now() + 0.2, self._register)
            return
        if reply.broker_epoch == TELL_HELD:
            self._register(tell_held=True)
            return
        self.broker_epoch = reply.broker_epoch
        self.answered_at = self.clock.now()
        self.context.events.info("registered", broker_epoch=self.broker_epoch)
        self._on_registered()
        self.beat()

    def beat(self) -> None:
        """A heartbeat now, and one each interval from then on. The first one after registration
        goes out as soon as we have caught up with it.
        """
        if self._beating or self.broker_epoch < 0 or self._registering:
            return
        if self.context.metadata.image.offset < self.broker_epoch:
            return  # the image that has it calls again
        self._beating = True
        self._beat_at = self.clock.now()
        command = Heartbeat(
            self.context.node_id,
            self.broker_epoch,
            self.context.metadata.image.offset,
            self._stopping is not None,
            self.withdrawn,
        )
        self.controller.call(
            command,
            self._beaten,
            self.context.metadata.settings.seconds("broker.session.timeout.ms"),
        )

    def _beaten(self, error: KafkaError | None, reply: HeartbeatAnswer | None) -> None:
        self._beating = False
        if error is None:
            self.answered_at = self.clock.now()
        if reply is not None:
            self._vouched_at = -inf if reply.fenced else self._beat_at
        if error is not None and error.code in (
            Code.STALE_BROKER_EPOCH,
            Code.BROKER_ID_NOT_REGISTERED,
        ):
            self.context.events.warning("registration_lost", error=error.code.name)
            self.broker_epoch = -1
            self._register()
            return
        if reply is not None and reply.should_shutdown and self._stopping is not None:
            self._stopping()
            return
        interval = self.context.metadata.settings.seconds("broker.heartbeat.interval.ms")
        if self._stopping is not None or (
            reply is not None and reply.fenced and not self.withdrawn
        ):
            interval = min(interval, 0.02)
        self.clock.call_at(max(self._beat_at + interval, self.clock.now()), self.beat)

    @property
    def vouched_for(self) -> bool:
        """Return whether the controller cannot have moved this broker's leaderships for lack of
        heartbeats.

        The bound is a quarter of the session: a controller that is cut off together with this
        broker goes on for a while, and the next one may count a part of that time.
        """
        return (
            self.clock.now() - self._vouched_at
            < self.context.metadata.settings.seconds("broker.session.timeout.ms") / 4
        )

    @property
    def withdrawn(self) -> bool:
        return bool(self._withdrawn_for)

    def withdraw(self, reason: str) -> None:
        """Be fenced, so that others lead, until the node is started again or the reason is over."""
        if reason not in self._withdrawn_for:
            self._withdrawn_for.add(reason)
            self.beat()

    def come_back(self, reason: str) -> None:
        """End the withdrawal for this reason."""
        self._withdrawn_for.discard(reason)
        self.beat()

    async def leave(self, within_s: float) -> None:
        """Controlled shutdown: our leaderships move first, then the controller lets us go.
        `no_controller_comes` ends it too.
        """
        gone = trio.Event()
        self._stopping = gone.set
        self.beat()
        with trio.move_on_after(within_s):
            await gone.wait()

    def no_controller_comes(self) -> None:
        """Too many controllers have ended: what this broker leads cannot move, so it need not
        wait.
        """
        if self._stopping is not None:
            self._stopping()
