"""Turns out of one persistent epoll. Knows no Trio: loops.py calls `turn` when the epoll has
something.
"""

import select
import socket
from collections.abc import Callable
from time import monotonic

from raftka.runtime.interfaces import LONG_PIECE_S
from raftka.runtime.real.linux.system import send_file
from raftka.runtime.real.network import (
    ARENA_BYTES,
    LENT_BYTES,
    READ_BYTES,
    Reader,
    RealNetwork,
    RealTransport,
)
from raftka.runtime.real.sending import Sender
from raftka.runtime.real.turn import Turn

TCP_ESTABLISHED = 1  # the first byte of TCP_INFO: the connection's state


class LinuxTransport(RealTransport):
    __slots__ = ()

    def left(self) -> bool:
        return (
            self.fd < 0
            or self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != TCP_ESTABLISHED
        )


class LinuxNetwork(RealNetwork):
    transport = LinuxTransport

    def __init__(self, turn: Turn, offload: Callable[..., None], *, poisons: bool = False) -> None:
        self.epoll = select.epoll()
        super().__init__(turn, offload, self.epoll, Sender(send_file), poisons=poisons)

    def watch(self, fd: int, reader: Reader, how: int = 0) -> None:
        """Another descriptor than a socket, for as long as the network is there. EPOLLET: told once
        of each event, nobody has to read it.
        """
        self.epoll.register(fd, select.EPOLLIN | how)
        self.transports[fd] = reader

    def turn(self, wait_s: float = 0.0) -> bool:
        """Hand out what has come, once; False when there was nothing, also not within `wait_s`."""
        events = self.epoll.poll(wait_s, 256)
        turn = self.current
        turn.active = True
        began = turn.began = monotonic()
        transports = self.transports
        for fd, event in events:
            if self.arena_used > ARENA_BYTES - READ_BYTES or self.lent_bytes > LENT_BYTES:
                self.end_turn()
                turn.active = True
            if (transport := transports.get(fd)) is not None:
                transport.ready(event)
                now = monotonic()  # Turn.done, without its call
                if now - turn.began > LONG_PIECE_S:
                    turn.long(now, transport)
                turn.began = now
        self.end_turn()
        if events and turn.watch is not None:
            turn.watch.turn(turn.began - began)
        return bool(events) and not self.stopped
