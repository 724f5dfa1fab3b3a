"""Client metrics subscriptions: resources of type CLIENT_METRICS as clients are matched with them.
Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from raftka.checksum import crc32c
from raftka.metadata.configs.groups import CLIENT_METRICS_SETTINGS, match_patterns
from raftka.metadata.image import CLIENT_METRICS, MetadataImage
from raftka.regular_expressions import InvalidExpression, NoEngine, compile_linear

ALL = "*"
DEFAULT_INTERVAL_MS = 300_000
MASK = 0xFFFFFFFF

Matches = Callable[[str], bool]


class Subscription(NamedTuple):
    """One subscription, ready to be compared with clients."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: tuple[tuple[str, Matches], ...]  # field of the client, test of its whole value

    def matches(self, client: Mapping[str, str | None]) -> bool:
        """Return whether all patterns match. A field that the client has not matches nothing."""
        for field, matches in self.patterns:
            value = client.get(field)
            if value is None or not matches(value):
                return False
        return True


class Requested(NamedTuple):
    """The metrics that all subscriptions of one client ask for together."""

    metrics: tuple[str, ...]
    interval_ms: int


def _nothing(value: str) -> bool:
    return False


def subscriptions_of(
    image: MetadataImage, on_fault: Callable[[str, str], None]
) -> tuple[Subscription, ...]:
    """Return the subscriptions of the image. `on_fault` hears the name of one with a pattern that
    this node cannot use, and the reason: it matches no client.
    """
    found = []
    for kind, name in image.configs:
        if kind != CLIENT_METRICS:
            continue
        given = image.config(CLIENT_METRICS, name)
        values = {
            key: setting.parse(given.get(key, setting.default or ""))
            for key, setting in CLIENT_METRICS_SETTINGS.items()
        }
        patterns = []
        for field, expression in match_patterns(values["match"]).items():
            try:
                patterns.append((field, compile_linear(expression)))
            except (InvalidExpression, NoEngine) as error:
                on_fault(name, str(error))
                patterns.append((field, _nothing))
        found.append(
            Subscription(name, tuple(values["metrics"]), values["interval.ms"], tuple(patterns))
        )
    return tuple(found)


def requested_of(
    subscriptions: Iterable[Subscription], client: Mapping[str, str | None]
) -> Requested:
    """Return the metrics that the client is asked for, each once, and the shortest interval; `*`
    stands for all others.
    """
    metrics: dict[str, None] = {}
    interval_ms = DEFAULT_INTERVAL_MS
    for each in subscriptions:
        if each.matches(client):
            metrics.update(dict.fromkeys(each.metrics))
            interval_ms = min(interval_ms, each.interval_ms)
    return Requested((ALL,) if ALL in metrics else tuple(metrics), interval_ms)


def subscription_id_of(requested: Requested, instance_id: bytes) -> int:
    """Return the CRC-32C of the requested metrics, as Java writes a set, xor the hash of the id in
    Java: a signed number of 32 bits.
    """
    text = f"[{', '.join(requested.metrics)}]{requested.interval_ms}"
    bits = int.from_bytes(instance_id[:8]) ^ int.from_bytes(instance_id[8:])
    number = (crc32c(text.encode()) ^ (bits >> 32) ^ bits) & MASK
    return number - (1 << 32) if number >> 31 else number
