"""Quotas of znodes as ZooKeeper 3.9 keeps them: `setquota` writes
/zookeeper/quota/PATH/zookeeper_limits, and zookeeper_stats beside it counts.

The counts are no entry of the log: each node keeps them for its own tree, and puts them into the
znode zookeeper_stats in place, which is no write of a client's: it has no version, and nobody who
watches it hears of it. As in ZooKeeper limits hold only where the server enforces them, a write is
compared with what is committed, and so writes that are on their way together may pass a limit
together.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.tree.store import Znode

FOLDER = "/zookeeper/quota"
LIMITS, STATS = "/zookeeper_limits", "/zookeeper_stats"
# usage of so many znodes is counted anew, rather than kept, when a quota comes back
KEPT_COUNT = 1000


class Counted(Protocol):
    """The tree, as quotas use it."""

    nodes: dict[str, Znode]

    def descendants(self, path: str) -> Iterable[str]: ...

    def show(self, path: str, data: bytes) -> None: ...


class Usage(NamedTuple):
    znodes: int
    data_bytes: int


class Quotas:
    def __init__(self, tree: Counted) -> None:
        self._tree = tree
        # by path; a large one stays when its quota goes, so it is counted once
        self._usages: dict[str, Usage] = {}

    def load(self) -> None:
        """Count the whole tree again; earlier counts are dropped."""
        self._usages.clear()
        for path in [path for path in self._tree.descendants(FOLDER) if path.endswith(LIMITS)]:
            self._begin(path[len(FOLDER) : -len(LIMITS)])

    def changed(self, path: str, before: Znode | None, after: Znode | None) -> None:
        """The tree has `after` at the path now. Cheap where there are no quotas."""
        if self._usages:
            self._count(path, before, after)
        if path.startswith(FOLDER):
            if path.endswith(LIMITS):
                self._limits_changed(path[len(FOLDER) : -len(LIMITS)], there=after is not None)
            elif path.endswith(STATS) and after is not None:
                self._show(path[len(FOLDER) : -len(STATS)])

    def _limits_changed(self, path: str, *, there: bool) -> None:
        if there:
            self._begin(path)
        elif path in self._usages and self._usages[path].znodes <= KEPT_COUNT:
            del self._usages[path]

    def _begin(self, path: str) -> None:
        if path and path not in self._usages:  # the root has no quota, as in ZooKeeper
            nodes = [
                node
                for each in (path, *self._tree.descendants(path))
                if (node := self._tree.nodes.get(each)) is not None
            ]
            self._usages[path] = Usage(len(nodes), sum(len(node.data or b"") for node in nodes))
        self._show(path)

    def _count(self, path: str, before: Znode | None, after: Znode | None) -> None:
        born = (after is not None) - (before is not None)
        more = _data_bytes(after) - _data_bytes(before)
        if not born and not more:
            return
        at = path
        while at:
            usage = self._usages.get(at)
            if usage is not None:
                self._usages[at] = Usage(usage.znodes + born, usage.data_bytes + more)
                self._show(at)
            at = at[: at.rfind("/")]

    def _show(self, path: str) -> None:
        usage = self._usages.get(path)
        if usage is not None and f"{FOLDER}{path}{LIMITS}" in self._tree.nodes:
            self._tree.show(f"{FOLDER}{path}{STATS}", b"count=%d,bytes=%d" % usage)

    def in_force(self) -> Mapping[str, Usage]:
        """All quotas, by path: what is used of each."""
        return {
            path: usage
            for path, usage in self._usages.items()
            if f"{FOLDER}{path}{LIMITS}" in self._tree.nodes
        }

    def of(self, path: str) -> tuple[str, Mapping[str, int], Usage] | None:
        """The quota that holds there, the nearest one above: its path, its limits, and what is
        used.
        """
        at = path if self._usages else ""
        while at:
            limits = self._tree.nodes.get(f"{FOLDER}{at}{LIMITS}")
            if limits is not None and at in self._usages:
                return at, limits_of(limits.data), self._usages[at]
            at = at[: at.rfind("/")]
        return None


class Enforcement:
    """Holds writes to the quotas, where `enforce.quota` is set. `warn` gets, in ZooKeeper's words,
    each limit that a write exceeds.
    """

    def __init__(self, quotas: Quotas, warn: Callable[[str], None]) -> None:
        self._quotas = quotas
        self._warn = warn

    def check(self, path: str, before: Znode | None, data: bytes | None) -> None:
        """Raises QUOTA_EXCEEDED for a hard limit; a soft one, where there is no hard one, is told
        of only.
        """
        found = self._quotas.of(path)
        if found is None:
            return
        at, limits, usage = found
        if before is None:
            self._check(
                at,
                "Count",
                "count",
                limits.get("countHardLimit", -1),
                limits.get("count", -1),
                usage.znodes + 1,
            )
        more = len(data or b"") - _data_bytes(before)
        if more:
            self._check(
                at,
                "Byte",
                "bytes",
                limits.get("byteHardLimit", -1),
                limits.get("bytes", -1),
                usage.data_bytes + more,
            )

    def _check(self, at: str, kind: str, unit: str, hard: int, soft: int, after: int) -> None:
        limit = hard if hard > -1 else soft
        if -1 < limit < after:
            self._warn(
                f"Quota exceeded: {at} [current {unit}={after}, "
                f"{'hard' if hard > -1 else 'soft'}{kind}Limit={limit}]"
            )
            if hard > -1:
                raise ZooKeeperError(Err.QUOTA_EXCEEDED)


def limits_of(data: bytes | None) -> Mapping[str, int]:
    """As `setquota` writes them: `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=5`. -1: there
    is none. The odd `=` is for old servers.
    """
    found = re.findall(rb"([A-Za-z]+)=(-?\d{1,18})(?![^=,;])", data or b"")
    return {name.decode(): int(value) for name, value in found}


def _data_bytes(node: Znode | None) -> int:
    return 0 if node is None else len(node.data or b"")
