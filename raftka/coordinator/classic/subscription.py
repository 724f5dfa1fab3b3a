"""The topics that a classic consumer subscribes to: the one thing that a broker reads in what its
members tell each other. Knows no group.
"""

from collections.abc import Iterable
from struct import Struct, error

HEAD = Struct(">hi")  # version, how many topics
USER_DATA = Struct(">i")  # how many bytes


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Of all members; None when one of them says it in a way that cannot be read."""
    names: set[bytes] = set()
    try:
        for data in subscriptions:
            names.update(_names(data))
        return frozenset([name.decode() for name in names])
    except (IndexError, ValueError, error):
        return None


def _names(data: bytes) -> list[bytes]:
    """Every version of ConsumerProtocolSubscription begins as the first: version, topics, user
    data.
    """
    version, count = HEAD.unpack_from(data)
    if version < 0 or count < 0:
        raise ValueError("a version or a count below zero")
    names = []
    at = HEAD.size
    for _ in range(count):
        start = at + 2
        if data[at] > 127:
            raise ValueError("a name of null")
        at = start + (data[at] << 8 | data[at + 1])
        names.append(data[start:at])
    (size,) = USER_DATA.unpack_from(data, at)
    if at + USER_DATA.size + size > len(data):
        raise IndexError("cut")
    return names
