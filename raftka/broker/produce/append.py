"""Append clients' batches. Every way of a Produce appends here: batches one by one, or batches of
one size by columns.
"""

from collections.abc import Callable, Iterable, Sequence

from raftka.broker.replica.partition import Partition
from raftka.log.validation import Prepared
from raftka.wire.errors import Code, KafkaError

# Base offset, next offset, log append time or -1, True if the log has had the batch before.
Appended = tuple[int, int, int, bool]


# one function, because it is the hot path: the checks of a batch are the log's
def append_batches(
    partition: Partition,
    batches: Iterable[memoryview | Prepared],
    acks: int,
    now_ms: int,
    connection: object,
) -> list[Appended]:
    """Append a client's batches as leader, in order. Raises KafkaError with the code of the answer
    if the first batch is refused.

    It stops before the first later batch that is refused, or that is a duplicate: the answer to
    that one waits for its own batch alone. A first batch that needs more work than a turn has time
    for, or a comparison with schemas, raises TakesLong or NeedsSchemas: the caller then makes a
    Prepared of it.
    """
    leader = partition.leader or partition.leading()
    if acks == -1 and leader.under_min_isr:
        raise KafkaError(Code.NOT_ENOUGH_REPLICAS)
    log, epoch, end = partition.log, leader.leader_epoch, -1
    client_batches = log.client_batches
    appended: list[Appended] = []
    for batch in batches:
        try:
            if batch.__class__ is Prepared:
                result = client_batches.append_prepared(batch, epoch, now_ms)
            else:
                result = client_batches.append(batch, epoch, now_ms)  # type: ignore[arg-type]
        except KafkaError:
            if appended:
                break
            if log.failed is not None:  # the log failed when it began a segment
                partition.manager.failures.log_failed(partition, log.failed)
            raise
        if not result[3]:
            end = result[1]
            appended.append(result)
        else:
            if not appended:
                appended.append(result)
            break
    partition.appended(len(appended), end, connection)
    return appended


def append_uniform_batches(
    partition: Partition,
    start: bytes,
    headers: Sequence[bytes],
    crcs: tuple[int, ...],
    bodies: Sequence[bytes],
    pack: Callable[..., bytes],
    now_ms: int,
    connection: object,
) -> list[int] | None:
    """Append batches of one size as leader, all or none, and return their base offsets; the
    arguments are those of `ClientBatches.append_uniform`. None: nothing was done.
    """
    leader = partition.leader or partition.leading()
    bases = partition.log.client_batches.append_uniform(
        start, headers, crcs, bodies, pack, leader.leader_epoch, now_ms
    )
    if bases is not None:
        partition.appended(len(bases), partition.log.end_offset, connection)
    return bases
