"""@platformatic/kafka, whose consumers of the new protocol end when they are assigned a partition
that their metadata do not have.
"""

import json

from raftka.cluster.processes import Processes
from tests.clients.workload import run
from tests.kit.toolchains import Program


def test_consumers_read_all_partitions_of_a_topic_that_grows(
    platformatic: Program, three_processes: Processes
) -> None:
    found = json.loads(
        run(
            [*platformatic.command, three_processes.bootstrap_servers, "growing", "4"],
            platformatic.env,
        )
    )

    assert found == {"missing": [], "partitions": 10}
