"""ListGroups: v0-5; the groups that this broker coordinates, by state from version 4 on, by type
from version 5 on.
"""

from collections.abc import Iterable

from raftka.broker.handlers.coordinator_request import CoordinatorRequest
from raftka.broker.handlers.parts import CoordinatorParts
from raftka.broker.network.access.authorizer import GROUP, THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps
from raftka.coordinator.classic import group as classic_group
from raftka.coordinator.commands import GroupsListed, ListGroups
from raftka.coordinator.consumer import group as consumer_group
from raftka.coordinator.groups import CLASSIC, CONSUMER, STREAMS, name_in_filters
from raftka.coordinator.share.groups import SHARE
from raftka.coordinator.streams import group as streams_group
from raftka.wire.errors import KafkaError
from raftka.wire.messages.groups import LIST_GROUPS, ListGroupsRequest, ListGroupsResponse

response = LIST_GROUPS.response
STATES = frozenset(
    name_in_filters(state)
    for state in (*classic_group.State, *consumer_group.State, *streams_group.State)
)
TYPES = frozenset((CLASSIC, CONSUMER, SHARE, STREAMS))


@handles(LIST_GROUPS)
def list_groups(
    request: Request[ListGroupsRequest], coordinators: CoordinatorParts
) -> Steps[ListGroupsResponse | Delayed]:
    states = yield from _filter(request.body.states_filter, STATES)
    types = yield from _filter(request.body.types_filter, TYPES)
    coordinator_request = CoordinatorRequest(request, request.dispatcher.long_work, _answer)
    yield from coordinators.groups.runtime.submit_to_all(
        ListGroups(states, types), coordinator_request
    )
    return coordinator_request.result()


def _filter(names: Iterable[str], known: frozenset[str]) -> Steps[tuple[str, ...]]:
    """Return the filter in lower case. A filter of unknown names alone keeps one of them, so that
    no group is listed.
    """
    wanted: set[str] = set()
    unknown: tuple[str, ...] = ()
    for name in names:
        if (lower := name.lower()) in known:
            wanted.add(lower)
        else:
            unknown = (lower,)
        yield
    return tuple(sorted(wanted)) or unknown


def _answer(
    request: Request[ListGroupsRequest], answers: list[GroupsListed] | KafkaError
) -> Steps[ListGroupsResponse]:
    if isinstance(answers, KafkaError):
        return response(error_code=int(answers.code))
    everything = request.may("DESCRIBE", THE_CLUSTER)
    groups = request.encoded_rows(response.groups)
    for answer in answers:
        for each in answer.groups:
            if everything or request.may("DESCRIBE", (GROUP, each.group_id)):
                groups.add(
                    response.groups(
                        group_id=each.group_id,
                        protocol_type=each.protocol_type,
                        group_state=each.state,
                        group_type=each.type,
                    )
                )
            yield
    return response(groups=groups)
