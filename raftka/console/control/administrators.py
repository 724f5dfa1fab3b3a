"""Users who may alter the cluster, as the brokers say: they alone have rights without an ACL."""

from weakref import WeakSet

from raftka.console.call import ApiError, Call
from raftka.console.sessions import Session
from raftka.security import acls
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER

_administrators: WeakSet[Session] = WeakSet()


def check_administrator(call: Call, refused: str) -> None:
    """Raise ApiError for a user who has logged in and may not alter the cluster. A session keeps
    the right: when all nodes stand still, none can be asked. `refused`: the end of the sentence
    for others, such as "so not its nodes either".
    """
    if call.session.user is None or call.session in _administrators:
        return
    asked = DESCRIBE_CLUSTER.request(include_cluster_authorized_operations=True)
    with call.client() as client:
        answer = client.ask(DESCRIBE_CLUSTER, asked)
    if not answer.cluster_authorized_operations & 1 << acls.ALTER:
        raise ApiError(
            403,
            "CLUSTER_AUTHORIZATION_FAILED",
            f"{call.session.user} may not alter the cluster, {refused}",
        )
    _administrators.add(call.session)
