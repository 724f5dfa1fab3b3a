"""InitProducerId (22): identity and epoch of an idempotent or transactional producer. Version 6
(KIP-939) is not stable in 4.3.
"""

from raftka.wire.schema import api, row_classes

INIT_PRODUCER_ID = api(
    "InitProducerId",
    22,
    versions="0-5",
    flexible="2+",
    request="""
    transactional_id            string?
    transaction_timeout_ms      int32
    producer_id                 int64=-1    3+ !
    producer_epoch              int16=-1    3+ !
""",
    response="""
    throttle_time_ms            int32
    error_code                  int16
    producer_id                 int64=-1
    producer_epoch              int16
""",
)

__getattr__ = row_classes(INIT_PRODUCER_ID)
