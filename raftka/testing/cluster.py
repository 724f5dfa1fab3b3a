"""A cluster in a thread of its own, for tests in any style: plain, asyncio or Trio. Knows no test
runner.

Every method may be called from any thread and returns when the thing is done; most take less than a
millisecond, a restart some hundred.
"""

import itertools
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from math import inf
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

import trio

from raftka.broker.node import Node
from raftka.broker.replica.partition import Partition
from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.cluster.embedded import Cluster as Embedded
from raftka.cluster.embedded import EmbeddedNode, launch
from raftka.metadata.commands import Command, CreateTopics, DeleteTopics, DoomedTopic, NewTopic
from raftka.metadata.configs.starting_topics import parse_starting_topics
from raftka.metadata.image import MetadataImage, TopicImage
from raftka.metadata.security_commands import AlterScramCredentials, ScramUpsertion
from raftka.testing.access import Access, ClientOptions
from raftka.testing.clean import restore
from raftka.testing.faults.effects import Control, controls, cuts, delays, fails, throttles
from raftka.testing.faults.fault import Fault, HeldRequests, Recording
from raftka.testing.faults.injector import Faults
from raftka.testing.faults.selection import Apis, Choice, Error, Selection, named_apis
from raftka.testing.lag import describe_lag, read_lag
from raftka.testing.membership import Membership
from raftka.testing.options import API_CEILING, QUICK
from raftka.testing.shown import Shown
from raftka.testing.steering import Assignments, Steering
from raftka.testing.timeline.observer import ClusterObserver, NodeObserver
from raftka.testing.timeline.recorder import CLUSTERS, Timeline
from raftka.testing.views import (
    GroupView,
    Reading,
    StoredRecord,
    Value,
    Where,
    as_values,
    committed_records,
    describe_count,
    read_group,
)
from raftka.testing.waits import WAIT_SECONDS, wait_for_truth, wait_until
from raftka.wire.errors import Code, KafkaError

if TYPE_CHECKING:
    from raftka.cluster.secured.keys import ClientFiles
    from raftka.console.control.embedded import EmbeddedConsole
    from raftka.registry.server import RegistryServer

T = TypeVar("T")
AnyFault = TypeVar("AnyFault", bound=Fault)
START_SECONDS = 60.0  # on a machine that is busy with much else
COORDINATED = {"group": "__consumer_offsets", "transaction": "__transaction_state"}


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
        security: bool | str = False,
        base_port: int = 0,
        api_ceiling: str | None = None,
        **settings: object,
    ) -> None:
        """`bridge`: each node speaks ZooKeeper's protocol too, at `zookeeper_connect`. `security`:
        Kafka's security protocol, "SSL" (or True), "SASL_PLAINTEXT" or "SASL_SSL"; the cluster has
        ACLs then, and `client` has what clients need. `base_port`: of the first node, the others
        follow; 0 picks free ports. `api_ceiling`: the release of Kafka ("3.9") whose versions of
        APIs and features clients see at most. Raises ValueError for a protocol that there is not.
        """
        self._size = nodes
        self._base_port = base_port
        self._bridge_port = 0 if bridge else None
        self._properties = {
            **QUICK,
            **(properties or {}),
            **{name.replace("_", "."): str(value) for name, value in settings.items()},
            **({} if api_ceiling is None else {API_CEILING: api_ceiling}),
        }
        self._access = Access(security)
        self._start_image: MetadataImage
        self._thread: threading.Thread | None = None
        self._started: Future[None] = Future()
        self._embedded: Embedded
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery
        self._faults: Faults
        self._timeline: Timeline
        self._observer: ClusterObserver
        self._membership: Membership
        self._steering = Steering(self._newest_first)
        self._console: EmbeddedConsole | None = None
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
        console, self._console = self._console, None
        if console is not None:
            console.close()
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            try:
                self._token.run_sync_soon(self._nursery.cancel_scope.cancel)
            except trio.RunFinishedError:
                pass
            thread.join()
        self._access.close()

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
                base_port=self._base_port,
                metrics=True,  # the console reads them
                bridge_port=self._bridge_port,
                security=self._access.of_nodes,
                first_users=self._access.first_users,
            ) as self._embedded,
            trio.open_nursery() as self._nursery,
        ):
            self._token = trio.lowlevel.current_trio_token()
            self._timeline = timeline = Timeline(f"cluster of {self._embedded.bootstrap_servers}")
            self._observer = ClusterObserver(timeline)
            self._faults = Faults(self._sync, timeline.note)
            self._membership = Membership(self._embedded, lambda: self._newest_first()[0])
            for node in self._embedded.nodes.values():
                self._watch(node)
            CLUSTERS.add(timeline)
            self._start_image = self._a_node().image
            self._started.set_result(None)
            try:
                await trio.sleep_forever()
            finally:
                CLUSTERS.end(timeline)
                self._membership.close()

    def _watch(self, node: EmbeddedNode) -> None:
        """Let the faults reach the node, and the time line see it."""
        self._faults.reach(node)
        observer = NodeObserver(self._observer, node.plan.node_id)
        node.observe(observer, observer.on_event)

    # its nodes

    @property
    def bootstrap_servers(self) -> str:
        """As every client takes it: host:port,host:port."""
        return self._embedded.bootstrap_servers

    def client(self, user: str = "admin") -> ClientOptions:
        """Return the whole connection of a user, for each family of clients: tests that use it run
        on every kind of cluster. `admin` may do everything, others what ACLs allow. Logs a new user
        in with a password of its own; on a cluster without security all users are alike.
        """
        login = self._access.login(user)
        logins = self._access.logins
        if logins is not None:
            credential = logins.credential_of(user)
            key = credential.mechanism, credential.user
            if self._sync(lambda: key not in self._a_node().image.scram):
                self._ask(
                    AlterScramCredentials((), (ScramUpsertion(user, key[0], *credential[2:]),))
                )
                self.wait_for(
                    lambda: self._sync(
                        lambda: all(key in node.image.scram for node in self._serving_nodes())
                    )
                )
        return ClientOptions(self.bootstrap_servers, login)

    def client_files(self, user: str = "admin", days: float = 825) -> "ClientFiles":
        """Key and certificate of a user of a cluster with TLS, and the options of each family of
        clients; `admin` may do everything, others what ACLs allow. `days` below zero: the
        certificate has ended. Raises ValueError where clients have no certificates.
        """
        return self._access.certificates.issue(user, days)

    def renew_certificate(self, node_id: int) -> None:
        """Give a node of a cluster with TLS a new certificate; it takes it within seconds, without
        a restart. Raises ValueError where nodes have none.
        """
        if self._access.keys is None:
            raise ValueError("the cluster has no TLS: Cluster(security='SSL')")
        self._access.keys.issue_node(node_id)

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

    def log(self, node_id: int) -> str:
        """Return what the node has logged so far, in all its lives: a JSON object a line."""
        return self._node(node_id).plan.log_file.read_text(encoding="utf-8")

    def kill(self, node_id: int) -> None:
        """As SIGKILL does: nothing is written, flushed or said any more."""
        self._node(node_id)
        self._timeline.note(f"node {node_id}: killed by the test")
        self._async(lambda: self._embedded.kill(node_id))

    def restart(self, node_id: int) -> None:
        """Kill it if it lives, and start it on the same files and ports; returns when it serves
        again.
        """
        self._node(node_id)
        self._timeline.note(f"node {node_id}: restarted by the test")
        self._async(lambda: self._embedded.restart(node_id))

    def pause(self, node_id: int) -> None:
        """As SIGSTOP does: its connections stay open, and nobody answers."""
        node = self._node(node_id)
        self._timeline.note(f"node {node_id}: paused by the test")
        self._sync(node.pause)

    def resume(self, node_id: int) -> None:
        node = self._node(node_id)
        if node.paused:
            self._timeline.note(f"node {node_id}: resumed by the test")
        self._sync(node.resume)

    def heal(self) -> None:
        """End all faults, resume and start all nodes, remove added ones: as at the start."""
        self.clear_faults()
        for node_id in self.nodes:
            self.resume(node_id)
            if node_id not in self.alive:
                self.restart(node_id)
        for node_id in self._sync(lambda: self._membership.added):
            self.remove_node(node_id)
        self._async(self._embedded.wait_ready)

    def clean(self) -> None:
        """Heal the cluster, and remove all that tests have left in it: topics, groups, offsets,
        transactions, ACLs, quotas, users, tokens, and settings that were changed at run time.
        The nodes of the start and their ports stay.

        Raises TimeoutError when clients go on to make new topics, and ValueError on a cluster with
        the ZooKeeper bridge, whose znodes would stay.
        """
        if self._bridge_port is not None:
            raise ValueError("a cluster with the ZooKeeper bridge cannot be cleaned")
        self.heal()
        self._async(lambda: restore(self._serving_nodes(), self._start_image))
        self._timeline.note("cleaned")

    # faults

    def fail_next(
        self,
        api: Apis,
        error: Error | Sequence[Error],
        *,
        times: float | None = None,
        **where: Unpack[Choice],
    ) -> Fault:
        """The next `times` requests of clients that `where` chooses (docs/testing-faults.md) are
        answered with an error, and nothing else happens. Names are Kafka's: "Produce",
        "NOT_LEADER_OR_FOLLOWER". Of several errors each request gets the next one.

        An error for a topic, partition or group stands in that part of the answer; the rest of the
        request is carried out as always. Raises ValueError for what no request can match.
        """
        selection = Selection(api, where, self.nodes)
        errors = [error] if isinstance(error, str | int) else list(error)
        name = f"fail_next {named_apis(api)} {' '.join(map(str, errors))}"
        often = len(errors) if times is None else times
        return self._set(Fault(name, selection, fails(errors), often))

    def lose_requests(self, api: Apis, *, times: float = 1, **where: Unpack[Choice]) -> Fault:
        """The connection breaks before the request is looked at."""
        selection = Selection(api, where, self.nodes)
        return self._set(
            Fault(f"lose_requests {named_apis(api)}", selection, cuts(before=True), times)
        )

    def lose_answers(
        self, api: Apis, *, times: float = 1, after_bytes: int = 0, **where: Unpack[Choice]
    ) -> Fault:
        """The request is carried out, then the connection breaks, when so many bytes of the answer
        have left.
        """
        selection = Selection(api, where, self.nodes)
        effect = cuts(before=False, answer_bytes=after_bytes)
        return self._set(Fault(f"lose_answers {named_apis(api)}", selection, effect, times))

    def delay(
        self, api: Apis, ms: float, *, times: float | None = None, **where: Unpack[Choice]
    ) -> Fault:
        """Requests, and what is behind them on their connection, wait so many milliseconds before
        they are looked at.
        """
        selection = Selection(api, where, self.nodes)
        name = f"delay {named_apis(api)} {ms:g} ms"
        return self._set(Fault(name, selection, delays(ms), inf if times is None else times))

    def throttle(self, api: Apis, ms: int, *, times: float = 1, **where: Unpack[Choice]) -> Fault:
        """Answers tell the client to wait so many milliseconds (`throttle_time_ms`)."""
        selection = Selection(api, where, self.nodes)
        name = f"throttle {named_apis(api)} {ms} ms"
        return self._set(Fault(name, selection, throttles(selection, ms), times))

    def hold(self, api: Apis, *, times: float = 1, **where: Unpack[Choice]) -> HeldRequests:
        """Requests, and what is behind them on their connection, wait until `release()`."""
        selection = Selection(api, where, self.nodes)
        return self._set(HeldRequests(f"hold {named_apis(api)}", selection, times))

    def control(
        self,
        api: Apis,
        function: Control,
        *,
        times: float | None = None,
        **where: Unpack[Choice],
    ) -> Fault:
        """Call the function with each request: None lets the broker answer, the name of an error or
        an answer as a dict is sent instead, ConnectionError breaks the connection. It is called
        where the nodes run: it must not wait for them.
        """
        selection = Selection(api, where, self.nodes)
        often = inf if times is None else times
        return self._set(Fault(f"control {named_apis(api)}", selection, controls(function), often))

    def record_requests(self, api: Apis = None, **where: Unpack[Choice]) -> Recording:
        """Note what clients ask, until `remove()` or the end of the `with` block: `requests`."""
        return self._set(Recording(f"record {named_apis(api)}", Selection(api, where, self.nodes)))

    def cut_connections(
        self, client_id: str | None = None, *, nodes: Iterable[int] | None = None
    ) -> int:
        """Break the connections of clients now, of one client id or of all; return how many."""
        chosen = self.nodes if nodes is None else list(nodes)
        return self._sync(lambda: self._faults.cut_connections(client_id, chosen))

    def unreachable(self, node_id: int) -> Fault:
        """Break all connections of clients to the node, also new ones; other brokers reach it, so
        its leaders stay.
        """
        selection = Selection(None, {"nodes": [node_id]}, self.nodes)
        fault = self._set(Fault("unreachable", selection, cuts(before=True), inf))
        self.cut_connections(nodes=[node_id])
        return fault

    def show(self, shown: Shown, *, times: float | None = None) -> Fault:
        """Let answers say what is not true, or not any more: `raftka.testing.shown` has stale
        leaders, hidden brokers, other addresses, coordinators, versions and watermarks.
        """
        selection = Selection(shown.apis, shown.where, self.nodes)
        often = inf if times is None else times
        return self._set(Fault(str(shown), selection, shown.effect, often))

    def _set(self, fault: AnyFault) -> AnyFault:
        self._sync(lambda: self._faults.add(fault))
        return fault

    def clear_faults(self) -> None:
        self._sync(self._faults.clear)

    @contextmanager
    def paused(self, node_id: int) -> Iterator[None]:
        """Pause the node for the `with` block."""
        self.pause(node_id)
        try:
            yield
        finally:
            self.resume(node_id)

    @contextmanager
    def killed(self, node_id: int) -> Iterator[None]:
        """Kill the node for the `with` block, and start it again."""
        self.kill(node_id)
        try:
            yield
        finally:
            self.restart(node_id)

    # leaders, coordinators and groups

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> int:
        """Let another in-sync replica lead, `to` or any; return its id when all nodes know it. It
        is the preferred one from then on. Raises ValueError when there is none.
        """
        leader = self._async(lambda: self._steering.move_leader(topic, partition, to))
        self._wait_led(topic, partition, leader)
        return leader

    def shuffle_leaders(self, seed: int = 0) -> dict[tuple[str, int], int]:
        """Move the leaders of all partitions that can move, drawn from the seed; return them."""
        moved = self._async(lambda: self._steering.shuffle_leaders(seed))
        for (topic, index), leader in moved.items():
            self._wait_led(topic, index, leader)
        return moved

    def _wait_led(self, topic: str, index: int, leader: int) -> None:
        self.wait_for(lambda: self._sync(lambda: self._steering.leads(topic, index, leader)))

    def move_coordinator(self, key: str, to: int | None = None, *, of: str = "group") -> int:
        """Let another node coordinate the group, or with of="transaction" the transactional id;
        return its id.
        """
        if of not in COORDINATED:
            raise ValueError(f"of={of!r}: {' or '.join(COORDINATED)}")
        topic = COORDINATED[of]
        return self.move_leader(
            topic, self._sync(lambda: self._steering.coordinator_partition(key, topic)), to
        )

    def add_node(self) -> int:
        """Start one more broker, without a vote in the quorum; return its id when it serves. It
        has no replicas before topics or reassignments give it some.
        """
        node = self._async(self._membership.add)
        self._sync(lambda: self._watch(node))
        self._timeline.note(f"node {node.plan.node_id}: added by the test")
        return node.plan.node_id

    def remove_node(self, node_id: int) -> None:
        """Move the replicas of an added broker to others, and take it out of the cluster. Raises
        ValueError for a node of the start: those are the controllers.
        """
        self._async(lambda: self._membership.remove(node_id))
        self._sync(lambda: self._faults.forget(node_id))
        self._timeline.note(f"node {node_id}: removed by the test")

    def force_rebalance(self, group_id: str) -> None:
        """Let all members of a group, of either protocol, rebalance. Raises KafkaError for a group
        without members.
        """
        self._async(lambda: self._steering.force_rebalance(group_id))

    def assign(self, group_id: str, assignments: Assignments) -> None:
        """Give members of a consumer group (KIP-848) these partitions, by member id, until the
        group changes. Raises KafkaError.
        """
        self._async(lambda: self._steering.assign(group_id, assignments))

    def timeline(self) -> str:
        """Return the events since the start, one a line: leaders, ISR changes, rebalances,
        errors that clients were sent, faults.
        """
        return self._timeline.text()

    # a console and a schema registry

    @property
    def console_url(self) -> str:
        """The address of a console for the browser, opened here the first time; it kills, pauses
        and cuts nodes and sets faults too. Users of SASL log in; with TLS all are `admin`.
        """
        if self._console is None:
            from raftka.console.control.embedded import EmbeddedConsole, EmbeddedControl

            control = EmbeddedControl(self._embedded, self._async, self._faults, self._timeline)
            self._console = EmbeddedConsole(control, 0, self._access.login("admin").java())
        return self._console.url

    def registry(self, topic: str = "_schemas") -> "RegistryServer":
        """One on this cluster, in threads of its own: `with cluster.registry() as registry:
        registry.url`. Needs raftka[registry].
        """
        from raftka.registry.server import CLIENT_ID, Port, RegistryServer

        security = self._access.login("admin").security
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
        self._create((new,))
        return name

    def create_topics(self, *topics: str) -> list[str]:
        """Create topics, each in one line: "orders:3", "payments:1:compact",
        "audit:1:delete:retention.ms=60000", that is
        NAME[:PARTITIONS][:POLICY][:SETTING=VALUE]... Returns their names, as `create_topic`.
        Raises ValueError and KafkaError.
        """
        new = parse_starting_topics(topics)
        self._create(new)
        return [topic.name for topic in new]

    def _create(self, topics: tuple[NewTopic, ...]) -> None:
        created = self._ask(CreateTopics(topics))
        for topic in created:
            if topic.error:
                raise KafkaError(Code(topic.error), topic.message or topic.name)
        self.wait_for(
            lambda: self._sync(
                lambda: all(self._led(topic.name, topic.num_partitions) for topic in created)
            )
        )

    def delete_topic(self, name: str) -> None:
        self._ask(DeleteTopics((DoomedTopic(name),)))

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads it; -1: none. Raises KafkaError for one that is not there."""
        return self._sync(lambda: self._leader(topic, partition))

    def records(
        self, topic: str, partition: int | None = None, *, read_committed: bool = False
    ) -> list[StoredRecord]:
        """Return the records of the leaders' logs, in order of offset, partition by partition, when
        all are committed. `read_committed`: without those of open and aborted transactions. Raises
        KafkaError for a topic that is not there, and TimeoutError.
        """
        chosen = range(self._partitions(topic)) if partition is None else [partition]
        return [
            record for each in chosen for record in self._committed(topic, each, read_committed)
        ]

    @overload
    def values(
        self, topic: str, as_: type[bytes] = ..., *, read_committed: bool = ...
    ) -> list[bytes | None]: ...
    @overload
    def values(
        self, topic: str, as_: type[str], *, read_committed: bool = ...
    ) -> list[str | None]: ...
    @overload
    def values(self, topic: str, as_: ModuleType, *, read_committed: bool = ...) -> list[Value]: ...
    @overload
    def values(
        self, topic: str, as_: Callable[[bytes], T], *, read_committed: bool = ...
    ) -> list[T | None]: ...
    def values(
        self, topic: str, as_: Reading = bytes, *, read_committed: bool = False
    ) -> list[Value]:
        """Return the values of a topic's records, as `records` has them: as bytes, as `str`
        (UTF-8), by a module like `json` that has `loads`, or by a function. None stays None. Raises
        ValueError for a value that cannot be read, with its partition and offset.
        """
        return as_values(self.records(topic, read_committed=read_committed), topic, as_)

    def group(self, group_id: str) -> GroupView:
        """As its coordinator has it. Raises KafkaError while it has none."""
        return self._async(lambda: read_group(self._serving_nodes(), group_id))

    def lag(self, group_id: str, topic: str | None = None) -> dict[Where, int]:
        """Return how many records a group has not committed yet, by (topic, partition): of the
        partitions that it has committed or was given, or of all of one topic. Records of open and
        aborted transactions do not count. Raises KafkaError while the group has no coordinator.
        """

        async def read() -> dict[Where, int]:
            group = await read_group(self._serving_nodes(), group_id)
            wheres = {where for member in group.members for where in member.partitions}
            wheres |= group.offsets.keys()
            if topic is not None:
                wheres = {(topic, each) for each in range(self._count_partitions(topic))}
            image = self._a_node().image
            return {
                where: read_lag(self._led_by(*where), group.offsets.get(where))
                for where in sorted(wheres)
                if image.topic_named(where[0]) is not None
            }

        return self._async(read)

    # waits

    def wait_for(self, condition: Callable[[], T], timeout_s: float = WAIT_SECONDS) -> T:
        """Until it is true; what it returned then. A KafkaError is not true yet. Raises
        TimeoutError, with the last thing it returned or raised.
        """
        return wait_for_truth(condition, timeout_s)

    def wait_for_group(
        self, group_id: str, members: int | None = None, *, timeout_s: float = WAIT_SECONDS
    ) -> GroupView:
        """Until the group is stable: it has members, so many if that is given, and each has its
        partitions. Raises TimeoutError with the group's last state.
        """
        wanted = "" if members is None else f" with {members} member{'s' * (members != 1)}"
        return wait_until(
            f"group {group_id!r} is not stable{wanted}",
            lambda: self.group(group_id),
            lambda group: group.state == "Stable" and members in {None, len(group.members)},
            str,
            timeout_s,
        )

    def wait_for_lag(
        self,
        group_id: str,
        at_most: int = 0,
        *,
        topic: str | None = None,
        timeout_s: float = WAIT_SECONDS,
    ) -> dict[Where, int]:
        """Until the group has committed all records but so many, over all partitions that `lag`
        has, of which there is at least one. Raises TimeoutError with the last lag by partition.
        """
        return wait_until(
            f"group {group_id!r} is not at a lag of {at_most}",
            lambda: self.lag(group_id, topic),
            lambda lag: bool(lag) and sum(lag.values()) <= at_most,
            describe_lag,
            timeout_s,
        )

    def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        read_committed: bool = False,
        timeout_s: float = WAIT_SECONDS,
    ) -> list[StoredRecord]:
        """Until the topic has so many records, or more; returns them as `records`. Raises
        TimeoutError with the last count by partition.
        """
        return wait_until(
            f"topic {topic!r} has not {count} records",
            lambda: self.records(topic, read_committed=read_committed),
            lambda records: len(records) >= count,
            lambda records: describe_count(records, topic),
            timeout_s,
        )

    # in the thread of the nodes

    def _serving(self) -> list[EmbeddedNode]:
        """The nodes that are alive and not paused: the state of a paused node is of the past."""
        serving = [node for node in self._embedded.nodes.values() if node.alive and not node.paused]
        if not serving:
            raise RuntimeError("no node serves: all are dead or paused")
        return serving

    def _serving_nodes(self) -> list[Node]:
        return [each.node for each in self._serving() if each.node is not None]

    def _newest_first(self) -> list[Node]:
        return sorted(self._serving_nodes(), key=lambda node: -node.image.offset)

    def _node(self, node_id: int) -> EmbeddedNode:
        """Raises ValueError for a node that is not there."""
        if node_id not in self._embedded.nodes:
            there = ", ".join(map(str, self.nodes))
            raise ValueError(f"there is no node {node_id}: the cluster has {there}")
        return self._embedded.nodes[node_id]

    def _a_node(self) -> Node:
        return self._newest_first()[0]

    def _partitions(self, topic: str) -> int:
        return self._sync(lambda: self._count_partitions(topic))

    def _count_partitions(self, topic: str) -> int:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        return len(self._topic(topic).partitions)

    def _leader(self, topic: str, partition: int) -> int:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        partitions = self._topic(topic).partitions
        if not 0 <= partition < len(partitions):
            raise KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {partition}: {topic!r} has {len(partitions)}",
            )
        return partitions[partition].leader

    def _topic(self, name: str) -> TopicImage:
        """Raises UNKNOWN_TOPIC_OR_PARTITION."""
        found = self._a_node().image.topic_named(name)
        if found is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return found

    def _led(self, topic: str, partitions: int) -> bool:
        serving = self._serving_nodes()
        if any(node.image.topic_named(topic) is None for node in serving):
            return False
        replicas = [
            node.replicas.partitions.get((topic, index))
            for node in serving
            for index in range(partitions)
        ]
        led = [each for each in replicas if each is not None and each.leader is not None]
        return len(led) == partitions

    def _committed(self, topic: str, partition: int, read_committed: bool) -> list[StoredRecord]:
        end = self.wait_for(
            lambda: self._sync(lambda: self._led_by(topic, partition))
        ).log.end_offset
        self.wait_for(
            lambda: self._sync(lambda: self._led_by(topic, partition).high_watermark) >= end
        )
        return self._sync(
            lambda: list(
                committed_records(self._led_by(topic, partition), read_committed=read_committed)
            )
        )

    def _led_by(self, topic: str, partition: int) -> Partition:
        for node in self._serving_nodes():
            replica = node.replicas.partitions.get((topic, partition))
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
