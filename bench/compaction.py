"""Compaction beside the data path: how much log a second it works off, and what a producer of
another topic feels of it meanwhile.
"""

import json
import random
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from bench.load import BenchFailed, load
from bench.systems import Raftka
from raftka.cluster.ask import call
from raftka.metadata.image import TOPIC
from raftka.wire.frame import encode_request
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch

MIB = 1024 * 1024
VERSION = 9  # of Produce, the newest with the topic's name in it
NODE = {"log.cleaner.backoff.ms": "100"}
NEVER = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",
    "segment.bytes": str(64 * MIB),
    "max.message.bytes": str(2 * MIB),
}
BATCH_BYTES = 500_000
FILLED_MIB = {1000: 512, 100: 128}  # by the size of the values
RATE = 500
SETTLE_SECONDS = 6.0
PROBE, TABLE = "probe", "table-{}"
PATIENCE_SECONDS = 120.0

Figure = dict[str, float]


def rounds(runs: int, seconds: float, value_bytes: int) -> list[Figure]:
    """Each on a topic of its own: filled, then compacted while records come to another one. The
    second half supersedes the first.
    """
    figures = []
    with Raftka(1, NODE) as system:
        system.start()
        system.wait_ready()
        probe = system.create_topic(PROBE)
        arguments = f"produce -b 1 -a -1 -r {RATE}"
        load(arguments, probe, system.pids, PROBE, seconds)
        for run in range(runs):
            topic = TABLE.format(run)
            system.create_topic(topic, 1, NEVER)
            _fill(system.addresses[0], topic, value_bytes)
            # the recovery point is written down every five seconds; records above it are
            # not compacted
            time.sleep(SETTLE_SECONDS)
            calm = load(arguments, probe, system.pids, PROBE, seconds)
            busy, line = _while_compacting(
                system, topic, lambda: load(arguments, probe, system.pids, PROBE, seconds)
            )
            figures.append(
                {
                    "MBps": line["bytes_in"] / 1e6 / line["seconds"],
                    **{f"calm_{name}": calm[name] for name in ("p50us", "p99us")},
                    **{f"busy_{name}": busy[name] for name in ("p50us", "p99us")},
                }
            )
    return figures


def _fill(address: tuple[str, int], topic: str, value_bytes: int) -> None:
    """The same batches twice, over one connection."""
    chance = random.Random(1)
    values = [chance.randbytes(value_bytes // 2).hex().encode() for _ in range(100)]
    count, now = BATCH_BYTES // (value_bytes + 30), int(time.time() * 1000)
    batches = []
    for number in range(FILLED_MIB[value_bytes] * MIB // BATCH_BYTES // 2):
        rows = [
            (b"key-%09d" % (number * count + at), chance.choice(values), (), now)
            for at in range(count)
        ]
        batches.append(bytes(build_batch(rows)))
    with socket.create_connection(address) as connection:
        for batch in [*batches, *batches]:
            partition = PRODUCE.request.topic_data.partition_data(index=0, records=batch)
            topics = [PRODUCE.request.topic_data(name=topic, partition_data=[partition])]
            request = PRODUCE.request(
                transactional_id=None, acks=1, timeout_ms=10_000, topic_data=topics
            )
            connection.sendall(encode_request(PRODUCE, VERSION, 1, "bench", request))
            _skip_answer(connection)


def _skip_answer(connection: socket.socket) -> None:
    left = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
    while left:
        left -= len(connection.recv(left))


def _while_compacting(
    system: Raftka, topic: str, work: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the result of `work`, and the node's own line about the compaction."""
    found: list[dict[str, Any]] = []
    worker = threading.Thread(target=lambda: found.append(work()))
    _alter(system.addresses[0], topic, "min.cleanable.dirty.ratio", "0.01")
    worker.start()
    worker.join()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (lines := _lines(system, topic)):
        if time.monotonic() > deadline:
            raise BenchFailed(f"{topic} is not compacted")
        time.sleep(0.1)
    if not found:
        raise BenchFailed("the load did not run")
    return found[0], lines[0]


def _lines(system: Raftka, topic: str) -> Sequence[dict[str, Any]]:
    text = system.processes.nodes[1].plan.log_file.read_text()
    lines = [json.loads(line) for line in text.splitlines() if '"log_compacted"' in line]
    return [line for line in lines if line["partition"] == f"{topic}-0"]


def _alter(address: tuple[str, int], topic: str, name: str, value: str) -> None:
    resources = INCREMENTAL_ALTER_CONFIGS.request.resources
    configs = [resources.configs(name=name, config_operation=0, value=value)]
    request = INCREMENTAL_ALTER_CONFIGS.request(
        resources=[resources(resource_type=TOPIC, resource_name=topic, configs=configs)],
        validate_only=False,
    )
    answer = call(address, INCREMENTAL_ALTER_CONFIGS, request).responses[0]
    if answer.error_code:
        raise BenchFailed(f"{topic}: {answer.error_message}")
