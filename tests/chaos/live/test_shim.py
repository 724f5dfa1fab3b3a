"""Effects of the preload shim on the files and the clock of a process, with raftka's own ways of
flushing: by the kernel, and by threads.
"""

import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.chaos.live.shim import FAILING, LYING, Shim, compile_shim
from raftka.runtime.real.choice import LINUX, VARIABLE

WRITER = """
import queue, select, sys, time
from raftka.runtime.real.files import RealFiles
actions, outcome = queue.SimpleQueue(), []
files = RealFiles(actions.put)
file = files.open(sys.argv[1], create=True)
try:
    file.append([b"x" * 1000])
    files.flush([file], outcome.append)
    while not outcome:
        assert files.flusher.kernel is not None
        if select.select([files.flusher.kernel.eventfd], [], [], 0.01)[0]:
            files.flusher.ready(1)
        while not actions.empty():
            actions.get()()
except OSError as error:
    outcome.append(error)
print(time.time())
print(getattr(outcome[0], "errno", 0))
files.stop()
"""


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    library, why = compile_shim(tmp_path)
    if library is None:
        pytest.skip(why)
    found = Shim(library, tmp_path / "page", tmp_path / "data")
    yield found
    found.close()


def write(shim: Shim, path: Path) -> tuple[float, int]:
    """A process appends a thousand bytes and flushes. What time it believed in, and the error."""
    sources = os.pathsep.join(
        [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environment = {
        **os.environ,
        **shim.environment,
        "PYTHONPATH": sources,
        VARIABLE: LINUX,  # the shim stands before Linux' C library
    }
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    at, error = done.stdout.split()
    return float(at), int(error)


def test_honest_flushes_stand_in_the_ledger_and_survive_a_power_loss(
    shim: Shim, tmp_path: Path
) -> None:
    path = tmp_path / "data" / "x"
    assert write(shim, path)[1] == 0
    assert shim.ledger()[path.stat().st_ino] == 1000

    path.write_bytes(b"y" * 1500)  # nobody flushes that
    assert shim.lose_power(random.Random(1)) > 0
    assert path.read_bytes()[:1000] == b"y" * 1000
    assert path.read_bytes() != b"y" * 1500


def test_a_flush_fails(shim: Shim, tmp_path: Path) -> None:
    shim.set(flush=FAILING)
    assert write(shim, tmp_path / "data" / "x")[1] == errno.EIO
    assert shim.count("flushes_failed") == 1
    shim.heal()
    assert write(shim, tmp_path / "data" / "x")[1] == 0


def test_a_lie_is_found_out_by_a_power_loss(shim: Shim, tmp_path: Path) -> None:
    path = tmp_path / "data" / "x"
    shim.set(flush=LYING)
    assert write(shim, path)[1] == 0
    assert shim.count("flushes_lied") == 1
    assert not shim.ledger()

    assert shim.lose_power(random.Random(1)) > 0


def test_a_slow_flush_and_a_full_disk(shim: Shim, tmp_path: Path) -> None:
    shim.set(flush_delay_us=1000)
    assert write(shim, tmp_path / "data" / "x")[1] == 0
    assert shim.count("flushes_slow") == 1

    shim.set(write_error=errno.ENOSPC)
    assert write(shim, tmp_path / "data" / "x")[1] == errno.ENOSPC
    assert shim.count("writes_refused") == 1
    # only what lies in the node's directory suffers
    assert write(shim, tmp_path / "elsewhere")[1] == 0


def test_the_clock_on_the_wall_is_wrong(shim: Shim, tmp_path: Path) -> None:
    shim.set(wall_offset_ms=-3_600_000)

    at, _ = write(shim, tmp_path / "data" / "x")

    assert time.time() - 7_200 < at < time.time() - 3_000
    assert shim.count("clock_skewed") > 0
