"""Requests that a coordinator answers. The handler returns the row of an answer that is there at
once, and a Delayed for one that comes later. Knows no API.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Any, Generic

from raftka.broker.coordinators.runtime import Gathered
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import GROUP, TRANSACTIONAL_ID
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import LongWork, Steps, counted_as
from raftka.wire.errors import Code, KafkaError
from raftka.wire.schema import Req, Resp, Row

# from the coordinator's answer, or a KafkaError; in steps where the answer may be long
Make = Callable[[Request[Req], Any], Resp | Steps[Resp]]
# group, command (or an error in its place), operation that the client must be allowed, items of the
# command
Question = tuple[str, object, str, int]
# a request for more is several commands: a coordinator decides on a command in one go
PARTITIONS_OF_COMMAND = 200
# Kafka's words for errors of a coordinator as a whole, where its answers have words for them
UNAVAILABLE = {
    Code.COORDINATOR_LOAD_IN_PROGRESS: (
        "The coordinator is loading and hence can't process requests."
    ),
    Code.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    Code.NOT_COORDINATOR: "This is not the correct coordinator.",
}


class CoordinatorRequest(Generic[Req, Resp]):
    """The ticket of one request."""

    __slots__ = ("error", "long_work", "make", "pending", "request", "row")

    def __init__(self, request: Request[Req], long_work: LongWork, make: Make[Req, Resp]) -> None:
        self.request = request
        self.long_work = long_work
        self.make = make
        self.row: Resp | None = None
        self.error: Exception | None = None
        self.pending: Delayed | None = None

    def __call__(self, answer: object) -> None:
        try:
            row = self.make(self.request, answer)
        except Exception as error:  # the caller has other tickets to complete
            self._complete(error)
            return
        if isinstance(row, Generator):
            self.pending = self.pending or Delayed(self.request)
            self.long_work.run(
                self.request.api.name, row, self._complete, self._has_client, self.request.fail
            )
        else:
            self._complete(row)

    def _has_client(self) -> bool:
        """Return whether the client is still there."""
        if self.pending is not None and self.pending.over:
            self.request.free()
            return False
        return self.request.is_wanted()

    def _complete(self, result: Resp | Exception) -> None:
        if self.request.stays:
            self.request.free()
        if self.pending is None:
            if isinstance(result, Exception):
                self.error = result
            else:
                self.row = result
        else:
            self.pending.settle(result)

    def result(
        self, gone: Callable[["CoordinatorRequest[Req, Resp]"], None] | None = None
    ) -> Resp | Delayed:
        """Return the row, or a Delayed; call `gone` if the client goes before the answer."""
        if self.error is not None:
            raise self.error
        if self.row is not None:
            return self.row
        if self.pending is not None:  # the answer is there, and is being written
            return self.pending

        def complete_early() -> None:
            if gone is not None and self.request.connection.gone:
                gone(self)

        self.pending = Delayed(self.request, complete_early if gone is not None else None)
        complete_early()  # it may have gone while its handler waited
        return self.pending


def ask(
    request: Request[Req],
    coordinators: CoordinatorParts,
    group_id: str,
    command: object,
    make: Make[Req, Resp],
    *,
    may_wait: bool = False,
) -> Resp | Delayed:
    """Ask the group coordinator. `may_wait`: the command waits for other members, perhaps for
    minutes, and the coordinator hears when the client has gone.
    """
    coordinator_request = CoordinatorRequest(request, request.dispatcher.long_work, make)
    runtime = coordinators.groups.runtime
    try:
        runtime.submit(group_id, command, coordinator_request)
    except KafkaError as error:
        coordinator_request(error)
    return coordinator_request.result(
        (lambda ticket: runtime.client_gone(group_id, ticket)) if may_wait else None
    )


def ask_of_each(
    request: Request[Req],
    coordinators: CoordinatorParts,
    group_ids: Collection[str],
    operation: str,
    command: Callable[[str], object],
    make: Make[Req, Resp],
) -> Steps[Resp | Delayed]:
    """Ask the group coordinator of each group. `make` gets the list of all answers, in that order;
    a group that the client has no right to has the refusal in its place.
    """

    def question(group_id: str) -> Question:
        try:
            return group_id, command(group_id), operation, 1
        except KafkaError as error:
            return group_id, error, operation, 1

    questions = (question(group_id) for group_id in group_ids)
    return (yield from ask_all(request, coordinators, len(group_ids), questions, make))


def ask_all(
    request: Request[Req],
    coordinators: CoordinatorParts,
    count: int,
    questions: Iterable[Question],
    make: Make[Req, Resp],
) -> Steps[Resp | Delayed]:
    """Ask `count` questions. `make` gets the list of all answers, in that order."""
    coordinator_request = CoordinatorRequest(request, request.dispatcher.long_work, make)
    request.stays = True
    gathered = Gathered(count, coordinator_request)
    for place, (group_id, command, operation, items) in enumerate(questions):
        ticket = gathered.place(place)
        try:
            check_group(request, operation, group_id)
            if isinstance(command, KafkaError):
                raise command
            coordinators.groups.runtime.submit(group_id, command, ticket)
        except KafkaError as error:
            # its frames hold all other answers: a cycle that only a full collection would free
            ticket(error.with_traceback(None))
        yield from counted_as(items)
    return coordinator_request.result()


def check_group(request: Request[Row], operation: str, group_id: str) -> None:
    """Raise GROUP_AUTHORIZATION_FAILED if the client may not do this with the group."""
    if not request.may(operation, (GROUP, group_id)):
        raise KafkaError(Code.GROUP_AUTHORIZATION_FAILED)


def ask_transaction(
    request: Request[Req],
    coordinators: CoordinatorParts,
    transactional_id: str,
    command: object,
    make: Make[Req, Resp],
) -> Resp | Delayed:
    """Ask the transaction coordinator. The command may wait for markers; the coordinator hears when
    the client has gone.
    """
    asking = CoordinatorRequest(request, request.dispatcher.long_work, make)
    try:
        coordinators.transactions.submit(transactional_id, command, asking)
    except KafkaError as error:
        asking(error)
    return asking.result(
        lambda ticket: coordinators.transactions.runtime.client_gone(transactional_id, ticket)
    )


def check_transactional_id(request: Request[Row], transactional_id: str) -> None:
    """Raise TRANSACTIONAL_ID_AUTHORIZATION_FAILED if the client may not write with the id."""
    if not request.may("WRITE", (TRANSACTIONAL_ID, transactional_id)):
        raise KafkaError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
