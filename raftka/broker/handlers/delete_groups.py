"""DeleteGroups: v0-2; with all their offsets. A group that has members stays."""

from typing import TYPE_CHECKING, Any

from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import ask_of_each
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
    return ask_of_each(request, node, dict.fromkeys(request.body.groups_names), "DELETE", DeleteGroup, _answer)


def _answer(request: Request, answers: list[Any]) -> Row:
    codes = [int(answer.code) if isinstance(answer, KafkaError) else 0 for answer in answers]
    names = dict.fromkeys(request.body.groups_names)
    return response(results=[response.results(group_id=group_id, error_code=code) for group_id, code in zip(names, codes, strict=True)])
