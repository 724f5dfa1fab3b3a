"""A node on any system that Trio runs on: tasks wait for its sockets and timers, threads flush and
unlink.
"""

from collections.abc import Callable

import trio

from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.portable.network import PortableNetwork
from raftka.runtime.real.timers import Timers


class PortableRuntime(RealRuntime):
    def __init__(self, nursery: trio.Nursery) -> None:
        self._token = trio.lowlevel.current_trio_token()
        super().__init__(nursery)
        self.network = PortableNetwork(
            nursery, self, self._turn, self.clock, self.offload.run, poisons=self._poisons
        )
        nursery.start_soon(Timers(self.clock, self, self.network.turn_of).run)

    def _post(self, action: Callable[[], None]) -> None:
        self._posted.append(action)
        try:
            self._token.run_sync_soon(self._posted_turn, idempotent=True)
        except trio.RunFinishedError:
            pass  # the node has stopped

    def _posted_turn(self) -> None:
        if self.stopped:
            return
        if self.paused:
            self._nursery.start_soon(self._turn_when_resumed)
            return
        try:
            self.network.turn_of(self._run_posted)
        except Exception as error:  # handlers answer for their own errors; this is a core part
            self.fail(error)

    async def _turn_when_resumed(self) -> None:
        await self.resumed()
        self._posted_turn()

    def _end_loop(self) -> None:
        """Tasks end with the nursery."""
