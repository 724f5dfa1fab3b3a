"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class DeletableGroupResult(Row):
    group_id: str
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class DeleteGroupsResponse(Row):
    throttle_time_ms: int
    results: Many[DeletableGroupResult, Sequence[DeletableGroupResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: Rows[DeletableGroupResult] = ...,
    ) -> None: ...

class DeleteGroupsRequest(Row):
    groups_names: Sequence[str]
    def __init__(
        self,
        *,
        groups_names: Sequence[str] = ...,
    ) -> None: ...

class ListedGroup(Row):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        protocol_type: str = ...,
        group_state: str = ...,
        group_type: str = ...,
    ) -> None: ...

class ListGroupsResponse(Row):
    throttle_time_ms: int
    error_code: int
    groups: Many[ListedGroup, Sequence[ListedGroup]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        groups: Rows[ListedGroup] = ...,
    ) -> None: ...

class ListGroupsRequest(Row):
    states_filter: Sequence[str]
    types_filter: Sequence[str]
    def __init__(
        self,
        *,
        states_filter: Sequence[str] = ...,
        types_filter: Sequence[str] = ...,
    ) -> None: ...

class DescribedGroupMember(Row):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes
    def __init__(
        self,
        *,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        member_metadata: bytes = ...,
        member_assignment: bytes = ...,
    ) -> None: ...

class DescribedGroup(Row):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Many[DescribedGroupMember, Sequence[DescribedGroupMember]]
    authorized_operations: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        group_id: str = ...,
        group_state: str = ...,
        protocol_type: str = ...,
        protocol_data: str = ...,
        members: Rows[DescribedGroupMember] = ...,
        authorized_operations: int = ...,
    ) -> None: ...

class DescribeGroupsResponse(Row):
    throttle_time_ms: int
    groups: Many[DescribedGroup, Sequence[DescribedGroup]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: Rows[DescribedGroup] = ...,
    ) -> None: ...

class DescribeGroupsRequest(Row):
    groups: Sequence[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        groups: Sequence[str] = ...,
        include_authorized_operations: bool = ...,
    ) -> None: ...

class SyncGroupResponse(Row):
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignment: bytes = ...,
    ) -> None: ...

class SyncGroupRequestAssignment(Row):
    member_id: str
    assignment: bytes
    def __init__(
        self,
        *,
        member_id: str = ...,
        assignment: bytes = ...,
    ) -> None: ...

class SyncGroupRequest(Row):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Many[SyncGroupRequestAssignment, Sequence[SyncGroupRequestAssignment]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignments: Rows[SyncGroupRequestAssignment] = ...,
    ) -> None: ...

class MemberResponse(Row):
    member_id: str
    group_instance_id: str | None
    error_code: int
    def __init__(
        self,
        *,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        error_code: int = ...,
    ) -> None: ...

class LeaveGroupResponse(Row):
    throttle_time_ms: int
    error_code: int
    members: Many[MemberResponse, Sequence[MemberResponse]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        members: Rows[MemberResponse] = ...,
    ) -> None: ...

class MemberIdentity(Row):
    member_id: str
    group_instance_id: str | None
    reason: str | None
    def __init__(
        self,
        *,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        reason: str | None = ...,
    ) -> None: ...

class LeaveGroupRequest(Row):
    group_id: str
    member_id: str
    members: Many[MemberIdentity, Sequence[MemberIdentity]]
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        members: Rows[MemberIdentity] = ...,
    ) -> None: ...

class HeartbeatResponse(Row):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
    ) -> None: ...

class HeartbeatRequest(Row):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
    ) -> None: ...

class JoinGroupResponseMember(Row):
    member_id: str
    group_instance_id: str | None
    metadata: bytes
    def __init__(
        self,
        *,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        metadata: bytes = ...,
    ) -> None: ...

class JoinGroupResponse(Row):
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: Many[JoinGroupResponseMember, Sequence[JoinGroupResponseMember]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        generation_id: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        leader: str = ...,
        skip_assignment: bool = ...,
        member_id: str = ...,
        members: Rows[JoinGroupResponseMember] = ...,
    ) -> None: ...

class JoinGroupRequestProtocol(Row):
    name: str
    metadata: bytes
    def __init__(
        self,
        *,
        name: str = ...,
        metadata: bytes = ...,
    ) -> None: ...

class JoinGroupRequest(Row):
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: Many[JoinGroupRequestProtocol, Sequence[JoinGroupRequestProtocol]]
    reason: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        session_timeout_ms: int = ...,
        rebalance_timeout_ms: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str = ...,
        protocols: Rows[JoinGroupRequestProtocol] = ...,
        reason: str | None = ...,
    ) -> None: ...

JOIN_GROUP: Api[JoinGroupRequest, JoinGroupResponse]
HEARTBEAT: Api[HeartbeatRequest, HeartbeatResponse]
LEAVE_GROUP: Api[LeaveGroupRequest, LeaveGroupResponse]
SYNC_GROUP: Api[SyncGroupRequest, SyncGroupResponse]
DESCRIBE_GROUPS: Api[DescribeGroupsRequest, DescribeGroupsResponse]
LIST_GROUPS: Api[ListGroupsRequest, ListGroupsResponse]
DELETE_GROUPS: Api[DeleteGroupsRequest, DeleteGroupsResponse]
