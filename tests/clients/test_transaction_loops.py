"""Transactions that follow each other without a pause, of Java's producer, and franz-go's own test
of transactions.
"""

import subprocess

import pytest

from raftka.cluster.processes import Processes
from tests.clients.workload import TOPIC, create_topic
from tests.kit.toolchains import Program

PARTITIONS = 6
PATIENCE_S = 300
# of franz-go's test, which has 1,000,000; it ends a transaction every 10,000, and 2,000 where it
# copies them
RECORDS = 20_000


@pytest.mark.parametrize(("ends", "rounds"), [("commits", 1_500), ("aborts", 500), ("ahead", 30)])
def test_transactions_of_java_follow_each_other_without_a_pause(
    java_transactions: Program, three_processes: Processes, ends: str, rounds: int
) -> None:
    create_topic(three_processes)
    command = [
        *java_transactions.command,
        three_processes.bootstrap_servers,
        TOPIC,
        str(PARTITIONS),
        str(rounds),
        ends,
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert done.returncode == 0, done.stdout


def test_franz_go_tests_its_transactions(
    franz_go_tests: Program, three_processes: Processes
) -> None:
    env = {
        **franz_go_tests.env,
        "KGO_SEEDS": three_processes.bootstrap_servers,
        "KGO_TEST_RECORDS": str(RECORDS),
        "KGO_TEST_RF": "3",
    }

    done = subprocess.run(
        [*franz_go_tests.command, "-test.run", "^TestTxnEtl$"],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "PASS" in done.stdout
