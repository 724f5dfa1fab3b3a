"""The kind of cluster that a test asks for: options and settings of pytest, and the mark `raftka`.

Imported in every run of pytest, so it imports nothing of raftka.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

API_CEILING = "raftka.api.ceiling"  # the setting
QUICK = {  # settings that keep tests waiting, and nothing else
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Kind(NamedTuple):
    """Tests with an equal kind share a cluster."""

    nodes: int = 1
    security: str = "PLAINTEXT"
    settings: tuple[tuple[str, str], ...] = ()  # Kafka's names and values, in order of names

    def changed(self, values: Mapping[str, object]) -> "Kind":
        """Return the kind with these values in place: `nodes`, `security`, `api_ceiling`, and
        settings of Kafka's with dots or underscores. Raises ValueError.
        """
        nodes, security, settings = self.nodes, self.security, dict(self.settings)
        for name, value in values.items():
            if name == "nodes":
                nodes = _read_nodes(value)
            elif name == "security":
                security = str(value)
            elif name == "api_ceiling":
                settings[API_CEILING] = str(value)
            else:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                settings[name.replace("_", ".")] = text
        return Kind(nodes, security, tuple(sorted(settings.items())))


def read_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Read `name=value`, several with commas between them. Raises ValueError."""
    pairs = {}
    for pair in (each.strip() for text in texts for each in text.split(",")):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"{pair!r} is not name=value")
        pairs[name.strip()] = value.strip()
    return pairs


def read_lines(lines: Iterable[str]) -> dict[str, str]:
    """Read settings, one a line, whose values may have commas. Raises ValueError."""
    pairs = {}
    for line in lines:
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"{line!r} is not name=value")
        pairs[name.strip()] = value.strip()
    return pairs


def _read_nodes(value: object) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"nodes={text}: it is a number above 0")
    return int(text)


def topic_name(of: str) -> str:
    """One that Kafka allows, for a test of that name."""
    return re.sub(r"[^\w.-]+", "-", of, flags=re.ASCII).strip("-.")[:200] or "topic"
