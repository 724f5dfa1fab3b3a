"""franz-go: every record of every key once and in order over a killed leader, and what its admin
package does.
"""

import json

from raftka.cluster.processes import Processes
from tests.clients.workload import TOPIC, by_key, create_topic, expected, feed, parsed, run
from tests.kit.toolchains import Program


def test_keyed_records_survive_a_killed_leader(
    franz_go: Program, three_processes: Processes
) -> None:
    create_topic(three_processes)
    feed(
        [*franz_go.command, "produce", three_processes.bootstrap_servers, TOPIC],
        three_processes,
        franz_go.env,
    )

    read = run(
        [*franz_go.command, "consume", three_processes.bootstrap_servers, TOPIC], franz_go.env
    )
    assert by_key(parsed(read)) == expected(kills=1)


def test_administration(franz_go: Program, three_processes: Processes) -> None:
    found = json.loads(
        run([*franz_go.command, "administer", three_processes.bootstrap_servers, "t"], franz_go.env)
    )

    assert 0 <= found.pop("partition") < 3
    assert found == {
        "configs": {"retention.ms": "7777", "cleanup.policy": "delete,compact"},
        "replicas": [1, 2, 3],
        "start": 4,
        "last sequence": 9,
    }
