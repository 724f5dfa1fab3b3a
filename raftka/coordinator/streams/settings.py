"""Settings of streams groups, `group.streams.*` and `streams.*`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamsSettings:
    """Of one group, or of all that have none of their own: the broker's `group.streams.*`."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()
    assignor: str = "sticky"
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    keeps_descriptions: bool = False  # of topologies, for which members are asked
