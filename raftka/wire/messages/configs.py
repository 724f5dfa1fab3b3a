"""DescribeConfigs (32)."""

from raftka.wire.schema import api

DESCRIBE_CONFIGS = api(
    "DescribeConfigs",
    32,
    versions="1-4",
    flexible="4+",
    request="""
    resources []
        resource_type           int8        # 2 topic, 4 broker
        resource_name           string
        configuration_keys      string[]?   # null: all
    include_synonyms            bool
    include_documentation       bool        3+ !
""",
    response="""
    throttle_time_ms            int32
    results []
        error_code              int16
        error_message           string?
        resource_type           int8
        resource_name           string
        configs []
            name                string
            value               string?
            read_only           bool
            config_source       int8=-1
            is_sensitive        bool
            synonyms []
                name            string
                value           string?
                source          int8
            config_type         int8        3+
            documentation       string?     3+
""",
)
