"""The start offsets and lags of a group's share partitions: the share coordinator knows the start
offset, the partition's leader the end. Knows no request of a client.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from raftka.broker.context import BrokerContext
from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.coordinators.share_calls import Persister, Questions
from raftka.broker.replica.manager import ReplicaManager
from raftka.coordinator.share.commands import Place
from raftka.share.state import NO_COUNT, NO_EPOCH, NO_START, SharePartitionKey, ShareSummary
from raftka.wire.errors import KafkaError
from raftka.wire.messages.list_offsets import (
    LATEST,
    LIST_OFFSETS,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

NO_LAG = -1
PARTITIONS_OF_REQUEST = 1_000

Name = tuple[str, int]  # topic, partition
Ends = dict[Name, int]


class ShareOffset(NamedTuple):
    start: int = NO_START
    leader_epoch: int = 0
    lag: int = NO_LAG
    error: KafkaError | None = None


class PartitionEnds:
    """The end offsets of partitions, as their leaders know them."""

    def __init__(
        self, context: BrokerContext, replicas: ReplicaManager, channels: BrokerChannels
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._channels = channels

    def find(self, places: Iterable[Name], done: Callable[[Ends], None]) -> None:
        """Call `done` with the ends that are known; it is called once, perhaps now."""
        ends: Ends = {}
        asked: dict[int, list[Name]] = {}
        for name, index in places:
            leader = self._leader(name, index)
            if leader == self._context.node_id:
                self._add_own(ends, name, index)
            elif leader >= 0:
                asked.setdefault(leader, []).append((name, index))
        requests = [
            (broker, wanted[first : first + PARTITIONS_OF_REQUEST])
            for broker, wanted in sorted(asked.items())
            for first in range(0, len(wanted), PARTITIONS_OF_REQUEST)
        ]
        left = len(requests)
        if not left:
            done(ends)

        def answered(answer: ListOffsetsResponse | None, error: str | None) -> None:
            nonlocal left
            left -= 1
            for topic in answer.topics if answer is not None else ():
                for each in topic.partitions:
                    if not each.error_code:
                        ends[topic.name, each.partition_index] = each.offset
            if not left:
                done(ends)

        for broker, wanted in requests:
            self._channels.ask(broker, LIST_OFFSETS, _request(wanted), answered)

    def _leader(self, name: str, index: int) -> int:
        topic = self._context.metadata.image.topic_named(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return -1
        return topic.partitions[index].leader

    def _add_own(self, ends: Ends, name: str, index: int) -> None:
        try:
            partition = self._replicas.find(name, index)
            if partition.leading().knows_its_end:
                ends[name, index] = partition.readable_end(is_isolated=False)
        except KafkaError:
            return  # it leads no more


def _request(wanted: Sequence[Name]) -> ListOffsetsRequest:
    row = LIST_OFFSETS.request.topics
    topics: dict[str, list[int]] = {}
    for name, index in wanted:
        topics.setdefault(name, []).append(index)
    return LIST_OFFSETS.request(
        topics=[
            row(
                name=name,
                partitions=[
                    row.partitions(partition_index=index, timestamp=LATEST) for index in indexes
                ],
            )
            for name, indexes in topics.items()
        ]
    )


class ShareOffsets:
    def __init__(self, context: BrokerContext, persister: Persister, ends: PartitionEnds) -> None:
        self._clock = context.runtime.clock
        self._persister = persister
        self._ends = ends

    def find(
        self,
        group_id: str,
        places: Mapping[Place, str],
        done: Callable[[dict[Place, ShareOffset]], None],
    ) -> None:
        """Call `done`, once, with the offset of each of these share partitions (by topic id), whose
        topics have these names. They are looked up in portions, one after the other.
        """
        left = iter(places.items())
        found: dict[Place, ShareOffset] = {}

        def more(offsets: dict[Place, ShareOffset]) -> None:
            found.update(offsets)
            portion = dict(islice(left, PARTITIONS_OF_REQUEST))
            if portion:
                self._find_portion(group_id, portion, more)
            else:
                done(found)

        more({})

    def _find_portion(
        self,
        group_id: str,
        places: Mapping[Place, str],
        done: Callable[[dict[Place, ShareOffset]], None],
    ) -> None:
        def ask(place: Place, answered: Callable[[object], None]) -> None:
            key = SharePartitionKey(group_id, *place)
            self._persister.summary(key, NO_EPOCH, answered)

        def found(summaries: dict[Place, object]) -> None:
            names = {
                place: (places[place], place[1])
                for place, summary in summaries.items()
                if isinstance(summary, ShareSummary) and _has_lag(summary)
            }

            def ended(ends: Ends) -> None:
                offsets = _offsets(summaries, names, ends)
                self._clock.call_at(self._clock.now(), partial(done, offsets))

            self._ends.find(names.values(), ended)

        Questions(self._clock, places, ask, found).begin()


def _has_lag(summary: ShareSummary) -> bool:
    return summary.start != NO_START and summary.complete_count != NO_COUNT


def _offsets(
    summaries: Mapping[Place, object], names: Mapping[Place, Name], ends: Ends
) -> dict[Place, ShareOffset]:
    found = {}
    for place, summary in summaries.items():
        if isinstance(summary, KafkaError):
            found[place] = ShareOffset(error=summary)
        elif isinstance(summary, ShareSummary):
            end = ends.get(names[place]) if place in names else None
            lag = NO_LAG if end is None else end - summary.start - summary.complete_count
            found[place] = ShareOffset(summary.start, summary.leader_epoch, lag)
    return found
