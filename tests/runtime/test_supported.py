"""On Windows each entry point says in one sentence that it does not run there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.runtime.supported import NO_WINDOWS

ROOT = Path(__file__).parents[2]
# as on Windows: modules that it has not cannot be imported
WINDOWS = """
import sys
sys.path[:0] = {path!r}
import pytest, trio, click
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
sys.platform = "win32"
"""


@pytest.mark.parametrize(
    ("program", "last"),
    [
        ("from raftka.cli import main; main()", f"raftka: {NO_WINDOWS}"),
        ("from raftka.cluster import launch", f"ImportError: {NO_WINDOWS}"),
        ("from raftka.testing import Cluster", f"ImportError: {NO_WINDOWS}"),
        ("from raftka.client.blocking.client import Client", f"ImportError: {NO_WINDOWS}"),
        ("from raftka.http.thread import ServerThread", f"ImportError: {NO_WINDOWS}"),
        ("import raftka, raftka.testing.plugin; sys.exit('loaded')", "loaded"),
    ],
)
def test_windows_is_refused_in_one_sentence(program: str, last: str) -> None:
    """The plugin is loaded in every run of pytest where raftka is installed: it harms none."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", WINDOWS.format(path=[str(ROOT), *sys.path]) + program],
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == last
