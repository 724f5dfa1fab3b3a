"""Backups of a cluster of three nodes that is written to: what was acknowledged before is inside,
transactions are whole, offsets point at records; restored clusters have the same.
"""

import time
from dataclasses import dataclass

import pytest
from kafka import KafkaProducer

from raftka.backup.catalogue import manifests_in
from raftka.backup.create import Made, create
from raftka.backup.drill import drill, rehearsal
from raftka.backup.moment import as_of
from raftka.backup.places import Folder
from raftka.backup.verify import verify
from raftka.client.blocking.batch_reader import BatchReader
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.groups import committed
from raftka.client.blocking.reader import batches_of
from raftka.cluster.processes import Processes, running
from raftka.runtime.real.files import RealFiles
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.records import records_of
from tests.backup.load import GROUP, IN, OUT, PARTITIONS, PIPE, PLAIN, SECOND, Load, load_on

FILES = RealFiles(lambda done: done())


@dataclass
class Loaded:
    """Backups that were made under load, and what was acknowledged before each was begun."""

    place: Folder
    made: list[tuple[float, Made]]
    load: Load
    final: Made  # with a transaction open, and no load
    again: Made  # right behind it


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("backup")
    place = Folder(FILES, str(folder / "place"))
    with running(3, data=folder / "cluster") as cluster, Client(cluster.addresses) as client:
        made = []
        with load_on(cluster.bootstrap_servers) as load:
            wait_until(lambda: load.piped > 20 and len(load.acked) > 500 and load.commits > 2)
            for number in range(4):
                begun = time.time()
                made.append((begun, create(client, place, FILES, f"backup-{number}")))
                seen = len(load.acked)
                wait_until(lambda seen=seen: len(load.acked) > seen + 100)
        hang(cluster)
        final, again = (create(client, place, FILES, name) for name in ("final", "final-2"))
    return Loaded(place, made, load, final, again)


def wait_until(is_true) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def hang(cluster: Processes) -> None:
    """Leave a transaction open, with records in two topics."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="hangs")
    producer.init_transactions()
    producer.begin_transaction()
    for topic in (OUT, SECOND):
        producer.send(topic, b"open", partition=0)
    producer.flush()


def read_all(client: Client, topic: str) -> dict[int, dict[int, bytes]]:
    """Committed values by partition and offset."""
    wheres = [(topic, index) for index in range(PARTITIONS[topic])]
    starts, ends = (client.offsets(dict.fromkeys(wheres, at)) for at in (EARLIEST, LATEST))
    found: dict[int, dict[int, bytes]] = {index: {} for _, index in wheres}
    reader = BatchReader(client, starts, ends, committed=True)
    while not reader.is_over:
        for came in reader.poll(1.0):
            for header, batch, seen in batches_of(came.where, came.records, came.aborted):
                if seen and header.last_offset >= came.offset:
                    for record in records_of(batch):
                        found[came.where[1]][record.offset] = bytes(record.value or b"")
    reader.close()
    return found


def values(found: dict[int, dict[int, bytes]]) -> list[bytes]:
    return sorted(value for each in found.values() for value in each.values())


@pytest.mark.parametrize("number", [0, 3])
def test_a_backup_under_load_is_one_moment(loaded: Loaded, number: int) -> None:
    begun, made = loaded.made[number]
    with rehearsal(loaded.place, made.manifest, FILES) as (client, _):
        plain = read_all(client, PLAIN)
        before = [each for each in loaded.load.acked if each[3] <= begun]
        assert len(before) > 100
        for partition, offset, value, _ in before:
            assert plain[partition].get(offset) == value, "an acknowledged record is missing"
        once, twice = values(read_all(client, OUT)), values(read_all(client, SECOND))
        assert once == twice, "a transaction is torn"
        offset = committed(client, PIPE)[IN, 0]
        assert len(once) == offset, "a transaction's offset and its records differ"
        for group in (GROUP, PIPE):
            offsets = committed(client, group)
            ends = client.offsets(dict.fromkeys(offsets, LATEST))
            assert offsets
            assert all(offset <= ends[where] for where, offset in offsets.items())


def test_a_moment_before_the_cut_is_one_moment_too(loaded: Loaded) -> None:
    moment = int(loaded.made[2][0] * 1000)
    manifest = as_of(loaded.place, loaded.made[3][1].manifest, moment)

    with rehearsal(loaded.place, manifest, FILES, nodes=1) as (client, _):
        plain = read_all(client, PLAIN)
        late = [each for each in loaded.load.acked if each[3] * 1000 > manifest.cut_ms + 5_000]
        assert not [each for each in late if each[1] in plain[each[0]]]
        assert sum(map(len, plain.values())) > 100
        once, twice = values(read_all(client, OUT)), values(read_all(client, SECOND))
        assert once == twice, "a transaction is torn"
        assert len(once) == committed(client, PIPE)[IN, 0]


def test_all_backups_are_sound_and_later_ones_copy_nothing_again(loaded: Loaded) -> None:
    for manifest in manifests_in(loaded.place):
        found = verify(loaded.place, manifest)
        assert found.records > 500
        assert {GROUP, PIPE} <= found.groups
    assert loaded.made[0][1].known_bytes == 0
    assert all(made.known_bytes > 0 for _, made in loaded.made[1:])
    # coordinators may write a record in between
    assert loaded.again.linked_bytes + loaded.again.copied_bytes < loaded.again.known_bytes / 2
    before, after = (
        [each for each in made.manifest.partitions if each.topic in PARTITIONS]
        for made in (loaded.final, loaded.again)
    )
    assert before == after


def test_a_drill_finds_no_difference(loaded: Loaded) -> None:
    found = drill(loaded.place, loaded.final.manifest, FILES)

    assert found.differing == []
    assert found.offsets >= 4
    assert found.restored.aborted >= 2
    assert found.rto_s > 0


def test_what_was_open_is_aborted_and_its_producer_fenced(loaded: Loaded) -> None:
    with rehearsal(loaded.place, loaded.final.manifest, FILES, nodes=1) as (client, restored):
        assert restored.aborted == 2
        for topic in (OUT, SECOND):
            assert b"open" not in values(read_all(client, topic))
        # the last stable offset passes it: a reader of committed records reaches the end
        wheres: list[Where] = [(OUT, 0), (SECOND, 0)]
        ends = {
            (each.topic, each.index): each.end_offset for each in loaded.final.manifest.partitions
        }
        stable = client.offsets(dict.fromkeys(wheres, LATEST), 1)
        assert all(stable[where] > ends[where] for where in wheres)
