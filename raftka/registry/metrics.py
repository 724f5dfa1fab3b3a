"""Counters of the registry, and its page /metrics in Prometheus's text format. Threads may
count.
"""

import threading
from collections import Counter

from raftka.limits import Limit
from raftka.registry.limits import ALL

TEXT = "text/plain; version=0.0.4; charset=utf-8"


class RegistryMetrics:
    def __init__(self) -> None:
        self._requests: Counter[int] = Counter()  # by status
        self._hits: Counter[str] = Counter()  # by the limit's metric
        self._logins_refused = 0
        self._lock = threading.Lock()

    def count_answer(self, status: int) -> None:
        with self._lock:
            self._requests[status] += 1

    def hit(self, limit: Limit) -> None:
        with self._lock:
            self._hits[limit.metric] += 1

    def count_refused_login(self) -> None:
        with self._lock:
            self._logins_refused += 1

    def page(self) -> tuple[str, bytes]:
        """Return the content type of the page /metrics and its text."""
        lines = ["# TYPE raftka_registry_requests_total counter"]
        lines += [
            f'raftka_registry_requests_total{{status="{status}"}} {count}'
            for status, count in sorted(self._requests.items())
        ]
        lines += ["# TYPE raftka_registry_failed_authentications_total counter"]
        lines += [f"raftka_registry_failed_authentications_total {self._logins_refused}"]
        for limit in ALL:
            lines += [
                f"# TYPE {limit.metric} counter",
                f"{limit.metric} {self._hits[limit.metric]}",
            ]
        return TEXT, ("\n".join(lines) + "\n").encode()
