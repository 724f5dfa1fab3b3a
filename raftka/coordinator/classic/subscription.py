"""Which topics a classic consumer subscribes to: the one thing that a broker reads in what its members tell each other. Knows no group."""

from collections.abc import Iterable


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Of all members; None when one of them says it in a way that cannot be read."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(_topics(data))
        except (IndexError, ValueError):
            return None
    return frozenset(topics)


def _topics(data: bytes) -> Iterable[str]:
    """Every version of ConsumerProtocolSubscription begins as the first: version, topics, user data."""
    count, at = int.from_bytes(_cut(data, 2, 4), "big", signed=True), 6
    if int.from_bytes(_cut(data, 0, 2), "big", signed=True) < 0 or count < 0:
        raise ValueError("a version or a count below zero")
    for _ in range(count):
        size = int.from_bytes(_cut(data, at, 2), "big", signed=True)
        if size < 0:
            raise ValueError("a name of null")
        yield _cut(data, at + 2, size).decode()
        at += 2 + size
    size = int.from_bytes(_cut(data, at, 4), "big", signed=True)
    _cut(data, at + 4, max(size, 0))


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError("cut")
    return data[at : at + size]
