"""An administrator's actions at the wrong moment: a new broker, moves of replicas, deleted and
created topics, elections.
"""

import random

from raftka.chaos.live.nemeses.nemesis import Nemesis
from raftka.chaos.live.stage import Stage
from raftka.wire.messages.partitions import ELECT_LEADERS
from raftka.wire.messages.reassignments import ALTER_PARTITION_REASSIGNMENTS
from raftka.wire.messages.topics import CREATE_TOPICS, DELETE_TOPICS

MOVED_S = 20.0
CALL_MS = 5_000


class Membership(Nemesis):
    """A broker more comes, takes over replicas, gives them back and goes."""

    name = "membership"

    def __init__(self) -> None:
        self._topic = ""
        self._was: dict[int, list[int]] = {}  # replicas by partition

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        self._topic, self._was = topic, {}
        stage.start(stage.spare)
        stage.wait_for(lambda: stage.ready(stage.spare), MOVED_S)
        view = stage.view([topic])
        if view is None or stage.spare not in view.brokers:
            return f"node {stage.spare} came, nobody saw it"
        for each in chance.sample(view.of(topic), min(2, len(view.of(topic)))):
            self._was[each.partition] = list(each.replicas)
            leaves = chance.randrange(len(each.replicas))
            self._move(
                stage,
                each.partition,
                [
                    stage.spare if i == leaves else node_id
                    for i, node_id in enumerate(each.replicas)
                ],
            )
        return f"node {stage.spare} came and takes over replicas of {topic} {sorted(self._was)}"

    def _move(self, stage: Stage, partition: int, replicas: list[int]) -> None:
        request = ALTER_PARTITION_REASSIGNMENTS.request
        rows = [
            request.topics(
                name=self._topic,
                partitions=[
                    request.topics.partitions(partition_index=partition, replicas=replicas)
                ],
            )
        ]
        stage.ask_anybody(ALTER_PARTITION_REASSIGNMENTS, request(topics=rows, timeout_ms=CALL_MS))

    def bitten(self, stage: Stage) -> bool:
        view = stage.view([self._topic])
        return view is not None and any(stage.spare in each.isr for each in view.of(self._topic))

    def end(self, stage: Stage) -> None:
        for partition, replicas in self._was.items():
            self._move(stage, partition, replicas)
        stage.wait_for(lambda: not self._there(stage), MOVED_S)
        stage.end(stage.spare)

    def settle(self, stage: Stage) -> None:
        """Finish the move that was under way when no node answered."""
        if not self._there(stage):
            return
        stage.start(stage.spare)
        for partition, replicas in self._was.items():
            self._move(stage, partition, replicas)
        stage.wait_for(lambda: not self._there(stage), MOVED_S)
        stage.end(stage.spare)

    def _there(self, stage: Stage) -> bool:
        view = stage.view([self._topic]) if self._topic else None
        return view is not None and any(
            stage.spare in each.replicas for each in view.of(self._topic)
        )


class Topics(Nemesis):
    """One is made, and deleted again."""

    name = "topics"
    TOPIC = "comes-and-goes"

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        request, partitions = CREATE_TOPICS.request, chance.randint(1, 20)
        row = request.topics(
            name=self.TOPIC, num_partitions=partitions, replication_factor=chance.choice((1, 3))
        )
        stage.ask_anybody(CREATE_TOPICS, request(topics=[row], timeout_ms=CALL_MS))
        return f"a topic of {partitions} partitions is made, and deleted"

    def bitten(self, stage: Stage) -> bool:
        view = stage.view([self.TOPIC])
        return view is not None and bool(view.of(self.TOPIC))

    def end(self, stage: Stage) -> None:
        stage.ask_anybody(
            DELETE_TOPICS,
            DELETE_TOPICS.request(topic_names=[self.TOPIC], timeout_ms=CALL_MS),
            version=5,
        )


class Elections(Nemesis):
    """Leaders go back to who should lead."""

    name = "elections"

    def __init__(self) -> None:
        self._asked = False

    def begin(self, stage: Stage, topic: str, chance: random.Random) -> str:
        request = ELECT_LEADERS.request
        answer = stage.ask_anybody(
            ELECT_LEADERS, request(election_type=0, topic_partitions=None, timeout_ms=CALL_MS)
        )
        self._asked = answer is not None
        return "preferred leaders are elected"

    def bitten(self, stage: Stage) -> bool:
        return self._asked

    def end(self, stage: Stage) -> None:
        pass
