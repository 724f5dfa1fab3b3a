"""InitializeShareGroupState: v0; ReadShareGroupState: v0; WriteShareGroupState: v0-1;
DeleteShareGroupState: v0; ReadShareGroupStateSummary: v0-1. Brokers ask them of the share
coordinators on this broker; the partitions of a request are decided one by one.
"""

from collections.abc import Callable

from raftka.broker.coordinators.runtime import Gathered
from raftka.broker.handlers.coordinator_request import UNAVAILABLE, CoordinatorRequest
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import CLUSTER, REFUSED, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps, counted_as
from raftka.coordinator.share_state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    SummarizeState,
    WriteState,
)
from raftka.share.state import SharePartitionKey, ShareState, ShareSummary, StateBatch
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_state import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
    DeletePartitionData,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializePartitionData,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    ReadPartitionData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    SummaryPartitionData,
    WritePartitionData,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from raftka.wire.schema import Api, Req, Resp, Row

Asked = (
    InitializeShareGroupStateRequest
    | ReadShareGroupStateRequest
    | WriteShareGroupStateRequest
    | DeleteShareGroupStateRequest
    | ReadShareGroupStateSummaryRequest
)
AskedPartition = (
    InitializePartitionData
    | ReadPartitionData
    | WritePartitionData
    | DeletePartitionData
    | SummaryPartitionData
)
Command = InitializeState | ReadState | WriteState | DeleteState | SummarizeState
Answer = ShareState | ShareSummary | KafkaError | None
STEPS_OF_COMMAND = 4  # its decision, its record and the replay of that

# Kafka's words for errors of the coordinator as a whole, behind what could not be done
OPERATIONS = {
    INITIALIZE_SHARE_GROUP_STATE.key: "initialize share group state",
    READ_SHARE_GROUP_STATE.key: "read share group state",
    WRITE_SHARE_GROUP_STATE.key: "write share group state",
    DELETE_SHARE_GROUP_STATE.key: "delete share group state",
    READ_SHARE_GROUP_STATE_SUMMARY.key: "read share group state summary",
}


def _refusal(api: Api[Req, Resp]) -> Callable[[Request[Asked], Code], Steps[Resp]]:
    """Return the function that makes the answer of a request which failed as a whole."""

    def refused(request: Request[Asked], code: Code) -> Steps[Resp]:
        text = REFUSED[CLUSTER] if code is Code.CLUSTER_AUTHORIZATION_FAILED else None
        answers: list[Answer] = [KafkaError(code, text)] * _partitions(request)
        return api.response(results=(yield from _rows(request, answers)))

    return refused


@handles(INITIALIZE_SHARE_GROUP_STATE, refused=_refusal(INITIALIZE_SHARE_GROUP_STATE))
def initialize_share_group_state(
    request: Request[InitializeShareGroupStateRequest], coordinators: CoordinatorParts
) -> Steps[InitializeShareGroupStateResponse | Delayed]:
    return (yield from _ask(INITIALIZE_SHARE_GROUP_STATE, request, coordinators))


@handles(READ_SHARE_GROUP_STATE, refused=_refusal(READ_SHARE_GROUP_STATE))
def read_share_group_state(
    request: Request[ReadShareGroupStateRequest], coordinators: CoordinatorParts
) -> Steps[ReadShareGroupStateResponse | Delayed]:
    return (yield from _ask(READ_SHARE_GROUP_STATE, request, coordinators))


@handles(WRITE_SHARE_GROUP_STATE, refused=_refusal(WRITE_SHARE_GROUP_STATE))
def write_share_group_state(
    request: Request[WriteShareGroupStateRequest], coordinators: CoordinatorParts
) -> Steps[WriteShareGroupStateResponse | Delayed]:
    return (yield from _ask(WRITE_SHARE_GROUP_STATE, request, coordinators))


@handles(DELETE_SHARE_GROUP_STATE, refused=_refusal(DELETE_SHARE_GROUP_STATE))
def delete_share_group_state(
    request: Request[DeleteShareGroupStateRequest], coordinators: CoordinatorParts
) -> Steps[DeleteShareGroupStateResponse | Delayed]:
    return (yield from _ask(DELETE_SHARE_GROUP_STATE, request, coordinators))


@handles(READ_SHARE_GROUP_STATE_SUMMARY, refused=_refusal(READ_SHARE_GROUP_STATE_SUMMARY))
def read_share_group_state_summary(
    request: Request[ReadShareGroupStateSummaryRequest], coordinators: CoordinatorParts
) -> Steps[ReadShareGroupStateSummaryResponse | Delayed]:
    return (yield from _ask(READ_SHARE_GROUP_STATE_SUMMARY, request, coordinators))


def _ask(
    api: Api[Req, Resp], request: Request[Asked], coordinators: CoordinatorParts
) -> Steps[Resp | Delayed]:
    """Ask the coordinator of each partition, and return the answer with a row for each."""

    def response(request: Request[Asked], answers: list[Answer]) -> Steps[Resp]:
        return api.response(results=(yield from _rows(request, answers)))

    if not request.may("CLUSTER_ACTION", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    body = request.body
    if not body.group_id:
        return api.response()
    asking: CoordinatorRequest[Asked, Resp]
    asking = CoordinatorRequest(request, request.dispatcher.long_work, response)
    request.stays = True
    gathered = Gathered(_partitions(request), asking)
    place = 0
    for topic in body.topics:
        for partition in topic.partitions:
            ticket = gathered.place(place)
            place += 1
            key = SharePartitionKey(body.group_id, topic.topic_id, partition.partition)
            command = yield from _command(key, partition)
            try:
                coordinators.share_states.submit(key, command, ticket)
            except KafkaError as error:
                ticket(error.with_traceback(None))
            yield from counted_as(STEPS_OF_COMMAND)
        yield
    return asking.result()


def _partitions(request: Request[Asked]) -> int:
    return sum([len(topic.partitions) for topic in request.body.topics])


def _command(key: SharePartitionKey, asked: AskedPartition) -> Steps[Command]:
    if isinstance(asked, WritePartitionData):
        yield from counted_as(len(asked.state_batches))
        return WriteState(
            key,
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            tuple(
                [
                    StateBatch(
                        each.first_offset,
                        each.last_offset,
                        each.delivery_state,
                        each.delivery_count,
                    )
                    for each in asked.state_batches
                ]
            ),
        )
    if isinstance(asked, InitializePartitionData):
        return InitializeState(key, asked.state_epoch, asked.start_offset)
    if isinstance(asked, ReadPartitionData):
        return ReadState(key, asked.leader_epoch)
    return DeleteState(key) if isinstance(asked, DeletePartitionData) else SummarizeState(key)


def _rows(request: Request[Asked], answers: list[Answer]) -> Steps[EncodedRows[Row]]:
    """Return the results by topic; `answers` are in the order of the partitions of the request."""
    of_topic = request.api.response.results
    rows: EncodedRows[Row] = request.encoded_rows(of_topic)
    place = 0
    for topic in request.body.topics:
        partitions = request.encoded_rows(of_topic.partitions)
        for partition in topic.partitions:
            fields = yield from _fields(answers[place], request.api.key)
            place += 1
            partitions.add(of_topic.partitions(partition=partition.partition, **fields))
            yield
        if topic.partitions:
            rows.add(of_topic(topic_id=topic.topic_id, partitions=partitions))
        yield
    return rows


def _fields(answer: Answer, key: int) -> Steps[dict[str, object]]:
    """Return the fields of a partition's row."""
    if isinstance(answer, KafkaError):
        text = answer.message
        if answer.code in UNAVAILABLE:
            text = f"Unable to {OPERATIONS[key]}: {UNAVAILABLE[answer.code]}"
        return {"error_code": int(answer.code), "error_message": text}
    if isinstance(answer, ShareSummary):
        return {
            "state_epoch": answer.state_epoch,
            "leader_epoch": answer.leader_epoch,
            "start_offset": answer.start,
            "delivery_complete_count": answer.complete_count,
        }
    if answer is None:
        return {}
    row = READ_SHARE_GROUP_STATE.response.results.partitions.state_batches
    batches = []
    for first, last, state, count in answer.batches:
        batches.append(
            row(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        )
        yield
    return {
        "state_epoch": answer.state_epoch,
        "start_offset": answer.start,
        "state_batches": batches,
    }
