"""The messages of classic consumers to each other inside JoinGroup and SyncGroup:
ConsumerProtocolSubscription and ConsumerProtocolAssignment, v0-3.

A broker reads them only where a consumer group of the new protocol has classic members. Knows no
group.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from raftka.wire.decoder import Decoder, compile_decoder
from raftka.wire.encoder import Encoder, compile_encoder
from raftka.wire.errors import ProtocolError
from raftka.wire.notation import parse_row

NEWEST = 3

Named = dict[str, tuple[int, ...]]  # partitions by topic


class Subscription(NamedTuple):
    topics: tuple[str, ...]
    owned: Named
    rack_id: str | None


def read_subscription(data: bytes) -> Subscription:
    """Later versions begin as the newest that is known. Raises ValueError."""
    version = _version(data)
    try:
        row, _ = _subscription_decoder(version)(memoryview(data), 2)
    except ProtocolError as error:
        raise ValueError(f"a subscription that cannot be read: {error}") from error
    owned = {topic.topic: tuple(topic.partitions) for topic in row.owned}
    return Subscription(tuple(sorted(set(row.topics))), owned, row.rack_id or None)


class Assignment(NamedTuple):
    partitions: Named
    user_data: bytes  # of a custom assignor, for its members alone


def read_assignment(data: bytes) -> Assignment:
    """No bytes are no partitions. Raises ValueError."""
    if not data:
        return Assignment({}, b"")
    try:
        row, _ = _assignment_decoder(_version(data))(memoryview(data), 2)
    except ProtocolError as error:
        raise ValueError(f"an assignment that cannot be read: {error}") from error
    partitions = {topic.topic: tuple(sorted(topic.partitions)) for topic in row.assigned}
    return Assignment(partitions, bytes(row.user_data or b""))


def write_assignment(assigned: Named, version: int) -> bytes:
    topics = [
        _ASSIGNMENT.assigned(topic=name, partitions=list(partitions))
        for name, partitions in sorted(assigned.items())
    ]
    parts: list[Any] = [version.to_bytes(2, "big")]
    _assignment_encoder()(_ASSIGNMENT(assigned=topics), parts)
    return b"".join(parts)


def write_subscription(topics: Iterable[str]) -> bytes:
    """In version 0: every member understands it."""
    parts: list[Any] = [b"\0\0"]
    _subscription_encoder()(_SUBSCRIPTION(topics=sorted(topics)), parts)
    return b"".join(parts)


def version_of(subscription: bytes) -> int:
    """In which its member understands an assignment. Raises ValueError."""
    return _version(subscription)


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        raise ValueError("no version, or one below zero")
    return min(version, NEWEST)


_SUBSCRIPTION = parse_row(
    "ConsumerProtocolSubscription",
    """
    topics              string[]
    user_data           bytes?
    owned OwnedTopicPartition[] 1+
        topic           string
        partitions      int32[]
    generation_id       int32=-1    2+
    rack_id             string?     3+
    """,
)
_ASSIGNMENT = parse_row(
    "ConsumerProtocolAssignment",
    """
    assigned AssignedTopicPartition[]
        topic           string
        partitions      int32[]
    user_data           bytes?
    """,
)


# each is written at its first use: most brokers never need one


@cache
def _subscription_decoder(version: int) -> Decoder:
    return compile_decoder(_SUBSCRIPTION.struct, version, flexible=False, bounded=True)


@cache
def _assignment_decoder(version: int) -> Decoder:
    return compile_decoder(_ASSIGNMENT.struct, version, flexible=False, bounded=True)


@cache
def _assignment_encoder() -> Encoder:
    return compile_encoder(_ASSIGNMENT.struct, NEWEST, flexible=False)


@cache
def _subscription_encoder() -> Encoder:
    return compile_encoder(_SUBSCRIPTION.struct, 0, flexible=False)
