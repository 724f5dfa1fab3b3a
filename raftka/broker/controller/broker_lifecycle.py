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

AGAIN_S = 0.2  # after a registration that was refused, or could not be made


class BrokerLifecycle:
    def __init__(
        self,
        context: BrokerContext,
        controller: ControllerClient,
        registration: Callable[[bool], RegisterBroker | None],
        registered: Callable[[], None],
        is_cordoned: Callable[[], bool],
    ) -> None:
        """`registration` makes the command; with True it has the replicas of this broker too. None:
        the broker does not know its own address yet. `registered` is called when the controller has
        registered the broker. `is_cordoned` returns whether no log directory takes new replicas.
        """
        self.context = context
        self.clock = context.runtime.clock
        self.controller = controller
        self._registration = registration
        self._on_registered = registered
        self._is_cordoned = is_cordoned
        self.broker_epoch = -1
        self._registering = False
        self._beating = False
        self._beat_at = 0.0
        # called when the controller allows the shutdown
        self._stopping: Callable[[], None] | None = None
        self._withdrawn_for: set[str] = set()  # reasons; with any the broker asks to be fenced
        self.answered_at = -inf  # time of the last answer to a heartbeat or a registration
        # time at which the heartbeat was sent whose answer said that the broker is not fenced
        self._vouched_at = -inf

    def start(self) -> None:
        self._register()

    def _register(self, *, tell_held: bool = False) -> None:
        if self._registering:
            return
        registration = self._registration(tell_held)
        if registration is None:
            again_at = self.clock.now() + AGAIN_S
            self.clock.call_at(again_at, lambda: self._register(tell_held=tell_held))
            return
        self._registering = True
        self.controller.call(registration, self._registered)

    def _registered(self, error: KafkaError | None, reply: Registered | None) -> None:
        self._registering = False
        if error is not None or reply is None:
            fatal = error is not None and error.code in (
                Code.INCONSISTENT_CLUSTER_ID,
                Code.INVALID_REGISTRATION,
                Code.UNSUPPORTED_VERSION,
            )
            self.context.events.warning("registration_refused", error=str(error))
            if fatal and error is not None:
                self.context.runtime.fail(error)
                return
            self.clock.call_at(self.clock.now() + AGAIN_S, self._register)
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
        """Send a heartbeat now, and one each interval from then on. The first one after a
        registration is sent when this node has applied that registration.
        """
        if self._beating or self.broker_epoch < 0 or self._registering:
            return
        if self.context.metadata.image.offset < self.broker_epoch:
            return  # called again with the image that has the registration
        self._beating = True
        self._beat_at = self.clock.now()
        command = Heartbeat(
            self.context.node_id,
            self.broker_epoch,
            self.context.metadata.image.offset,
            self._stopping is not None,
            self.withdrawn,
            self._is_cordoned(),
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
        """Return whether no controller can have moved this broker's leaderships for lack of
        heartbeats.

        The bound is a quarter of the session: a controller that is cut off together with this
        broker goes on for a while, and the next controller may count a part of that time.
        """
        return (
            self.clock.now() - self._vouched_at
            < self.context.metadata.settings.seconds("broker.session.timeout.ms") / 4
        )

    @property
    def withdrawn(self) -> bool:
        return bool(self._withdrawn_for)

    def withdraw(self, reason: str) -> None:
        """Ask to be fenced, so that other brokers lead, until a restart or `come_back`."""
        if reason not in self._withdrawn_for:
            self._withdrawn_for.add(reason)
            self.beat()

    def come_back(self, reason: str) -> None:
        """End the withdrawal for this reason."""
        self._withdrawn_for.discard(reason)
        self.beat()

    async def leave(self, within_s: float) -> None:
        """Shut down in order: the controller moves the leaderships, then allows the shutdown.
        `no_controller_comes` ends the wait too.
        """
        gone = trio.Event()
        self._stopping = gone.set
        self.beat()
        with trio.move_on_after(within_s):
            await gone.wait()

    def no_controller_comes(self) -> None:
        """Stop waiting for the move of leaderships: too many controllers have ended."""
        if self._stopping is not None:
            self._stopping()
