"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class Coordinator(Row):
    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        key: str = ...,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class FindCoordinatorResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: Many[Coordinator, Sequence[Coordinator]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
        coordinators: Rows[Coordinator] = ...,
    ) -> None: ...

class FindCoordinatorRequest(Row):
    key: str
    key_type: int
    coordinator_keys: Sequence[str]
    def __init__(
        self,
        *,
        key: str = ...,
        key_type: int = ...,
        coordinator_keys: Sequence[str] = ...,
    ) -> None: ...

FIND_COORDINATOR: Api[FindCoordinatorRequest, FindCoordinatorResponse]
