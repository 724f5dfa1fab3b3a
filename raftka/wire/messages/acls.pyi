"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class DeleteAclsMatchingAcl(Row):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        resource_type: int = ...,
        resource_name: str = ...,
        pattern_type: int = ...,
        principal: str = ...,
        host: str = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

class DeleteAclsFilterResult(Row):
    error_code: int
    error_message: str | None
    matching_acls: Many[DeleteAclsMatchingAcl, Sequence[DeleteAclsMatchingAcl]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        matching_acls: Rows[DeleteAclsMatchingAcl] = ...,
    ) -> None: ...

class DeleteAclsResponse(Row):
    throttle_time_ms: int
    filter_results: Many[DeleteAclsFilterResult, Sequence[DeleteAclsFilterResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        filter_results: Rows[DeleteAclsFilterResult] = ...,
    ) -> None: ...

class DeleteAclsFilter(Row):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        resource_type_filter: int = ...,
        resource_name_filter: str | None = ...,
        pattern_type_filter: int = ...,
        principal_filter: str | None = ...,
        host_filter: str | None = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

class DeleteAclsRequest(Row):
    filters: Many[DeleteAclsFilter, Sequence[DeleteAclsFilter]]
    def __init__(
        self,
        *,
        filters: Rows[DeleteAclsFilter] = ...,
    ) -> None: ...

class AclCreationResult(Row):
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class CreateAclsResponse(Row):
    throttle_time_ms: int
    results: Many[AclCreationResult, Sequence[AclCreationResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: Rows[AclCreationResult] = ...,
    ) -> None: ...

class AclCreation(Row):
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        resource_type: int = ...,
        resource_name: str = ...,
        resource_pattern_type: int = ...,
        principal: str = ...,
        host: str = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

class CreateAclsRequest(Row):
    creations: Many[AclCreation, Sequence[AclCreation]]
    def __init__(
        self,
        *,
        creations: Rows[AclCreation] = ...,
    ) -> None: ...

class AclDescription(Row):
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        principal: str = ...,
        host: str = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

class DescribeAclsResource(Row):
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: Many[AclDescription, Sequence[AclDescription]]
    def __init__(
        self,
        *,
        resource_type: int = ...,
        resource_name: str = ...,
        pattern_type: int = ...,
        acls: Rows[AclDescription] = ...,
    ) -> None: ...

class DescribeAclsResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: Many[DescribeAclsResource, Sequence[DescribeAclsResource]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        resources: Rows[DescribeAclsResource] = ...,
    ) -> None: ...

class DescribeAclsRequest(Row):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        resource_type_filter: int = ...,
        resource_name_filter: str | None = ...,
        pattern_type_filter: int = ...,
        principal_filter: str | None = ...,
        host_filter: str | None = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

DESCRIBE_ACLS: Api[DescribeAclsRequest, DescribeAclsResponse]
CREATE_ACLS: Api[CreateAclsRequest, CreateAclsResponse]
DELETE_ACLS: Api[DeleteAclsRequest, DeleteAclsResponse]
