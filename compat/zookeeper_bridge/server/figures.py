"""Figures of a bridge, by ZooKeeper's names: for the four-letter words and for the pages of the
admin port. Knows neither text nor JSON.
"""

import os
import resource
from collections.abc import Mapping

from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.server.connection import ClientConnection

# Go's client wants the version to look just so: a build date with slashes, a time and a zone.
SYNC_LIMIT_TICKS = 5  # as in ZooKeeper's sample configuration
VERSION = "3.9.3-raftka, built on 10/17/2024 23:21 GMT"


def mode(bridge: Bridge) -> str:
    quorum = bridge.services.quorum
    if bridge.read_only:
        return "read-only"
    if quorum.core is None:
        return "observer"
    if len(bridge.services.quorum.addresses.voters) == 1:
        return "standalone"
    return "leader" if quorum.leader == bridge.services.context.node_id else "follower"


def _peer_state(bridge: Bridge) -> str:
    """ZooKeeper names the phase too. The bridge serves from an applied tree: its phase is always
    the last one.
    """
    if bridge.services.quorum.leader is None:
        return "looking"
    return {"leader": "leading", "follower": "following", "observer": "observing"}[
        mode(bridge)
    ] + " - broadcast"


def _ensemble(bridge: Bridge) -> dict[str, str | int]:
    """Figures of a server that is not alone; those about followers at the leader only, as in
    ZooKeeper.

    A follower counts while the leader hears of it within the sync limit, and is synced when it has
    acknowledged an entry of this leader.
    """
    quorum, voters = bridge.services.quorum, len(bridge.services.quorum.addresses.voters)
    if mode(bridge) in ("standalone", "read-only"):
        return {}
    observers = sum(peer.observed is not None for peer in quorum.inbound)
    found: dict[str, str | int] = {"peer_state": _peer_state(bridge), "quorum_size": voters}
    if quorum.core is not None:
        found["synced_observers"] = observers
    if quorum.core is not None and quorum.host is not None and quorum.host.active:
        since = bridge.clock.now() - SYNC_LIMIT_TICKS * bridge.tick_ms / 1000
        followers = [
            voter
            for voter, heard in quorum.host.heard.items()
            if heard >= since and voter != bridge.services.context.node_id
        ]
        found |= {
            "learners": len(followers) + observers,
            "followers": len(followers),  # the name until ZooKeeper 3.5, which exporters still read
            "synced_followers": sum(quorum.core.acknowledged(voter) > 0 for voter in followers),
            "synced_non_voting_followers": 0,
            "leader_uptime": _ms(bridge.clock.now() - bridge.leads_since),
        }
    return found


def _descriptors() -> Mapping[str, int]:
    try:
        return {
            "open_file_descriptor_count": len(os.listdir("/proc/self/fd")),
            "max_file_descriptor_count": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        }
    except OSError:
        return {}


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


def monitor(bridge: Bridge) -> dict[str, str | int | float]:
    tree, latency = bridge.tree, bridge.latency
    return {
        "version": VERSION,
        "server_state": mode(bridge),
        "avg_latency": latency.average,
        "max_latency": round(latency.most),
        "min_latency": round(latency.least),
        "packets_received": bridge.packets_received,
        "packets_sent": bridge.packets_sent,
        "num_alive_connections": len(bridge.connections),
        "outstanding_requests": bridge.submissions.outstanding,
        "znode_count": tree.node_count,
        "watch_count": bridge.watches.count,
        "ephemerals_count": sum(len(each) for each in tree.owned.values()),
        "approximate_data_size": tree.size_bytes,
        "global_sessions": tree.session_count,
        "local_sessions": bridge.local_session_count,
        "uptime": _ms(bridge.clock.now() - bridge.began),
        "auth_failed_count": bridge.auth_failures,
        "last_proposed_zxid": tree.offset,
        **_ensemble(bridge),
        **_descriptors(),
    }


def configuration(bridge: Bridge) -> dict[str, str | int]:
    tick_ms, settings = bridge.tick_ms, bridge.services.metadata.settings
    return {
        "client_port": settings["zookeeper.bridge.port"],
        "data_dir": settings.metadata_directory,
        "tick_time": tick_ms,
        "min_session_timeout": 2 * tick_ms,
        "max_session_timeout": 20 * tick_ms,
        "server_id": bridge.services.context.node_id,
    }


def connection(found: ClientConnection) -> dict[str, str | int]:
    return {
        "remote_socket_address": found.peer,
        "outstanding_requests": found.outstanding,
        "packets_received": found.received,
        "packets_sent": found.sent,
        "session_id": found.session_id,
        "session_timeout": found.timeout_ms,
    }


def reset(bridge: Bridge) -> None:
    bridge.packets_received = bridge.packets_sent = 0
    bridge.latency.reset()


def reset_connections(bridge: Bridge) -> None:
    for each in bridge.connections:
        each.received = each.sent = 0
