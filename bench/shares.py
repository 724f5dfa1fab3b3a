"""Rows about share groups: records a second that a hundred members take and accept, and the time of
an acknowledgement.

The members are share.c. Ten share each partition. Each fetches, and accepts its records with a
ShareAcknowledge of its own, which is timed. All records that were produced are accepted once.
"""

import asyncio
import json
import subprocess

from bench.groups import Address, coordinator
from bench.load import BenchFailed, compiled, load
from bench.systems import System
from raftka.cluster.ask import call
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.list_offsets import LIST_OFFSETS
from raftka.wire.messages.metadata import METADATA

TOPIC, GROUP, PARTITIONS, MEMBERS = "shared", "shares", 10, 100
# as each system's defaults, but for the times that a group waits before it begins
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
# connections to all partitions; as many batches on each system, however long that takes
FILL = f"produce -b 16000 -s 100 -c {PARTITIONS} -d 2 -a -1"
BATCHES = 1500  # for each second
COUNTED = (0.25, 0.95)  # of all records: a JVM warms up, and the last ones are taken by few
PATIENCE_S = 120
GROUP_RESOURCE, SET = 32, 0
MAX_RECORDS = 500  # of a fetch, as clients have it (max.poll.records)

Run = dict[str, float]


def figures(system: System, seconds: float) -> dict[str, str]:
    """All of them, by title; the topic has BATCHES for each of so many seconds."""
    targets = system.create_topic(TOPIC, PARTITIONS)
    batches = int(BATCHES * seconds)
    filled = load(f"{FILL} -m {batches}", targets, system.pids, TOPIC, PATIENCE_S)
    if filled["done"] < batches:
        raise BenchFailed(f"{system.name}: only {filled['done']} of {batches} batches were written")
    found = _share(system, targets)
    ack_ms = [found[name] / 1000 for name in ("ack_p50us", "ack_p99us")]
    return {
        f"{MEMBERS} share consumers, {PARTITIONS} partitions: records accepted a second": (
            f"{found['rate']:,.0f}"
        ),
        "- CPU of all nodes, us a record": f"{found['us_each']:.2f}",
        "- ms of an acknowledgement, p50 (p99)": "{:.1f} ({:.1f})".format(*ack_ms),
        "- CPU of the load generator, % of a core": (
            f"{100 * found['client_cpu'] / found['secs']:.0f}"
        ),
    }


def _share(system: System, targets: list[str]) -> Run:
    """One run of share.c. Raises BenchFailed unless each record was accepted once."""
    _from_the_beginning(system.addresses[0])
    asked = METADATA.request(topics=[METADATA.request.topics(name=TOPIC)])
    (topic,) = call(system.addresses[0], METADATA, asked).topics
    host, port = asyncio.run(coordinator(system.addresses, GROUP))
    command = [
        str(compiled("share")),
        "-T",
        ",".join(f"{each}/{end_of(each)}" for each in targets),
        "-C",
        f"{host}:{port}",
        "-i",
        topic.topic_id.hex(),
        "-n",
        TOPIC,
        "-g",
        GROUP,
        "-c",
        str(MEMBERS),
        "-r",
        str(MAX_RECORDS),
        "-w",
        ",".join(map(str, COUNTED)),
        "-t",
        str(PATIENCE_S),
        "-p",
        ",".join(map(str, system.pids)),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_S + 60
    )
    if done.returncode:
        raise BenchFailed(f"{system.name}: {' '.join(command)}: {done.stderr.strip()}")
    result: Run = json.loads(done.stdout)
    if result["accepted"] != result["produced"]:
        raise BenchFailed(f"{system.name}: {' '.join(command)}: {result}")
    return result


def end_of(target: str) -> int:
    """Return the offset behind the last record of a target, HOST:PORT/PARTITION."""
    address, partition = target.rsplit("/", 1)
    host, port = address.rsplit(":", 1)
    topic = LIST_OFFSETS.request.topics
    row = topic(
        name=TOPIC, partitions=[topic.partitions(partition_index=int(partition), timestamp=-1)]
    )
    request = LIST_OFFSETS.request(topics=[row])
    answer = call((host, int(port)), LIST_OFFSETS, request, version=7)
    return answer.topics[0].partitions[0].offset


def _from_the_beginning(address: Address) -> None:
    row = INCREMENTAL_ALTER_CONFIGS.request.resources
    reset = row.configs(name="share.auto.offset.reset", config_operation=SET, value="earliest")
    resource = row(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[reset])
    answer = call(
        address,
        INCREMENTAL_ALTER_CONFIGS,
        INCREMENTAL_ALTER_CONFIGS.request(resources=[resource]),
    )
    if answer.responses[0].error_code:
        raise BenchFailed(f"the group's setting was refused: {answer.responses[0].error_message}")
