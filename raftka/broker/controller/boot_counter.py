"""Count each node's starts on its disk, to detect a disk that was restored from a copy: it has lost
promises of its node.

A node counts its starts in its metadata directory and sends the number to every controller in its
greeting; controllers store it. A node that comes with a lower number than before, or with the same
number in another process, runs on an older copy. A copy that was made since the last start cannot
be detected.
"""

from random import Random
from typing import NamedTuple

from raftka.limits import CONTROLLER_CONNECTIONS
from raftka.log.checkpoints import CheckpointError, decode_lines, encode_lines
from raftka.runtime.interfaces import Files
from raftka.versions import STARTS
from raftka.wire.errors import ProtocolError

FILE = "starts"
ID_BYTES = 16


class OlderDisk(Exception):
    """Raised to stop this node: other nodes have seen a later state of its disk."""


class Start(NamedTuple):
    disk: bytes  # 16 bytes, made with the first start on it
    number: int
    process: bytes  # 16 bytes

    def is_before(self, other: "Start") -> bool:
        return self.disk == other.disk and (
            self.number < other.number
            or (self.number == other.number and self.process != other.process)
        )


def start_of(value: object) -> Start | None:
    """Read the start in a greeting. Raises ProtocolError."""
    match value:
        case None:
            return None
        case [bytes() as disk, int() as number, bytes() as process] if (
            len(disk) == len(process) == ID_BYTES
        ):
            return Start(disk, number, process)
    raise ProtocolError("a greeting with something else in the place of a start")


class BootCounter:
    """The starts of this node and of those that it has met. Raises OSError, NewerFormat, and
    CheckpointError for a damaged file.
    """

    def __init__(self, files: Files, directory: str, process: bytes, random: Random) -> None:
        self._files = files
        self._path = f"{directory}/{FILE}"
        files.make_directory(directory)
        (before, *others) = self._read() or [(-1, Start(random.randbytes(ID_BYTES), 0, process))]
        self.mine = Start(before[1].disk, before[1].number + 1, process)
        self._others = dict(others)
        self._write()

    def known(self, node_id: int) -> Start | None:
        """Return the last known start of another node."""
        return self._others.get(node_id)

    def met(self, node_id: int, start: Start) -> None:
        """Store a node's start. Raises ProtocolError if it runs on an older copy of its disk."""
        known = self._others.get(node_id)
        if known is not None and start.is_before(known):
            raise ProtocolError(
                f"node {node_id} runs on an older copy of its disk: start {start.number}, the "
                f"last one was {known.number}"
            )
        if start != known and (
            known is not None or len(self._others) < CONTROLLER_CONNECTIONS.value
        ):
            self._others[node_id] = start
            self._write()

    def _read(self) -> list[tuple[int, Start]]:
        """Return all starts, this node's own first."""
        if not self._files.exists(self._path):
            return []
        try:
            return [_read(line) for line in decode_lines(self._files.read(self._path), STARTS)]
        except ValueError as error:
            raise CheckpointError(
                f"{self._path} is damaged: {error}; remove it if this disk is not an older copy"
            ) from error

    def _write(self) -> None:
        starts = [(-1, self.mine), *self._others.items()]
        self._files.replace(
            self._path,
            encode_lines(
                f"{who} {disk.hex()} {number} {process.hex()}"
                for who, (disk, number, process) in starts
            ),
        )


def _read(line: str) -> tuple[int, Start]:
    who, disk, number, process = line.split(" ")
    return int(who), Start(bytes.fromhex(disk), int(number), bytes.fromhex(process))
