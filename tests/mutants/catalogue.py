"""All planted bugs, by name: importing this knows them. The regressions, which were real once, are
among them.
"""

from tests.mutants import (
    cleaner,
    controller,
    exactly_once,
    groups,
    log,
    login,
    ports,
    producers,
    quotas,
    raft,
    read_committed,
    reading,
    replication,
    requests,
    rights,
    scenarios,
    scenarios_of_disks,
    scenarios_of_exactly_once,
    scenarios_of_groups,
    scenarios_of_hosts,
    scenarios_of_logins,
    scenarios_of_logs,
    scenarios_of_ports,
    scenarios_of_quotas,
    scenarios_of_readers,
    scenarios_of_requests,
    scenarios_of_rights,
    scenarios_of_schemas,
    scenarios_of_share_groups,
    scenarios_of_share_states,
    scenarios_of_the_quorum,
    scenarios_of_tls,
    scenarios_of_transactions,
    schemas,
    secured_lives,
    share_groups,
    share_states,
    times,
    tls,
    transactions,
)
from tests.mutants.directed import SCENARIOS
from tests.mutants.registry import MUTANTS, Mutant, mutated

__all__ = ["AREAS", "MUTANTS", "SCENARIOS", "Mutant", "mutated"]

AREAS = tuple(
    module.__name__.rpartition(".")[2]
    for module in (
        raft,
        controller,
        replication,
        log,
        producers,
        reading,
        groups,
        transactions,
        exactly_once,
        read_committed,
        login,
        rights,
        secured_lives,
        tls,
        quotas,
        ports,
        requests,
        schemas,
        share_groups,
        share_states,
        cleaner,
        times,
    )
)
# Importing these fills SCENARIOS.
DIRECTED = (
    scenarios,
    scenarios_of_disks,
    scenarios_of_groups,
    scenarios_of_hosts,
    scenarios_of_logins,
    scenarios_of_logs,
    scenarios_of_quotas,
    scenarios_of_ports,
    scenarios_of_readers,
    scenarios_of_requests,
    scenarios_of_rights,
    scenarios_of_schemas,
    scenarios_of_share_groups,
    scenarios_of_share_states,
    scenarios_of_the_quorum,
    scenarios_of_exactly_once,
    scenarios_of_tls,
    scenarios_of_transactions,
)
