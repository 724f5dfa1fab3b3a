"""The cluster for tests that are coroutines, under asyncio, Trio or anyio: `await
cluster.wait_for_lag("billing")`. No call blocks the test's loop.

Each method is the one of `Cluster`, carried out in a thread that its caller awaits. A caller that
is cancelled ends the wait, and the thread with it.
"""

import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial, wraps
from inspect import isawaitable
from typing import Concatenate, ParamSpec, TypeVar, cast, overload

import trio

from raftka.testing.cluster import Cluster
from raftka.testing.views import Reading, Value
from raftka.testing.waits import PAUSE_SECONDS, WAIT_SECONDS, abandoned
from raftka.wire.errors import KafkaError

P = ParamSpec("P")
T = TypeVar("T")
CALLS = 64  # at a time, of one cluster; further ones wait for their turn


def _awaited(
    method: Callable[Concatenate[Cluster, P], T],
) -> "Callable[Concatenate[AsyncCluster, P], Coroutine[object, object, T]]":
    @wraps(method)
    async def call(self: "AsyncCluster", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(partial(method, self.cluster, *args, **kwargs))

    return cast("Callable[Concatenate[AsyncCluster, P], Coroutine[object, object, T]]", call)


class AsyncCluster:
    """`async with AsyncCluster(Cluster(nodes=3)) as cluster` starts and stops the cluster;
    `AsyncCluster(cluster)` is a second face of one that runs, until `close`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._threads = ThreadPoolExecutor(CALLS, "raftka-call")

    start = _awaited(Cluster.start)
    stop = _awaited(Cluster.stop)
    log = _awaited(Cluster.log)
    kill = _awaited(Cluster.kill)
    restart = _awaited(Cluster.restart)
    pause = _awaited(Cluster.pause)
    resume = _awaited(Cluster.resume)
    heal = _awaited(Cluster.heal)
    clean = _awaited(Cluster.clean)
    fail_next = _awaited(Cluster.fail_next)
    lose_requests = _awaited(Cluster.lose_requests)
    lose_answers = _awaited(Cluster.lose_answers)
    delay = _awaited(Cluster.delay)
    throttle = _awaited(Cluster.throttle)
    hold = _awaited(Cluster.hold)
    control = _awaited(Cluster.control)
    record_requests = _awaited(Cluster.record_requests)
    cut_connections = _awaited(Cluster.cut_connections)
    unreachable = _awaited(Cluster.unreachable)
    show = _awaited(Cluster.show)
    clear_faults = _awaited(Cluster.clear_faults)
    move_leader = _awaited(Cluster.move_leader)
    shuffle_leaders = _awaited(Cluster.shuffle_leaders)
    move_coordinator = _awaited(Cluster.move_coordinator)
    add_node = _awaited(Cluster.add_node)
    remove_node = _awaited(Cluster.remove_node)
    force_rebalance = _awaited(Cluster.force_rebalance)
    assign = _awaited(Cluster.assign)
    timeline = _awaited(Cluster.timeline)
    client = _awaited(Cluster.client)
    client_files = _awaited(Cluster.client_files)
    renew_certificate = _awaited(Cluster.renew_certificate)
    registry = _awaited(Cluster.registry)
    create_topics = _awaited(Cluster.create_topics)
    delete_topic = _awaited(Cluster.delete_topic)
    leader = _awaited(Cluster.leader)
    records = _awaited(Cluster.records)
    group = _awaited(Cluster.group)
    lag = _awaited(Cluster.lag)
    wait_for_group = _awaited(Cluster.wait_for_group)
    wait_for_lag = _awaited(Cluster.wait_for_lag)
    wait_for_records = _awaited(Cluster.wait_for_records)

    @asynccontextmanager
    async def paused(self, node_id: int) -> AsyncIterator[None]:
        """Pause the node for the `async with` block."""
        await self.pause(node_id)
        try:
            yield
        finally:
            self.cluster.resume(node_id)  # in a task that was cancelled, too: it takes no time

    @asynccontextmanager
    async def killed(self, node_id: int) -> AsyncIterator[None]:
        """Kill the node for the `async with` block, and start it again."""
        await self.kill(node_id)
        try:
            yield
        finally:
            await self.restart(node_id)

    async def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        **configs: object,
    ) -> str:
        """As `Cluster.create_topic`."""
        return await self._call(
            lambda: self.cluster.create_topic(
                name, partitions, replication_factor=replication_factor, **configs
            )
        )

    async def values(
        self, topic: str, as_: Reading = bytes, *, read_committed: bool = False
    ) -> list[Value]:
        """As `Cluster.values`."""
        return await self._call(
            lambda: self.cluster.values(topic, as_, read_committed=read_committed)
        )

    @overload
    async def wait_for(
        self, condition: Callable[[], Awaitable[T]], timeout_s: float = ...
    ) -> T: ...
    @overload
    async def wait_for(self, condition: Callable[[], T], timeout_s: float = ...) -> T: ...
    async def wait_for(
        self, condition: Callable[[], T | Awaitable[T]], timeout_s: float = WAIT_SECONDS
    ) -> T:
        """Until the condition, a function or a coroutine function, is true; it is called in the
        test's own loop. Returns and raises as `Cluster.wait_for`.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = condition()
                if isawaitable(found):
                    found = await found
            except KafkaError as error:
                last = str(error)
            else:
                if found:
                    return cast("T", found)
                last = repr(found)
            if time.monotonic() > deadline:
                raise TimeoutError(f"not so within {timeout_s:g} s; last: {last}")
            await _sleep(PAUSE_SECONDS)

    @property
    def bootstrap_servers(self) -> str:
        """As every client takes it: host:port,host:port."""
        return self.cluster.bootstrap_servers

    @property
    def zookeeper_connect(self) -> str:
        """As ZooKeeper clients take it; empty without the bridge."""
        return self.cluster.zookeeper_connect

    @property
    def console_url(self) -> str:
        """As `Cluster.console_url`: the address for a browser."""
        return self.cluster.console_url

    @property
    def nodes(self) -> list[int]:
        """Ids, dead or alive."""
        return self.cluster.nodes

    @property
    def alive(self) -> list[int]:
        return self.cluster.alive

    def close(self) -> None:
        """End the threads of calls; the cluster goes on."""
        self._threads.shutdown()

    async def __aenter__(self) -> "AsyncCluster":
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        try:
            await self.stop()
        finally:
            self.close()  # of a task that was cancelled: it waits for the end of the stop

    async def _call(self, work: Callable[[], T]) -> T:
        """Carry the work out in a thread, in whichever loop the caller runs. Raises RuntimeError
        outside of all.
        """
        wait = _wait_in_trio if _in_trio() else _waiter_of_asyncio()
        gone = threading.Event()
        context = copy_context()
        context.run(abandoned.set, gone)
        future = self._threads.submit(context.run, work)
        try:
            await wait(future)
            return future.result()
        finally:
            gone.set()


def _in_trio() -> bool:
    return trio.lowlevel.in_trio_task()


def _waiter_of_asyncio() -> "Callable[[Future[T]], Awaitable[T]]":
    import asyncio

    return partial(asyncio.wrap_future, loop=asyncio.get_running_loop())


async def _wait_in_trio(future: "Future[T]") -> None:
    done, token = trio.Event(), trio.lowlevel.current_trio_token()

    def wake(_: object) -> None:
        try:
            token.run_sync_soon(done.set)
        except trio.RunFinishedError:
            pass

    future.add_done_callback(wake)
    await done.wait()


async def _sleep(seconds: float) -> None:
    if _in_trio():
        await trio.sleep(seconds)
    else:
        import asyncio

        await asyncio.sleep(seconds)
