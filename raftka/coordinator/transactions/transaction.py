"""The rules of one transactional id: from its state and a command to the next state, or a refusal.
Knows no other id, no log and no time but the wall clock's, which stamps records.

The states that may follow each other are in FOLLOWS. A client sees epochs up to LAST_EPOCH; one
more fences it, and then the id goes on with another producer id. The epoch of a request is looked
at before everything else: else a client hears a fatal error where it was fenced. Between the
decision and the last marker the producer may have three pairs: the one that it ended the
transaction with, the stored one, and the one that it was answered. A request with any of these
waits for the markers; a request with another pair is refused at once.
"""

from dataclasses import replace

from raftka.coordinator.machine import Steps, Topics
from raftka.coordinator.transactions.commands import (
    VERSION_1,
    VERSION_2,
    AddPartitions,
    EndTransaction,
    InitProducer,
    Producer,
    VerifyPartitions,
)
from raftka.coordinator.transactions.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NONE,
    Growing,
    State,
    Transaction,
)
from raftka.limits import PARTITIONS_OF_TRANSACTION, TRANSACTION_BYTES
from raftka.wire.errors import Code, KafkaError, check_limit
from raftka.wire.rows import ZERO_UUID

LAST_EPOCH = 32_766
FENCING_EPOCH = 32_767  # no client sees it

OVER = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
ENDING = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
COMPLETE = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}
# by commit
OF_END = {
    True: (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
    False: (State.PREPARE_ABORT, State.COMPLETE_ABORT),
}
FOLLOWS = {  # each state with those that may come before it
    State.EMPTY: OVER,
    State.ONGOING: OVER | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset((State.ONGOING,)),
    State.PREPARE_ABORT: OVER | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset((State.PREPARE_COMMIT,)),
    # the latter: epochs have run out
    State.COMPLETE_ABORT: frozenset((State.PREPARE_ABORT, State.COMPLETE_ABORT)),
}


class MarkersOutstanding(KafkaError):
    """The last transaction's markers are on their way: the command may be decided when they are
    written.
    """

    def __init__(self) -> None:
        super().__init__(Code.CONCURRENT_TRANSACTIONS)


class NothingToCommit(KafkaError):
    """A commit of version 2 by the current producer, which has not begun a transaction, as far as
    the coordinator knows: the commit may have overtaken the transaction's batches.
    """

    def __init__(self) -> None:
        super().__init__(Code.INVALID_TXN_STATE)


def pair_of(its: Transaction) -> Producer:
    return Producer(its.producer_id, its.epoch)


def _last_pair(its: Transaction) -> Producer | None:
    """That the client knows if it has not heard of the current one."""
    if its.last_epoch == NO_EPOCH:
        return None
    is_new = its.epoch == 0 and its.previous_producer_id != NO_PRODUCER_ID
    return Producer(its.previous_producer_id if is_new else its.producer_id, its.last_epoch)


# InitProducerId


def new_producer(command: InitProducer, now_ms: int) -> Transaction:
    """Of an id that is not known. The pair that the client may have brought is of another time."""
    return Transaction(command.fresh_id, 0, command.timeout_ms, update_ms=now_ms)


def check_pair(its: Transaction, command: InitProducer) -> None:
    """Raises PRODUCER_FENCED. In an open transaction the client knows the current pair; else the
    answer may have been lost.
    """
    if command.producer_id != NO_PRODUCER_ID:
        given = Producer(command.producer_id, command.epoch)
        if given != pair_of(its) and (
            its.state is State.ONGOING or given not in (_last_pair(its), successor(its))
        ):
            raise KafkaError(Code.PRODUCER_FENCED)


def next_producer(its: Transaction, command: InitProducer, now_ms: int) -> Transaction:
    """The id with the pair that InitProducerId answers, when its last transaction is over. Raises
    PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    check_pair(its, command)
    if its.state in ENDING:
        raise MarkersOutstanding
    after = replace(
        its,
        timeout_ms=command.timeout_ms,
        state=State.EMPTY,
        partitions=NONE,
        start_ms=-1,
        update_ms=now_ms,
        version=VERSION_1,
    )
    has_pair = command.producer_id != NO_PRODUCER_ID
    is_current = not has_pair or (command.producer_id, command.epoch) == pair_of(its)
    if its.epoch > LAST_EPOCH or (its.epoch == LAST_EPOCH and is_current):
        return _rotated(after, command.fresh_id, command.epoch if has_pair else NO_EPOCH)
    if not is_current:
        return after  # the client asks again
    return replace(after, epoch=its.epoch + 1, last_epoch=its.epoch if has_pair else NO_EPOCH)


def _rotated(its: Transaction, fresh_id: int, last_epoch: int) -> Transaction:
    """With another producer id, because the epochs have run out."""
    return replace(
        its,
        producer_id=fresh_id,
        previous_producer_id=its.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch=0,
        last_epoch=last_epoch,
    )


def fenced(its: Transaction, now_ms: int) -> Transaction:
    """An open transaction that the coordinator aborts: its time is over, or another producer
    begins. The client of the old epoch is fenced.
    """
    epoch = min(its.epoch + 1, FENCING_EPOCH)
    return replace(
        its,
        epoch=epoch,
        last_epoch=its.epoch,
        state=State.PREPARE_ABORT,
        update_ms=now_ms,
        version=VERSION_2,
    )


# partitions


def _check_producer(
    its: Transaction | None, command: AddPartitions | VerifyPartitions | EndTransaction
) -> Transaction:
    """Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED; CONCURRENT_TRANSACTIONS while markers of
    its last transaction are on their way.
    """
    if (
        its is not None
        and its.state in ENDING
        and Producer(command.producer_id, command.epoch) == successor(its)
    ):
        raise MarkersOutstanding
    if its is None or command.producer_id != its.producer_id:
        raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING)
    if command.epoch != its.epoch or its.epoch > LAST_EPOCH:
        raise KafkaError(Code.PRODUCER_FENCED)
    return its


def with_partitions(
    its: Transaction | None, command: AddPartitions, topics: Topics, now_ms: int
) -> Steps[Transaction | None]:
    """The open transaction with these partitions too; None: it has them all. Without partitions a
    transaction begins all the same, as Kafka's does.

    Raises what `_check_producer` does, LimitRefused.
    """
    its = _check_producer(its, command)
    is_open = its.state is State.ONGOING
    partitions = its.partitions if is_open else NONE
    topic_ids: dict[str, bytes] = {}
    added: dict[str, set[int]] = {}
    for partition in command.partitions:
        yield
        name, index = partition
        if name not in topic_ids:
            topic_ids[name] = topics.topic_id(name) or ZERO_UUID
        if partition not in partitions or partitions.topics[name].topic_id != topic_ids[name]:
            added.setdefault(name, set()).add(index)
    if is_open and not added:
        return None
    growing = Growing(partitions)
    for name, indexes in added.items():
        yield
        growing.add(name, topic_ids[name], indexes)
    after = growing.partitions()
    check_limit(PARTITIONS_OF_TRANSACTION, after.count)
    check_limit(TRANSACTION_BYTES, after.size_bytes)
    start_ms = its.start_ms if is_open else now_ms
    return replace(
        its,
        state=State.ONGOING,
        partitions=after,
        start_ms=start_ms,
        update_ms=now_ms,
        version=command.version,
    )


def missing(
    its: Transaction | None, command: VerifyPartitions
) -> Steps[frozenset[tuple[str, int]]]:
    """Those that are not in the transaction. Raises as `with_partitions`."""
    its = _check_producer(its, command)
    lacks = set()
    for each in command.partitions:
        yield
        if each not in its.partitions:
            lacks.add(each)
    return frozenset(lacks)


# EndTxn


def ended(its: Transaction | None, command: EndTransaction, now_ms: int) -> Transaction | None:
    """The transaction that is about to end; None: it has ended so, and the client asks again.
    Raises KafkaError.
    """
    return (
        _ended_raising(its, command, now_ms)
        if command.version == VERSION_2
        else _ended(_check_producer(its, command), command, now_ms)
    )


def _ended(its: Transaction, command: EndTransaction, now_ms: int) -> Transaction | None:
    """Of a client that keeps its epoch: it cannot tell its transactions from each other."""
    prepare, complete = OF_END[command.commit]
    if its.state is State.ONGOING:
        return replace(its, state=prepare, update_ms=now_ms, version=VERSION_1)
    if its.state is complete:
        return None
    raise KafkaError(Code.INVALID_TXN_STATE)


def _ended_raising(
    its: Transaction | None, command: EndTransaction, now_ms: int
) -> Transaction | None:
    """Each end raises the epoch, so a request that is sent again is known by the epoch before."""
    given = Producer(command.producer_id, command.epoch)
    if its is None:
        raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING)
    # else the producer of the epoch before was fenced, and did not end the transaction
    has_raised = its.version == VERSION_2
    is_again = has_raised and given == (its.producer_id, its.epoch - 1)
    if its.state in ENDING and (is_again or given in (pair_of(its), successor(its))):
        raise MarkersOutstanding
    is_old = given == (its.previous_producer_id, LAST_EPOCH) and its.epoch == 0
    if given.producer_id != its.producer_id and not is_old:
        raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING)
    is_again = is_again or is_old
    is_current = given == pair_of(its) and its.epoch <= LAST_EPOCH
    if its.state in ENDING or not (is_current or (is_again and its.state in COMPLETE_STATES)):
        raise KafkaError(Code.PRODUCER_FENCED)
    prepare, complete = OF_END[command.commit]
    if is_again:
        if its.state is not complete:
            raise KafkaError(Code.INVALID_TXN_STATE)
        # timed out at the last epoch: its successor is no client's to see
        return (
            _rotated(replace(its, update_ms=now_ms), command.fresh_id, its.last_epoch)
            if its.epoch > LAST_EPOCH
            else None
        )
    if command.commit and its.state is not State.ONGOING:
        raise NothingToCommit
    next_id = command.fresh_id if its.epoch == LAST_EPOCH else NO_PRODUCER_ID
    partitions = its.partitions if its.state is State.ONGOING else NONE
    return replace(
        its,
        state=prepare,
        epoch=its.epoch + 1,
        last_epoch=its.epoch,
        next_producer_id=next_id,
        partitions=partitions,
        update_ms=now_ms,
        version=VERSION_2,
    )


COMPLETE_STATES = frozenset(COMPLETE.values())


def successor(its: Transaction) -> Producer:
    """The pair that the client goes on with once the transaction is complete."""
    return (
        Producer(its.next_producer_id, 0)
        if its.next_producer_id != NO_PRODUCER_ID
        else pair_of(its)
    )


def completed(its: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    after = replace(its, state=COMPLETE[its.state], partitions=NONE, update_ms=now_ms)
    return (
        _rotated(after, its.next_producer_id, its.last_epoch)
        if its.next_producer_id != NO_PRODUCER_ID
        else after
    )
