"""DeleteGroups: v0-3; with all their offsets. A group that has members stays. As in Kafka the
message of version 3 is for GROUP_DELETION_FAILED alone, which no group here can have.
"""

from collections.abc import Sequence

from raftka.broker.handlers.coordinator_request import ask_of_each
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.commands import DeleteGroup
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.groups import DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse

response = DELETE_GROUPS.response


def _refused(request: Request[DeleteGroupsRequest], code: Code) -> Steps[DeleteGroupsResponse]:
    names = dict.fromkeys(request.body.groups_names)
    return (yield from _answer(request, [KafkaError(code)] * len(names)))


@handles(DELETE_GROUPS, refused=_refused)
def delete_groups(
    request: Request[DeleteGroupsRequest], coordinators: CoordinatorParts
) -> Steps[DeleteGroupsResponse | Delayed]:
    return (
        yield from ask_of_each(
            request,
            coordinators,
            dict.fromkeys(request.body.groups_names),
            "DELETE",
            DeleteGroup,
            _answer,
        )
    )


def _answer(
    request: Request[DeleteGroupsRequest], answers: Sequence[object]
) -> Steps[DeleteGroupsResponse]:
    results = request.encoded_rows(response.results)
    for group_id, answer in zip(dict.fromkeys(request.body.groups_names), answers, strict=True):
        results.add(
            response.results(
                group_id=group_id,
                error_code=int(answer.code) if isinstance(answer, KafkaError) else 0,
            )
        )
        yield
    return response(results=results)
