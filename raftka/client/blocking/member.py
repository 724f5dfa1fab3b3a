"""A member of a classic consumer group: joins, takes part of the partitions by the range assignor,
commits what was read, leaves.

A thread with connections of its own sends the heartbeats: a caller whose output is read slowly
stays a member for POLL_S after its last poll.
"""

import threading
import time
from collections.abc import Collection, Iterable, Mapping

from raftka.client.blocking.client import (
    NOT_COORDINATOR,
    Client,
    Unreachable,
    Where,
    by_topic,
    check,
)
from raftka.client.blocking.connection import ClientError
from raftka.coordinator.protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import (
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
    JoinGroupResponseMember,
)
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH, OffsetCommitRequest
from raftka.wire.schema import Api, Req, Resp

SESSION_S, HEARTBEAT_S = 45.0, 3.0  # as Kafka's consumers have them
POLL_S = 300.0  # Kafka's max.poll.interval.ms: so long may the members take to join again
CONSUMER, RANGE = "consumer", "range"
# the last versions with names of topics, and with one group
BY_NAME = {OFFSET_COMMIT.key: 9, OFFSET_FETCH.key: 7}
ONE_MEMBER = 2  # version of LeaveGroup: old brokers know it and new ones still do
REMOVED = frozenset({Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID})
STALE = frozenset({Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS, *REMOVED})  # join again


class Member:
    """Not for several threads at once."""

    def __init__(self, client: Client, group: str, *topics: str) -> None:
        self.assigned: tuple[Where, ...] = ()
        self._client, self._group, self._topics = client, group, topics
        self._id, self._generation = "", -1
        self._joined = threading.Event()  # not set: join again
        self._over = threading.Event()
        self._polled = time.monotonic()
        self._joiner = Client(
            client.bootstrap,
            client.client_id,
            client.patience_s,
            answer_s=POLL_S + client.patience_s,
            security=client.security,
        )
        self._heart = threading.Thread(target=self._beat, name="heartbeats", daemon=True)
        self._heart.start()

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._heart.join()
        try:
            self._leave()
        except (ClientError, KafkaError, OSError):
            pass  # its session ends by itself
        self._joiner.close()

    def poll(self) -> bool:
        """Join if that is due: then `assigned` is new. Raises KafkaError and Unreachable."""
        self._polled = time.monotonic()
        if self._joined.is_set():
            return False
        while not self._join():
            pass
        self._joined.set()
        return True

    def committed(self) -> dict[Where, int]:
        """The offsets that the group has for what is assigned."""
        topics = by_topic((where, where[1]) for where in self.assigned)
        rows = [
            OFFSET_FETCH.request.topics(name=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
        answer = self._ask(OFFSET_FETCH, OFFSET_FETCH.request(group_id=self._group, topics=rows))
        check(answer.error_code)
        found = {}
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, f"{topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    found[topic.name, each.partition_index] = each.committed_offset
        return found

    def commit(self, offsets: Mapping[Where, int]) -> None:
        """A member that must join again commits nothing: its partitions may be another's. Raises
        KafkaError.
        """
        answer = self._ask(
            OFFSET_COMMIT, commit_request(self._group, offsets, self._generation, self._id)
        )
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code in STALE:
                    self._stale(each.error_code)
                else:
                    check(each.error_code, f"{topic.name}-{each.partition_index}")

    def _ask(self, api: Api[Req, Resp], row: Req) -> Resp:
        return self._client.ask_coordinator(self._group, api, row, BY_NAME[api.key])

    def _stale(self, code: int) -> None:
        if code in REMOVED:
            self._id = ""
        self._joined.clear()

    # joining

    def _join(self) -> bool:
        """Once. False: try again."""
        request = JOIN_GROUP.request
        asked = request(
            group_id=self._group,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(POLL_S * 1000),
            member_id=self._id,
            protocol_type=CONSUMER,
            protocols=[
                request.protocols(name=RANGE, metadata=write_subscription(sorted(self._topics)))
            ],
        )
        answer = self._joiner.ask_coordinator(self._group, JOIN_GROUP, asked)
        if answer.error_code == Code.MEMBER_ID_REQUIRED:
            self._id = answer.member_id
            return False
        if answer.error_code in STALE:
            self._stale(answer.error_code)
            return False
        check(answer.error_code, f"joining the group {self._group}")
        self._id, self._generation = answer.member_id, answer.generation_id
        leads = answer.leader == self._id and not answer.skip_assignment
        return self._sync(self._assignments(answer.members) if leads else {})

    def _sync(self, assignments: Mapping[str, Mapping[str, tuple[int, ...]]]) -> bool:
        request = SYNC_GROUP.request
        asked = request(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._id,
            protocol_type=CONSUMER,
            protocol_name=RANGE,
            assignments=[
                request.assignments(member_id=name, assignment=write_assignment(dict(own), 0))
                for name, own in assignments.items()
            ],
        )
        answer = self._joiner.ask_coordinator(self._group, SYNC_GROUP, asked)
        if answer.error_code in STALE:
            self._stale(answer.error_code)
            return False
        check(answer.error_code, f"joining the group {self._group}")
        assigned = read_assignment(bytes(answer.assignment)).partitions
        self.assigned = tuple(
            (topic, index) for topic, indexes in sorted(assigned.items()) for index in indexes
        )
        return True

    def _assignments(
        self, members: Iterable[JoinGroupResponseMember]
    ) -> dict[str, dict[str, tuple[int, ...]]]:
        topics = {
            each.member_id: (each.group_instance_id, read_subscription(bytes(each.metadata)).topics)
            for each in members
        }
        counts = {
            str(topic.name): len(topic.partitions)
            for topic in self._client.metadata(
                {name for _, names in topics.values() for name in names}
            ).topics
            if not topic.error_code
        }
        return assign_ranges(topics, counts)

    def _leave(self) -> None:
        if self._id:
            self._client.patience_s = min(self._client.patience_s, HEARTBEAT_S)
            self._client.ask_coordinator(
                self._group,
                LEAVE_GROUP,
                LEAVE_GROUP.request(group_id=self._group, member_id=self._id),
                ONE_MEMBER,
            )

    # heartbeats

    def _beat(self) -> None:
        with Client(
            self._client.bootstrap,
            self._client.client_id,
            HEARTBEAT_S,
            security=self._client.security,
        ) as client:
            while not self._over.wait(HEARTBEAT_S):
                if not self._joined.is_set() or time.monotonic() > self._polled + POLL_S:
                    continue
                asked = HEARTBEAT.request(
                    group_id=self._group, generation_id=self._generation, member_id=self._id
                )
                try:
                    code = client.ask_coordinator(self._group, HEARTBEAT, asked).error_code
                except (Unreachable, KafkaError):
                    continue
                if code in STALE and asked.generation_id == self._generation:
                    self._stale(code)
                elif code in NOT_COORDINATOR:
                    client.lost_coordinator(self._group)


def commit_request(
    group: str,
    offsets: Mapping[Where, int],
    generation: int = -1,
    member_id: str = "",
    metadata: Mapping[Where, str] | None = None,
) -> OffsetCommitRequest:
    """OffsetCommit by names of topics: versions up to 9."""
    row = OFFSET_COMMIT.request.topics
    topics = by_topic(
        (
            where,
            row.partitions(
                partition_index=where[1],
                committed_offset=offset,
                committed_metadata=(metadata or {}).get(where, ""),
            ),
        )
        for where, offset in offsets.items()
    )
    rows = [row(name=name, partitions=partitions) for name, partitions in topics.items()]
    return OFFSET_COMMIT.request(
        group_id=group, generation_id_or_member_epoch=generation, member_id=member_id, topics=rows
    )


def assign_ranges(
    members: Mapping[str, tuple[str | None, Collection[str]]], counts: Mapping[str, int]
) -> dict[str, dict[str, tuple[int, ...]]]:
    """As Kafka's RangeAssignor: for each topic its members in order, static ones first, have runs
    of partitions, the first ones perhaps one more.

    `members`: by member id, the instance id and the topics.
    """
    assigned: dict[str, dict[str, tuple[int, ...]]] = {member_id: {} for member_id in members}
    for topic, count in counts.items():
        own = sorted(
            (instance is None, instance or "", member_id)
            for member_id, (instance, topics) in members.items()
            if topic in topics
        )
        start = 0
        for at, (_, _, member_id) in enumerate(own):
            size = count // len(own) + (at < count % len(own))
            if size:
                assigned[member_id][topic] = tuple(range(start, start + size))
            start += size
    return assigned
