"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44), ListConfigResources
(74).
"""

from raftka.wire.schema import api, row_classes

DESCRIBE_CONFIGS = api(
    "DescribeConfigs",
    32,
    versions="1-4",
    flexible="4+",
    request="""
    resources DescribeConfigsResource[]
        resource_type           int8        # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
        resource_name           string
        configuration_keys      string[]?   # null: all
    include_synonyms            bool
    include_documentation       bool        3+ !
""",
    response="""
    throttle_time_ms            int32
    results DescribeConfigsResult[]
        error_code              int16
        error_message           string?
        resource_type           int8
        resource_name           string
        configs DescribeConfigsResourceResult[]
            name                string
            value               string?
            read_only           bool
            config_source       int8=-1
            is_sensitive        bool
            synonyms DescribeConfigsSynonym[]
                name            string
                value           string?
                source          int8
            config_type         int8        3+
            documentation       string?     3+
""",
)

_ALTERED = """
    throttle_time_ms            int32
    responses ROW[]
        error_code              int16
        error_message           string?
        resource_type           int8
        resource_name           string
"""

ALTER_CONFIGS = api(
    "AlterConfigs",
    33,
    versions="0-2",
    flexible="2+",
    request="""
    resources AlterConfigsResource[]
        resource_type           int8
        resource_name           string
        configs AlterableConfig[]           # all of them: what is not here goes back to its default
            name                string
            value               string?
    validate_only               bool
""",
    response=_ALTERED.replace("ROW", "AlterConfigsResourceResponse"),
)

INCREMENTAL_ALTER_CONFIGS = api(
    "IncrementalAlterConfigs",
    44,
    versions="0-1",
    flexible="1+",
    request="""
    resources IncrementalAlterConfigsResource[]
        resource_type           int8
        resource_name           string
        configs IncrementalAlterableConfig[]
            name                string
            config_operation    int8        # 0 set, 1 delete, 2 append, 3 subtract
            value               string?
    validate_only               bool
""",
    response=_ALTERED.replace("ROW", "IncrementalAlterConfigsResourceResponse"),
)

LIST_CONFIG_RESOURCES = api(
    "ListConfigResources",
    74,
    versions="0-1",
    flexible="0+",
    request="""
    resource_types              int8[]      1+ !    # none: all
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    config_resources ConfigResource[]
        resource_name           string
        resource_type           int8=16     1+
""",
)

__getattr__ = row_classes(
    DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES
)
