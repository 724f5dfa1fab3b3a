"""`./run hashes`: a tree has the traces of its copy, and a copy that decides otherwise has not."""

import shutil
from pathlib import Path

from bench.hashes import HERE, hashes


def test_a_copy_has_the_same_hashes_until_it_decides_otherwise(tmp_path: Path) -> None:
    for folder in ("raftka", "compat"):
        shutil.copytree(
            HERE / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    before = hashes(HERE, "small", "0-5", 1)
    assert len(before) == 6
    assert hashes(tmp_path, "small", "0-5", 1) == before

    engine = tmp_path / "raftka/metadata/quorum/raft_engine.py"
    source = engine.read_text()
    changed = source.replace("(1 + self.random.random() / 2)", "(1 + self.random.random() / 3)")
    assert changed != source
    engine.write_text(changed)
    assert hashes(tmp_path, "small", "0-5", 1) != before
