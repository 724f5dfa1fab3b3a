"""The registry's counters, and its page /metrics in Prometheus's text format."""

from collections import Counter

from raftka.limits import Limit
from raftka.registry.limits import ALL

TEXT = b"text/plain; version=0.0.4; charset=utf-8"


class Numbers:
    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()  # by status
        self.refusals: Counter[str] = Counter()  # by the limit's metric
        self.logins_refused = 0

    def answered(self, status: int) -> None:
        self.requests[status] += 1

    def refused(self, limit: Limit) -> None:
        self.refusals[limit.metric] += 1

    def page(self) -> tuple[bytes, bytes]:
        """Return its type and its text."""
        lines = ["# TYPE raftka_registry_requests_total counter"]
        lines += [f'raftka_registry_requests_total{{status="{status}"}} {count}' for status, count in sorted(self.requests.items())]
        lines += ["# TYPE raftka_registry_failed_authentications_total counter"]
        lines += [f"raftka_registry_failed_authentications_total {self.logins_refused}"]
        for limit in ALL:
            lines += [f"# TYPE {limit.metric} counter", f"{limit.metric} {self.refusals[limit.metric]}"]
        return TEXT, ("\n".join(lines) + "\n").encode()
