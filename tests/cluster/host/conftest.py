"""A host as a process, with its file; everything that was started is ended by its pid."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from raftka.cluster.notices import VARIABLE, Notices
from raftka.cluster.ports import HeldPorts

FROM_CHECKOUT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PATIENCE_SECONDS = 60.0


class HostProcess:
    """One host of `brokers` brokers, the only one of its cluster, in a folder."""

    def __init__(self, folder: Path, brokers: int, ports: HeldPorts) -> None:
        self.folder, self.brokers = folder, brokers
        self.port, (self.page_port, controller) = ports.add_row(brokers), ports.numbers
        self.file = folder / "server.properties"
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "10",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"10@127.0.0.1:{controller}",
            "log.dirs": str(folder / "data"),
            "metrics.port": str(self.page_port),
        }
        self.notices = Notices()
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> subprocess.Popen[str]:
        self.file.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "raftka.cli",
                    "host",
                    "start",
                    str(self.file),
                    "--brokers",
                    str(self.brokers),
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**FROM_CHECKOUT, VARIABLE: self.notices.address},
                start_new_session=True,
            )
        return self.process

    @property
    def ids(self) -> range:
        return range(10, 10 + self.brokers)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def line(self) -> str:
        assert self.process is not None
        stream: IO[str] | None = self.process.stdout
        assert stream is not None
        return stream.readline().rstrip()

    def until_ready(self) -> None:
        assert self.line().startswith("bootstrap.servers="), self.log
        assert self.line().startswith("metrics=")

    def pid_of(self, broker: int) -> int:
        return int((self.folder / f"raftka-{broker}.pid").read_text())

    def end(self) -> None:
        """As SIGKILL does: the supervisor, and whatever of its brokers is left."""
        if self.process is not None:
            brokers = [int(path.read_text()) for path in self.folder.glob("raftka-*.pid")]
            self.process.kill()
            self.process.communicate()
            for pid in brokers:
                end_raftka(pid)
        self.notices.close()


def end_raftka(pid: int) -> None:
    """With SIGKILL, if it is one of ours; return when it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if b"raftka" in Path(f"/proc/{pid}/cmdline").read_bytes():
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(pidfd)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostProcess]:
    with HeldPorts(2) as ports:
        host = HostProcess(tmp_path, 2, ports)
        yield host
        host.end()
