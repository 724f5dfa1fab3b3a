"""The demo: its sources, its clock, and the whole of it with a small file."""

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from raftka.cluster import view
from raftka.cluster.ask import ClusterView, PartitionView
from raftka.cluster.demo import LINE_BYTES, TRUCKS, Lines, Outage, Trucks, report
from raftka.cluster.tally import Tally


def test_lines_are_dealt_over_the_keys_in_turn_and_lose_no_byte(tmp_path: Path) -> None:
    text = (
        b"".join(b"line %d\n" % i for i in range(50)) + b"\n" + b"x" * (LINE_BYTES + 1) + b"no end"
    )
    (tmp_path / "lines").write_bytes(text)
    source = Lines(tmp_path / "lines")

    records = list(source)

    assert b"".join(value for _, value in records) == text
    assert [key for key, _ in records[: TRUCKS + 1]] == [*source.keys, source.keys[0]]
    assert max(len(value) for _, value in records) <= LINE_BYTES
    assert source.progress == 1


def test_every_truck_says_where_it_is() -> None:
    source = Trucks()

    keys = [key for key, _ in islice(source, TRUCKS)]

    assert keys == source.keys
    assert len(set(keys)) == TRUCKS


def test_an_outage_ends_with_a_record_that_was_sent_after_it_began() -> None:
    tally = Tally([b"a", b"b"])
    tally.acknowledge(b"a", tally.send(b"a", b""), partition=0)
    under_way = tally.send(b"a", b"")
    outage = Outage(tally, partition=0)

    outage.acknowledged(b"a", under_way)
    outage.acknowledged(b"b", 100)  # of another partition
    assert outage.seconds is None

    outage.acknowledged(b"a", under_way + 1)
    assert outage.seconds is not None


def test_the_report_names_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally([b"a"])
    for _ in range(3):
        tally.acknowledge(b"a", tally.send(b"a", b""), partition=0)
    tally.send(b"a", b"")
    tally.read(b"a", 1, b"", 0)
    tally.read(b"a", 1, b"", 0)
    tally.read(b"a", 0, b"", 0)

    report(tally.verdict(), (), hashes=False)

    told = dict(
        line.strip().rsplit(maxsplit=1)
        for line in capsys.readouterr().out.splitlines()
        if line.strip()
    )
    assert told == {
        "acknowledged": "3",
        "read": "2",
        "lost": "1",
        "duplicated": "1",
        "out of order per truck": "1",
        "never acknowledged": "1",
    }


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"line %d\n" % i for i in range(5000)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}

    command = [sys.executable, "-m", "raftka", "demo", str(file)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=120
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SIGKILL to node") == 2
    assert "lost                     0" in done.stdout
    assert "all 10 partitions are led by their first replicas again" in done.stdout
    assert [path for path in tmp_path.iterdir() if path != file] == []


@pytest.mark.parametrize("there", [True, False])
def test_a_terminal_shows_a_table_where_rich_is_installed(
    monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(view, "find_spec", lambda name: object() if there else None)
    drawn: list[str] = []
    shown = view.View([("host", 1)], "t", Tally([]), lambda node_id: True)
    monkeypatch.setattr(shown, "_run_rich", lambda: drawn.append("a table"))
    monkeypatch.setattr(shown, "_each_second", lambda show: drawn.append("a line"))
    shown.run()
    assert drawn == ["a table" if there else "a line"]


def test_a_dead_node_is_not_shown_as_a_leader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also as long as the brokers have not noticed."""
    partitions = tuple(
        [
            PartitionView("t", index, leader, 1, (1, 2, 3), (1, 2, 3))
            for index, leader in enumerate((1, 2, 2, 3))
        ]
    )
    brokers = {each: ("host", each) for each in (1, 2, 3)}
    monkeypatch.setattr(view, "ask_any", lambda *_: ClusterView(brokers, 1, partitions))
    shown = view.View([("host", 1)], "t", Tally([]), lambda node_id: node_id != 2)

    shown._read_metadata()
    shown._print_line()

    assert "leaders none:2 1:1 3:1 " in capsys.readouterr().out
