"""The file with a node's process id."""

import os
from pathlib import Path

import pytest

from raftka.cluster.pid_file import PidFile


def test_nodes_of_one_directory_write_their_files_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace
    others = iter([4243])

    def replace_after_the_other_node(self: Path, target: Path) -> Path:
        for other in others:  # writes and renames its file between our write and our rename
            with monkeypatch.context() as as_other:
                as_other.setattr(os, "getpid", lambda number=other: number)
                PidFile(target).write()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_after_the_other_node)
    file = PidFile(tmp_path / "raftka.pid")
    file.write()

    assert file.path.read_text(encoding="ascii") == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == [file.path]
