"""The harness' side of shim.c: compiles it where there is a C compiler, and tells one node's disk
and clock what to do. Knows no nemesis.
"""

import mmap
import os
import random
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from struct import Struct

SOURCE = Path(__file__).with_name("shim.c")
COMPILERS = ("cc", "gcc", "clang")

HONEST, FAILING, LYING = range(3)  # what flushes are
FIELDS = ("flush", "flush_delay_us", "write_error", "write_delay_us", "wall_offset_ms")
COUNTERS = (
    "flushes_failed",
    "flushes_lied",
    "flushes_slow",
    "writes_refused",
    "writes_slow",
    "clock_skewed",
    "flushes",
)
NUMBER = Struct("=q")
LEDGER_AT, SLOTS = 4096, 1 << 16
SLOT = Struct("=Qq")  # inode, bytes that a flush has brought to the disk
SIZE = LEDGER_AT + SLOTS * SLOT.size


def compile_shim(folder: Path) -> tuple[Path | None, str]:
    """The library, or None and why there is none."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return None, "there is no C compiler (cc, gcc or clang)"
    library = folder / "shim.so"
    done = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        return None, f"{compiler} refuses the shim: {done.stderr.strip().splitlines()[:1]}"
    return library, ""


class Shim:
    """The shim of one node. Its settings and its ledger outlive the node's processes."""

    def __init__(self, library: Path, page: Path, below: Path) -> None:
        below.mkdir(parents=True, exist_ok=True)
        with page.open("wb") as file:
            file.truncate(SIZE)
        with page.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), SIZE)
        self._below = below
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "RAFTKA_SHIM_PAGE": str(page),
            "RAFTKA_SHIM_BELOW": str(below),
        }

    def set(self, **fields: int) -> None:
        for name, value in fields.items():
            NUMBER.pack_into(self._page, FIELDS.index(name) * NUMBER.size, value)

    def heal(self) -> None:
        self.set(**dict.fromkeys(FIELDS, 0))

    @property
    def healthy(self) -> bool:
        return not any(self._page[: len(FIELDS) * NUMBER.size])

    def count(self, counter: str) -> int:
        return int(
            NUMBER.unpack_from(self._page, (len(FIELDS) + COUNTERS.index(counter)) * NUMBER.size)[0]
        )

    def ledger(self) -> dict[int, int]:
        slots = SLOT.iter_unpack(self._page[LEDGER_AT:])
        return {inode: size for inode, size in slots if inode}

    def lose_power(self, chance: random.Random) -> int:
        """Lose power on a stopped node: unflushed bytes are lost, or a part of them, or become
        zeros. Returns the number of bytes.
        """
        ledger, lost = self.ledger(), 0
        for directory, _, names in os.walk(self._below):
            for name in names:
                lost += _cut(Path(directory, name), ledger, chance)
        return lost

    def close(self) -> None:
        self._page.close()


def _cut(path: Path, ledger: Mapping[int, int], chance: random.Random) -> int:
    try:
        file = path.stat()
    except FileNotFoundError:
        return 0
    safe = min(ledger.get(file.st_ino, 0), file.st_size)
    if safe == file.st_size:
        return 0
    # a torn tail now and then
    kept = chance.choice((safe, safe, chance.randint(safe, file.st_size)))
    zeros = chance.random() < 0.25  # the file is as long as it was, its blocks never came
    os.truncate(path, kept)
    if zeros:
        os.truncate(path, file.st_size)
    return file.st_size - kept
