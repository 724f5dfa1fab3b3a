"""ListGroups: v0-5; the groups that this broker looks after, by state from version 4 on, by type from version 5 on."""

from typing import TYPE_CHECKING, Any

from raftka.broker.authorizer import GROUP, THE_CLUSTER
from raftka.broker.dispatch import Pending, Request, handles
from raftka.broker.handlers.asking import Asking
from raftka.coordinator.commands import ListGroups
from raftka.wire.errors import KafkaError
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.schema import Row

if TYPE_CHECKING:
    from raftka.broker.node import Node

response = LIST_GROUPS.response


@handles(LIST_GROUPS)
def list_groups(request: Request, node: "Node") -> Row | Pending:
    body = request.body
    asking = Asking(request, _answer)
    node.groups.shards.submit_to_all(ListGroups(tuple(body.states_filter), tuple(body.types_filter)), asking)
    return asking.result()


def _answer(request: Request, answers: Any) -> Row:
    if isinstance(answers, KafkaError):
        return response(error_code=int(answers.code))
    everything = request.may("DESCRIBE", THE_CLUSTER)
    return response(
        groups=[
            response.groups(group_id=each.group_id, protocol_type=each.protocol_type, group_state=each.state, group_type=each.type)
            for answer in answers
            for each in answer.groups
            if everything or request.may("DESCRIBE", (GROUP, each.group_id))
        ]
    )
