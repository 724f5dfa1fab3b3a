"""Classic groups: JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14), DescribeGroups
(15), ListGroups (16), DeleteGroups (42).
"""

from raftka.wire.schema import api, row_classes

JOIN_GROUP = api(
    "JoinGroup",
    11,
    versions="0-9",
    flexible="6+",
    request="""
    group_id                    string
    session_timeout_ms          int32
    rebalance_timeout_ms        int32=-1    1+      # version 0: the session time-out
    member_id                   string              # empty: a new member
    group_instance_id           string?     5+ !    # a static member (KIP-345)
    protocol_type               string
    protocols JoinGroupRequestProtocol[]
        name                    string
        metadata                bytes
    reason                      string?     8+
""",
    response="""
    throttle_time_ms            int32       2+
    error_code                  int16
    generation_id               int32=-1
    protocol_type               string?     7+
    protocol_name               string?7+
    leader                      string
    skip_assignment             bool        9+ !    # the leader need not send assignments (KIP-814)
    member_id                   string
    members JoinGroupResponseMember[]
        member_id               string
        group_instance_id       string?     5+
        metadata                bytes
""",
)

HEARTBEAT = api(
    "Heartbeat",
    12,
    versions="0-4",
    flexible="4+",
    request="""
    group_id                    string
    generation_id               int32
    member_id                   string
    group_instance_id           string?     3+ !
""",
    response="""
    throttle_time_ms            int32       1+
    error_code                  int16
""",
)

LEAVE_GROUP = api(
    "LeaveGroup",
    13,
    versions="0-5",
    flexible="4+",
    request="""
    group_id                    string
    member_id                   string      0-2 !
    members MemberIdentity[]                3+ !
        member_id               string
        group_instance_id       string?
        reason                  string?     5+
""",
    response="""
    throttle_time_ms            int32       1+
    error_code                  int16
    members MemberResponse[]                3+ !
        member_id               string
        group_instance_id       string?
        error_code              int16
""",
)

SYNC_GROUP = api(
    "SyncGroup",
    14,
    versions="0-5",
    flexible="4+",
    request="""
    group_id                    string
    generation_id               int32
    member_id                   string
    group_instance_id           string?     3+ !
    protocol_type               string?     5+
    protocol_name               string?     5+
    assignments SyncGroupRequestAssignment[]
        member_id               string
        assignment              bytes
""",
    response="""
    throttle_time_ms            int32       1+
    error_code                  int16
    protocol_type               string?     5+
    protocol_name               string?     5+
    assignment                  bytes
""",
)

DESCRIBE_GROUPS = api(
    "DescribeGroups",
    15,
    versions="0-6",
    flexible="5+",
    request="""
    groups                      string[]
    include_authorized_operations bool      3+ !
""",
    response="""
    throttle_time_ms            int32       1+
    groups DescribedGroup[]
        error_code              int16
        error_message           string?     6+ !
        group_id                string
        group_state             string
        protocol_type           string
        protocol_data           string
        members DescribedGroupMember[]
            member_id           string
            group_instance_id   string?     4+
            client_id           string
            client_host         string
            member_metadata     bytes
            member_assignment   bytes
        authorized_operations   int32=-2147483648 3+ !
""",
)

LIST_GROUPS = api(
    "ListGroups",
    16,
    versions="0-5",
    flexible="3+",
    request="""
    states_filter               string[]    4+ !
    types_filter                string[]    5+ !
""",
    response="""
    throttle_time_ms            int32       1+
    error_code                  int16
    groups ListedGroup[]
        group_id                string
        protocol_type           string
        group_state             string      4+
        group_type              string      5+
""",
)

DELETE_GROUPS = api(
    "DeleteGroups",
    42,
    versions="0-3",
    flexible="2+",
    request="""
    groups_names                string[]
""",
    response="""
    throttle_time_ms            int32
    results DeletableGroupResult[]
        group_id                string
        error_code              int16
        error_message           string?     3+
""",
)

__getattr__ = row_classes(
    JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS
)
