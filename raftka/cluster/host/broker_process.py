"""One broker of a host as a process that the forge has made. Knows no supervisor."""

import os
from collections.abc import Mapping
from pathlib import Path

import trio

from raftka.cluster.fork_server import Forge
from raftka.cluster.host.plan import BrokerPlan
from raftka.cluster.notices import VARIABLE, Notices


class BrokerProcess:
    def __init__(
        self, forge: Forge, file: Path, plan: BrokerPlan, environment: Mapping[str, str], log: int
    ) -> None:
        """`log`: the descriptor that its lines go to. Raises OSError when it cannot be forked."""
        self._notices = Notices()
        try:
            self._forked = forge.start(
                file, {**environment, VARIABLE: self._notices.address}, log, plan.properties
            )
        except OSError:
            self._notices.close()
            raise
        self.pid = self._forked.pid

    async def until_ready(self) -> None:
        """Return when it is registered and unfenced; never if it ends before."""
        while True:
            await trio.lowlevel.wait_readable(self._notices.fileno())
            if "READY=1" in self._notices.take().splitlines():
                return

    async def until_end(self) -> int:
        """Return its exit code; negative: the signal. To be called once."""
        await trio.lowlevel.wait_readable(self._forked.pidfd)
        code = self._forked.wait()
        self._notices.close()
        return code

    def signal(self, number: int) -> None:
        self._forked.send_signal(number)


def environment_of(python_path: str) -> dict[str, str]:
    """Ours, in which a broker finds raftka."""
    return {**os.environ, "PYTHONPATH": python_path}
