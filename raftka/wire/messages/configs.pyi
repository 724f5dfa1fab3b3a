"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class ConfigResource(Row):
    resource_name: str
    resource_type: int
    def __init__(
        self,
        *,
        resource_name: str = ...,
        resource_type: int = ...,
    ) -> None: ...

class ListConfigResourcesResponse(Row):
    throttle_time_ms: int
    error_code: int
    config_resources: Many[ConfigResource, Sequence[ConfigResource]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        config_resources: Rows[ConfigResource] = ...,
    ) -> None: ...

class ListConfigResourcesRequest(Row):
    resource_types: Sequence[int]
    def __init__(
        self,
        *,
        resource_types: Sequence[int] = ...,
    ) -> None: ...

class IncrementalAlterConfigsResourceResponse(Row):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        resource_type: int = ...,
        resource_name: str = ...,
    ) -> None: ...

class IncrementalAlterConfigsResponse(Row):
    throttle_time_ms: int
    responses: Many[IncrementalAlterConfigsResourceResponse, Sequence[IncrementalAlterConfigsResourceResponse]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: Rows[IncrementalAlterConfigsResourceResponse] = ...,
    ) -> None: ...

class IncrementalAlterableConfig(Row):
    name: str
    config_operation: int
    value: str | None
    def __init__(
        self,
        *,
        name: str = ...,
        config_operation: int = ...,
        value: str | None = ...,
    ) -> None: ...

class IncrementalAlterConfigsResource(Row):
    resource_type: int
    resource_name: str
    configs: Many[IncrementalAlterableConfig, Sequence[IncrementalAlterableConfig]]
    def __init__(
        self,
        *,
        resource_type: int = ...,
        resource_name: str = ...,
        configs: Rows[IncrementalAlterableConfig] = ...,
    ) -> None: ...

class IncrementalAlterConfigsRequest(Row):
    resources: Many[IncrementalAlterConfigsResource, Sequence[IncrementalAlterConfigsResource]]
    validate_only: bool
    def __init__(
        self,
        *,
        resources: Rows[IncrementalAlterConfigsResource] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class AlterConfigsResourceResponse(Row):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        resource_type: int = ...,
        resource_name: str = ...,
    ) -> None: ...

class AlterConfigsResponse(Row):
    throttle_time_ms: int
    responses: Many[AlterConfigsResourceResponse, Sequence[AlterConfigsResourceResponse]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: Rows[AlterConfigsResourceResponse] = ...,
    ) -> None: ...

class AlterableConfig(Row):
    name: str
    value: str | None
    def __init__(
        self,
        *,
        name: str = ...,
        value: str | None = ...,
    ) -> None: ...

class AlterConfigsResource(Row):
    resource_type: int
    resource_name: str
    configs: Many[AlterableConfig, Sequence[AlterableConfig]]
    def __init__(
        self,
        *,
        resource_type: int = ...,
        resource_name: str = ...,
        configs: Rows[AlterableConfig] = ...,
    ) -> None: ...

class AlterConfigsRequest(Row):
    resources: Many[AlterConfigsResource, Sequence[AlterConfigsResource]]
    validate_only: bool
    def __init__(
        self,
        *,
        resources: Rows[AlterConfigsResource] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class DescribeConfigsSynonym(Row):
    name: str
    value: str | None
    source: int
    def __init__(
        self,
        *,
        name: str = ...,
        value: str | None = ...,
        source: int = ...,
    ) -> None: ...

class DescribeConfigsResourceResult(Row):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: Many[DescribeConfigsSynonym, Sequence[DescribeConfigsSynonym]]
    config_type: int
    documentation: str | None
    def __init__(
        self,
        *,
        name: str = ...,
        value: str | None = ...,
        read_only: bool = ...,
        config_source: int = ...,
        is_sensitive: bool = ...,
        synonyms: Rows[DescribeConfigsSynonym] = ...,
        config_type: int = ...,
        documentation: str | None = ...,
    ) -> None: ...

class DescribeConfigsResult(Row):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: Many[DescribeConfigsResourceResult, Sequence[DescribeConfigsResourceResult]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        resource_type: int = ...,
        resource_name: str = ...,
        configs: Rows[DescribeConfigsResourceResult] = ...,
    ) -> None: ...

class DescribeConfigsResponse(Row):
    throttle_time_ms: int
    results: Many[DescribeConfigsResult, Sequence[DescribeConfigsResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: Rows[DescribeConfigsResult] = ...,
    ) -> None: ...

class DescribeConfigsResource(Row):
    resource_type: int
    resource_name: str
    configuration_keys: Sequence[str] | None
    def __init__(
        self,
        *,
        resource_type: int = ...,
        resource_name: str = ...,
        configuration_keys: Sequence[str] | None = ...,
    ) -> None: ...

class DescribeConfigsRequest(Row):
    resources: Many[DescribeConfigsResource, Sequence[DescribeConfigsResource]]
    include_synonyms: bool
    include_documentation: bool
    def __init__(
        self,
        *,
        resources: Rows[DescribeConfigsResource] = ...,
        include_synonyms: bool = ...,
        include_documentation: bool = ...,
    ) -> None: ...

DESCRIBE_CONFIGS: Api[DescribeConfigsRequest, DescribeConfigsResponse]
ALTER_CONFIGS: Api[AlterConfigsRequest, AlterConfigsResponse]
INCREMENTAL_ALTER_CONFIGS: Api[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]
LIST_CONFIG_RESOURCES: Api[ListConfigResourcesRequest, ListConfigResourcesResponse]
