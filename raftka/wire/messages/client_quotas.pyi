"""Written by `./run stubs`, not by hand."""

from collections.abc import Sequence

from raftka.wire.field_types import Many, Rows
from raftka.wire.schema import Api, Row

class AlterClientQuotasResultEntity(Row):
    entity_type: str
    entity_name: str | None
    def __init__(
        self,
        *,
        entity_type: str = ...,
        entity_name: str | None = ...,
    ) -> None: ...

class AlterClientQuotasResult(Row):
    error_code: int
    error_message: str | None
    entity: Many[AlterClientQuotasResultEntity, Sequence[AlterClientQuotasResultEntity]]
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        entity: Rows[AlterClientQuotasResultEntity] = ...,
    ) -> None: ...

class AlterClientQuotasResponse(Row):
    throttle_time_ms: int
    entries: Many[AlterClientQuotasResult, Sequence[AlterClientQuotasResult]]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        entries: Rows[AlterClientQuotasResult] = ...,
    ) -> None: ...

class AlterClientQuotasOp(Row):
    key: str
    value: float
    remove: bool
    def __init__(
        self,
        *,
        key: str = ...,
        value: float = ...,
        remove: bool = ...,
    ) -> None: ...

class AlterClientQuotasEntity(Row):
    entity_type: str
    entity_name: str | None
    def __init__(
        self,
        *,
        entity_type: str = ...,
        entity_name: str | None = ...,
    ) -> None: ...

class AlterClientQuotasEntry(Row):
    entity: Many[AlterClientQuotasEntity, Sequence[AlterClientQuotasEntity]]
    ops: Many[AlterClientQuotasOp, Sequence[AlterClientQuotasOp]]
    def __init__(
        self,
        *,
        entity: Rows[AlterClientQuotasEntity] = ...,
        ops: Rows[AlterClientQuotasOp] = ...,
    ) -> None: ...

class AlterClientQuotasRequest(Row):
    entries: Many[AlterClientQuotasEntry, Sequence[AlterClientQuotasEntry]]
    validate_only: bool
    def __init__(
        self,
        *,
        entries: Rows[AlterClientQuotasEntry] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class DescribeClientQuotasValue(Row):
    key: str
    value: float
    def __init__(
        self,
        *,
        key: str = ...,
        value: float = ...,
    ) -> None: ...

class DescribeClientQuotasEntity(Row):
    entity_type: str
    entity_name: str | None
    def __init__(
        self,
        *,
        entity_type: str = ...,
        entity_name: str | None = ...,
    ) -> None: ...

class DescribeClientQuotasEntry(Row):
    entity: Many[DescribeClientQuotasEntity, Sequence[DescribeClientQuotasEntity]]
    values: Many[DescribeClientQuotasValue, Sequence[DescribeClientQuotasValue]]
    def __init__(
        self,
        *,
        entity: Rows[DescribeClientQuotasEntity] = ...,
        values: Rows[DescribeClientQuotasValue] = ...,
    ) -> None: ...

class DescribeClientQuotasResponse(Row):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: Many[DescribeClientQuotasEntry, Sequence[DescribeClientQuotasEntry] | None]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        entries: Rows[DescribeClientQuotasEntry] | None = ...,
    ) -> None: ...

class DescribeClientQuotasComponent(Row):
    entity_type: str
    match_type: int
    match: str | None
    def __init__(
        self,
        *,
        entity_type: str = ...,
        match_type: int = ...,
        match: str | None = ...,
    ) -> None: ...

class DescribeClientQuotasRequest(Row):
    components: Many[DescribeClientQuotasComponent, Sequence[DescribeClientQuotasComponent]]
    strict: bool
    def __init__(
        self,
        *,
        components: Rows[DescribeClientQuotasComponent] = ...,
        strict: bool = ...,
    ) -> None: ...

DESCRIBE_CLIENT_QUOTAS: Api[DescribeClientQuotasRequest, DescribeClientQuotasResponse]
ALTER_CLIENT_QUOTAS: Api[AlterClientQuotasRequest, AlterClientQuotasResponse]
