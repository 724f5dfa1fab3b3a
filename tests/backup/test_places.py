"""Places: the same backup in a folder of another file system, and in an S3 store."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.backup.catalogue import clean_up, find, manifests_in, unfinished
from raftka.backup.create import create
from raftka.backup.drill import drill
from raftka.backup.errors import BackupError, Damaged
from raftka.backup.manifest import UNFINISHED
from raftka.backup.places import Folder, Place, open_place
from raftka.backup.verify import verify
from raftka.client.blocking.client import Client
from raftka.runtime.real.files import RealFiles
from raftka.testing import Cluster
from tests.backup.load import addresses, produce

FILES = RealFiles(lambda done: done())


class Unlinked(Folder):
    """On another file system than the brokers."""

    def link(self, source: str, path: str) -> bool:
        return False


class Elsewhere(RealFiles):
    """Files of a machine without brokers: all is asked of them."""

    def exists(self, path: str) -> bool:
        return False


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT", f"http://{host}:{port}")
        patch.setenv("AWS_ALLOW_HTTP", "true")
        boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1"
        ).create_bucket(Bucket="backups")
        yield "s3://backups/cluster"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Unlinked(FILES, str(tmp_path / "place"))
    url = request.getfixturevalue("s3")
    return open_place(f"{url}/{os.getpid()}-{request.node.name.replace('[', '-')}", FILES)


@pytest.mark.parametrize("files", [FILES, Elsewhere(lambda done: done())], ids=["near", "far"])
def test_a_backup_elsewhere_is_copied_once_and_restored(
    raftka_cluster: Cluster, place: Place, files: RealFiles
) -> None:
    topic = f"orders-{files is FILES}-{type(place).__name__}"
    raftka_cluster.create_topic(topic, 2)
    with Client(addresses(raftka_cluster)) as client:
        produce(client, topic, [b"%d" % number * 100 for number in range(3_000)])
        first = create(client, place, files, "first")
        produce(client, topic, [b"one more"])
        second = create(client, place, files, "second")

    assert first.linked_bytes == second.linked_bytes == 0
    assert first.copied_bytes > 500_000
    assert second.copied_bytes < 5_000
    assert [each.name for each in manifests_in(place)] == ["first", "second"]
    assert find(place, None) == second.manifest
    assert verify(place, second.manifest).records >= 3_001
    found = drill(place, second.manifest, FILES, nodes=1)
    assert found.differing == []


def test_a_place_has_backups_of_one_cluster(raftka_cluster: Cluster, tmp_path: Path) -> None:
    place = Folder(FILES, str(tmp_path))
    with Client(addresses(raftka_cluster)) as client:
        made = create(client, place, FILES, "first")
        with (
            Cluster() as other,
            Client(addresses(other)) as of_other,
            pytest.raises(BackupError, match="give this cluster a place of its own"),
        ):
            create(of_other, place, FILES, "second")
        with pytest.raises(BackupError, match="has a backup first: give another --name"):
            create(client, place, FILES, "first")

    assert manifests_in(place) == [made.manifest]


def test_leftovers_are_no_backup_and_are_removed(place: Place) -> None:
    place.write(f"{UNFINISHED}/torn", ())
    place.write("data/x.log", (b"abc", b"def"))

    assert unfinished(place) == ["torn"]
    assert place.read("data/x.log", 2, 100) == b"cdef"
    assert place.read("data/x.log", 6, 100) == b""
    assert clean_up(place) == ["data/x.log"]
    assert (unfinished(place), place.names("data")) == ([], [])


def test_damage_is_found(raftka_cluster: Cluster, tmp_path: Path) -> None:
    place = Folder(FILES, str(tmp_path))
    raftka_cluster.create_topic("damaged")
    with Client(addresses(raftka_cluster)) as client:
        produce(client, "damaged", [b"value" * 100] * 100)
        made = create(client, Unlinked(FILES, str(tmp_path)), FILES, "first")
    segment = next(
        each
        for part in made.manifest.partitions
        if part.topic == "damaged"
        for each in part.segments
    )
    path = tmp_path / segment.file
    whole = path.read_bytes()
    for position in (0, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(Damaged):
            verify(place, made.manifest)
    path.write_bytes(whole[:-1])
    with pytest.raises(Damaged, match="is missing, or too short"):
        verify(place, made.manifest)
    path.unlink()
    with pytest.raises(Damaged, match="is missing, or too short"):
        verify(place, made.manifest)
    path.write_bytes(whole)
    verify(place, made.manifest)


def test_a_manifest_is_checked(raftka_cluster: Cluster, tmp_path: Path) -> None:
    place = Folder(FILES, str(tmp_path))
    with Client(addresses(raftka_cluster)) as client:
        create(client, place, FILES, "first")
    path = tmp_path / "manifests" / "first.json"
    whole = path.read_bytes()
    for spoiled in (b"", whole[: len(whole) // 2], whole.replace(b'"held_ms":', b'"held_ns":')):
        path.write_bytes(spoiled)
        with pytest.raises(Damaged, match="no manifest that can be read"):
            manifests_in(place)
