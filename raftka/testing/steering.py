"""Move leaders and force rebalances on a living cluster, by the ways that Kafka has for them.
Called in the thread of the nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random

import trio

from raftka.broker.coordinators.group_service import TOPIC as OFFSETS
from raftka.broker.coordinators.runtime import partition_for
from raftka.broker.node import Node
from raftka.coordinator.commands import Rebalance
from raftka.coordinator.consumer.commands import SetTargets
from raftka.metadata.commands import (
    AlterReassignments,
    ElectLeaders,
    Move,
    MovedTopic,
    TopicPartitions,
    TopicResults,
)
from raftka.metadata.image import PartitionImage, TopicImage
from raftka.wire.errors import Code, KafkaError

PREFERRED = 0  # type of an election

Assignments = Mapping[str, Iterable[tuple[str, int]]]  # by member id: topic and partition


class Steering:
    """`serving` returns the nodes that live and are not paused, the one with the newest metadata
    first.
    """

    def __init__(self, serving: Callable[[], list[Node]]) -> None:
        self._serving = serving

    def topic(self, name: str) -> TopicImage:
        """Return the topic. Raises ValueError if it does not exist."""
        topic = self._serving()[0].image.topic_named(name)
        if topic is None:
            raise ValueError(f"no topic {name!r}")
        return topic

    def partition(self, name: str, index: int) -> PartitionImage:
        """Return the partition. Raises ValueError if it does not exist."""
        partitions = self.topic(name).partitions
        if not 0 <= index < len(partitions):
            raise ValueError(f"no partition {index} of {name!r}: it has {len(partitions)}")
        return partitions[index]

    async def move_leader(self, name: str, index: int, to: int | None) -> int:
        """Make a replica the preferred one and let the controller elect it; return its id. `to`
        None: any other in-sync replica. Raises ValueError when there is no such replica, KafkaError
        when the controller refuses.
        """
        partition = self.partition(name, index)
        serving = {node.node_id for node in self._serving()}
        able = [each for each in partition.isr if each in serving and each != partition.leader]
        if to is None and not able:
            raise ValueError(
                f"{name}-{index} is led by {partition.leader}, and no other replica of its ISR "
                f"{list(partition.isr)} serves"
            )
        if to is not None and to != partition.leader and to not in able:
            raise ValueError(
                f"node {to} cannot lead {name}-{index}: "
                f"{' or '.join(map(str, able)) if able else 'no other node'} can (ISR "
                f"{list(partition.isr)}, serving {sorted(serving)})"
            )
        target = able[0] if to is None else to
        replicas = (target, *[each for each in partition.replicas if each != target])
        if replicas != partition.replicas:
            moved = MovedTopic(name, (Move(index, replicas),))
            check_results(await self._serving()[0].controller.ask(AlterReassignments((moved,))))
        election = ElectLeaders(PREFERRED, (TopicPartitions(name, (index,)),))
        check_results(await self._serving()[0].controller.ask(election))
        return target

    async def shuffle_leaders(self, seed: int) -> dict[tuple[str, int], int]:
        """Move each partition that can move to another in-sync replica, drawn from the seed; return
        the new leaders.
        """
        random = Random(seed)
        serving = {node.node_id for node in self._serving()}
        moved: dict[tuple[str, int], int] = {}
        for topic in sorted(self._serving()[0].image.topics.values(), key=lambda each: each.name):
            for index, partition in enumerate(topic.partitions):
                able = sorted(serving.intersection(partition.isr) - {partition.leader})
                if able:
                    to = random.choice(able)
                    moved[topic.name, index] = await self.move_leader(topic.name, index, to)
        return moved

    def coordinator_partition(self, key: str, topic: str = OFFSETS) -> int:
        """Return the partition of `topic` whose leader coordinates the group or transactional id.
        Raises ValueError while there is no such topic.
        """
        return partition_for(key, len(self.topic(topic).partitions))

    def leads(self, name: str, index: int, node_id: int) -> bool:
        """Return whether all serving nodes know that this one leads, and it does."""
        for node in self._serving():
            topic = node.image.topic_named(name)
            if topic is None or topic.partitions[index].leader != node_id:
                return False
            replica = node.replicas.partitions.get((name, index))
            if node.node_id == node_id and (replica is None or replica.leader is None):
                return False
        return True

    async def force_rebalance(self, group_id: str) -> None:
        """Make all members of the group join again. Raises KafkaError: GROUP_ID_NOT_FOUND for a
        group without members.
        """
        await self._ask_group(group_id, Rebalance(group_id))

    async def assign(self, group_id: str, assignments: Assignments) -> None:
        """Give members of a consumer group (KIP-848) these partitions. Raises KafkaError for a
        group or a member that does not exist.
        """
        targets = {}
        for member_id, partitions in assignments.items():
            target: dict[bytes, list[int]] = {}
            for name, index in partitions:
                self.partition(name, index)
                target.setdefault(self.topic(name).topic_id, []).append(index)
            targets[member_id] = {each: tuple(sorted(target[each])) for each in target}
        await self._ask_group(group_id, SetTargets(group_id, targets))

    async def _ask_group(self, group_id: str, command: object) -> None:
        answered = trio.Event()
        answers: list[object] = []

        def ticket(answer: object) -> None:
            answers.append(answer)
            answered.set()

        refusal = KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
        for node in self._serving():
            try:
                node.groups.runtime.submit(group_id, command, ticket)
            except KafkaError as error:
                refusal = error
                continue
            await answered.wait()
            if isinstance(answers[0], KafkaError):
                raise answers[0]
            return
        raise refusal


def check_results(results: tuple[TopicResults, ...]) -> None:
    """Raise the first error. ELECTION_NOT_NEEDED is not an error here."""
    for topic in results:
        for each in topic.partitions:
            if each.error not in (Code.NONE, Code.ELECTION_NOT_NEEDED):
                raise KafkaError(Code(each.error), each.message)
