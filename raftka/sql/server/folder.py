"""The folder of the SQL server of one user and cluster: its lock, its address with the token, its
logs. Only the user can read it.

    server.lock   held by the process that runs; who gets it may start one
    server.json   address, token and pid of the one that runs
    client.json   client properties of the cluster, where there are any
    server.log    what the process prints; spark.log: what Java prints
"""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from raftka.json_values import Json
from raftka.pipeline.locks import locked


def state_folder() -> Path:
    """Return the folder of what this user's programs keep."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "raftka"


class Address(NamedTuple):
    url: str
    token: str
    pid: int
    certificate: str = ""  # PEM, of a door with TLS: it is trusted as it is


class ServerFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, bootstrap: str, properties: Mapping[str, str]) -> "ServerFolder":
        """Return the one for a cluster and a login there, which need not exist."""
        servers = sorted(each.strip() for each in bootstrap.split(","))
        key = json.dumps([servers, sorted(properties.items())])
        return cls(state_folder() / "sql" / sha256(key.encode()).hexdigest()[:16])

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    def make(self) -> None:
        """Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)

    def try_lock(self) -> int | None:
        """Return a descriptor that holds the lock until it is closed; None: a server runs."""
        descriptor = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        if locked(descriptor):
            return descriptor
        os.close(descriptor)
        return None

    def address(self) -> Address | None:
        """Return the one that was written last; None: there is none."""
        try:
            return Address(**json.loads((self.path / "server.json").read_text()))
        except FileNotFoundError:
            return None

    def write_address(self, address: Address) -> None:
        self.write_json("server.json", address._asdict())

    def remove_address(self) -> None:
        (self.path / "server.json").unlink(missing_ok=True)

    def write_json(self, name: str, value: Json) -> Path:
        """Write a file for this user alone, whole at once."""
        made = self.path / f".{name}.{os.getpid()}"
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(value, file)
        return made.replace(self.path / name)
