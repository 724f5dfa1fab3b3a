"""A PostgreSQL server in a temporary folder, by an unprivileged user where the tests run as root:
initdb refuses root.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

USERS = ("postgres", "nobody")


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; None: PostgreSQL is not installed."""
    folders = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        *map(Path, os.environ.get("PATH", "").split(os.pathsep)),
    ]
    return next(
        (each for each in folders if (each / "initdb").is_file() and (each / "postgres").is_file()),
        None,
    )


def why_not() -> str | None:
    if programs() is None:
        return "PostgreSQL is not installed (on Debian: apt install postgresql)"
    if os.getuid() == 0 and shutil.which("runuser") is None:
        return "PostgreSQL does not run as root, and there is no runuser"
    return None


@contextmanager
def postgres(**settings: str) -> Iterator[str]:
    """The URL of a database of its own, on 127.0.0.1; `settings` of the server. Its folder is not
    pytest's, which other users may not enter.
    """
    with (
        TemporaryDirectory(prefix="raftka-postgres-") as folder,
        _running(Path(folder), settings) as url,
    ):
        yield url


@contextmanager
def _running(folder: Path, more: Mapping[str, str]) -> Iterator[str]:
    found = programs()
    assert found is not None
    prefix: list[str] = []
    if os.getuid() == 0:
        user = next(
            each
            for each in USERS
            if subprocess.run(["id", each], capture_output=True, check=False).returncode == 0
        )
        prefix = ["runuser", "-u", user, "--"]
        shutil.chown(folder, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "''",
        "fsync": "off",
        **more,
    }
    data = folder / "data"
    settings = f"-p {port} {' '.join(f'-c {name}={value}' for name, value in told.items())}"

    def call(program: str, *given: str) -> None:
        subprocess.run(
            [*prefix, str(found / program), *given],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )

    call("initdb", "-D", str(data), "-U", "raftka", "-A", "trust", "-E", "UTF8", "--no-sync")
    call("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", settings, "start")
    try:
        yield f"postgresql://raftka@127.0.0.1:{port}/postgres"
    finally:
        call("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
