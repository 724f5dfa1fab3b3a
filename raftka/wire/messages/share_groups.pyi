"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, One, Rows
from raftka.wire.schema import Api, Row

class MemberTopicPartitions(Row):
    topic_id: bytes
    topic_name: str
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        topic_name: str = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class MemberAssignment(Row):
    topic_partitions: Many[MemberTopicPartitions, Sequence[MemberTopicPartitions]]
    def __init__(
        self,
        *,
        topic_partitions: Rows[MemberTopicPartitions] = ...,
    ) -> None: ...

class Member(Row):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: Sequence[str]
    assignment: One[MemberAssignment, MemberAssignment]
    def __init__(
        self,
        *,
        member_id: str = ...,
        rack_id: str | None = ...,
        member_epoch: int = ...,
        client_id: str = ...,
        client_host: str = ...,
        subscribed_topic_names: Sequence[str] = ...,
        assignment: MemberAssignment = ...,
    ) -> None: ...

class DescribedGroup(Row):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Many[Member, Sequence[Member]]
    authorized_operations: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        group_id: str = ...,
        group_state: str = ...,
        group_epoch: int = ...,
        assignment_epoch: int = ...,
        assignor_name: str = ...,
        members: Rows[Member] = ...,
        authorized_operations: int = ...,
    ) -> None: ...

class ShareGroupDescribeResponse(Row):
    throttle_time_ms: int
    groups: Many[DescribedGroup, Sequence[DescribedGroup]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: Rows[DescribedGroup] = ...,
    ) -> None: ...

class ShareGroupDescribeRequest(Row):
    group_ids: Sequence[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        group_ids: Sequence[str] = ...,
        include_authorized_operations: bool = ...,
    ) -> None: ...

class TopicPartitions(Row):
    topic_id: bytes
    partitions: Sequence[int]
    def __init__(
        self,
        *,
        topic_id: bytes = ...,
        partitions: Sequence[int] = ...,
    ) -> None: ...

class Assignment(Row):
    topic_partitions: Many[TopicPartitions, Sequence[TopicPartitions]]
    def __init__(
        self,
        *,
        topic_partitions: Rows[TopicPartitions] = ...,
    ) -> None: ...

class ShareGroupHeartbeatResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: One[Assignment, Assignment | None]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: Assignment | None = ...,
    ) -> None: ...

class ShareGroupHeartbeatRequest(Row):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: Sequence[str] | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        rack_id: str | None = ...,
        subscribed_topic_names: Sequence[str] | None = ...,
    ) -> None: ...

SHARE_GROUP_HEARTBEAT: Api[ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse]
SHARE_GROUP_DESCRIBE: Api[ShareGroupDescribeRequest, ShareGroupDescribeResponse]
