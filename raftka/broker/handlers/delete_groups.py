"""DeleteGroups: v0-2; with all their offsets. A group that has members stays."""

from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import GROUP
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import Asking
from raftka.broker.shards import Gathered
from raftka.coordinator.commands import DeleteGroup
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import DELETE_GROUPS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = DELETE_GROUPS.response


def _refused(request: Request, code: Code) -> Row:
    return response(results=[response.results(group_id=group_id, error_code=int(code)) for group_id in dict.fromkeys(request.body.groups_names)])


@handles(DELETE_GROUPS, refused=_refused)
def delete_groups(request: Request, node: "Node") -> Row | Pending:
    asking = Asking(request, _answer)
    names = dict.fromkeys(request.body.groups_names)
    gathered = Gathered(len(names), asking)
    for place, group_id in enumerate(names):
        ticket = gathered.place(place)
        try:
            if not request.may("DELETE", (GROUP, group_id)):
                raise KafkaError(Code.GROUP_AUTHORIZATION_FAILED)
            node.groups.shards.submit(group_id, DeleteGroup(group_id), ticket)
        except KafkaError as error:
            ticket(error)
    return asking.result()


def _answer(request: Request, answers: list[Any]) -> Row:
    codes = [int(answer.code) if isinstance(answer, KafkaError) else 0 for answer in answers]
    names = dict.fromkeys(request.body.groups_names)
    return response(results=[response.results(group_id=group_id, error_code=code) for group_id, code in zip(names, codes, strict=True)])
