"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class FinalizedFeatureKey(Row):
    name: str
    max_version_level: int
    min_version_level: int
    def __init__(
        self,
        *,
        name: str = ...,
        max_version_level: int = ...,
        min_version_level: int = ...,
    ) -> None: ...

class SupportedFeatureKey(Row):
    name: str
    min_version: int
    max_version: int
    def __init__(
        self,
        *,
        name: str = ...,
        min_version: int = ...,
        max_version: int = ...,
    ) -> None: ...

class ApiVersion(Row):
    api_key: int
    min_version: int
    max_version: int
    def __init__(
        self,
        *,
        api_key: int = ...,
        min_version: int = ...,
        max_version: int = ...,
    ) -> None: ...

class ApiVersionsResponse(Row):
    error_code: int
    api_keys: Many[ApiVersion, Sequence[ApiVersion]]
    throttle_time_ms: int
    supported_features: Many[SupportedFeatureKey, Sequence[SupportedFeatureKey]]
    finalized_features_epoch: int
    finalized_features: Many[FinalizedFeatureKey, Sequence[FinalizedFeatureKey]]
    zk_migration_ready: bool
    def __init__(
        self,
        *,
        error_code: int = ...,
        api_keys: Rows[ApiVersion] = ...,
        throttle_time_ms: int = ...,
        supported_features: Rows[SupportedFeatureKey] = ...,
        finalized_features_epoch: int = ...,
        finalized_features: Rows[FinalizedFeatureKey] = ...,
        zk_migration_ready: bool = ...,
    ) -> None: ...

class ApiVersionsRequest(Row):
    client_software_name: str
    client_software_version: str
    cluster_id: str | None
    node_id: int
    def __init__(
        self,
        *,
        client_software_name: str = ...,
        client_software_version: str = ...,
        cluster_id: str | None = ...,
        node_id: int = ...,
    ) -> None: ...

API_VERSIONS: Api[ApiVersionsRequest, ApiVersionsResponse]
