"""Backup (30000-30004): the part of a node in `raftka backup create`, as raftka/backup/cut.py asks
for it. Each of them needs ALTER on the cluster.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.parts import CoordinatorParts, ReplicaParts
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import OWN_HANDLERS, handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.transactions.commands import ListTransactions
from raftka.coordinator.transactions.records import State
from raftka.limits import BACKUP_HOLD_MS, BACKUP_READ_BYTES
from raftka.metadata.commands import DescribeQuorum, QuorumState
from raftka.runtime.interfaces import Runtime
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.backup import (
    BACKUP_CUT,
    BACKUP_DROP,
    BACKUP_HOLD,
    BACKUP_METADATA,
    BACKUP_READ,
    BackupCutPartition,
    BackupCutPartitionResult,
    BackupCutRequest,
    BackupCutResponse,
    BackupDropRequest,
    BackupDropResponse,
    BackupHoldRequest,
    BackupHoldResponse,
    BackupMetadataRequest,
    BackupMetadataResponse,
    BackupReadRequest,
    BackupReadResponse,
)
from raftka.wire.schema import Row

T = TypeVar("T")
Body = TypeVar("Body", bound=Row)
COMMITTING = ListTransactions(frozenset({State.PREPARE_COMMIT}))
topic_row = BACKUP_CUT.response.topics
partition_row = topic_row.partitions


def _check(request: Request[Body]) -> None:
    if not request.may("ALTER", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED, REFUSED[CLUSTER])


@handles(BACKUP_HOLD, table=OWN_HANDLERS)
async def backup_hold(
    request: Request[BackupHoldRequest], coordinators: CoordinatorParts, replicas: ReplicaParts
) -> BackupHoldResponse:
    """Hold the commits of transactions. A hold that has ended is not renewed unnoticed: `held`
    tells it.
    """
    body, response = request.body, BACKUP_HOLD.response
    try:
        _check(request)
        replicas.housekeeping.backup.use(body.backup_id)
        if body.hold_ms > BACKUP_HOLD_MS.value:
            request.dispatcher.context.metrics.hit(BACKUP_HOLD_MS)
        hold_ms = max(0, min(body.hold_ms, BACKUP_HOLD_MS.value))
        held = coordinators.transactions.hold_commits(hold_ms / 1000)
        pending = await _pending(request, coordinators) if hold_ms else 0
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    return response(error_message=None, held=held, pending=pending)


async def _pending(request: Request[BackupHoldRequest], coordinators: CoordinatorParts) -> int:
    """Count the commits that are decided and not complete, when all that was decided before is
    committed. Raises KafkaError.
    """
    answered: Awaited[list[tuple[object, ...]] | KafkaError] = Awaited()
    runtime = coordinators.transactions.runtime
    await request.finish(runtime.submit_to_all(COMMITTING, answered.done))
    answers = await answered.value()
    if isinstance(answers, KafkaError):
        raise answers
    return sum(map(len, answers))


@handles(BACKUP_CUT, table=OWN_HANDLERS)
def backup_cut(
    request: Request[BackupCutRequest], replicas: ReplicaParts
) -> Steps[BackupCutResponse]:
    response = BACKUP_CUT.response
    try:
        _check(request)
        replicas.housekeeping.backup.use(request.body.backup_id)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    topics = []
    for topic in request.body.topics:
        rows = []
        for asked in topic.partitions:
            rows.append((yield from _cut(replicas, topic.name, asked)))
            yield
        topics.append(topic_row(name=topic.name, partitions=rows))
    return response(error_message=None, topics=topics)


def _cut(
    replicas: ReplicaParts, topic: str, asked: BackupCutPartition
) -> Steps[BackupCutPartitionResult]:
    row = partition_row(index=asked.index, at_least=asked.at_least)
    partition = replicas.manager.partitions.get((topic, asked.index))
    try:
        if partition is None:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
        leader = partition.leading()
        row.at_least = max(asked.at_least, -1)
        if asked.at_least < 0:
            row.at_least = partition.log.end_offset
        row.end_offset, found = yield from replicas.housekeeping.backup.cut(partition, row.at_least)
    except KafkaError as error:
        row.error_code = int(error.code)
        return row
    row.leader_epoch, row.start_offset = leader.leader_epoch, partition.log.start_offset
    row.segments = [
        partition_row.segments(base_offset=each.base_offset, size=each.size, path=each.path)
        for each in found
    ]
    return row


class Awaited(Generic[T]):
    """The value that work calls back with, later."""

    def __init__(self) -> None:
        self._came = trio.Event()
        self._found: list[T] = []

    def done(self, value: T) -> None:
        self._found.append(value)
        self._came.set()

    async def value(self) -> T:
        await self._came.wait()
        return self._found[0]


async def _offloaded(runtime: Runtime, work: Callable[[], T]) -> T:
    """Do the work in a thread. Raises its error."""
    ended: Awaited[T | BaseException] = Awaited()
    runtime.offload.run(work, ended.done)
    result = await ended.value()
    if isinstance(result, BaseException):
        raise result
    return result


@handles(BACKUP_METADATA, table=OWN_HANDLERS)
async def backup_metadata(
    request: Request[BackupMetadataRequest], metadata: MetadataCache, controller: ControllerClient
) -> BackupMetadataResponse:
    """Return the metadata with all that was committed when the request came."""
    response = BACKUP_METADATA.response
    try:
        _check(request)
        state: QuorumState = await controller.ask(DescribeQuorum())
        image = metadata.image
        if image.offset + 1 < state.high_watermark:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE, "this broker is behind the controller")
        data = await _offloaded(request.dispatcher.context.runtime, image.to_snapshot)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    return response(error_message=None, image=data)


@handles(BACKUP_READ, table=OWN_HANDLERS)
async def backup_read(
    request: Request[BackupReadRequest], replicas: ReplicaParts
) -> BackupReadResponse:
    body, response = request.body, BACKUP_READ.response
    try:
        _check(request)
        replicas.housekeeping.backup.use(body.backup_id)
        left = replicas.housekeeping.backup.check_path(body.path) - body.position
        if body.position < 0:
            raise KafkaError(Code.INVALID_REQUEST, "a negative position")
        if body.max_bytes > BACKUP_READ_BYTES.value:
            request.dispatcher.context.metrics.hit(BACKUP_READ_BYTES)
        size = max(0, min(left, body.max_bytes, BACKUP_READ_BYTES.value))
        data = await _offloaded(
            request.dispatcher.context.runtime,
            lambda: replicas.housekeeping.backup.read(body.path, body.position, size),
        )
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    except OSError as error:
        return response(error_code=int(Code.KAFKA_STORAGE_ERROR), error_message=str(error))
    return response(error_message=None, data=data)


@handles(BACKUP_DROP, table=OWN_HANDLERS)
def backup_drop(request: Request[BackupDropRequest], replicas: ReplicaParts) -> BackupDropResponse:
    response = BACKUP_DROP.response
    try:
        _check(request)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    replicas.housekeeping.backup.drop(request.body.backup_id)
    return response(error_message=None)
