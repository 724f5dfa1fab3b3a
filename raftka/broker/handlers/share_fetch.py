"""ShareFetch: v1-2 (KIP-932). Members of a share group acquire records at the partition's leader.
Its work is in broker/share/.
"""

from raftka.broker.handlers.parts import ShareParts
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Delayed, Request
from raftka.broker.share.share_fetch import MAX_WAIT_MS, ShareFetch, response
from raftka.broker.work.long_work import Steps
from raftka.limits import PARKED_SHARE_FETCHES
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.share_fetch import SHARE_FETCH, ShareFetchRequest, ShareFetchResponse

TOTAL = "kafka_server_brokertopicmetrics_totalsharefetchrequests_total"


@handles(SHARE_FETCH)
def share_fetch(
    request: Request[ShareFetchRequest], share: ShareParts
) -> Steps[ShareFetchResponse | Delayed]:
    share.leader.context.metrics.count(TOTAL)
    try:
        return (yield from ShareFetch(request, share.leader, share.sessions).run())
    except KafkaError as error:
        if error.code is not Code.SHARE_SESSION_LIMIT_REACHED:
            raise
        return _refuse_later(request, share, error)


def _refuse_later(
    request: Request[ShareFetchRequest], share: ShareParts, error: KafkaError
) -> ShareFetchResponse | Delayed:
    """Answer when the request's time is up: a client that is refused asks again at once."""
    row, context = response(error_code=int(error.code)), share.leader.context
    wait_ms = min(request.body.max_wait_ms, MAX_WAIT_MS)
    if wait_ms <= 0 or context.metrics.parked_share_fetches >= PARKED_SHARE_FETCHES.value:
        return row

    def answer() -> None:
        if pending.slot is not None:  # it is called once more when the connection closes
            timer.cancel()
            context.metrics.parked_share_fetches -= 1
            pending.complete(row)

    pending = Delayed(request, answer)
    clock = context.runtime.clock
    timer = clock.call_at(clock.now() + wait_ms / 1000, answer)
    context.metrics.parked_share_fetches += 1
    return pending
