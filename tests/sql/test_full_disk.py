"""Checkpoints on a disk that is full: queries say so, and go on when there is room."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip(
    "pyspark",
    reason="PySpark is not installed: ./run setup pipeline installs it into .venv/ (1 GB)",
)

from raftka.sql.engine.persistent import remove_unfinished
from raftka.testing import Cluster
from tests.kit.sql_queries import state_of, values, wait
from tests.sql.conftest import NewSession

pytestmark = pytest.mark.filterwarnings("default")

Resize = Callable[[str], None]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Resize]]:
    """A disk of 400 KB, and a function that gives it another size."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted by root")
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(command, check=False).returncode:
        pytest.skip("nothing can be mounted here")

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(place)], check=True)

    yield place, resize
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", 0) as file, suppress(OSError):
        while True:
            file.write(bytes(1024))


def test_files_that_were_begun_are_removed_and_others_stay(tmp_path: Path) -> None:
    kept = ["metadata", "offsets/0", "offsets/.0.crc", "commits/0"]
    begun = ["offsets/.1.5a.tmp", "offsets/..1.5a.tmp.crc", "commits/.0.6b.tmp"]
    for name in (*kept, *begun):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    remove_unfinished(tmp_path)

    found = [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()]
    assert sorted(found) == sorted(kept)


def test_a_query_on_a_full_disk_says_so_and_goes_on_when_there_is_room(
    new_session: NewSession, small_disk: tuple[Path, Resize], cluster: Cluster
) -> None:
    disk, resize = small_disk
    server = new_session(disk / "state")
    server.execute("CREATE STREAM plenty (n INT) WITH (PARTITIONS=1)")
    server.execute("CREATE STREAM copied WITH (PARTITIONS=1) AS SELECT n FROM plenty")
    wait(lambda: state_of(server, "csas_copied")["state"] == "running")
    fill(disk / "filled")

    server.execute("INSERT INTO plenty VALUES (1), (2), (3)")

    wait(lambda: "the disk is full" in str(state_of(server, "csas_copied")["error"]))
    assert "Next step: make room" in state_of(server, "csas_copied")["error"]
    resize("200m")
    server.execute("INSERT INTO plenty VALUES (4)")
    wait(lambda: len(values(cluster, "copied")) == 4)
    assert values(cluster, "copied") == [{"n": each} for each in (1, 2, 3, 4)]
    wait(lambda: state_of(server, "csas_copied")["error"] is None)
    server.execute("TERMINATE csas_copied")
