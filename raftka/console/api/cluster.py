"""The cluster's page: brokers, quorum, moves of leaders and in-sync replicas, disks, rates, and
what is wrong now.
"""

import time
from collections.abc import Mapping
from typing import TypeVar

from raftka.client.blocking.quorum import LEADER, OBSERVER, Quorum
from raftka.console.call import Call
from raftka.console.cluster.findings import (
    Situation,
    find_problems,
    is_current,
    may_fail,
)
from raftka.console.cluster.monitor import MONITORS
from raftka.console.cluster.partitions import Counts
from raftka.console.routes import route
from raftka.console.rows import missing_nodes
from raftka.console.view.cached import Aged
from raftka.console.view.groups import Groups
from raftka.console.view.metadata import Metadata
from raftka.console.view.sizes import Directory, Sizes
from raftka.json_values import Json, JsonObject

T = TypeVar("T")
METADATA_S, ENDS_S, GROUPS_S, SIZES_S, LAGS_S = 2.0, 2.0, 5.0, 10.0, 10.0
FIRST_S, SMALL = 0.05, 2_000  # the first page of so few partitions waits so long for each part
NOW_MS = 2_000  # a node that has caught up within it counts as up to date


@route(
    "GET",
    "/api/cluster",
    "Brokers, quorum, moves of leaders and replicas, findings with the next step",
    answer="The cluster; parts that are still being read are null",
)
def cluster(call: Call) -> Json:
    view, monitor = call.view, MONITORS.of(call.session)
    metadata, now_ms = view.metadata(METADATA_S), round(time.time() * 1000)
    counts, moves = monitor.observe(metadata, now_ms)
    # read in the background: of a large cluster they come with a later look
    first_s = FIRST_S if counts.total < SMALL else 0.0
    sizes = _value(view.kept_sizes.peek(SIZES_S, first_s))
    ends = _value(view.kept_ends.peek(ENDS_S, first_s))
    groups = _value(view.kept_groups.peek(GROUPS_S, first_s))
    lags = _value(view.kept_lags.peek(LAGS_S))
    quorum = monitor.quorum()
    rates = monitor.rates(ends)
    stuck = monitor.stuck_groups(groups, view.kept_committed.last, lags)
    lacking = sorted({topic for (topic, _), _ in counts.under_replicated})
    situation = Situation(
        metadata.controller,
        metadata.brokers.keys() - metadata.missing.keys(),
        metadata.missing,
        counts,
        monitor.min_isr(lacking) if lacking else {},
        quorum,
        sizes.directories if sizes is not None else (),
        monitor.late_transactions(),
        stuck,
    )
    return {
        "cluster_id": metadata.cluster_id,
        "controller": metadata.controller,
        "brokers": _brokers(metadata, counts, quorum, sizes, monitor.node_metrics.p99_ms(metadata)),
        "topics": len(metadata.topics),
        "partitions": {
            "total": counts.total,
            "offline": len(counts.offline),
            "under_replicated": len(counts.under_replicated),
        },
        "groups": _groups(groups) if groups is not None else None,
        "size": sum(sizes.by_broker.values()) if sizes is not None else None,
        "rates": rates,
        "moves": moves,
        "quorum": quorum and _quorum(quorum),
        "directories": [_directory(each) for each in situation.directories],
        "findings": [each.shown() for each in find_problems(situation)],
        # those that are gone are a finding
        "missing": missing_nodes(
            {
                node_id: why
                for node_id, why in view.missing.items()
                if node_id not in metadata.missing
            }
        ),
    }


def _value(aged: Aged[T] | None) -> T | None:
    return aged.value if aged is not None else None


def _groups(groups: Groups) -> JsonObject:
    known = groups.of.values()
    return {"total": len(known), "stable": sum(each.state == "Stable" for each in known)}


def _brokers(
    metadata: Metadata,
    counts: Counts,
    quorum: Quorum | None,
    sizes: Sizes | None,
    turns_p99_ms: Mapping[int, float],
) -> list[JsonObject]:
    voters = {each.node_id for each in quorum.nodes if each.role != OBSERVER} if quorum else ()
    found = []
    for node_id in sorted({*metadata.brokers, *metadata.missing}):
        known = metadata.brokers.get(node_id)
        found.append(
            {
                "id": node_id,
                # one that dies meanwhile is in both
                "state": "gone" if node_id in metadata.missing else "up",
                "host": known and known.host,
                "port": known and known.port,
                "rack": known and known.rack,
                "votes": node_id in voters,
                "leaders": counts.leaders[node_id],
                "replicas": counts.replicas[node_id],
                "lagging": counts.lagging[node_id],
                "size": sizes.by_broker.get(node_id) if sizes is not None else None,
                "turn_p99_ms": turns_p99_ms.get(node_id),
            }
        )
    return found


def _quorum(quorum: Quorum) -> JsonObject:
    now_ms = max((each.caught_up_ms for each in quorum.nodes if each.role == LEADER), default=-1)
    nodes = []
    for each in quorum.nodes:
        age_ms = now_ms - each.caught_up_ms if each.caught_up_ms >= 0 else None
        nodes.append(
            {
                "id": each.node_id,
                "role": each.role,
                "endpoints": [
                    f"{host}:{port}" for _, host, port in quorum.endpoints.get(each.node_id, ())
                ],
                "is_current": is_current(each, quorum),
                "offset": each.log_end_offset,
                "lag": each.behind,
                "caught_up_ms": 0 if age_ms is not None and age_ms < NOW_MS else age_ms,
            }
        )
    return {
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "may_fail": may_fail(quorum),
        "voters": sum(each.role != OBSERVER for each in quorum.nodes),
        "nodes": nodes,
    }


def _directory(each: Directory) -> JsonObject:
    return {
        "broker": each.node_id,
        "path": each.path,
        "size": each.used,
        "total_bytes": max(each.total, 0),
        "usable_bytes": max(each.usable, 0),
        "error": each.error,
    }
