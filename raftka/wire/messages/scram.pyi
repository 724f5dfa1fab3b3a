"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class AlterUserScramCredentialsResult(Row):
    user: str
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        user: str = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class AlterUserScramCredentialsResponse(Row):
    throttle_time_ms: int
    results: Many[AlterUserScramCredentialsResult, Sequence[AlterUserScramCredentialsResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: Rows[AlterUserScramCredentialsResult] = ...,
    ) -> None: ...

class ScramCredentialUpsertion(Row):
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes
    def __init__(
        self,
        *,
        name: str = ...,
        mechanism: int = ...,
        iterations: int = ...,
        salt: bytes = ...,
        salted_password: bytes = ...,
    ) -> None: ...

class ScramCredentialDeletion(Row):
    name: str
    mechanism: int
    def __init__(
        self,
        *,
        name: str = ...,
        mechanism: int = ...,
    ) -> None: ...

class AlterUserScramCredentialsRequest(Row):
    deletions: Many[ScramCredentialDeletion, Sequence[ScramCredentialDeletion]]
    upsertions: Many[ScramCredentialUpsertion, Sequence[ScramCredentialUpsertion]]
    def __init__(
        self,
        *,
        deletions: Rows[ScramCredentialDeletion] = ...,
        upsertions: Rows[ScramCredentialUpsertion] = ...,
    ) -> None: ...

class CredentialInfo(Row):
    mechanism: int
    iterations: int
    def __init__(
        self,
        *,
        mechanism: int = ...,
        iterations: int = ...,
    ) -> None: ...

class DescribeUserScramCredentialsResult(Row):
    user: str
    error_code: int
    error_message: str | None
    credential_infos: Many[CredentialInfo, Sequence[CredentialInfo]]
    def __init__(
        self,
        *,
        user: str = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        credential_infos: Rows[CredentialInfo] = ...,
    ) -> None: ...

class DescribeUserScramCredentialsResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: Many[DescribeUserScramCredentialsResult, Sequence[DescribeUserScramCredentialsResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        results: Rows[DescribeUserScramCredentialsResult] = ...,
    ) -> None: ...

class UserName(Row):
    name: str
    def __init__(
        self,
        *,
        name: str = ...,
    ) -> None: ...

class DescribeUserScramCredentialsRequest(Row):
    users: Many[UserName, Sequence[UserName] | None]
    def __init__(
        self,
        *,
        users: Rows[UserName] | None = ...,
    ) -> None: ...

DESCRIBE_USER_SCRAM_CREDENTIALS: Api[DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse]
ALTER_USER_SCRAM_CREDENTIALS: Api[AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse]
