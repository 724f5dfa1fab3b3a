"""Thousands of keyed records through three processes whose leaders are killed: the part that all
clients share. Knows no client.
"""

import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from tempfile import TemporaryFile

from kafka import KafkaAdminClient

from raftka.cluster.ask import ask_any
from raftka.cluster.processes import Processes

TOPIC, PARTITIONS = "keyed", 6
ROUND, KEYS = 7_000, 50
# sent and not acknowledged at any time: so records are in flight when a leader dies, and most are
# not
UNDER_WAY = 1_000
PATIENCE_S = 120
# what lies there has not been read: little, for nothing is shown by a leader that dies before the
# first record comes
PIPE_BYTES = 4096


def create_topic(cluster: Processes) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_topics(
            {TOPIC: {"num_partitions": PARTITIONS, "replication_factor": 3}}, wait_for_metadata=True
        )
    finally:
        admin.close()


def records(cluster: Processes, kills: int = 2) -> Iterator[tuple[bytes, bytes]]:
    """Keys in turn, values count up within each key. After each round but the last a leader dies;
    it comes back in the middle of the next.
    """
    dead = 0
    for i in range(ROUND * (kills + 1)):
        if i and i % ROUND == 0:
            dead = leader(cluster, partition=i % PARTITIONS)
            cluster.kill(dead)
        if i > ROUND and i % ROUND == ROUND // 2:
            cluster.start(dead)
            cluster.wait_ready()
        yield b"key-%02d" % (i % KEYS), b"%d" % (i // KEYS)


def expected(kills: int = 2) -> dict[bytes, list[int]]:
    return {b"key-%02d" % key: list(range(ROUND * (kills + 1) // KEYS)) for key in range(KEYS)}


def feed(command: list[str], cluster: Processes, env: Mapping[str, str], kills: int = 1) -> None:
    """The records as lines `key:value` into a client's program, which ends well only when each was
    acknowledged.
    """
    with TemporaryFile() as said:
        client = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=env,
            bufsize=0,
            pipesize=PIPE_BYTES,
        )
        assert client.stdin is not None
        try:
            with suppress(BrokenPipeError), client.stdin:  # it says itself why it ended
                for key, value in records(cluster, kills):
                    client.stdin.write(b"%s:%s\n" % (key, value))
            client.wait(PATIENCE_S)
        finally:
            client.kill()
            client.wait()
        said.seek(0)
        assert client.returncode == 0, said.read().decode()


def run(command: list[str], env: Mapping[str, str], given: str | None = None) -> str:
    """Return the output of a client's program; it must end well."""
    done = subprocess.run(
        command,
        env=env,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def parsed(printed: str) -> Iterator[tuple[bytes, bytes]]:
    """Of lines `key:value`."""
    for line in printed.splitlines():
        key, _, value = line.encode().partition(b":")
        yield key, value


def leader(cluster: Processes, partition: int) -> int:
    alive = [
        address
        for node, address in zip(cluster.nodes.values(), cluster.addresses, strict=True)
        if node.alive
    ]
    return ask_any(alive, [TOPIC]).of(TOPIC)[partition].leader


def by_key(read: Iterable[tuple[bytes, bytes]]) -> dict[bytes, list[int]]:
    sequences: dict[bytes, list[int]] = defaultdict(list)
    for key, value in read:
        sequences[key].append(int(value))
    return sequences


def wait(holds: Callable[[], bool], state: Callable[[], str] = str) -> None:
    """`state`: what a failure says of how it is."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"it did not come to that: {state()}"
        time.sleep(0.05)
