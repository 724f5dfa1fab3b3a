"""`raftka broker format` on real directories: what it writes, and what it refuses."""

from pathlib import Path

import pytest

from raftka.cli.format_node import format_node
from raftka.log.checkpoints import META_PROPERTIES, decode_properties, uuid_text
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.quorum.initial_voters import InitialVoter, read_initial
from raftka.runtime.real.files import RealFiles

IDS = {node_id: uuid_text(bytes(15) + bytes([node_id])) for node_id in (1, 2, 3)}
THREE = ",".join(f"{node_id}@h{node_id}:9093:{of_node}" for node_id, of_node in IDS.items())


def properties(folder: Path, **changed: str) -> str:
    given = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "one.example.org:9093",
        "log.dirs": f"{folder}/a,{folder}/b",
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items() if value))
    return str(file)


def written(folder: Path) -> tuple[InitialVoter, ...]:
    return read_initial(RealFiles(lambda done: done()), f"{folder}/a/{METADATA_DIRECTORY}")


def directory_of(folder: Path, name: str = "a") -> str:
    return decode_properties((folder / name / META_PROPERTIES).read_bytes())["directory.id"]


def test_a_node_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_node(properties(tmp_path), standalone=True) == 0
    (voter,) = written(tmp_path)
    assert voter[:3] == (1, "one.example.org", 9093)
    assert uuid_text(voter.directory_id) == directory_of(tmp_path) != directory_of(tmp_path, "b")
    said = capsys.readouterr().out
    assert directory_of(tmp_path) in said
    assert "It forms a quorum of 1." in said


def test_a_node_of_three_has_the_directory_that_the_others_know(tmp_path: Path) -> None:
    assert format_node(properties(tmp_path, node_id="2"), initial=THREE) == 0
    assert [each.host for each in written(tmp_path)] == ["h1", "h2", "h3"]
    assert directory_of(tmp_path) == IDS[2]


def test_a_node_that_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_node(properties(tmp_path)) == 0
    assert written(tmp_path) == ()
    assert "quorum" not in capsys.readouterr().out


def test_directories_are_formatted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_node(properties(tmp_path), standalone=True) == 0
    assert format_node(properties(tmp_path), standalone=True) == 2
    assert "is formatted already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "initial", "said"),
    [
        ({"controller_quorum_voters": "1@h:9093"}, None, "needs no format"),
        ({"process_roles": "broker", "listeners": "PLAINTEXT://:9092"}, None, "no controller"),
        ({"metadata_log_dir": "/elsewhere"}, None, "leave metadata.log.dir out"),
        ({"controller_quorum_bootstrap_servers": "h:1"}, None, "no host is known"),
        ({"node_id": "4"}, THREE, "do not have node 4"),
        ({}, "1@h1:9093", "must be id@host:port:directory"),
    ],
)
def test_what_cannot_be_formatted(
    tmp_path: Path,
    changed: dict[str, str],
    initial: str | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = properties(tmp_path, **changed)
    assert format_node(file, standalone=initial is None, initial=initial) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
