"""The voters with which a quorum begins at kraft.version 1 (KIP-853). `raftka broker format` writes
them into the metadata directory of each of them; they count until the log has its voters.

The file is gone as soon as the quorum's log has them: a node that loses its log later must not form
a quorum of its own.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from raftka.runtime.interfaces import Files

INITIAL_VOTERS = "initial-voters"
VOTER = re.compile(r"(\d{1,10})@(\[[0-9a-fA-F:]+\]|[^:@\s]+):(\d{1,5}):([A-Za-z0-9_-]{22})")


class InitialVoter(NamedTuple):
    node_id: int
    host: str
    port: int
    directory_id: bytes  # 16 bytes, of the directory with the metadata log


def parse_initial(text: str) -> tuple[InitialVoter, ...]:
    """Read `id@host:port:directory,...`, a directory's id as 22 characters. Raises ValueError."""
    found = []
    for each in text.split(","):
        match = VOTER.fullmatch(each)
        if match is None or not 0 < int(match[3]) < 65536:
            raise ValueError(f"voters must be id@host:port:directory,...: {each[:100]!r} is not")
        directory = urlsafe_b64decode(match[4] + "==")
        found.append(InitialVoter(int(match[1]), match[2].strip("[]"), int(match[3]), directory))
    if len({each.node_id for each in found}) < len(found):
        raise ValueError("a node is named twice")
    return tuple(sorted(found))


def show_initial(voters: tuple[InitialVoter, ...]) -> str:
    """Return the text that `parse_initial` reads."""
    return ",".join(_show(each) for each in voters)


def _show(voter: InitialVoter) -> str:
    host = f"[{voter.host}]" if ":" in voter.host else voter.host
    directory = urlsafe_b64encode(voter.directory_id).decode().rstrip("=")
    return f"{voter.node_id}@{host}:{voter.port}:{directory}"


def read_initial(files: Files, directory: str) -> tuple[InitialVoter, ...]:
    """Return the voters in a metadata directory; empty: it has none. Raises OSError, ValueError."""
    path = f"{directory}/{INITIAL_VOTERS}"
    return parse_initial(files.read(path).decode()) if files.exists(path) else ()


def write_initial(files: Files, directory: str, voters: tuple[InitialVoter, ...]) -> None:
    """Raises OSError."""
    files.replace(f"{directory}/{INITIAL_VOTERS}", show_initial(voters).encode())


def forget_initial(files: Files, directory: str) -> None:
    """Raises OSError."""
    if files.exists(f"{directory}/{INITIAL_VOTERS}"):
        files.remove(f"{directory}/{INITIAL_VOTERS}")
        files.sync_directory(directory)
