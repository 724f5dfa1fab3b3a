"""Connections by the software of their clients (KIP-511), counted when the metrics are gathered."""

from collections import Counter
from collections.abc import Callable, Iterable

from raftka.broker.network.session import OTHER_SOFTWARE, Session
from raftka.limits import CLIENT_SOFTWARE, Limit

ByListener = dict[tuple[str, str, str], int]  # connections by listener, name and version


def count_software(sessions: Iterable[Session], hit: Callable[[Limit], None]) -> ByListener:
    """Return the connections of the CLIENT_SOFTWARE pairs that have the most, and of all other
    pairs together as "other". Clients choose the names: without a bound they could fill a page.
    """
    counts = Counter((each.listener, each.software) for each in sessions)
    of_pairs: Counter[tuple[str, str]] = Counter()
    for (_, software), count in counts.items():
        of_pairs[software] += count
    if len(of_pairs) > CLIENT_SOFTWARE.value:
        hit(CLIENT_SOFTWARE)
    kept = {software for software, _ in of_pairs.most_common(CLIENT_SOFTWARE.value)}
    found: Counter[tuple[str, str, str]] = Counter()
    for (listener, software), count in counts.items():
        found[(listener, *(software if software in kept else OTHER_SOFTWARE))] += count
    return dict(found)
