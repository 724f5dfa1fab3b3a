"""Backups of delayed topics: a drill compares what readers see, and pending records are delivered
once by the restored cluster.
"""

import time
from pathlib import Path

from kafka import KafkaProducer

from raftka.backup.create import create
from raftka.backup.drill import drill, rehearsal
from raftka.backup.places import Folder
from raftka.client.blocking.batch_reader import BatchReader
from raftka.client.blocking.client import Client
from raftka.client.blocking.topics import create_topics
from raftka.cluster.processes import running
from raftka.log.delivery.due import DELIVER_AT
from raftka.runtime.real.files import RealFiles
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.records import iterate, records_of

FILES = RealFiles(lambda done: done())
WHERE = ("jobs", 0)
SOON_S, LATER_S = 8, 3_600


def produce(servers: str, **delays_s: int) -> None:
    """Send records, each in a batch of its own; the name is the value."""
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    for name, delay_s in delays_s.items():
        at = b"%d" % int((time.time() + delay_s) * 1000)
        producer.send("jobs", name.encode(), headers=[(DELIVER_AT, at)]).get(20)
    producer.close()


def visible(client: Client) -> list[bytes]:
    """Return the values that a consumer sees."""
    starts, ends = client.offsets({WHERE: EARLIEST}), client.offsets({WHERE: LATEST})
    reader, found = BatchReader(client, starts, ends), []
    while not reader.is_over:
        for came in reader.poll(1.0):
            for _, batch in iterate(came.records):
                found += [bytes(record.value or b"") for record in records_of(batch)]
    reader.close()
    return found


def test_pending_records_are_delivered_once_after_a_restore(tmp_path: Path) -> None:
    place = Folder(FILES, str(tmp_path / "place"))
    with running(1) as cluster, Client(cluster.addresses) as client:
        create_topics(client, ["jobs"], 1, 1, {"raftka.delivery": "delayed"})
        produce(cluster.bootstrap_servers, later=LATER_S)
        hidden = create(client, place, FILES, "hidden")
        produce(cluster.bootstrap_servers, now=0, soon=SOON_S, last=LATER_S)
        mixed = create(client, place, FILES, "mixed")

    for made in (hidden, mixed):
        assert drill(place, made.manifest, FILES, nodes=1).differing == []
    with rehearsal(place, mixed.manifest, FILES, nodes=1) as (client, _):
        deadline = time.monotonic() + 60
        while (found := visible(client)) == [b"now"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert found == [b"now", b"soon"]
