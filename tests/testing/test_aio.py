"""The cluster for coroutines: the same methods, under each loop, none of which blocks it."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from raftka.testing import AsyncCluster, Cluster

Run = Callable[[Callable[[], Awaitable[Any]]], Any]
CONTEXTS = {"killed", "paused"}
RUNS: dict[str, Run] = {
    "asyncio": lambda work: asyncio.run(work()),  # type: ignore[arg-type]
    "trio": trio.run,
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[AsyncCluster]:
    cluster = AsyncCluster(shared)
    yield cluster
    cluster.close()
    shared.clean()


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


async def checkpoint() -> None:
    """Let other tasks run."""
    if trio.lowlevel.in_trio_task():
        await trio.lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)


def test_every_method_has_its_twin() -> None:
    """A method that is new in one class is missed in the other."""

    def public(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}

    assert public(Cluster) - public(AsyncCluster) == set()
    assert public(AsyncCluster) - public(Cluster) == {"close"}
    for name in public(Cluster):
        if callable(getattr(Cluster, name)) and name not in CONTEXTS:
            ours, theirs = getattr(AsyncCluster, name), getattr(Cluster, name)
            assert inspect.iscoroutinefunction(ours), name
            assert list(inspect.signature(ours).parameters) == list(
                inspect.signature(theirs).parameters
            ), name


def test_a_cluster_is_started_used_and_stopped(run: Run) -> None:
    before = set(threading.enumerate())

    async def work() -> None:
        async with AsyncCluster(Cluster(num_partitions=2)) as cluster:
            assert await cluster.create_topics("orders") == ["orders"]
            assert await cluster.values("orders", str) == []
            assert cluster.alive == cluster.nodes == [1]
            await cluster.restart(1)
            fault = await cluster.fail_next("Metadata", "UNKNOWN_SERVER_ERROR")
            await cluster.heal()
            assert fault.hits == 0

    run(work)
    assert set(threading.enumerate()) <= before


def test_a_group_of_aiokafka_is_awaited(cluster: AsyncCluster) -> None:
    async def work() -> None:
        (topic,) = await cluster.create_topics("orders:2")
        options: dict[str, Any] = (await cluster.client()).aiokafka()
        async with AIOKafkaProducer(**options) as producer:
            for number in range(3):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
        assert len(await cluster.wait_for_records(topic, 3)) == 3
        async with AIOKafkaConsumer(
            topic, group_id="billing", auto_offset_reset="earliest", **options
        ) as consumer:
            group = await cluster.wait_for_group("billing", members=1)
            assert len(group.members[0].partitions) == 2
            for _ in range(3):
                await consumer.getone()
            await consumer.commit()
            assert await cluster.wait_for_lag("billing") == {(topic, 0): 0, (topic, 1): 0}

    asyncio.run(work())


def test_a_wait_does_not_block_the_loop(cluster: AsyncCluster, run: Run) -> None:
    """The task that ends the wait runs in the same loop."""

    async def work() -> None:
        (topic,) = await cluster.create_topics("orders:1")
        over = threading.Event()

        async def end() -> None:
            await checkpoint()
            await cluster.delete_topic(topic)
            over.set()

        async def gone() -> bool:
            await checkpoint()
            return over.is_set()

        if trio.lowlevel.in_trio_task():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(end)
                assert await cluster.wait_for(gone)
        else:
            task = asyncio.create_task(end())
            assert await cluster.wait_for(gone)
            await task
        assert await cluster.wait_for(over.is_set)

    run(work)


def test_a_cancelled_wait_ends_with_its_thread(cluster: AsyncCluster, run: Run) -> None:
    async def work() -> None:
        (topic,) = await cluster.create_topics("orders:1")
        if trio.lowlevel.in_trio_task():
            with trio.move_on_after(0.05) as scope:
                await cluster.wait_for_records(topic, 1, timeout_s=1000)
            assert scope.cancelled_caught
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(
                    cluster.wait_for_records(topic, 1, timeout_s=1000), timeout=0.05
                )

    run(work)
    cluster.close()  # it joins the thread, and would not for a thousand seconds


def test_errors_come_through(cluster: AsyncCluster, run: Run) -> None:
    async def work() -> None:
        with pytest.raises(ValueError, match="no API 'Prodce'"):
            await cluster.fail_next("Prodce", "NONE")
        with pytest.raises(TimeoutError, match=r"not so within 0.01 s; last: \[\]"):
            await cluster.wait_for(list, timeout_s=0.01)
        await cluster.create_topics("orders:1")
        with pytest.raises(TimeoutError, match=r"last: 0$"):
            await cluster.wait_for_records("orders", 1, timeout_s=0.01)

    run(work)


def test_outside_of_a_loop_it_says_so(cluster: AsyncCluster) -> None:
    call = cluster.heal()
    with pytest.raises(RuntimeError, match="no running event loop"):
        call.send(None)
