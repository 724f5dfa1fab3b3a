"""A client that commits offsets at the coordinator of its group."""

from raftka.broker.coordinators.partition import LOADED, CoordinatorPartition
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH, OffsetCommitRequest
from tests.broker.stage import Stage

GROUP = "g"


class Committer:
    """One connection to the coordinator of the group."""

    def __init__(self, stage: Stage, version: int = 8) -> None:
        self.stage, self.version = stage, version
        wire = stage.wire()
        found = wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key=GROUP, key_type=0), 3)
        while found.error_code:
            stage.world.run(stage.world.now + 0.1)
            found = wire.ask(FIND_COORDINATOR, FIND_COORDINATOR.request(key=GROUP, key_type=0), 3)
        self.node_id = found.node_id
        self.wire = stage.wire(self.node_id)
        stage.wait(
            lambda: (
                all(each.state in LOADED for each in self.coordinators) and bool(self.coordinators)
            )
        )

    @property
    def coordinators(self) -> list[CoordinatorPartition]:
        return list(self.stage.nodes[self.node_id].groups.runtime.partitions.values())

    def row(
        self, *offsets: int, topic: str = "t", committed_metadata: str | None = ""
    ) -> OffsetCommitRequest:
        """An offset for each partition of the topic, from the first on."""
        rows = OFFSET_COMMIT.request.topics
        topic_id = self.stage.nodes[self.node_id].context.metadata.image.topic_ids.get(
            topic, bytes(16)
        )
        partitions = [
            rows.partitions(
                partition_index=at, committed_offset=each, committed_metadata=committed_metadata
            )
            for at, each in enumerate(offsets)
        ]
        topics = [rows(name=topic, topic_id=topic_id, partitions=partitions)]
        return OFFSET_COMMIT.request(
            group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", topics=topics
        )

    def ask(self, row: OffsetCommitRequest) -> bytes:
        """The answer without its correlation id."""
        self.wire.request(OFFSET_COMMIT, row, self.version)
        data = self.wire.frame()
        assert data is not None
        return data[4:]

    def commit(self, *offsets: int) -> int:
        """The error of the first partition."""
        return (
            self.wire.ask(OFFSET_COMMIT, self.row(*offsets), self.version)
            .topics[0]
            .partitions[0]
            .error_code
        )

    def committed(self) -> dict[tuple[str, int], tuple[int, int, str | None]]:
        found = self.wire.ask(OFFSET_FETCH, OFFSET_FETCH.request(group_id=GROUP, topics=None), 7)
        return {
            (topic.name, each.partition_index): (
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
            )
            for topic in found.topics
            for each in topic.partitions
        }
