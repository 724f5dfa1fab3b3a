"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.schema import Api, Row

class SaslAuthenticateResponse(Row):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        auth_bytes: bytes = ...,
        session_lifetime_ms: int = ...,
    ) -> None: ...

class SaslAuthenticateRequest(Row):
    auth_bytes: bytes
    def __init__(
        self,
        *,
        auth_bytes: bytes = ...,
    ) -> None: ...

class SaslHandshakeResponse(Row):
    error_code: int
    mechanisms: Sequence[str]
    def __init__(
        self,
        *,
        error_code: int = ...,
        mechanisms: Sequence[str] = ...,
    ) -> None: ...

class SaslHandshakeRequest(Row):
    mechanism: str
    def __init__(
        self,
        *,
        mechanism: str = ...,
    ) -> None: ...

SASL_HANDSHAKE: Api[SaslHandshakeRequest, SaslHandshakeResponse]
SASL_AUTHENTICATE: Api[SaslAuthenticateRequest, SaslAuthenticateResponse]
