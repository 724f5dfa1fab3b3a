"""DescribeClientQuotas (48) and AlterClientQuotas (49) (KIP-546)."""

from raftka.wire.schema import api, row_classes

DESCRIBE_CLIENT_QUOTAS = api(
    "DescribeClientQuotas",
    48,
    versions="0-1",
    flexible="1+",
    request="""
    components DescribeClientQuotasComponent[]
        entity_type             string
        match_type              int8        # 0 exact name, 1 the default, 2 any name or the default
        match                   string?
    strict                      bool
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    error_message               string?
    entries DescribeClientQuotasEntry[]?
        entity DescribeClientQuotasEntity[]
            entity_type         string
            entity_name         string?
        values DescribeClientQuotasValue[]
            key                 string
            value               float64
""",
)

ALTER_CLIENT_QUOTAS = api(
    "AlterClientQuotas",
    49,
    versions="0-1",
    flexible="1+",
    request="""
    entries AlterClientQuotasEntry[]
        entity AlterClientQuotasEntity[]
            entity_type         string
            entity_name         string?     # null: the default
        ops AlterClientQuotasOp[]
            key                 string
            value               float64
            remove              bool
    validate_only               bool
""",
    response="""
    throttle_time_ms            int32
    entries AlterClientQuotasResult[]
        error_code              int16
        error_message           string?
        entity AlterClientQuotasResultEntity[]
            entity_type         string
            entity_name         string?
""",
)

__getattr__ = row_classes(DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS)
