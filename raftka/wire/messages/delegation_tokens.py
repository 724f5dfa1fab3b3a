"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40) and
DescribeDelegationToken (41) (KIP-48, KIP-373).
"""

from raftka.wire.schema import api, row_classes

CREATE_DELEGATION_TOKEN = api(
    "CreateDelegationToken",
    38,
    versions="1-3",
    flexible="2+",
    request="""
    owner_principal_type        string?     3+
    owner_principal_name        string?     3+
    renewers CreatableRenewers[]
        principal_type          string
        principal_name          string
    max_lifetime_ms             int64
""",
    response="""
    error_code                  int16
    principal_type              string
    principal_name              string
    token_requester_principal_type string   3+
    token_requester_principal_name string   3+
    issue_timestamp_ms          int64
    expiry_timestamp_ms         int64
    max_timestamp_ms            int64
    token_id                    string
    hmac                        bytes
    throttle_time_ms            int32
""",
)

RENEW_DELEGATION_TOKEN = api(
    "RenewDelegationToken",
    39,
    versions="1-2",
    flexible="2+",
    request="""
    hmac                        bytes
    renew_period_ms             int64
""",
    response="""
    error_code                  int16
    expiry_timestamp_ms         int64
    throttle_time_ms            int32
""",
)

EXPIRE_DELEGATION_TOKEN = api(
    "ExpireDelegationToken",
    40,
    versions="1-2",
    flexible="2+",
    request="""
    hmac                        bytes
    expiry_time_period_ms       int64
""",
    response="""
    error_code                  int16
    expiry_timestamp_ms         int64
    throttle_time_ms            int32
""",
)

DESCRIBE_DELEGATION_TOKEN = api(
    "DescribeDelegationToken",
    41,
    versions="1-3",
    flexible="2+",
    request="""
    owners DescribeDelegationTokenOwner[]?
        principal_type          string
        principal_name          string
""",
    response="""
    error_code                  int16
    tokens DescribedDelegationToken[]
        principal_type          string
        principal_name          string
        token_requester_principal_type string   3+
        token_requester_principal_name string   3+
        issue_timestamp         int64
        expiry_timestamp        int64
        max_timestamp           int64
        token_id                string
        hmac                    bytes
        renewers DescribedDelegationTokenRenewer[]
            principal_type      string
            principal_name      string
    throttle_time_ms            int32
""",
)

__getattr__ = row_classes(
    CREATE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
)
