"""systemd's notification protocol, both ends: a node says READY=1 when clients may come. Knows
neither node nor supervisor.
"""

import os
import socket
from collections.abc import MutableMapping
from tempfile import TemporaryDirectory

from raftka.runtime.real.choice import LINUX, chosen

VARIABLE = "NOTIFY_SOCKET"  # systemd's name: Type=notify works as it is


def notify(state: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Send `READY=1`, `STOPPING=1`, ... to who started us; nothing when nobody asked."""
    address = environment.get(VARIABLE)
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            pass  # who started us has gone: nobody to tell


class Notices:
    """The receiving end, for one child: its address goes into the child's environment."""

    def __init__(self) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        self._folder: TemporaryDirectory[str] | None = None
        if chosen() == LINUX:
            self._sock.bind("")  # the kernel picks a name that no file carries
            self.address = "@" + self._sock.getsockname()[1:].decode()
        else:
            self._folder = TemporaryDirectory(prefix="raftka-")
            self.address = os.path.join(self._folder.name, "notices")
            self._sock.bind(self.address)

    def fileno(self) -> int:
        return self._sock.fileno()

    def take(self) -> str:
        """The oldest message that was not taken yet; empty when there is none."""
        try:
            return self._sock.recv(4096).decode(errors="replace")
        except BlockingIOError:
            return ""

    def close(self) -> None:
        self._sock.close()
        if self._folder is not None:
            self._folder.cleanup()
