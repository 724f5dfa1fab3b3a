"""Planted in client quotas: what is counted, against whom, and what a client that has used too much
may still do.
"""

from typing import Any

from raftka.broker.network.quotas import client_quotas
from raftka.broker.network.quotas.client_quotas import ClientQuotas
from raftka.broker.network.quotas.meter import Meter
from raftka.broker.network.quotas.precedence import Applied, Bound, Quotas
from raftka.broker.network.quotas.rate import Rate, TokenBucket
from raftka.broker.network.session import Session
from tests.mutants.registry import mutant


@mutant(Meter, "_mute")
def throttle_is_told_and_not_enforced(_: Any) -> Any:
    """A client is told how long to wait, but its connection is read all the same."""

    def bug(self: Meter) -> None:
        pass

    return bug


@mutant(client_quotas, "applied")
def default_quota_is_shared(applied: Any) -> Any:
    """All clients that have a default quota share one, so that a busy one holds up the others."""

    def bug(quotas: Quotas, epoch: int, principal: str, client_id: str | None) -> Applied:
        found: Applied = applied(quotas, epoch, principal, client_id)
        shared = [
            bound and Bound((bound.counted[0], None, None), bound.value) for bound in found[3:]
        ]
        return Applied(*found[:3], *shared)

    return bug


@mutant(Meter, "may_send")
def fetch_beyond_its_quota_sends_records(may_send: Any) -> Any:
    """An answer to Fetch that is beyond the quota has its records in it nevertheless."""

    def bug(self: Meter, answer_bytes: int) -> bool:
        may_send(self, answer_bytes)
        return True

    return bug


@mutant(Rate, "record")
def what_was_not_sent_is_counted(record: Any) -> Any:
    """Records that were held back count as if they had been sent, so that the reader hardly gets
    any.
    """

    def bug(self: Rate, value: float, now: float) -> None:
        if value > 0:
            record(self, value, now)

    return bug


@mutant(ClientQuotas, "limits")
def short_way_knows_no_quota(_: Any) -> Any:
    """Requests that are answered by a plan are not counted."""

    def bug(self: ClientQuotas, session: Session) -> bool:
        return False

    return bug


@mutant(ClientQuotas, "on_image")
def change_of_a_quota_counts_for_new_connections_alone(on_image: Any) -> Any:
    """A connection goes on with the quota that it had when it made its first request."""

    def bug(self: ClientQuotas, quotas: Quotas) -> None:
        on_image(self, quotas)
        self._epoch = 1

    return bug


@mutant(TokenBucket, "record")
def overdraft_is_forgiven(record: Any) -> Any:
    """A bucket of tokens is empty at worst, so one request for very many partitions costs no more
    than a full bucket.
    """

    def bug(self: TokenBucket, value: float, quota: float, now: float) -> None:
        record(self, value, quota, now)
        self._tokens = max(self._tokens, 0.0)

    return bug


@mutant(Rate, "window_s")
def silence_is_not_forgotten(_: Any) -> Any:
    """The old use of a client counts for ever, so that it waits longer each time."""

    def bug(self: Rate, now: float) -> float:
        return self._window.at_once_s

    return bug
