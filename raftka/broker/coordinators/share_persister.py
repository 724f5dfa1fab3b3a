"""The client of share coordinators: the group coordinator initialises and deletes the states of
share partitions with it, and the leaders of partitions read and write them (Kafka's persister).

A call goes to the coordinator of its key as this broker knows it: on this broker without a network,
else in one request with the other calls of the turn of that kind, group and broker. Of the calls
for one key one is under way, in the order in which they came. Writes that wait behind it become one
write. A call that a coordinator refuses for a time, or whose request is lost, is repeated at the
coordinator as then known, until it has been tried TRIES times. Each kind of call may be repeated: a
write that was carried out changes nothing when it comes again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from raftka.broker.context import BrokerContext
from raftka.broker.coordinators.broker_channels import BrokerChannels
from raftka.broker.coordinators.share_state_service import ShareStateService
from raftka.broker.work.long_work import LongWork, Steps, counted_as
from raftka.coordinator.share_state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    SummarizeState,
    WriteState,
)
from raftka.limits import SHARE_STATE_CALLS
from raftka.metadata.image import Delta, MetadataImage
from raftka.share.batches import complete_count
from raftka.share.partition import COMPLETE
from raftka.share.state import (
    NO_COUNT,
    NO_EPOCH,
    SharePartitionKey,
    ShareState,
    ShareSummary,
    StateBatch,
)
from raftka.wire.errors import Code, KafkaError, LimitRefused, code_of
from raftka.wire.messages.share_state import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
    WRITE_SHARE_GROUP_STATE,
    DeletePartitionResult,
    DeleteShareGroupStateResponse,
    InitializePartitionResult,
    InitializeShareGroupStateResponse,
    ReadPartitionResult,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    SummaryPartitionResult,
    WritePartitionResult,
    WriteShareGroupStateResponse,
)
from raftka.wire.schema import AnyApi, Row

RETRY_S = (0.05, 5.0)  # after the first try, doubled after each further one, and at most
TRIES = 10  # some 16 s in all
CALLS_OF_REQUEST = 200
BATCHES_OF_REQUEST = 2_000  # about: a request has one call at least
BATCHES_OF_WRITE = 1_000  # that writes which wait may have together
TIMEOUT_S = 10.0  # of a request: a write waits for its commit at most 5 s by default
REPEATED = frozenset(
    {
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NETWORK_EXCEPTION,
    }
)

Command = InitializeState | ReadState | WriteState | DeleteState | SummarizeState
Result = ShareState | ShareSummary | KafkaError | None
Done = Callable[[KafkaError | None], None]
Response = (
    InitializeShareGroupStateResponse
    | ReadShareGroupStateResponse
    | WriteShareGroupStateResponse
    | DeleteShareGroupStateResponse
    | ReadShareGroupStateSummaryResponse
)
PartitionResult = (
    InitializePartitionResult
    | ReadPartitionResult
    | WritePartitionResult
    | DeletePartitionResult
    | SummaryPartitionResult
)
APIS: dict[type[Command], AnyApi] = {
    InitializeState: INITIALIZE_SHARE_GROUP_STATE,
    ReadState: READ_SHARE_GROUP_STATE,
    WriteState: WRITE_SHARE_GROUP_STATE,
    DeleteState: DELETE_SHARE_GROUP_STATE,
    SummarizeState: READ_SHARE_GROUP_STATE_SUMMARY,
}


class _Call:
    """A command that is not answered yet, and those who wait for the answer."""

    __slots__ = ("command", "dones", "tries")

    def __init__(self, command: Command, done: Callable[..., None]) -> None:
        """`done` takes a Result of that kind of command."""
        self.command = command
        self.dones = [done]
        self.tries = 0


class SharePersister:
    """Each call ends in one call of `done`, perhaps within it, but when the node stops.

    Errors: those of the share coordinator, with its text: INVALID_REQUEST (not initialised),
    FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, POLICY_VIOLATION;
    COORDINATOR_NOT_AVAILABLE when no coordinator could be asked in time, or too many calls wait.
    """

    def __init__(
        self, context: BrokerContext, service: ShareStateService, long_work: LongWork
    ) -> None:
        self._context = context
        self._service = service
        self._long_work = long_work
        self._clock = context.runtime.clock
        self.channels = BrokerChannels(context, "share-state", timeout_s=TIMEOUT_S)
        # the calls for each key, in order; the first is under way
        self._lines: dict[SharePartitionKey, deque[_Call]] = {}
        self.waiting = 0  # calls in all lines, also those that became one
        self._starting: deque[_Call] = deque()
        self._is_starting = False
        # of this turn, by broker, kind and group
        self._to_ask: dict[tuple[int, type[Command], str], list[_Call]] = {}

    # calls

    def initialize(self, key: SharePartitionKey, state_epoch: int, start: int, done: Done) -> None:
        """Forget the state, and begin at `start` (NO_START: the leader finds it)."""
        self._add(_Call(InitializeState(key, state_epoch, start), done))

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        done: Callable[[ShareState | KafkaError], None],
    ) -> None:
        """Read the state as the leader of that epoch, from 0 on; earlier leaders are fenced from
        then on. `complete_count` of the result is NO_COUNT: Kafka's answer has none.
        """
        self._add(_Call(ReadState(key, leader_epoch), done))

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start: int,
        complete_count: int,
        batches: Sequence[StateBatch],
        done: Done,
    ) -> None:
        """Add `batches` to the state, which may be a part of it: the changes. `start`: NO_START
        leaves it. `complete_count`: the deliveries that are completed at `start` and above.

        Of batches that overlap, the one with more deliveries stays, then that with the higher
        state: a write cannot take back a state of the same delivery.
        """
        self._add(
            _Call(
                WriteState(key, state_epoch, leader_epoch, start, complete_count, tuple(batches)),
                done,
            )
        )

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        """Delete the state; it is no error if there is none."""
        self._add(_Call(DeleteState(key), done))

    def summary(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        done: Callable[[ShareSummary | KafkaError], None],
    ) -> None:
        """Read all but the batches. `leader_epoch` is not looked at (NO_EPOCH is as good). A
        partition that is not initialised has NO_START.
        """
        self._add(_Call(SummarizeState(key), done))

    # the node

    def on_image(self, image: MetadataImage, delta: Delta) -> None:
        """Close the connections to brokers that have gone."""
        if delta.reloaded or delta.brokers_changed:
            self.channels.on_image(image)

    def close(self) -> None:
        self._lines.clear()
        self.channels.close()

    # lines

    def _add(self, call: _Call) -> None:
        if self.waiting >= SHARE_STATE_CALLS.value:
            self._context.metrics.hit(SHARE_STATE_CALLS)
            refusal = LimitRefused(
                SHARE_STATE_CALLS, self.waiting + 1, code=Code.COORDINATOR_NOT_AVAILABLE
            )
            self._tell(call, refusal)
            return
        self.waiting += 1
        line = self._lines.get(call.command.key)
        if line is None:
            self._lines[call.command.key] = deque((call,))
            self._start(call)
        elif len(line) < 2 or not _absorbs(line[-1], call):
            line.append(call)

    def _start(self, call: _Call) -> None:
        """Send the call. One that ends at once, and starts the next, does not nest."""
        self._starting.append(call)
        if self._is_starting:
            return
        self._is_starting = True
        try:
            while self._starting:
                self._send(self._starting.popleft())
        finally:
            self._is_starting = False

    def _send(self, call: _Call) -> None:
        if not self._is_under_way(call):
            return
        call.tries += 1
        command = call.command
        try:
            broker = self._service.coordinator_of(command.key)
            if broker == self._context.node_id:
                self._service.submit(command.key, command, partial(self._settle, call))
                return
        except KafkaError as error:
            self._settle(call, error.with_traceback(None))
            return
        if not self._to_ask:
            self._clock.at_turn_end(self._end_turn)
        self._to_ask.setdefault((broker, type(command), command.key.group_id), []).append(call)

    def _settle(self, call: _Call, result: Result) -> None:
        """Repeat the call, or end it and start the next one for its key."""
        if not self._is_under_way(call):
            return
        if isinstance(result, KafkaError) and result.code in REPEATED:
            if call.tries < TRIES:
                first, most = RETRY_S
                wait_s = min(first * 2 ** (call.tries - 1), most)
                self._clock.call_at(self._clock.now() + wait_s, partial(self._start, call))
                return
            result = KafkaError(Code.COORDINATOR_NOT_AVAILABLE, result.message)
        key = call.command.key
        line = self._lines[key]
        line.popleft()
        self.waiting -= len(call.dones)
        if isinstance(result, KafkaError):
            for behind in line:
                behind.command = _without(behind.command, call.command)
        if not line:
            del self._lines[key]
        self._tell(call, result)
        if line and self._is_under_way(line[0]):
            self._start(line[0])

    def _is_under_way(self, call: _Call) -> bool:
        line = self._lines.get(call.command.key)
        return line is not None and line[0] is call

    def _tell(self, call: _Call, result: Result) -> None:
        for done in call.dones:
            try:
                done(result)
            except Exception as error:  # the caller has other calls to end
                self._long_work.failed("the answer of a share coordinator", error)

    # other brokers

    def _end_turn(self) -> None:
        to_ask, self._to_ask = self._to_ask, {}
        for (broker, kind, group_id), calls in to_ask.items():
            self._run(self._ask(broker, APIS[kind], group_id, calls))

    def _run(self, steps: Steps[None]) -> None:
        def done(result: Exception | None) -> None:
            if result is not None:
                self._long_work.failed("asking a share coordinator", result)

        self._long_work.run("asking a share coordinator", steps, done)

    def _ask(self, broker: int, api: AnyApi, group_id: str, calls: Sequence[_Call]) -> Steps[None]:
        """Send the calls in as many requests as they need."""
        taken: list[_Call] = []
        size = 0
        for call in calls:
            batches = _batches_of(call.command)
            if taken and (len(taken) >= CALLS_OF_REQUEST or size + batches > BATCHES_OF_REQUEST):
                yield from self._request(broker, api, group_id, taken)
                taken, size = [], 0
            taken.append(call)
            size += batches
        yield from self._request(broker, api, group_id, taken)

    def _request(self, broker: int, api: AnyApi, group_id: str, calls: list[_Call]) -> Steps[None]:
        topics: dict[bytes, list[Row]] = {}
        for call in calls:
            yield from counted_as(1 + _batches_of(call.command))
            topics.setdefault(call.command.key.topic_id, []).append(_row(call.command))
        topic = api.request.topics
        row = api.request(
            group_id=group_id,
            topics=[
                topic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

        def answered(answer: Response | None, error: str | None) -> None:
            self._run(self._settle_all(calls, answer, error))

        self.channels.ask(broker, api, row, answered)

    def _settle_all(
        self, calls: list[_Call], answer: Response | None, error: str | None
    ) -> Steps[None]:
        found: dict[tuple[bytes, int], PartitionResult] = {}
        for topic in answer.results if answer is not None else ():
            for row in topic.partitions:
                found[topic.topic_id, row.partition] = row
                yield
        for call in calls:
            key = call.command.key
            self._settle(
                call, _result(call.command, found.get((key.topic_id, key.partition)), error)
            )
            yield


def _absorbs(waiting: _Call, call: _Call) -> bool:
    """Make one write of one that waits and the one behind it, if both are writes of the same
    leader.
    """
    before, after = waiting.command, call.command
    if (
        not isinstance(before, WriteState)
        or not isinstance(after, WriteState)
        or before[:3] != after[:3]
        or len(before.batches) + len(after.batches) > BATCHES_OF_WRITE
    ):
        return False
    waiting.command = before._replace(
        start=max(before.start, after.start),
        complete_count=complete_count(
            (before.start, before.complete_count), (after.start, after.complete_count)
        ),
        batches=before.batches + after.batches,
    )
    waiting.dones += call.dones
    return True


def _without(command: Command, failed: Command) -> Command:
    """Return a command behind one that has failed: a write of the same leader does not count what
    the failed one would have completed.
    """
    if (
        not isinstance(command, WriteState)
        or not isinstance(failed, WriteState)
        or command[:3] != failed[:3]
        or command.complete_count == NO_COUNT
    ):
        return command
    lost = sum(
        max(each.last - max(each.first, command.start) + 1, 0)
        for each in failed.batches
        if each.state in COMPLETE
    )
    return command._replace(complete_count=max(command.complete_count - lost, 0))


def _batches_of(command: Command) -> int:
    return len(command.batches) if isinstance(command, WriteState) else 0


# the messages


def _row(command: Command) -> Row:
    """Return the partition of a request."""
    partition = command.key.partition
    match command:
        case InitializeState():
            return INITIALIZE_SHARE_GROUP_STATE.request.topics.partitions(
                partition=partition, state_epoch=command.state_epoch, start_offset=command.start
            )
        case ReadState():
            return READ_SHARE_GROUP_STATE.request.topics.partitions(
                partition=partition, leader_epoch=command.leader_epoch
            )
        case WriteState():
            row = WRITE_SHARE_GROUP_STATE.request.topics.partitions
            return row(
                partition=partition,
                state_epoch=command.state_epoch,
                leader_epoch=command.leader_epoch,
                start_offset=command.start,
                delivery_complete_count=command.complete_count,
                state_batches=[
                    row.state_batches(
                        first_offset=each.first,
                        last_offset=each.last,
                        delivery_state=each.state,
                        delivery_count=each.count,
                    )
                    for each in command.batches
                ],
            )
        case DeleteState():
            return DELETE_SHARE_GROUP_STATE.request.topics.partitions(partition=partition)
        case SummarizeState():
            return READ_SHARE_GROUP_STATE_SUMMARY.request.topics.partitions(
                partition=partition, leader_epoch=NO_EPOCH
            )


def _result(command: Command, row: PartitionResult | None, error: str | None) -> Result:
    """Return the result for the partition of an answer; no row: there was none, by `error`."""
    if row is None:
        return KafkaError(Code.NETWORK_EXCEPTION, error)
    if row.error_code:
        return KafkaError(code_of(row.error_code), row.error_message)
    if isinstance(row, SummaryPartitionResult):
        return ShareSummary(
            row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count
        )
    if isinstance(row, ReadPartitionResult) and isinstance(command, ReadState):
        batches = [
            StateBatch(
                each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
            )
            for each in row.state_batches
        ]
        return ShareState(
            row.state_epoch, command.leader_epoch, row.start_offset, NO_COUNT, tuple(batches)
        )
    return None
