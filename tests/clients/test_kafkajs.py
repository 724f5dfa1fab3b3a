"""kafkajs, whose newest requests are of 2022: its idempotent producer over a killed leader (read
with confluent-kafka), and its admin client.
"""

import json

from raftka.cluster.processes import Processes
from tests.clients.librdkafka_reader import read_all
from tests.clients.workload import TOPIC, by_key, create_topic, expected, feed, run
from tests.kit.toolchains import Program


def test_keyed_records_survive_a_killed_leader(
    kafkajs: Program, three_processes: Processes
) -> None:
    create_topic(three_processes)
    feed(
        [*kafkajs.command, "produce", three_processes.bootstrap_servers, TOPIC],
        three_processes,
        kafkajs.env,
    )

    assert by_key(read_all(three_processes.bootstrap_servers)) == expected(kills=1)


def test_administration(kafkajs: Program, three_processes: Processes) -> None:
    found = json.loads(
        run([*kafkajs.command, "administer", three_processes.bootstrap_servers, "t"], kafkajs.env)
    )

    assert found == {
        "created": True,
        # the old AlterConfigs takes away what it does not name
        "configs": {"cleanup.policy": "compact,delete", "retention.ms": "604800000"},
        "offsets": [
            {"partition": p, "offset": end, "high": end, "low": "0"} for p, end in enumerate("200")
        ],
        "afterwards": {"partition": 0, "offset": "2", "high": "2", "low": "1"},
        "moved": [3, 1],
        "brokers": [1, 2, 3],
    }
