"""Groups of tests, made request by request: offsets of a group without members, and a member of the
new protocol (KIP-848) that says what the test wants it to say.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, by_topic
from raftka.client.blocking.groups import commit_offsets
from raftka.client.blocking.producer import Producer
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from raftka.wire.messages.offsets import OFFSET_COMMIT
from raftka.wire.messages.share_groups import SHARE_GROUP_HEARTBEAT
from raftka.wire.messages.streams_groups import (
    STREAMS_GROUP_HEARTBEAT,
    StreamsGroupHeartbeatResponse,
)

JOIN, LEAVE, AWAY = 0, -1, -2  # epochs of a heartbeat


def produce(client: Client, where: Where, times_ms: Sequence[int], *, size: int = 0) -> None:
    """Write a record with each of these times, `size` bytes each, in one batch."""
    producer = Producer(client, max_batch_bytes=1 << 20)
    for time_ms in times_ms:
        producer.add(where, (None, b"v" * size, (), time_ms))
    producer.flush()


def commit(client: Client, group_id: str, offsets: Mapping[Where, int]) -> None:
    """Commit for a group without members."""
    assert commit_offsets(client, group_id, offsets, {}) == {}


def share_beat(
    client: Client, group_id: str, epoch: int, topics: Sequence[str] = (), member_id: str = "m" * 22
) -> int:
    """Send the heartbeat of a member of a share group; return its epoch."""
    request = SHARE_GROUP_HEARTBEAT.request(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )
    answer = client.ask_coordinator(group_id, SHARE_GROUP_HEARTBEAT, request)
    assert answer.error_code == Code.NONE, answer.error_message
    return answer.member_epoch


def streams_join(client: Client, group_id: str, topic: str) -> StreamsGroupHeartbeatResponse:
    """Send the first heartbeat of a member of a streams group, whose one subtopology reads `topic`
    and keeps its state in the changelog GROUP-store-changelog.
    """
    row = STREAMS_GROUP_HEARTBEAT.request
    subtopology = row.topology.subtopologies(
        subtopology_id="0",
        source_topics=[topic],
        state_changelog_topics=[
            row.topology.subtopologies.state_changelog_topics(name=f"{group_id}-store-changelog")
        ],
    )
    return _streams_beat(
        client,
        group_id,
        member_epoch=0,
        rebalance_timeout_ms=5000,
        process_id="process",
        user_endpoint=row.user_endpoint(host="app", port=7070),
        topology=row.topology(subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def streams_beat(client: Client, group_id: str, epoch: int) -> StreamsGroupHeartbeatResponse:
    return _streams_beat(client, group_id, member_epoch=epoch)


def _streams_beat(client: Client, group_id: str, **fields: object) -> StreamsGroupHeartbeatResponse:
    request = STREAMS_GROUP_HEARTBEAT.request(
        group_id=group_id,
        member_id="streams-member",
        **fields,  # type: ignore[arg-type]
    )
    answer = client.ask_coordinator(group_id, STREAMS_GROUP_HEARTBEAT, request)
    assert answer.error_code == Code.NONE, answer.error_message
    return answer


class Answer(NamedTuple):
    code: Code
    assigned: Sequence[Where] | None  # None: as it was


class ConsumerMember:
    """Speaks only when the test lets it."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        instance_id: str | None = None,
        name: str = "member",
    ) -> None:
        self._client, self._group_id, self._topics = client, group_id, topics
        self._instance_id = instance_id
        self.member_id, self.epoch = name, JOIN
        self.owned: list[Where] = []  # what it says that it has
        client.metadata(topics)
        self._names = {client.topic_id(topic): topic for topic in topics}

    def join(self) -> "ConsumerMember":
        """Join, and take what is given at once."""
        self.epoch = JOIN
        self.take(self.beat())
        return self

    def take(self, answer: Answer) -> None:
        assert answer.code is Code.NONE
        if answer.assigned is not None:
            self.owned = list(answer.assigned)

    def beat(self, epoch: int | None = None) -> Answer:
        """Send a heartbeat with what it has. `epoch`: instead of its own."""
        row = CONSUMER_GROUP_HEARTBEAT.request
        said = self.epoch if epoch is None else epoch
        joins = said == JOIN
        ids = {name: bytes.fromhex(topic_id) for topic_id, name in self._names.items()}
        topics: dict[str, list[int]] = {}
        for topic, partition in self.owned:
            topics.setdefault(topic, []).append(partition)
        request = row(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=said,
            instance_id=self._instance_id,
            rebalance_timeout_ms=300_000 if joins else -1,
            subscribed_topic_names=list(self._topics) if joins else None,
            topic_partitions=[
                row.topic_partitions(topic_id=ids[topic], partitions=own)
                for topic, own in topics.items()
            ],
        )
        answer = self._client.ask_coordinator(self._group_id, CONSUMER_GROUP_HEARTBEAT, request)
        if answer.error_code == Code.NONE:
            self.epoch = answer.member_epoch
        assigned = None
        if answer.assignment is not None:
            assigned = [
                (self._names[bytes(each.topic_id).hex()], partition)
                for each in answer.assignment.topic_partitions
                for partition in each.partitions
            ]
        return Answer(Code(answer.error_code), assigned)

    def commit(self, offsets: Mapping[Where, int]) -> None:
        rows = OFFSET_COMMIT.request.topics
        topics = by_topic(
            (where, rows.partitions(partition_index=where[1], committed_offset=offset))
            for where, offset in offsets.items()
        )
        request = OFFSET_COMMIT.request(
            group_id=self._group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[rows(name=name, partitions=own) for name, own in topics.items()],
        )
        answer = self._client.ask_coordinator(self._group_id, OFFSET_COMMIT, request, 9)
        assert [p.error_code for topic in answer.topics for p in topic.partitions] == [0] * len(
            offsets
        )

    def leave(self, epoch: int = LEAVE) -> None:
        assert self.beat(epoch).code is Code.NONE
