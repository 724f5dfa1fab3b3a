"""confluent-kafka on librdkafka 2.0.2, Debian 12's, or the oldest that installs here: records over
a killed leader, and administration.
"""

import json

from raftka.cluster.processes import Processes
from tests.clients.workload import TOPIC, by_key, create_topic, expected, feed, parsed, run
from tests.kit.toolchains import HERE, Program

OLD_CLIENT = str(HERE / "old_client.py")


def test_keyed_records_survive_a_killed_leader(
    old_confluent_kafka: Program, three_processes: Processes
) -> None:
    create_topic(three_processes)
    feed(
        [
            *old_confluent_kafka.command,
            OLD_CLIENT,
            "produce",
            three_processes.bootstrap_servers,
            TOPIC,
        ],
        three_processes,
        old_confluent_kafka.env,
    )

    read = run(
        [
            *old_confluent_kafka.command,
            OLD_CLIENT,
            "consume",
            three_processes.bootstrap_servers,
            TOPIC,
        ],
        old_confluent_kafka.env,
    )
    assert by_key(parsed(read)) == expected(kills=1)


def test_administration(old_confluent_kafka: Program, three_processes: Processes) -> None:
    command = [
        *old_confluent_kafka.command,
        OLD_CLIENT,
        "administer",
        three_processes.bootstrap_servers,
        "t",
    ]
    found = json.loads(run(command, old_confluent_kafka.env))

    assert found.pop("librdkafka") < "2.7"
    assert found == {
        # the old AlterConfigs takes away what it does not name
        "configs": {"cleanup.policy": "compact", "retention.ms": "604800000"},
        "brokers": [1, 2, 3],
    }
