"""The ports of a node and of a cluster, compared with each other before anything listens. Knows no
socket.
"""

from collections.abc import Iterable
from typing import NamedTuple

from raftka.metadata.configs.values import SettingError, Values
from raftka.metadata.image import Endpoint

EVERYWHERE = ("", "0.0.0.0", "::")
SAME_HOST = {"localhost": "127.0.0.1"}
OTHER_PORTS = {  # settings that name a port, and those that name its host
    "console.port": "console.host",
    "registry.port": "registry.host",
    "zookeeper.bridge.port": "zookeeper.bridge.host",
    "zookeeper.bridge.secure.port": "zookeeper.bridge.host",
    "zookeeper.bridge.admin.port": "zookeeper.bridge.host",
}


class UsedPort(NamedTuple):
    host: str
    port: int
    setting: str
    whose: str  # for the user


class PortsCollide(SettingError):
    """Two settings name one port. The text names both."""


def used_ports(values: Values, listeners: Iterable[Endpoint], page_host: str) -> list[UsedPort]:
    """Return the ports of a node, without those that are chosen when it starts."""
    used = [
        UsedPort(each.host, each.port, "listeners", f"the listener {each.listener}")
        for each in listeners
    ]
    used.append(UsedPort(page_host, values["metrics.port"] or 0, "metrics.port", "metrics.port"))
    used += [
        UsedPort(values[host] or "", values[name] or 0, name, name)
        for name, host in OTHER_PORTS.items()
    ]
    return [each for each in used if each.port]


def check_distinct(used: Iterable[UsedPort], reason: str = "") -> None:
    """Raise PortsCollide if two settings use one port. `reason`: the origin of a port that no
    setting names, for the text.
    """
    by_port: dict[int, list[UsedPort]] = {}
    for each in used:
        for other in by_port.setdefault(each.port, []):
            if _is_same_host(each.host, other.host):
                raise PortsCollide(
                    f"port {each.port} is for {other.whose} and for {each.whose}"
                    + (f": {reason}" if reason else "")
                )
        by_port[each.port].append(each)


def _is_same_host(one: str, other: str) -> bool:
    return (
        one in EVERYWHERE
        or other in EVERYWHERE
        or SAME_HOST.get(one, one) == SAME_HOST.get(other, other)
    )
