"""The programs in C: they compile without a warning, and agree with each other and with our own
wire format.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from bench import load, probe, shares
from bench.systems import Floor, Raftka
from raftka.wire.records import read_header, records_of

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler here: the load generator is not tested"
)


@pytest.mark.parametrize("name", [path.stem for path in sorted(load.SOURCES.glob("*.c"))])
def test_the_c_sources_compile_without_a_warning(name: str, tmp_path: Path) -> None:
    strict = ["-Wall", "-Wextra", "-Werror"]

    subprocess.run(
        ["cc", *load.FLAGS, *strict, "-o", tmp_path / name, load.SOURCES / f"{name}.c"], check=True
    )


def test_the_generator_counts_what_the_floor_took() -> None:
    with Floor() as floor:
        floor.start()
        floor.wait_ready()
        targets = floor.create_topic("t")
        written = load.load("produce -b 1000 -s 100 -d 5 -m 40", targets, floor.pids, "t", 5)
        read = load.load("fetch -b 1000 -s 100 -k 40 -m 40", targets, floor.pids, "t", 5)
        (segment,) = floor.folder.glob("floor-*.log")
        log = memoryview(segment.read_bytes())

    assert (written["done"], read["done"]) == (40, 40)
    header = read_header(log, 0)
    records = list(records_of(log[: header.length + 12], 1 << 20))
    assert (header.base_offset, header.count) == (0, written["records"])
    assert [len(record.value or b"") for record in records] == [100] * header.count


def test_an_error_is_an_error() -> None:
    with Floor() as floor, pytest.raises(load.BenchFailed, match="Connection refused"):
        load.load("produce", floor.create_topic("t"), [], "t", 1)


def test_members_of_a_share_group_accept_all_records_of_all_partitions() -> None:
    settings = {name: "1" for name in shares.SETTINGS if "topic" in name}
    with Raftka(1, {**shares.SETTINGS, **settings}) as system:
        system.start()
        system.wait_ready()
        found = shares.figures(system, 0.1)
        targets = system.wait_for_topic(shares.TOPIC, shares.PARTITIONS)
        ends = [shares.end_of(each) for each in targets]

    assert all(ends)
    assert len(found) == 4


def test_the_probe_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "GIVE_UP_SECONDS", 0.0)

    with pytest.raises(load.BenchFailed, match="no acknowledgement"):
        probe.until_acknowledged([("127.0.0.1", 1)], "t")
