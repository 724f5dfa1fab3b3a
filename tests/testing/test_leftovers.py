"""Leftovers of clusters in other projects' tests."""

import os
import tempfile
import threading
from pathlib import Path

import pytest

from raftka.testing import Cluster


def test_nothing_stays_after_a_hundred_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with Cluster() as cluster:
            cluster.create_topic()
            assert list(tmp_path.iterdir()) != []

    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) <= files
    assert list(tmp_path.iterdir()) == []
