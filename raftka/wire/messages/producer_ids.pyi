"""Written by `./run stubs`, not by hand."""

from raftka.wire.schema import Api, Row

class InitProducerIdResponse(Row):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
    ) -> None: ...

class InitProducerIdRequest(Row):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        transaction_timeout_ms: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
    ) -> None: ...

INIT_PRODUCER_ID: Api[InitProducerIdRequest, InitProducerIdResponse]
