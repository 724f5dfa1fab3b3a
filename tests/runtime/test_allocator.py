"""Memory that is freed goes back to the kernel."""

import ctypes
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from raftka.runtime.real.allocator import give_memory_back

FREED = """
from pathlib import Path
from raftka.runtime.real.allocator import give_memory_back
if {settled}:
    assert give_memory_back()

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256

once = bytearray(b"x") * (20 << 20)
del once  # glibc has seen a large one: from now on it takes them from the heap
before = resident_mb()
large, pins = [], []
for _ in range(40):
    large.append(bytearray(b"x") * (1 << 20))
    pins.append(bytearray(b"x") * 2000)
del large
print(resident_mb() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_what_is_freed_goes_back_to_the_kernel() -> None:
    kept = [
        int(
            subprocess.check_output(
                [sys.executable, "-c", FREED.format(settled=settled)], timeout=60
            )
        )
        for settled in (False, True)
    ]

    assert kept[1] < 5 < kept[0]


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=None))

    assert not give_memory_back()
