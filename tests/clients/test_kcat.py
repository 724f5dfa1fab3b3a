"""kcat: `-P` over a killed leader, `-C -p`, `-L`, `-Q`, as people type it."""

import json

from raftka.cluster.processes import Processes
from tests.clients.workload import (
    PARTITIONS,
    TOPIC,
    UNDER_WAY,
    by_key,
    create_topic,
    expected,
    feed,
    parsed,
    run,
)
from tests.kit.toolchains import Program


def test_keyed_records_survive_a_killed_leader(kcat: Program, three_processes: Processes) -> None:
    create_topic(three_processes)
    to = [*kcat.command, "-b", three_processes.bootstrap_servers, "-t", TOPIC]
    feed(
        [
            *to,
            "-P",
            "-K:",
            "-X",
            "enable.idempotence=true",
            "-X",
            f"queue.buffering.max.messages={UNDER_WAY}",
        ],
        three_processes,
        kcat.env,
    )

    read = [
        run([*to, "-C", "-p", str(p), "-o", "beginning", "-e", "-q", "-f", "%k:%s\n"], kcat.env)
        for p in range(PARTITIONS)
    ]
    assert by_key(record for printed in read for record in parsed(printed)) == expected(kills=1)


def test_metadata_headers_offsets_and_times(kcat: Program, three_processes: Processes) -> None:
    create_topic(three_processes)
    at = [*kcat.command, "-b", three_processes.bootstrap_servers]
    run(
        [*at, "-t", TOPIC, "-P", "-p", "3", "-K:", "-z", "zstd", "-H", "who=me", "-Z"],
        kcat.env,
        given="a:1\nb:\nc:3\n",
    )

    listed = json.loads(run([*at, "-L", "-J"], kcat.env))
    (topic,) = listed["topics"]
    assert {broker["id"] for broker in listed["brokers"]} == {1, 2, 3}
    assert (topic["topic"], len(topic["partitions"])) == (TOPIC, PARTITIONS)
    assert all(
        {each["id"] for each in partition["isrs"]} == {1, 2, 3} for partition in topic["partitions"]
    )

    read = [
        json.loads(line)
        for line in run(
            [*at, "-t", TOPIC, "-C", "-p", "3", "-o", "-3", "-e", "-q", "-J"], kcat.env
        ).splitlines()
    ]
    assert [(each["offset"], each["key"], each["payload"]) for each in read] == [
        (0, "a", "1"),
        (1, "b", None),
        (2, "c", "3"),
    ]
    assert all(each["headers"] == ["who", "me"] for each in read)
    first = next(each["offset"] for each in read if each["ts"] >= read[2]["ts"])
    assert (
        run([*at, "-Q", "-t", f"{TOPIC}:3:{read[2]['ts']}"], kcat.env)
        == f"{TOPIC} [3] offset {first}\n"
    )
    assert run([*at, "-Q", "-t", f"{TOPIC}:3:-1"], kcat.env) == f"{TOPIC} [3] offset 3\n"
    assert run([*at, "-Q", "-t", f"{TOPIC}:3:-2"], kcat.env) == f"{TOPIC} [3] offset 0\n"
