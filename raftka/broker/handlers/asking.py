"""A request that a coordinator answers: at once where it can, then its handler returns the row; else later, then it is a Pending. Knows no API."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import GROUP
from raftka.broker.dispatch import Pending, Request
from raftka.broker.shards import Gathered
from raftka.wire.errors import Code, KafkaError
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

Make = Callable[[Request, Any], Row]  # from the coordinator's answer, or a KafkaError


class Asking:
    """The ticket of one request."""

    __slots__ = ("error", "make", "pending", "request", "row")

    def __init__(self, request: Request, make: Make) -> None:
        self.request = request
        self.make = make
        self.row: Row | None = None
        self.error: Exception | None = None
        self.pending: Pending | None = None

    def __call__(self, answer: Any) -> None:
        try:
            row = self.make(self.request, answer)
        except Exception as error:  # whoever calls has others to answer
            if self.pending is None:
                self.error = error
            else:
                self.pending.broken(error)
            return
        if self.pending is None:
            self.row = row
        else:
            self.pending.complete(row)

    def result(self, gone: Callable[["Asking"], None] | None = None) -> Row | Pending:
        """`gone` is called when nobody waits any more."""
        if self.error is not None:
            raise self.error
        if self.row is not None:
            return self.row

        def hurry() -> None:
            if gone is not None and self.request.connection.gone:
                gone(self)

        self.pending = Pending(self.request, hurry if gone is not None else None)
        return self.pending


def ask(request: Request, node: "Node", group_id: str, command: Any, make: Make, *, may_wait: bool = False) -> Row | Pending:
    """`may_wait`: for others, perhaps for minutes; the coordinator hears when who asked has gone."""
    asking = Asking(request, make)
    shards = node.groups.shards
    try:
        shards.submit(group_id, command, asking)
    except KafkaError as error:
        return make(request, error)
    return asking.result((lambda ticket: shards.forget(group_id, ticket)) if may_wait else None)


def ask_of_each(
    request: Request, node: "Node", group_ids: Collection[str], operation: str, command: Callable[[str], Any], make: Make
) -> Row | Pending:
    """`make` gets the list of all answers, in that order; who may not ask of a group has the refusal in its place."""
    asking = Asking(request, make)
    gathered = Gathered(len(group_ids), asking)
    for place, group_id in enumerate(group_ids):
        ticket = gathered.place(place)
        try:
            check_group(request, operation, group_id)
            node.groups.shards.submit(group_id, command(group_id), ticket)
        except KafkaError as error:
            ticket(error)
    return asking.result()


def check_group(request: Request, operation: str, group_id: str) -> None:
    """Raises GROUP_AUTHORIZATION_FAILED."""
    if not request.may(operation, (GROUP, group_id)):
        raise KafkaError(Code.GROUP_AUTHORIZATION_FAILED)
