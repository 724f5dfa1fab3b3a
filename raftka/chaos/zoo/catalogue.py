"""All planted bugs, by name: importing this knows them. The museum's, which were real once, are among them."""

from raftka.chaos.zoo import (
    cleaner,
    controller,
    groups,
    log,
    producers,
    raft,
    reading,
    replication,
    scenarios,
    scenarios_of_groups,
    scenarios_of_logs,
    scenarios_of_readers,
    scenarios_of_the_quorum,
)
from raftka.chaos.zoo.directed import SCENARIOS
from raftka.chaos.zoo.planting import BUGS, Bug, planted

__all__ = ["AREAS", "BUGS", "SCENARIOS", "Bug", "planted"]

AREAS = tuple(module.__name__.rpartition(".")[2] for module in (raft, controller, replication, log, producers, reading, groups, cleaner))
DIRECTED = (scenarios, scenarios_of_groups, scenarios_of_logs, scenarios_of_readers, scenarios_of_the_quorum)  # importing them fills SCENARIOS
