"""Leave a data directory of the present code as a golden file: `python -m bench.data_directory
VERSION [OUT]`.

`./run release` makes one for each release, under tests/data_directories/, and a test starts all
later code on it. Three nodes hold topics of all kinds, transactions, groups of both protocols, ACLs
and logins, settings, schemas, znodes.
"""

import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from raftka.client.blocking.client import Client, check
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.transaction import Identity, begin, end
from raftka.versions import LEVELS
from raftka.wire.compression import NAMES
from raftka.wire.messages.delete_records import DELETE_RECORDS
from tests.kit.versions.directory import (
    FOLDER,
    LONGEST,
    PASSWORD,
    USER,
    Running,
    latest,
    pack,
    plain_login,
    running_on,
)
from zookeeper_bridge.client import blocking as zookeeper
from zookeeper_bridge.protocol.jute import Acl
from zookeeper_bridge.protocol.opcodes import Op

LARGEST_BYTES = 300_000
AT_MS = 1_700_000_000_000  # the time of all records
KEEP = "-c retention.ms=-1"
TOPICS = {  # name: what `raftka topics create` is given beside it
    "plain": f"--partitions 2 {KEEP}",
    "compacted": "-c cleanup.policy=compact",
    "both": f"-c cleanup.policy=compact,delete {KEEP}",
    "segments": f"-c internal.segment.bytes=2000 {KEEP}",
    "codecs": KEEP,
    "stamped": f"-c message.timestamp.type=LogAppendTime {KEEP}",
    "trimmed": KEEP,
    "empty": "--partitions 3",
    "moved": f"--replication-factor 1 {KEEP}",
    "transactions": KEEP,
    "deleted": KEEP,
}
TRIMMED_TO = 5
EPHEMERAL = 1  # flag of Create
Pairs = Sequence[tuple[str, str | None]]


def fill(running: Running) -> dict[str, Any]:
    """Write everything, and return what must be read back."""
    for name, options in TOPICS.items():
        running.command(f"topics create {name} {options}")
    running.command("topics delete deleted")
    with running.client() as client:
        expected = {
            "level": LEVELS[-1].number,
            "records": _records(client),
            **_compacted(client),
            **_transactions(client),
            "groups": _groups(running),
        }
        _trim(client)
    expected["moved"] = _move(running)
    return {
        **expected,
        **_security(running),
        "configs": _configs(running),
        "schemas": _schemas(running),
        "znodes": _znodes(running),
    }


def _write(
    client: Client,
    topic: str,
    pairs: Pairs,
    partition: int = 0,
    compression: int = 0,
    identity: Identity | None = None,
) -> list[list[str | None]]:
    producer = Producer(client, compression=compression, identity=identity)
    for key, value in pairs:
        data = None if value is None else value.encode()
        producer.add((topic, partition), (key.encode(), data, (("h", b"1"),), AT_MS))
        if topic == "segments":
            producer.flush()
    producer.flush()
    return [[key, value] for key, value in pairs]


def _numbered(count: int, word: str) -> Pairs:
    return [(f"{word}-{each}", f"value {each} of {word}") for each in range(count)]


def _records(client: Client) -> dict[str, Any]:
    """By partition, in their order."""
    codecs: list[list[str | None]] = []
    for codec, name in enumerate(NAMES):
        codecs += _write(client, "codecs", _numbered(20, name), compression=codec)
    return {
        "plain-0": _write(client, "plain", _numbered(100, "zero")),
        "plain-1": _write(client, "plain", _numbered(50, "one"), 1),
        "segments-0": _write(client, "segments", [(f"k{each}", "v" * 500) for each in range(20)]),
        "codecs-0": codecs,
        "stamped-0": _write(client, "stamped", _numbered(10, "stamped")),
        "trimmed-0": _write(client, "trimmed", _numbered(10, "trimmed"))[TRIMMED_TO:],
        "empty-2": [],
        "moved-0": _write(client, "moved", _numbered(10, "moved")),
    }


def _compacted(client: Client) -> dict[str, Any]:
    pairs: list[tuple[str, str | None]] = [
        *((f"key-{each % 7}", f"round {each}") for each in range(50)),
        ("key-3", None),
    ]
    return {"latest": {name: latest(_write(client, name, pairs)) for name in ("compacted", "both")}}


def _transactions(client: Client) -> dict[str, Any]:
    written: dict[str, list[list[str | None]]] = {}
    for name, timeout_ms, commit in (
        ("committed", 60_000, True),
        ("aborted", 60_000, False),
        ("open", int(LONGEST), None),
    ):
        identity = begin(client, f"id-{name}", timeout_ms)
        written[name] = _write(client, "transactions", _numbered(5, name), identity=identity)
        if commit is not None:
            end(client, identity, commit=commit)
    return {
        "committed": written["committed"],
        "uncommitted": [record for records in written.values() for record in records],
        "transactions": {
            "id-committed": ["CompleteCommit"],
            "id-aborted": ["CompleteAbort"],
            # its time has passed when a later release reads it
            "id-open": ["Ongoing", "PrepareAbort", "CompleteAbort"],
        },
    }


def _trim(client: Client) -> None:
    topic = DELETE_RECORDS.request.topics
    row = topic(name="trimmed", partitions=[topic.partitions(partition_index=0, offset=TRIMMED_TO)])
    answer = client.ask_leader(
        ("trimmed", 0), DELETE_RECORDS, DELETE_RECORDS.request(topics=[row], timeout_ms=30_000)
    )
    check(answer.topics[0].partitions[0].error_code, "DeleteRecords")


def _groups(running: Running) -> dict[str, Any]:
    """Static members stay when their processes go."""
    of_protocol: dict[str, dict[str, object]] = {
        "classic": {"session.timeout.ms": 1_800_000, "max.poll.interval.ms": 1_800_000},
        "consumer": {"group.protocol": "consumer"},
    }
    for group, options in of_protocol.items():
        consumer = Consumer(
            {
                "bootstrap.servers": running.bootstrap_servers,
                "group.id": group,
                "group.instance.id": f"{group}-1",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **options,
            }
        )
        consumer.subscribe(["plain"])
        left, deadline = 150, time.monotonic() + 120
        while left:
            assert time.monotonic() < deadline, f"{group} misses {left} records"
            message = consumer.poll(1.0)
            left -= message is not None and not message.error()
        consumer.commit(asynchronous=False)
        consumer.close()
    return {
        group: {
            "offsets": {"plain-0": 100, "plain-1": 50},
            "member": running.command(f"groups describe {group}")[0]["member"],
        }
        for group in of_protocol
    }


def _move(running: Running) -> list[int]:
    """Move a replica to the next broker, and return where it is to be."""
    before = running.command("topics describe moved")[0]["replicas"][0]
    wanted = [before % 3 + 1]
    plan = f'{{"partitions": [{{"topic": "moved", "partition": 0, "replicas": {wanted}}}]}}'
    running.command("reassign execute - --wait", plan)
    return wanted


def _security(running: Running) -> dict[str, Any]:
    running.command("acls create --principal User:ada --operation read --topic plain")
    running.command("acls create --principal User:bob --operation all --topic secret --deny")
    running.command("users set ada --mechanism SCRAM-SHA-256 --password-file -", "ada-secret\n")
    running.command("quotas set --user ada producer_byte_rate=1048576")
    token = running.command("tokens create --renewer ada", logged_in=plain_login(USER, PASSWORD))[0]
    return {
        "acls": ["User:ada", "User:bob"],
        "user": ["ada", "ada-secret"],
        "quota": 1048576.0,
        "token": [token["token"], token["hmac"]],
    }


def _configs(running: Running) -> dict[str, Any]:
    running.command("configs alter broker -c message.max.bytes=2000000")
    running.command("configs alter topic empty -c max.message.bytes=12345")
    return {"broker": ["message.max.bytes", "2000000"], "empty": ["max.message.bytes", "12345"]}


def _schemas(running: Running) -> dict[str, Any]:
    """By subject: type and text, as the registry has them."""
    texts = {
        "avro-value": ("AVRO", '{"type":"record","name":"r","fields":[]}'),
        "json-value": ("JSON", '{"type":"object"}'),
        "protobuf-value": ("PROTOBUF", 'syntax = "proto3";\nmessage m {\n  int32 a = 1;\n}\n'),
    }
    for subject, (kind, text) in texts.items():
        running.ask_registry(f"/subjects/{subject}/versions", {"schemaType": kind, "schema": text})
    return {subject: running.ask_registry(f"/subjects/{subject}/versions/1") for subject in texts}


def _znodes(running: Running) -> dict[str, str]:
    """By path. The session of the ephemeral one goes on without its client."""
    with zookeeper.ZooKeeperClient(running.bridges) as client:
        client.put("/app/config", b"kept")
    with zookeeper.ZooKeeperClient(running.bridges, "ada:ada-secret") as client:
        mine = [Acl(31, "auth", "")]
        client.ask(Op.CREATE, "/app/private", b"hidden", mine, 0)
    zookeeper.SESSION_MS = 600_000
    client = zookeeper.ZooKeeperClient(running.bridges)
    client.ask(Op.CREATE, "/app/lock", b"held", zookeeper.OPEN_TO_ALL, EPHEMERAL)
    client._socket.close()
    return {"/app/config": "kept", "/app/private": "hidden", "/app/lock": "held"}


def main(arguments: Iterable[str]) -> None:
    version, *rest = arguments
    out = Path(rest[0]) if rest else FOLDER / f"{version}.tar.xz"
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="raftka-") as name:
        folder = Path(name)
        with running_on(folder) as running:
            expected = fill(running)
        pack(folder, {"version": version, **expected}, out)
    size = out.stat().st_size
    if size > LARGEST_BYTES:
        raise SystemExit(f"{out} has {size} bytes, more than {LARGEST_BYTES}")
    print(f"{out}: {size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
