"""The largest requests of each API on ten connections at once, beside one client that produces one
record after the other.

What the neighbour waits for, whether the cluster noticed (elections, fenced brokers), and the
node's memory.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.systems import System
from raftka.cluster.ask import call
from raftka.wire.frame import encode_request
from raftka.wire.messages.configs import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import DELETE_GROUPS, DESCRIBE_GROUPS, LEAVE_GROUP, LIST_GROUPS
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from raftka.wire.messages.partitions import CREATE_PARTITIONS, ELECT_LEADERS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS
from raftka.wire.records import build_batch
from raftka.wire.rows import Row
from raftka.wire.schema import AnyApi

CONNECTIONS = 10
VICTIM = "neighbour"
SECONDS = 4.0
COUNT = 100_000  # items of a request, or as many as a broker admits


@dataclass
class Outcome:
    """Waits of the neighbour in seconds, answers to the attackers, memory of the node, and signs
    that the cluster noticed.
    """

    waits_s: list[float] = field(default_factory=list)
    answers: int = 0
    closed: int = 0
    noticed: int = 0  # controllers that began, and brokers that were fenced
    rss_mb: float = 0.0

    def quantile(self, share: float) -> float:
        return (
            sorted(self.waits_s)[min(len(self.waits_s) - 1, int(share * len(self.waits_s)))]
            if self.waits_s
            else float("nan")
        )


Named = tuple[str, AnyApi, int, Row]  # name, API, version, and the request


def requests(count: int = COUNT) -> Iterator[Named]:
    yield from of_groups(count)
    yield from of_partitions(count)
    yield from of_topics(count)
    yield from of_producers(count)


def of_groups(count: int) -> Iterator[Named]:
    groups = [f"group-{i}" for i in range(count)]
    yield "DescribeGroups", DESCRIBE_GROUPS, 5, DESCRIBE_GROUPS.request(groups=groups)
    yield "DeleteGroups", DELETE_GROUPS, 2, DELETE_GROUPS.request(groups_names=groups)
    yield (
        "ConsumerGroupDescribe",
        CONSUMER_GROUP_DESCRIBE,
        0,
        CONSUMER_GROUP_DESCRIBE.request(group_ids=groups),
    )
    yield "FindCoordinator", FIND_COORDINATOR, 4, FIND_COORDINATOR.request(coordinator_keys=groups)
    yield "ListGroups", LIST_GROUPS, 4, LIST_GROUPS.request(states_filter=groups)
    of_group = OFFSET_FETCH.request.groups
    partition = [of_group.topics(name=VICTIM, partition_indexes=(0,))]
    yield (
        "OffsetFetch",
        OFFSET_FETCH,
        8,
        OFFSET_FETCH.request(
            groups=[
                of_group(group_id=each, topics=partition) for each in groups[: min(count, 60_000)]
            ]
        ),
    )
    row = OFFSET_COMMIT.request.topics
    yield (
        "OffsetCommit",
        OFFSET_COMMIT,
        8,
        OFFSET_COMMIT.request(
            group_id="g",
            topics=[
                row(
                    name=VICTIM,
                    partitions=[
                        row.partitions(partition_index=i, committed_offset=1) for i in range(count)
                    ],
                )
            ],
        ),
    )
    deleted = OFFSET_DELETE.request.topics
    yield (
        "OffsetDelete",
        OFFSET_DELETE,
        0,
        OFFSET_DELETE.request(
            group_id="g",
            topics=[
                deleted(
                    name=VICTIM,
                    partitions=[deleted.partitions(partition_index=i) for i in range(count)],
                )
            ],
        ),
    )
    members = [LEAVE_GROUP.request.members(member_id=f"member-{i}") for i in range(count)]
    yield "LeaveGroup", LEAVE_GROUP, 4, LEAVE_GROUP.request(group_id="g", members=members)


def of_partitions(count: int) -> Iterator[Named]:
    row = FETCH.request.topics
    partitions = [
        row.partitions(partition=i, fetch_offset=0, partition_max_bytes=1000) for i in range(count)
    ]
    yield (
        "Fetch",
        FETCH,
        7,
        FETCH.request(
            max_wait_ms=0, max_bytes=1 << 20, topics=[row(topic=VICTIM, partitions=partitions)]
        ),
    )
    listed = LIST_OFFSETS.request.topics
    yield (
        "ListOffsets",
        LIST_OFFSETS,
        7,
        LIST_OFFSETS.request(
            topics=[
                listed(
                    name=VICTIM,
                    partitions=[
                        listed.partitions(partition_index=i, timestamp=1) for i in range(count)
                    ],
                )
            ]
        ),
    )
    cut = DELETE_RECORDS.request.topics
    yield (
        "DeleteRecords",
        DELETE_RECORDS,
        2,
        DELETE_RECORDS.request(
            topics=[
                cut(
                    name=VICTIM,
                    partitions=[
                        cut.partitions(partition_index=1 + i, offset=0) for i in range(count)
                    ],
                )
            ],
            timeout_ms=5000,
        ),
    )


def of_topics(count: int) -> Iterator[Named]:
    none = [METADATA.request.topics(name=f"no-such-topic-{i}") for i in range(count)]
    yield "Metadata", METADATA, 12, METADATA.request(topics=none, allow_auto_topic_creation=False)
    more = [
        CREATE_PARTITIONS.request.topics(name=f"no-such-topic-{i}", count=2) for i in range(count)
    ]
    yield (
        "CreateTopics, bad names",
        CREATE_TOPICS,
        7,
        CREATE_TOPICS.request(
            topics=[
                CREATE_TOPICS.request.topics(
                    name=f"bad/{i}", num_partitions=1, replication_factor=1
                )
                for i in range(count)
            ],
            timeout_ms=5000,
        ),
    )
    yield (
        "CreateTopics, bad factor",
        CREATE_TOPICS,
        7,
        CREATE_TOPICS.request(
            topics=[
                CREATE_TOPICS.request.topics(name=f"t{i}", num_partitions=1, replication_factor=99)
                for i in range(min(count, 9_000))
            ],
            timeout_ms=5000,
        ),
    )
    yield (
        "CreatePartitions",
        CREATE_PARTITIONS,
        3,
        CREATE_PARTITIONS.request(topics=more, timeout_ms=5000),
    )
    yield (
        "DeleteTopics",
        DELETE_TOPICS,
        5,
        DELETE_TOPICS.request(topic_names=[f"no{i}" for i in range(count)], timeout_ms=5000),
    )
    yield from of_a_topic(count)


def of_a_topic(count: int) -> Iterator[Named]:
    row = ELECT_LEADERS.request.topic_partitions
    yield (
        "ElectLeaders",
        ELECT_LEADERS,
        2,
        ELECT_LEADERS.request(
            topic_partitions=[row(topic=VICTIM, partitions=tuple(range(count)))], timeout_ms=5000
        ),
    )
    resource = DESCRIBE_CONFIGS.request.resources
    yield (
        "DescribeConfigs",
        DESCRIBE_CONFIGS,
        4,
        DESCRIBE_CONFIGS.request(
            resources=[
                resource(resource_type=2, resource_name=VICTIM, configuration_keys=None)
                for _ in range(count)
            ]
        ),
    )
    altered = INCREMENTAL_ALTER_CONFIGS.request.resources
    change = [altered.configs(name="retention.ms", value="1", config_operation=0)]
    yield (
        "IncrementalAlterConfigs",
        INCREMENTAL_ALTER_CONFIGS,
        1,
        INCREMENTAL_ALTER_CONFIGS.request(
            resources=[
                altered(resource_type=2, resource_name=f"no{i}", configs=change)
                for i in range(min(count, 60_000))
            ]
        ),
    )


def of_producers(count: int) -> Iterator[Named]:
    topic = PRODUCE.request.topic_data
    none = [topic.partition_data(index=100 + i, records=b"") for i in range(count)]
    yield (
        "Produce, no partitions",
        PRODUCE,
        9,
        PRODUCE.request(
            acks=1, timeout_ms=5000, topic_data=[topic(name=VICTIM, partition_data=none)]
        ),
    )
    bomb = bytes(
        build_batch([(b"k", b"", (), 1_700_000_000_000) for _ in range(2 * count)], compression=4)
    )
    yield (
        "Produce, a bomb",
        PRODUCE,
        9,
        PRODUCE.request(
            acks=1,
            timeout_ms=5000,
            topic_data=[
                topic(name="recoded", partition_data=[topic.partition_data(index=0, records=bomb)])
            ],
        ),
    )


def neighbour(address: tuple[str, int], outcome: Outcome, stop: threading.Event) -> None:
    """One record after the other, acks=all."""
    topic = PRODUCE.request.topic_data
    records = bytes(build_batch([(None, b"x" * 100, (), int(time.time() * 1000))]))
    row = PRODUCE.request(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic(name=VICTIM, partition_data=[topic.partition_data(index=0, records=records)])
        ],
    )
    frame = encode_request(PRODUCE, 9, 1, "neighbour", row)
    with socket.create_connection(address) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not stop.is_set():
            began = time.monotonic()
            sock.sendall(frame)
            answer(sock)
            outcome.waits_s.append(time.monotonic() - began)
            time.sleep(0.002)


def answer(sock: socket.socket) -> int:
    """Reads one answer; its size. Raises OSError when the other side closes."""
    head = b""
    while len(head) < 4:
        piece = sock.recv(4 - len(head))
        if not piece:
            raise ConnectionError("closed")
        head += piece
    (left,) = struct.unpack(">i", head)
    size: int = left
    while left:
        piece = sock.recv(min(left, 1 << 20))
        if not piece:
            raise ConnectionError("closed")
        left -= len(piece)
    return size


def attack(address: tuple[str, int], frame: bytes, outcome: Outcome, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            with socket.create_connection(address) as sock:
                sock.settimeout(1.0)
                sock.sendall(frame)
                while not stop.is_set():
                    try:
                        answer(sock)
                    except TimeoutError:
                        continue
                    outcome.answers += 1
                    sock.sendall(frame)
        except OSError:
            outcome.closed += 1
            time.sleep(0.05)


def measure(
    system: System, name: str, frame: bytes, address: tuple[str, int], leader: tuple[str, int]
) -> Outcome:
    outcome, stop, before = Outcome(), threading.Event(), noticed(system)
    clients = [threading.Thread(target=neighbour, args=(leader, outcome, stop), daemon=True)]
    clients += [
        threading.Thread(target=attack, args=(address, frame, outcome, stop), daemon=True)
        for _ in range(CONNECTIONS if frame else 0)
    ]
    for client in clients:
        client.start()
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        time.sleep(0.1)
        outcome.rss_mb = max(outcome.rss_mb, *(memory_mb(pid, "VmRSS") for pid in system.pids))
    stop.set()
    for client in clients:
        client.join(timeout=30)
    outcome.noticed = noticed(system) - before
    return outcome


def noticed(system: System) -> int:
    """Count the lines in the nodes' logs that tell of a new controller or of a fenced broker."""
    logs = [log.read_text() for log in system.folder.glob("*/*.log")]
    return sum(
        log.count(f'"event": "{event}"')
        for log in logs
        for event in ("controller_active", "broker_fenced")
    )


def memory_mb(pid: int, name: str) -> float:
    """`name`: VmRSS, the resident memory now, or VmHWM, its largest. 0 when the process is
    gone.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def started(system: System) -> tuple[str, int]:
    """Start the system, create the topics of neighbour and attackers. Returns the address of the
    neighbour's leader.
    """
    system.start()
    system.wait_ready()
    (leader,) = system.create_topic(VICTIM)
    system.create_topic("recoded", configs={"compression.type": "lz4"})
    host, port = leader.split("/")[0].split(":")
    return host, int(port)


def lines(make: Callable[[], System], only: str = "") -> Iterator[str]:
    yield (
        "| the largest request on ten connections | produce p50 ms | p99 ms | most ms | answers "
        "| peak RSS MB | elections, fenced |"
    )
    yield "|---|---|---|---|---|---|---|"
    with make() as system:
        leader = started(system)
        call(
            system.addresses[0], FIND_COORDINATOR, FIND_COORDINATOR.request(coordinator_keys=["g"])
        )
        time.sleep(2.0)
        yield line("nothing", measure(system, "", b"", system.addresses[0], leader))
        for name, api, version, row in requests():
            if only in name:
                frame = encode_request(api, version, 1, "attacker", row)
                yield line(
                    f"{name}, {len(frame) / 1e6:.1f} MB",
                    measure(system, name, frame, leader, leader),
                )


def line(name: str, outcome: Outcome) -> str:
    p50, p99, most = (outcome.quantile(share) * 1000 for share in (0.5, 0.99, 1.0))
    return (
        f"| {name} | {p50:.1f} | {p99:.1f} | {most:.1f} | {outcome.answers} | "
        f"{outcome.rss_mb:.0f} | {outcome.noticed} |"
    )
