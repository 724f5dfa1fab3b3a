"""A blocking client of a cluster: its brokers, the leaders of partitions, the coordinators, the
controller.

Connections stay open for later requests. Passing errors are tried again until the patience is over,
counted from the last success. A request whose connection broke is sent again too: the broker may
have carried it out, as with every client of Kafka's.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from raftka.client.blocking.connection import (
    ANSWER_S,
    AnotherNode,
    Broken,
    ClientError,
    Connection,
    Unsupported,
    name_of,
)
from raftka.client.connection import ANOTHER_NODE, ANY_NODE, Address, Intended
from raftka.security.client_security import PLAINTEXT, ClientSecurity
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.list_offsets import LIST_OFFSETS, ListOffsetsRequest
from raftka.wire.messages.metadata import METADATA, MetadataResponse
from raftka.wire.schema import ZERO_UUID, Api, Req, Resp, Row

PATIENCE_S = 30.0
PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
QUICK_S = 1.0  # after which a question that any broker can answer goes to the next one
# names of APIs that change nothing begin with these
READS = ("ApiVersions", "Describe", "FindCoordinator", "List", "Metadata")
ONE_KEY = 3  # version of FindCoordinator: old brokers know it and new ones still do
OF_CONTROLLERS = 2  # the type of end points that DescribeCluster lists (KIP-919)
GROUP, TRANSACTION = 0, 1  # types of a coordinator's key: the id of a group, a transactional id

NOT_CONTROLLER = frozenset({Code.NOT_CONTROLLER})
NOT_COORDINATOR = frozenset(
    {Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR}
)

T = TypeVar("T")
Where = tuple[str, int]  # topic, partition


class Unreachable(ClientError):
    """No broker gave an answer of use in time."""


class Leader(NamedTuple):
    node_id: int
    epoch: int


class Patience:
    """Pauses between tries, longer ones as they fail, until it is over. Any success begins it
    anew.
    """

    def __init__(
        self, seconds: float, what: str, error: Callable[[str], Exception] = Unreachable
    ) -> None:
        """`error`: makes the exception of `wait` from its text."""
        self._seconds, self._what, self._error = seconds, what, error
        self.begin()

    def begin(self) -> None:
        self._end = time.monotonic() + self._seconds
        self._pause = PAUSE_S

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    def wait(self, why: object) -> None:
        """Sleep until the next try. Raises Unreachable, or what `error` makes, when the patience is
        over.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            cause = why if isinstance(why, BaseException) else None
            text = f"{self._what}: nobody answered for {self._seconds:g} s; last: {why}"
            raise self._error(text) from cause
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)


class Client:
    """The client of one cluster. Not for several threads at once."""

    def __init__(
        self,
        bootstrap: Iterable[Address],
        client_id: str = "raftka",
        patience_s: float = PATIENCE_S,
        *,
        answer_s: float = ANSWER_S,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """`answer_s`: for one answer. `security`: of every connection."""
        self.bootstrap, self.patience_s = tuple(bootstrap), patience_s
        self.brokers: dict[int, Address] = {}  # those that are alive, as the last Metadata had it
        self.cluster_id: str | None = None  # as the last Metadata had it
        self.missing: set[str] = set()  # topics that were asked for and not known
        self.client_id, self._answer_s, self.security = client_id, answer_s, security
        self._silent: set[Address] = set()  # they did not answer the last question in time
        # the broker that answered the last question for any broker
        self.answered: Address | None = None
        self._idle: dict[Address, list[Connection]] = {}
        self._controller = -1
        self._coordinators: dict[tuple[int, str], Address] = {}  # by the type of key
        self._leaders: dict[Where, Leader] = {}
        self._ids: dict[str, str] = {}

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # connections

    def take(self, address: Address, answer_s: float | None = None) -> Connection:
        """Raises OSError. `answer_s`: how long the broker may be silent, if not as long as ever."""
        idle, answer_s = self._idle.get(address), self._answer_s if answer_s is None else answer_s
        connection = (
            idle.pop()
            if idle
            else Connection(
                address,
                self.client_id,
                answer_s,
                self.security,
                self._intended(address),
                self._on_closed,
            )
        )
        connection.wait_at_most(answer_s)
        return connection

    def give(self, connection: Connection) -> None:
        """Nothing is under way on it."""
        connection.wait_at_most(self._answer_s)
        self._idle.setdefault(connection.address, []).append(connection)

    def _intended(self, address: Address) -> Intended:
        """Return the broker that is to be at the address; any, where Metadata named none or two."""
        found = [node_id for node_id, each in self.brokers.items() if each == address]
        return Intended.of(self.cluster_id, found[0]) if len(found) == 1 else ANY_NODE

    def _on_closed(self, reason: str) -> None:
        """Begin again at the bootstrap list if another broker or cluster is at a known address."""
        if reason.startswith(ANOTHER_NODE):
            self.brokers, self.cluster_id, self._controller = {}, None, -1
            self._coordinators, self._leaders = {}, {}

    def drop_idle(self, address: Address) -> None:
        """One of them was dead: others of its age may be."""
        for connection in self._idle.pop(address, []):
            connection.close()

    def close(self) -> None:
        for address in list(self._idle):
            self.drop_idle(address)

    # one request, once

    def ask_at(
        self,
        address: Address,
        api: Api[Req, Resp],
        row: Req,
        version: int | None = None,
        answer_s: float | None = None,
    ) -> Resp:
        """Once, but for a connection that was idle and has died meanwhile. Raises OSError: a
        broker that was silent for its time is not asked again.
        """
        fresh = not self._idle.get(address)
        connection = self.take(address, answer_s)
        try:
            answer = connection.send(api, row, version).wait()
        except OSError as error:
            connection.close()
            if fresh:
                raise
            self.drop_idle(address)
            if isinstance(error, TimeoutError):
                raise
            return self.ask_at(address, api, row, version, answer_s)
        except BaseException:
            connection.close()
            raise
        self.give(connection)
        return answer

    def ask_any(
        self,
        api: Api[Req, Resp],
        row: Req,
        version: int | None = None,
        answer_s: float | None = None,
    ) -> Resp:
        """The first broker that answers. Raises OSError: a broker that was silent says more than
        one that is not there.

        A broker that is silent gives way to the next one, where that changes nothing, and is asked
        last from then on. The one that has answered is asked first: a silent one may have two
        addresses, that of the bootstrap list and its own. `answer_s`: how long each may be silent
        at most, if not as long as ever.
        """
        failures: list[OSError] = []
        known = dict.fromkeys([*self.brokers.values(), *self.bootstrap])
        addresses = sorted(known, key=lambda each: (each in self._silent, each != self.answered))
        quick_s = (
            min(QUICK_S, answer_s or self._answer_s)
            if len(addresses) > 1 and api.name.startswith(READS)
            else None
        )
        for patience_s in (quick_s, answer_s) if quick_s is not None else (answer_s,):
            for address in addresses:
                try:
                    answer = self.ask_at(address, api, row, version, patience_s)
                except AnotherNode:
                    # no broker is known any more: the list of servers says where to begin
                    return self.ask_any(api, row, version, answer_s)
                except OSError as error:
                    failures.append(
                        error
                        if isinstance(error, Broken)
                        else type(error)(f"{name_of(address)}: {error}")
                    )
                    if isinstance(error, TimeoutError):
                        self._silent.add(address)
                else:
                    self._silent.discard(address)
                    self.answered = address
                    return answer
            if not self._silent.intersection(addresses):
                break  # no broker is there that could answer later
        failures = failures or [Broken("no broker is known")]
        raise next(
            (each for each in reversed(failures) if not isinstance(each, ConnectionRefusedError)),
            failures[-1],
        )

    # one request, until it is answered. Raises Unreachable; an answer that came is returned with
    # its errors when the time is up

    def ask(
        self,
        api: Api[Req, Resp],
        row: Req,
        version: int | None = None,
        *,
        passing: Callable[[int], bool] | None = None,
    ) -> Resp:
        """Any broker. `passing`: the errors after which it is asked again."""
        return self._until(api.name, lambda: self.ask_any(api, row, version), passing)

    def ask_broker(
        self,
        node_id: int,
        api: Api[Req, Resp],
        row: Req,
        version: int | None = None,
        *,
        passing: Callable[[int], bool] | None = None,
    ) -> Resp:
        """Ask that broker. Raises KafkaError when it is not alive."""

        def once() -> Resp:
            if node_id not in self.brokers:
                self.refresh([])
            if node_id not in self.brokers:
                raise KafkaError(Code.BROKER_NOT_AVAILABLE, f"there is no broker {node_id}")
            return self.ask_at(self.brokers[node_id], api, row, version)

        return self._until(f"{api.name} at broker {node_id}", once, passing, self.brokers.clear)

    def ask_controller(self, api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp:
        def once() -> Resp:
            if self._controller not in self.brokers:
                self.refresh([])
            if self._controller not in self.brokers:
                raise Broken("no broker knows a controller")
            return self.ask_at(self.brokers[self._controller], api, row, version)

        def lost() -> None:
            self._controller = -1

        return self._until(f"{api.name} at the controller", once, NOT_CONTROLLER.__contains__, lost)

    def ask_coordinator(
        self,
        key: str,
        api: Api[Req, Resp],
        row: Req,
        version: int | None = None,
        *,
        kind: int = GROUP,
        passing: Callable[[int], bool] = NOT_COORDINATOR.__contains__,
    ) -> Resp:
        """Ask the coordinator of a group, or of a transactional id. `passing`: the errors after
        which it is asked again.
        """

        def once() -> Resp:
            return self.ask_at(self.coordinator(key, kind), api, row, version)

        return self._until(
            f"{api.name} at the coordinator of {key}",
            once,
            passing,
            lambda: self.lost_coordinator(key, kind),
        )

    def ask_leader(
        self, where: Where, api: Api[Req, Resp], row: Req, version: int | None = None
    ) -> Resp:
        """Ask the leader of a partition, again and again until its answer has no passing error."""

        def once() -> Resp:
            led = self.leader(where)
            if led is None:
                raise Broken(f"{where[0]}-{where[1]} has no leader")
            return self.ask_at(led[0], api, row, version)

        return self._until(
            f"{api.name} at the leader of {where[0]}-{where[1]}",
            once,
            is_retriable,
            lambda: self.forget_leaders(where[0]),
        )

    def patience(self, what: str) -> Patience:
        return Patience(self.patience_s, what)

    def _until(
        self,
        what: str,
        once: Callable[[], Resp],
        passing: Callable[[int], bool] | None = None,
        lost: Callable[[], None] = lambda: None,
    ) -> Resp:
        """`passing`: the errors after which the request is sent again; `lost`: forget where it was
        sent.
        """
        patience = self.patience(what)
        while True:
            why: object
            try:
                answer = once()
            except OSError as error:
                why = error
            else:
                again = set() if passing is None else set(filter(passing, error_codes(answer)))
                if not again or patience.over:
                    return answer
                why = ", ".join(map(name_of_code, sorted(again)))
            lost()
            patience.wait(why)

    # who is who

    def refresh(
        self,
        names: Collection[str] | None,
        *,
        create: bool = False,
        answer_s: float | None = None,
    ) -> MetadataResponse:
        """Metadata of these topics, or of all; `create` lets the broker make the ones that are
        missing. `answer_s`: how long a broker may be silent. Controllers have no Metadata: where
        one is asked about no topic, the controllers take the place of the brokers. Raises OSError,
        and Unsupported.
        """
        topics = (
            None
            if names is None
            else [METADATA.request.topics(name=name) for name in sorted(names)]
        )
        row = METADATA.request(topics=topics, allow_auto_topic_creation=create)
        try:
            answer = self.ask_any(METADATA, row, answer_s=answer_s)
        except Unsupported:
            if topics != []:
                raise
            answer = self._find_controllers(answer_s)
        self.brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.cluster_id, self._controller = answer.cluster_id, answer.controller_id
        for topic in answer.topics:
            name = topic.name or ""  # null only in answers to questions by id
            (
                self.missing.add
                if topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
                else self.missing.discard
            )(name)
            topic_id = "" if topic.topic_id == ZERO_UUID else topic.topic_id.hex()
            if self._ids.get(name, topic_id) != topic_id:
                # of a topic that was deleted: the new one may have fewer partitions
                self.forget_leaders(name)
            self._ids[name] = topic_id
            for each in topic.partitions:
                self._leaders[name, each.partition_index] = Leader(
                    each.leader_id, each.leader_epoch
                )
        return answer

    def _find_controllers(self, answer_s: float | None) -> MetadataResponse:
        """Raises OSError, and Unsupported: no controller is asked."""
        row = DESCRIBE_CLUSTER.request(endpoint_type=OF_CONTROLLERS)
        found = self.ask_any(DESCRIBE_CLUSTER, row, answer_s=answer_s)
        response = METADATA.response
        return response(
            cluster_id=found.cluster_id,
            controller_id=found.controller_id,
            brokers=[
                response.brokers(node_id=each.broker_id, host=each.host, port=each.port)
                for each in found.brokers
            ],
        )

    def metadata(self, names: Collection[str] | None) -> MetadataResponse:
        """The same, until a broker answers and no topic has an error that passes; one that is not
        known has its error. Raises Unreachable.
        """
        passing = {Code.LEADER_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR}
        patience = self.patience(
            "Metadata of "
            + ("all topics" if names is None else ", ".join(sorted(names)) or "the cluster")
        )
        while True:
            why: object
            try:
                answer = self.refresh(names)
            except OSError as error:
                why = error
            else:
                bad = [topic for topic in answer.topics if topic.error_code in passing]
                if not bad or patience.over:
                    return answer
                why = f"{bad[0].name}: {name_of_code(bad[0].error_code)}"
            patience.wait(why)

    @property
    def controller_id(self) -> int:
        """The controller, as the last Metadata says; -1: none."""
        return self._controller

    def leader_id(self, where: Where) -> int:
        """Return the broker that leads it, as the last Metadata of its topic says; -1: none."""
        return self._leaders.get(where, Leader(-1, -1)).node_id

    def leader(self, where: Where) -> tuple[Address, int] | None:
        """Its address and the leader epoch, as far as known; None: nobody leads it, so brokers are
        asked again the next time. Raises OSError.
        """
        if where not in self._leaders:
            self.refresh([where[0]])
        leader = self._leaders.get(where, Leader(-1, -1))
        address = self.brokers.get(leader.node_id)
        if address is None:
            self._leaders.pop(where, None)
            return None
        return address, leader.epoch

    def by_leader(self, wheres: Iterable[Where]) -> tuple[dict[Address, list[Where]], str]:
        """The partitions by their leader's address, and why some are left out: nobody leads them.
        Raises OSError.
        """
        found: dict[Address, list[Where]] = {}
        why = ""
        for where in wheres:
            led = self.leader(where)
            if led is None:
                why = f"{where[0]}-{where[1]} has no leader"
            else:
                found.setdefault(led[0], []).append(where)
        return found, why

    def topic_id(self, topic: str) -> str:
        """In hexadecimal; empty where the broker has not told one."""
        return self._ids.get(topic, "")

    def forget_leaders(self, topic: str) -> None:
        """Forget the leaders of a topic: a broker has answered that they are others."""
        for where in [where for where in self._leaders if where[0] == topic]:
            del self._leaders[where]

    def coordinator(self, key: str, kind: int = GROUP) -> Address:
        """Raises OSError while there is none, and KafkaError."""
        if (kind, key) not in self._coordinators:
            answer = self.ask_any(
                FIND_COORDINATOR, FIND_COORDINATOR.request(key=key, key_type=kind), ONE_KEY
            )
            if is_retriable(answer.error_code):
                raise Broken(name_of_code(answer.error_code))
            check(answer.error_code, answer.error_message)
            self._coordinators[kind, key] = (answer.host, answer.port)
        return self._coordinators[kind, key]

    def lost_coordinator(self, key: str, kind: int = GROUP) -> None:
        self._coordinators.pop((kind, key), None)

    # offsets of partitions

    def offsets(self, asked: Mapping[Where, int], isolation: int | None = None) -> dict[Where, int]:
        """ListOffsets at every leader, asked again where one has changed; `asked` has times (ms) or
        LATEST, EARLIEST. Raises KafkaError.
        """
        patience = self.patience(
            f"the offsets of {len(asked)} partitions, {'-'.join(map(str, min(asked)))} among them"
            if asked
            else ""
        )
        found: dict[Where, int] = {}
        while left := {where: time_ms for where, time_ms in asked.items() if where not in found}:
            why = self._offsets_once(left, found, isolation or 0)
            if found.keys() < asked.keys():
                for topic in {topic for topic, _ in asked.keys() - found.keys()}:
                    self.forget_leaders(topic)
                patience.wait(why)
        return found

    def _offsets_once(
        self, asked: Mapping[Where, int], found: dict[Where, int], isolation: int
    ) -> object:
        """Ask once; return the error where not all were found."""
        why: object
        try:
            by_leader, why = self.by_leader(asked)
        except OSError as error:
            return error
        for address, wheres in by_leader.items():
            try:
                answer = self.ask_at(
                    address,
                    LIST_OFFSETS,
                    list_offsets_request({where: asked[where] for where in wheres}, isolation),
                )
            except OSError as error:
                why = f"{name_of(address)}: {error}"
                continue
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code == 0:
                        found[topic.name, each.partition_index] = each.offset
                        continue
                    why = f"{topic.name}-{each.partition_index}: {name_of_code(each.error_code)}"
                    if not is_retriable(each.error_code):
                        raise KafkaError(
                            Code(each.error_code),
                            f"{topic.name}-{each.partition_index}, in answer to ListOffsets",
                        )
        return why


def list_offsets_request(asked: Mapping[Where, int], isolation: int = 0) -> ListOffsetsRequest:
    """`asked`: times (ms), or LATEST, EARLIEST. `isolation`: 1 for committed records."""
    row = LIST_OFFSETS.request.topics.partitions
    topics = by_topic(
        (where, row(partition_index=where[1], timestamp=time_ms))
        for where, time_ms in asked.items()
    )
    rows = [
        LIST_OFFSETS.request.topics(name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]
    return LIST_OFFSETS.request(
        isolation_level=isolation, topics=rows, timeout_ms=int(ANSWER_S * 500)
    )


def by_topic(rows: Iterable[tuple[Where, T]]) -> dict[str, list[T]]:
    """Group the values of partitions by topic, as nearly every message has them."""
    topics: dict[str, list[T]] = {}
    for (topic, _), row in rows:
        topics.setdefault(topic, []).append(row)
    return topics


def error_codes(row: Row) -> set[int]:
    """All of an answer, those of no error left out."""
    found: set[int] = set()
    for field in row.struct.fields:
        value = getattr(row, field.name)
        if field.name == "error_code" and value:
            found.add(value)
        elif field.struct is not None and value is not None:
            for each in value if field.array else (value,):
                found |= error_codes(each)
    return found


def no_error_passes(code: int) -> bool:
    return False


def is_retriable(code: int) -> bool:
    return code in Code._value2member_map_ and Code(code).retriable


def check(code: int, message: str | None = None) -> None:
    """Raises KafkaError unless it is NONE."""
    if code in Code._value2member_map_:
        if code:
            raise KafkaError(Code(code), message)
    else:
        raise KafkaError(
            Code.UNKNOWN_SERVER_ERROR, f"error {code}" + (f": {message}" if message else "")
        )
