"""Descriptions of topologies (KIP-1331): a member is asked for that of its group, and the
coordinator keeps it in memory. Another coordinator asks again. Knows no message.
"""

from random import Random

from raftka.limits import TOPOLOGY_DESCRIPTION_BYTES
from raftka.wire.errors import Code, check_limit

PAUSE_S = (30.0, 3600.0)  # until a member is asked again: first, at most; doubled each time
SPREAD = 0.2  # more or less, as a share of a pause


class OfGroup:
    __slots__ = ("asks_at", "description", "epoch", "pause_s", "size")

    def __init__(self) -> None:
        self.epoch = -1  # of the topology that is described
        self.description: object = None
        self.size = 0
        self.asks_at = 0.0  # not earlier
        self.pause_s = PAUSE_S[0]


class Descriptions:
    """Those of a coordinator's groups."""

    def __init__(self) -> None:
        self.size = 0  # bytes, about
        self._of_groups: dict[str, OfGroup] = {}

    def ask(self, group_id: str, epoch: int, now: float, random: Random) -> bool:
        """Return whether a member is to be asked for the description of its group's topology of
        that epoch: the answer may not come, so others are asked later.
        """
        known = self._of_groups.setdefault(group_id, OfGroup())
        if known.epoch == epoch or now < known.asks_at:
            return False
        known.asks_at = now + known.pause_s * random.uniform(1 - SPREAD, 1 + SPREAD)
        known.pause_s = min(known.pause_s * 2, PAUSE_S[1])
        return True

    def keep(self, group_id: str, epoch: int, description: object, size: int) -> None:
        """Keep a description of so many bytes in place of the one before. Raises LimitRefused."""
        known = self._of_groups.setdefault(group_id, OfGroup())
        total = self.size - known.size + size
        code = Code.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED
        check_limit(TOPOLOGY_DESCRIPTION_BYTES, total, code=code)
        self.size = total
        known.epoch, known.description, known.size = epoch, description, size

    def find(self, group_id: str, epoch: int) -> object:
        """Return the description of the topology of that epoch; None: there is none."""
        known = self._of_groups.get(group_id)
        return known.description if known is not None and known.epoch == epoch else None

    def forget(self, group_id: str) -> None:
        known = self._of_groups.pop(group_id, None)
        if known is not None:
            self.size -= known.size
