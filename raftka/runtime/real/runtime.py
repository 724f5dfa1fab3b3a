"""The real side of the door: one runtime for each node, of the kind that choice.py chooses;
handlers can not tell the difference. Knows no Kafka.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from raftka.runtime.real.base import RealRuntime
from raftka.runtime.real.choice import LINUX, chosen


class NodeFailed(Exception):
    """A core part of the node could not go on; the cause is what it could not go on from."""


@asynccontextmanager
async def open_runtime(*, alone: bool = False) -> AsyncIterator[RealRuntime]:
    """A runtime for one node. Leaving the block stops it; raises NodeFailed when `fail` was called
    inside.

    `alone`: no other runtime is in this process. Raises ValueError, as `chosen`.
    """
    async with trio.open_nursery() as nursery:
        runtime = _open(nursery, alone=alone)
        try:
            yield runtime
        finally:
            runtime.stop(reset=runtime.failure is not None)
    if runtime.failure is not None:
        raise NodeFailed(str(runtime.failure)) from runtime.failure


def _open(nursery: trio.Nursery, *, alone: bool) -> RealRuntime:
    if chosen() == LINUX:
        from raftka.runtime.real.linux.runtime import LinuxRuntime

        return LinuxRuntime(nursery, alone=alone)
    from raftka.runtime.real.portable.runtime import PortableRuntime

    return PortableRuntime(nursery)
