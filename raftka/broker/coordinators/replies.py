"""The errors of a coordinator's replies when its append was refused. Knows no coordinator."""

from collections.abc import Callable

from raftka.wire.errors import Code, KafkaError

# the error of an append, and the error that a coordinator answers for it (Kafka's table)
SHOWN_AS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Code.COORDINATOR_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT: Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_COORDINATOR,
    Code.KAFKA_STORAGE_ERROR: Code.NOT_COORDINATOR,
    Code.INVALID_PRODUCER_EPOCH: Code.INVALID_PRODUCER_EPOCH,
    Code.INVALID_TXN_STATE: Code.INVALID_TXN_STATE,
}

# the error of a coordinator's reply, and the error that the answer to WriteTxnMarkers has for it
AS_MARKER = {
    Code.NOT_COORDINATOR: Code.NOT_LEADER_OR_FOLLOWER,
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


def shown_as(code: Code) -> KafkaError:
    return KafkaError(SHOWN_AS.get(code, Code.UNKNOWN_SERVER_ERROR))


class MarkerTicket:
    """Stands for a transaction coordinator that waits for its marker."""

    __slots__ = ("done",)

    def __init__(self, done: Callable[[Code], None]) -> None:
        self.done = done

    def __call__(self, answer: Code | KafkaError) -> None:
        code = answer.code if isinstance(answer, KafkaError) else answer
        self.done(AS_MARKER.get(code, code))
