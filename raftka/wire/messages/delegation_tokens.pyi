"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class DescribedDelegationTokenRenewer(Row):
    principal_type: str
    principal_name: str
    def __init__(
        self,
        *,
        principal_type: str = ...,
        principal_name: str = ...,
    ) -> None: ...

class DescribedDelegationToken(Row):
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: Many[DescribedDelegationTokenRenewer, Sequence[DescribedDelegationTokenRenewer]]
    def __init__(
        self,
        *,
        principal_type: str = ...,
        principal_name: str = ...,
        token_requester_principal_type: str = ...,
        token_requester_principal_name: str = ...,
        issue_timestamp: int = ...,
        expiry_timestamp: int = ...,
        max_timestamp: int = ...,
        token_id: str = ...,
        hmac: bytes = ...,
        renewers: Rows[DescribedDelegationTokenRenewer] = ...,
    ) -> None: ...

class DescribeDelegationTokenResponse(Row):
    error_code: int
    tokens: Many[DescribedDelegationToken, Sequence[DescribedDelegationToken]]
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        tokens: Rows[DescribedDelegationToken] = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class DescribeDelegationTokenOwner(Row):
    principal_type: str
    principal_name: str
    def __init__(
        self,
        *,
        principal_type: str = ...,
        principal_name: str = ...,
    ) -> None: ...

class DescribeDelegationTokenRequest(Row):
    owners: Many[DescribeDelegationTokenOwner, Sequence[DescribeDelegationTokenOwner] | None]
    def __init__(
        self,
        *,
        owners: Rows[DescribeDelegationTokenOwner] | None = ...,
    ) -> None: ...

class ExpireDelegationTokenResponse(Row):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        expiry_timestamp_ms: int = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class ExpireDelegationTokenRequest(Row):
    hmac: bytes
    expiry_time_period_ms: int
    def __init__(
        self,
        *,
        hmac: bytes = ...,
        expiry_time_period_ms: int = ...,
    ) -> None: ...

class RenewDelegationTokenResponse(Row):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        expiry_timestamp_ms: int = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class RenewDelegationTokenRequest(Row):
    hmac: bytes
    renew_period_ms: int
    def __init__(
        self,
        *,
        hmac: bytes = ...,
        renew_period_ms: int = ...,
    ) -> None: ...

class CreateDelegationTokenResponse(Row):
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        principal_type: str = ...,
        principal_name: str = ...,
        token_requester_principal_type: str = ...,
        token_requester_principal_name: str = ...,
        issue_timestamp_ms: int = ...,
        expiry_timestamp_ms: int = ...,
        max_timestamp_ms: int = ...,
        token_id: str = ...,
        hmac: bytes = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class CreatableRenewers(Row):
    principal_type: str
    principal_name: str
    def __init__(
        self,
        *,
        principal_type: str = ...,
        principal_name: str = ...,
    ) -> None: ...

class CreateDelegationTokenRequest(Row):
    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: Many[CreatableRenewers, Sequence[CreatableRenewers]]
    max_lifetime_ms: int
    def __init__(
        self,
        *,
        owner_principal_type: str | None = ...,
        owner_principal_name: str | None = ...,
        renewers: Rows[CreatableRenewers] = ...,
        max_lifetime_ms: int = ...,
    ) -> None: ...

CREATE_DELEGATION_TOKEN: Api[CreateDelegationTokenRequest, CreateDelegationTokenResponse]
RENEW_DELEGATION_TOKEN: Api[RenewDelegationTokenRequest, RenewDelegationTokenResponse]
EXPIRE_DELEGATION_TOKEN: Api[ExpireDelegationTokenRequest, ExpireDelegationTokenResponse]
DESCRIBE_DELEGATION_TOKEN: Api[DescribeDelegationTokenRequest, DescribeDelegationTokenResponse]
