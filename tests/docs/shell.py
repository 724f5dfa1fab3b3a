"""The shell of one page: its blocks run in a folder, one after the other, with the stand-ins of
stand_in.py first in PATH.
"""

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docs.stand_in import ADDRESS, PIDS, PROGRAMS
from tests.kit.checkout import FROM_CHECKOUT

BLOCK_S = 120  # for one block, on a busy machine
END_S = 30


class Failed(AssertionError):
    """A block failed; the text has its output."""


class Shell:
    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        """`bootstrap_servers`: of the cluster that the commands use, until a block starts one."""
        self._work, programs = folder / "work", folder / "bin"
        self._pids = folder / "pids"
        self.numbers: dict[str, str] = {}  # of the page, and those that were printed in their place
        self._pids.write_text("")
        for name in PROGRAMS:
            program = programs / name
            programs.mkdir(parents=True, exist_ok=True)
            program.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -m tests.docs.stand_in {name} "$@"\n'
            )
            program.chmod(0o755)
        (self._work / ".venv").mkdir(parents=True)
        (self._work / ".venv" / "bin").symlink_to(programs)
        (self._work / "run").symlink_to(programs / "run")
        self.environment = {
            **FROM_CHECKOUT,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            PIDS: str(self._pids),
            ADDRESS: bootstrap_servers,
            "XDG_CONFIG_HOME": str(folder),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for pid in map(int, reversed(self._pids.read_text().split())):
            _end(pid)

    def touch(self, name: str) -> None:
        (self._work / name).touch()

    def script(self, text: str) -> str:
        """Run lines of a shell, which all have to succeed; return what they print."""
        return self._run("bash", "-euo", "pipefail", "-c", text)

    def python(self, text: str) -> str:
        """Run a program, with pytest where it has tests; it may await on Trio at its top."""
        program = self._work / "test_block.py"
        program.write_text(text)
        if re.search(r"^def test_", text, re.MULTILINE):
            options = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", ".")
            return self._run(sys.executable, "-m", "pytest", *options, program.name)
        return self._run(sys.executable, "-m", "tests.docs.top_level", program.name)

    def _run(self, *command: str) -> str:
        with (self._pids.parent / "out").open("w+") as out:
            done = subprocess.run(
                command,
                cwd=self._work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=BLOCK_S,
            )
            out.seek(0)
            printed = out.read()
        if done.returncode:
            raise Failed(f"exit code {done.returncode} of {command[-1]}\n{printed}")
        return printed


def _end(pid: int) -> None:
    """End a server that a block has started: it is no child of this process."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)

        if not select.select([handle], [], [], END_S)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
