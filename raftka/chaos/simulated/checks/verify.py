"""Is everything there that was promised? Compares the history of a run with what the healed cluster
holds: records, replicas, metadata.

Each function returns violations as sentences; none found is an empty list.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from raftka.broker.replica.partition import Partition
from raftka.chaos.simulated.clients.producers import History, Stream, number_of
from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.image import MetadataImage

READ_BYTES = 1 << 30
MUST_NOT_SAY = ("handler_failed", "replica_append_refused")


def records(
    history: History, topic: str, partition: int, found: Sequence[tuple[int, bytes]]
) -> list[str]:
    """`found`: all committed records, (offset, value)."""
    where = f"{topic}-{partition}"
    numbers: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for offset, value in found:
        producer, number = number_of(value)
        numbers[producer].append((number, offset))
    wrong: list[str] = []
    for stream in history.begun:
        if (stream.topic, stream.partition) == (topic, partition):
            wrong += _stream(
                stream,
                history.acknowledged[stream],
                history.given_up[stream],
                numbers.pop(stream.producer, []),
            )
    for producer, rest in numbers.items():  # those that sent each record once, without a promise
        if len({number for number, _ in rest}) < len(rest):
            wrong.append(f"{where}: a record of {producer} that was sent once is there twice")
    there = dict(found)
    lost = sorted(
        offset
        for offset, value in history.seen[topic, partition].items()
        if there.get(offset) != value
    )
    if lost:
        wrong.append(
            f"{where}: {len(lost)} records that a reader has seen are not there any more, the "
            f"first at {lost[0]}"
        )
    return wrong


def _stream(
    stream: Stream, acknowledged: dict[int, int], given_up: set[int], found: list[tuple[int, int]]
) -> list[str]:
    """Every number once, in order, from 0 on without a gap but for what its producer has given up,
    at the offset that was told.
    """
    numbers, offsets = [number for number, _ in found], dict(found)
    wrong = []
    lost = sorted(acknowledged.keys() - offsets.keys())
    if lost:
        wrong.append(f"{stream}: {len(lost)} acknowledged records are lost, the first is {lost[0]}")
    if len(offsets) < len(numbers):
        wrong.append(f"{stream}: {len(numbers) - len(offsets)} records are there twice")
    if numbers != sorted(numbers):
        wrong.append(f"{stream}: out of order")
    if not lost and not set(range(max(offsets, default=-1))) <= offsets.keys() | given_up:
        wrong.append(f"{stream}: there is a gap")
    elsewhere = [
        number
        for number, told in acknowledged.items()
        if told >= 0 and offsets.get(number, told) != told
    ]
    if elsewhere:
        wrong.append(
            f"{stream}: record {elsewhere[0]} is at {offsets[elsewhere[0]]}, acknowledged at "
            f"{acknowledged[elsewhere[0]]}"
        )
    return wrong


def replicas(cluster: Cluster, topic: str, partition: int) -> list[str]:
    """The same bytes up to the high watermark, and the same memory of producers."""
    where = f"{topic}-{partition}"
    replicas = cluster.partitions(topic, partition)
    ends = {node_id: replica.high_watermark for node_id, replica in replicas.items()}
    end = min(ends.values(), default=0)
    wrong = []
    if len(set(ends.values())) > 1:
        wrong.append(f"{where}: the replicas' high watermarks are {ends}")
    contents = {node_id: _content(replica, end) for node_id, replica in replicas.items()}
    if len(set(contents.values())) > 1:
        wrong.append(
            f"{where}: the replicas' logs differ below {end}: "
            f"{[(i, len(c), hash(c) & 0xFFFF) for i, c in contents.items()]}"
        )
    memories = {
        tuple(
            sorted(
                (i, p.epoch, p.next_sequence) for i, p in replica.log.producers.producers.items()
            )
        )
        for replica in replicas.values()
    }
    if len(memories) > 1 and all(replica.log.end_offset == end for replica in replicas.values()):
        wrong.append(f"{where}: the replicas remember producers differently: {memories}")
    return wrong


def _content(partition: Partition, end: int) -> bytes:
    log, parts, offset = partition.log, [], partition.log.start_offset
    for segment in log.segments:
        if segment.base_offset < end:
            spans, _ = log.read(max(offset, segment.base_offset), READ_BYTES, end)
            parts += [span.file.read(span.position, span.size) for span in spans]
    return b"".join(parts)


def metadata(cluster: Cluster) -> list[str]:
    """Equal at equal index."""
    states: dict[int, set[bytes]] = defaultdict(set)
    for node in cluster.living.values():
        states[node.image.offset].add(node.image.to_snapshot())
    wrong = [
        f"the metadata differs at index {offset}"
        for offset, found in states.items()
        if len(found) > 1
    ]
    for node_id, node in cluster.living.items():
        snapshot = node.image.to_snapshot()
        again = MetadataImage.from_snapshot(snapshot)
        same = (
            again.topic_ids == node.image.topic_ids
            and again.partition_count == node.image.partition_count
        )
        if not same or again.to_snapshot() != snapshot:
            wrong.append(f"the metadata of n{node_id} is not what its snapshot says")
    return wrong


def log_lines(cluster: Cluster) -> list[str]:
    """Log lines that a node writes only when it has a bug."""
    return cluster.log.saying(*MUST_NOT_SAY)[:5]


def whole(cluster: Cluster, topic: str, partitions: Iterable[int]) -> bool:
    """Every replica is in sync and knows what is committed; nothing is under way."""
    for partition in partitions:
        replicas = cluster.partitions(topic, partition)
        leader = cluster.leader_of(topic, partition)
        if leader not in replicas or not len(cluster.isr_of(topic, partition)) == len(
            replicas
        ) == len(cluster.replicas_of(topic, partition)):
            return False
        ends = {(replica.log.end_offset, replica.high_watermark) for replica in replicas.values()}
        if (
            len(ends) > 1
            or any(end != high for end, high in ends)
            or replicas[leader].leader is None
        ):
            return False
    return len({node.image.offset for node in cluster.living.values()}) == 1
