"""Fetch: v4-18; topic ids from v13 on (KIP-516), sessions from v7 on (KIP-227). Consumers and
followers send the same request. Its work is in broker/fetch/.
"""

from raftka.broker.fetch import consumer_plan, follower_plan
from raftka.broker.fetch.fetch import Fetch, response
from raftka.broker.fetch.sessions import FetchSession
from raftka.broker.handlers.parts import ReplicaParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.work.long_work import Steps, drained
from raftka.wire.messages.fetch import FETCH, FetchRequest, FetchResponse


@handles(FETCH, refused=lambda request, code: response(error_code=int(code)))
def fetch(request: Request[FetchRequest], replicas: ReplicaParts) -> Steps[FetchResponse | Delayed]:
    sessions = replicas.fetch_sessions
    run = Fetch(request, sessions, replicas.manager)
    if run.reader.follows:
        if (
            request.meter is not None
            and run.is_registered()
            and request.may("CLUSTER_ACTION", THE_CLUSTER)
        ):
            request.meter = None  # no quota of clients holds replication back
        request.connection.latency = request.dispatcher.metrics.latency(follower_plan.FOLLOWER)
    yield from run.begin()
    result = yield from run.outcome()
    if run.plain is not None and request.slot is None and request.meter is None:
        consumer_plan.remember(request, sessions, run.plain, run.isolated, run.max_bytes)
    if run.reader.follows and run.incremental:
        _remember_follower(request, replicas, run.session)
    return result


def _remember_follower(
    request: Request[FetchRequest], replicas: ReplicaParts, session: FetchSession
) -> None:
    """Make a plan: the next requests of the session differ in offsets alone."""

    def go_on(short: Request[FetchRequest]) -> FetchResponse | Delayed:
        run = Fetch(short, replicas.fetch_sessions, replicas.manager)
        run.attach(session, incremental=True)
        return drained(run.outcome())

    follower_plan.remember(request, replicas.fetch_sessions, replicas.manager, session, go_on)
