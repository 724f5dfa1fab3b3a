"""A cluster in a thread of its own, for tests in any style: plain, asyncio or Trio. Knows no test
runner.

Every method may be called from any thread and returns when the thing is done; most take less than a
millisecond, a restart some hundred.
"""

import itertools
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.cluster.embedded import Cluster as Embedded
from raftka.cluster.embedded import EmbeddedNode, launch
from raftka.cluster.secured.keys import ClientFiles, ClusterSecurity
from raftka.metadata.commands import Command, CreateTopics, DeleteTopics, DoomedTopic, NewTopic
from raftka.security.client_security import PLAINTEXT
from raftka.testing.faults import Fault, Faults, api_key, error_code
from raftka.testing.views import GroupView, StoredRecord, committed_records, group_view
from raftka.wire.errors import Code, KafkaError

if TYPE_CHECKING:
    from raftka.registry.server import RegistryServer

T = TypeVar("T")
START_SECONDS = 60.0  # on a machine that is busy with much else
WAIT_SECONDS = 10.0
PAUSE_SECONDS = 0.005
QUICK = {  # what keeps tests waiting, and nothing else
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}


class Cluster:
    """`settings` are Kafka's names with underscores for dots (`num_partitions=3`), or as they are
    in `properties`.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        bridge: bool = False,
        security: bool = False,
        **settings: object,
    ) -> None:
        """`bridge`: each node speaks ZooKeeper's protocol too, at `zookeeper_connect`. `security`:
        TLS with certificates on all listeners, and ACLs; `client_files` has what clients need.
        """
        self._size = nodes
        self._bridge_port = 0 if bridge else None
        self._properties = {
            **QUICK,
            **(properties or {}),
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
        }
        self._keys = TemporaryDirectory(prefix="raftka-keys-") if security else None
        self._security = ClusterSecurity(Path(self._keys.name)) if self._keys is not None else None
        self._thread: threading.Thread | None = None
        self._started: Future[None] = Future()
        self._embedded: Embedded
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery
        self._faults: Faults
        self._names = itertools.count(1)

    # its life

    def start(self) -> "Cluster":
        """Returns when every node serves. Raises what kept it from that."""
        self._started = Future()
        self._thread = threading.Thread(target=self._run, name="raftka-cluster", daemon=True)
        self._thread.start()
        self._started.result(START_SECONDS)
        return self

    def stop(self) -> None:
        """Everything of it is gone then: threads, ports, files."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            try:
                self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
            except trio.RunFinishedError:
                pass
            thread.join()
        if self._keys is not None:
            self._keys.cleanup()

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        async with (
            launch(
                self._size,
                properties=self._properties,
                bridge_port=self._bridge_port,
                security=self._security,
            ) as self._embedded,
            trio.open_nursery() as self._nursery,
        ):
            self._token = trio.lowlevel.current_trio_token()
            self._faults = Faults(self._embedded.nodes.values(), self._sync)
            self._started.set_result(None)
            await trio.sleep_forever()

    # its nodes

    @property
    def bootstrap_servers(self) -> str:
        """As every client takes it: host:port,host:port."""
        return self._embedded.bootstrap_servers

    def client_files(self, user: str = "admin", days: float = 825) -> ClientFiles:
        """Key and certificate of a user of a secured cluster, and the options of each family of
        clients; `admin` may do everything, others what ACLs allow. `days` below zero: the
        certificate has ended. Raises ValueError when the cluster is not secured.
        """
        return self._secured().issue(user, days)

    def renew_certificate(self, node_id: int) -> None:
        """Give a node of a secured cluster a new certificate; it takes it within seconds, without a
        restart. Raises ValueError as `client_files`.
        """
        self._secured().issue_node(node_id)

    def _secured(self) -> ClusterSecurity:
        if self._security is None:
            raise ValueError("the cluster is not secured: Cluster(security=True)")
        return self._security

    @property
    def zookeeper_connect(self) -> str:
        """As ZooKeeper clients take it; empty without the bridge."""
        return self._embedded.zookeeper_connect

    @property
    def nodes(self) -> list[int]:
        """Ids, dead or alive."""
        return list(self._embedded.nodes)

    @property
    def alive(self) -> list[int]:
        return [node_id for node_id, node in self._embedded.nodes.items() if node.alive]

    def kill(self, node_id: int) -> None:
        """As SIGKILL does: nothing is written, flushed or said any more."""
        self._async(lambda: self._embedded.kill(node_id))

    def restart(self, node_id: int) -> None:
        """Kill it if it lives, and start it on the same files and ports; returns when it serves
        again.
        """
        self._async(lambda: self._embedded.restart(node_id))

    def pause(self, node_id: int) -> None:
        """As SIGSTOP does: its connections stay open, and nobody answers."""
        self._sync(self._embedded.nodes[node_id].pause)

    def resume(self, node_id: int) -> None:
        self._sync(self._embedded.nodes[node_id].resume)

    def heal(self) -> None:
        """End all faults, resume and start all nodes: as at the start."""
        self.clear_faults()
        for node_id in self.nodes:
            self.resume(node_id)
            if node_id not in self.alive:
                self.restart(node_id)
        self._async(self._embedded.wait_ready)

    # faults

    def fail_next(
        self, api: str, error: str, *, times: int = 1, nodes: Iterable[int] | None = None
    ) -> Fault:
        """The next `times` requests of clients are answered with an error, and nothing else
        happens. Names are Kafka's: "Produce", "NOT_LEADER_OR_FOLLOWER".
        """
        key, code = api_key(api), error_code(error)
        return self._sync(lambda: self._faults.fail(key, code, times, nodes or self.nodes))

    def lose_requests(
        self, api: str, *, times: int = 1, nodes: Iterable[int] | None = None
    ) -> Fault:
        """The connection breaks before the request is looked at."""
        key = api_key(api)
        return self._sync(lambda: self._faults.lose_request(key, times, nodes or self.nodes))

    def lose_answers(
        self, api: str, *, times: int = 1, nodes: Iterable[int] | None = None
    ) -> Fault:
        """The request is carried out, then the connection breaks."""
        key = api_key(api)
        return self._sync(lambda: self._faults.lose_answer(key, times, nodes or self.nodes))

    def delay(
        self, api: str, ms: float, *, times: int | None = None, nodes: Iterable[int] | None = None
    ) -> Fault:
        """Requests, and what is behind them on their connection, wait so many milliseconds before
        they are looked at.
        """
        key = api_key(api)
        return self._sync(
            lambda: self._faults.delay(
                key, ms / 1000, inf if times is None else times, nodes or self.nodes
            )
        )

    def clear_faults(self) -> None:
        self._sync(self._faults.clear)

    # a schema registry

    def registry(self, topic: str = "_schemas") -> "RegistryServer":
        """One on this cluster, in threads of its own: `with cluster.registry() as registry:
        registry.url`. Needs raftka[registry].
        """
        from raftka.registry.server import CLIENT_ID, Port, RegistryServer

        security = self.client_files().security if self._security is not None else PLAINTEXT
        brokers = addresses_of(self.bootstrap_servers)
        return RegistryServer(
            lambda: Client(brokers, CLIENT_ID, security=security), Port(number=0), topic
        )

    # topics and records

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int = -1,
        **configs: object,
    ) -> str:
        """Returns its name when every living node knows it and its leaders lead. Raises
        KafkaError.
        """
        name = name or f"topic-{next(self._names)}"
        new = NewTopic(
            name,
            partitions,
            replication_factor,
            configs=tuple((key.replace("_", "."), str(value)) for key, value in configs.items()),
        )
        (created,) = self._ask(CreateTopics((new,)))
        if created.error:
            raise KafkaError(Code(created.error), created.message)
        self.wait_for(lambda: self._sync(lambda: self._led(name, created.num_partitions)))
        return name

    def delete_topic(self, name: str) -> None:
        self._ask(DeleteTopics((DoomedTopic(name),)))

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads it; -1: none."""
        return self._sync(
            lambda: self._a_node().image.topic_named(topic).partitions[partition].leader  # type: ignore[union-attr]
        )

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Return the records of the leaders' logs, in order of offset, partition by partition, when
        all are committed. Raises TimeoutError.
        """
        count = self._sync(lambda: len(self._a_node().image.topic_named(topic).partitions))  # type: ignore[union-attr]
        return [
            record
            for each in (range(count) if partition is None else [partition])
            for record in self._committed(topic, each)
        ]

    def group(self, group_id: str) -> GroupView:
        """As its coordinator has it. Raises KafkaError while it has none."""
        plan = self._serving()[0].plan
        host, _, port = plan.address.rpartition(":")
        return group_view((host, int(port)), group_id, plan.admin)

    def wait_for(self, condition: Callable[[], T], timeout_s: float = WAIT_SECONDS) -> T:
        """Until it is true; what it returned then. A KafkaError is not true yet. Raises
        TimeoutError, with the last thing it returned or raised.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            found: Any
            try:
                found = condition()
            except KafkaError as error:
                found = error
            else:
                if found:
                    return found  # type: ignore[no-any-return]
            if time.monotonic() > deadline:
                raise TimeoutError(f"not so within {timeout_s:g} s; last: {found!r}")
            time.sleep(PAUSE_SECONDS)

    # in the thread of the nodes

    def _serving(self) -> list[EmbeddedNode]:
        """The nodes that are alive and not paused: the state of a paused node is of the past."""
        serving = [node for node in self._embedded.nodes.values() if node.alive and not node.paused]
        if not serving:
            raise RuntimeError("no node serves: all are dead or paused")
        return serving

    def _a_node(self) -> Node:
        return max(
            (each.node for each in self._serving() if each.node is not None),
            key=lambda node: node.image.offset,
        )

    def _led(self, topic: str, partitions: int) -> bool:
        serving = [each.node for each in self._serving() if each.node is not None]
        if any(node.image.topic_named(topic) is None for node in serving):
            return False
        replicas = [
            node.replicas.partitions.get((topic, index))
            for node in serving
            for index in range(partitions)
        ]
        return (
            sum(
                1
                for partition in replicas
                if partition is not None and partition.leader is not None
            )
            == partitions
        )

    def _committed(self, topic: str, partition: int) -> list[StoredRecord]:
        end = self.wait_for(
            lambda: self._sync(lambda: self._led_by(topic, partition))
        ).log.end_offset
        self.wait_for(
            lambda: self._sync(lambda: self._led_by(topic, partition).high_watermark) >= end
        )
        return self._sync(lambda: list(committed_records(self._led_by(topic, partition))))

    def _led_by(self, topic: str, partition: int) -> Partition:
        for each in self._serving():
            replica = (
                each.node.replicas.partitions.get((topic, partition))
                if each.node is not None
                else None
            )
            if replica is not None and replica.leader is not None:
                return replica
        raise KafkaError(Code.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")

    def _ask(self, command: Command) -> Any:
        return self._async(lambda: self._a_node().controller.ask(command))

    def _sync(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._async(run)

    def _async(self, work: Callable[[], Awaitable[T]]) -> T:
        future: Future[T] = Future()

        async def run() -> None:
            try:
                future.set_result(await work())
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise

        self._token.run_sync_soon(lambda: self._nursery.start_soon(run))
        return future.result(START_SECONDS)


def topic_name(of: str) -> str:
    """One that Kafka allows, for a test of that name."""
    return re.sub(r"[^\w.-]+", "-", of, flags=re.ASCII).strip("-.")[:200] or "topic"
