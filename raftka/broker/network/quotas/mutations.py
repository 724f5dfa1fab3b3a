"""Topics of one request for changes of topics, as controller_mutation_rate lets them through. Knows
no API.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, TypeVar

from raftka.broker.network.quotas.meter import Meter
from raftka.wire.errors import Code

T = TypeVar("T")


class Mutations(Generic[T]):
    """Each topic is asked for when its turn comes: the first may overdraw the bucket, and those
    behind it are refused.
    """

    def __init__(
        self, meter: Meter | None, partitions: Callable[[T], int], *, strictly: bool
    ) -> None:
        """`partitions`: how many partitions would be created or deleted; 0 for what the controller
        refuses. `strictly`: refuse, else only delay.
        """
        self._meter = meter
        self._partitions = partitions
        self._strictly = strictly
        self._counted: dict[T, int] = {}

    def admit(self, topics: Sequence[T]) -> tuple[tuple[T, ...], tuple[T, ...]]:
        """The topics that the controller may be asked for, and those that are to be refused with
        THROTTLING_QUOTA_EXCEEDED.
        """
        if self._meter is None:
            return tuple(topics), ()
        admitted, refused = [], []
        for topic in topics:
            partitions = self._partitions(topic)
            if partitions and not self._meter.may_change(partitions, strictly=self._strictly):
                refused.append(topic)
            else:
                self._counted[topic] = partitions
                admitted.append(topic)
        return tuple(admitted), tuple(refused)

    def refused(self, topics: Collection[T], error: int) -> None:
        """The controller has not done it, so it is not counted; with REQUEST_TIMED_OUT nobody
        knows.
        """
        if self._meter is not None and error not in (0, Code.REQUEST_TIMED_OUT):
            for topic in topics:
                self._meter.not_changed(self._counted.pop(topic, 0))
