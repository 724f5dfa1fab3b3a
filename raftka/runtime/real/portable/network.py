"""Turns out of tasks: each task that finds its socket ready hands over what has come, and one task
ends the turn when all of them have run.
"""

import errno
import os
import socket
from collections.abc import Callable
from time import monotonic

import trio

from raftka.runtime.interfaces import Connection
from raftka.runtime.real.clock import RealClock
from raftka.runtime.real.network import (
    ARENA_BYTES,
    LENT_BYTES,
    NO_ANSWER_S,
    READ_BYTES,
    RealNetwork,
    RealTransport,
)
from raftka.runtime.real.portable.polling import Parked, TaskPoller
from raftka.runtime.real.sending import Sender
from raftka.runtime.real.timers import Standing
from raftka.runtime.real.turn import Turn

# of a connection whose reading is held, to see whether its client has closed: a client that has
# sent more counts as there
AHEAD_BYTES = 64 * 1024


class PortableTransport(RealTransport):
    __slots__ = ("_ahead", "_call_later", "_ended")

    def __init__(
        self,
        network: "PortableNetwork",
        sock: socket.socket,
        connection: Connection,
        peer: str,
        *,
        connecting: bool,
    ) -> None:
        self._call_later = network.call_later
        self._ahead = bytearray()  # was read while reading is held
        self._ended = False
        super().__init__(network, sock, connection, peer, connecting=connecting)
        if connecting:
            self._call_later(NO_ANSWER_S, self._give_up)

    def _give_up(self) -> None:
        if self._connecting:
            self.finish(os.strerror(errno.ETIMEDOUT))

    def left(self) -> bool:
        while self.fd >= 0 and not self._ended and len(self._ahead) < AHEAD_BYTES:
            try:
                more = self._sock.recv(AHEAD_BYTES - len(self._ahead))
            except BlockingIOError:
                return False
            except OSError:
                return True
            self._ended = not more
            self._ahead += more
            self._recv_into = self._recv_ahead
        return self.fd < 0 or self._ended

    def hold_reading(self, held: bool) -> None:
        super().hold_reading(held)
        if self._ahead and not held:  # the socket may have nothing more to tell
            self._call_later(0.0, self._receive_ahead)

    def _receive_ahead(self) -> None:
        network = self._network
        while self._ahead and self._reads and self._closing is None and self.fd >= 0:
            if network.arena_used > ARENA_BYTES - READ_BYTES:
                self._call_later(0.0, self._receive_ahead)  # in another turn
                return
            self._receive()

    def _recv_ahead(self, view: memoryview) -> int:
        count = min(len(view), len(self._ahead))
        view[:count] = self._ahead[:count]
        del self._ahead[:count]
        if not self._ahead:
            self._recv_into = self._sock.recv_into
        return count or self._sock.recv_into(view)


class PortableNetwork(RealNetwork):
    transport = PortableTransport

    def __init__(
        self,
        nursery: trio.Nursery,
        standing: Standing,
        turn: Turn,
        clock: RealClock,
        offload: Callable[..., None],
        *,
        poisons: bool = False,
    ) -> None:
        super().__init__(
            turn,
            offload,
            TaskPoller(nursery, standing, self._on_ready),
            Sender(None),
            poisons=poisons,
        )
        self._standing, self._clock = standing, clock
        self._end = Parked()  # the task that ends turns
        self._ends_soon = False
        self._spent_s = 0.0  # of this turn, by what has come
        turn.kick = self.end_soon
        nursery.start_soon(self._end_turns)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._clock.call_at(monotonic() + delay_s, action)

    def end_soon(self) -> None:
        """End this turn when the tasks that can run now have run."""
        if not self._ends_soon:
            self._ends_soon = True
            self._end.go_on()

    def _on_ready(self, fd: int, events: int) -> None:
        transport = self.transports.get(fd)
        if transport is None:
            return
        turn = self.current
        began = turn.began = monotonic()
        try:
            if self.arena_used > ARENA_BYTES - READ_BYTES or self.lent_bytes > LENT_BYTES:
                self.end_turn()
            turn.active = True
            transport.ready(events)
        except Exception as error:  # handlers answer for their own errors; this is a core part
            self._standing.fail(error)
            return
        turn.done(transport)
        self._spent_s += turn.began - began
        self.end_soon()

    async def _end_turns(self) -> None:
        turn = self.current
        while True:
            if not self._ends_soon:
                await self._end.wait()
            await self._standing.resumed()
            if self.stopped:
                return
            began = turn.began = monotonic()
            self._ends_soon = False
            try:
                self.end_turn()
            except Exception as error:  # as above
                self._standing.fail(error)
                return
            if turn.watch is not None:
                turn.watch.turn(self._spent_s + turn.began - began)
            self._spent_s = 0.0
