"""FindCoordinator (10): which broker looks after a group or a transactional id; many keys at once
from version 4 on (KIP-699).
"""

from raftka.wire.schema import api, row_classes

FIND_COORDINATOR = api(
    "FindCoordinator",
    10,
    versions="0-6",
    flexible="3+",
    request="""
    key                         string      0-3
    key_type                    int8        1+ !    # 0 group, 1 transactional id, 2 share partition
    coordinator_keys            string[]    4+ !
""",
    response="""
    throttle_time_ms            int32       1+
    error_code                  int16       0-3
    error_message               string?     1-3
    node_id                     int32       0-3
    host                        string      0-3
    port                        int32       0-3
    coordinators Coordinator[]              4+
        key                     string
        node_id                 int32
        host                    string
        port                    int32
        error_code              int16
        error_message           string?
""",
)

__getattr__ = row_classes(FIND_COORDINATOR)
