"""Log managers over files in memory."""

from random import Random

from raftka.log.config import LogConfig
from raftka.log.manager import LogManager
from tests.log.files import MemoryFiles
from tests.log.given import NOW

ID, OTHER = bytes(range(16)), bytes(range(1, 17))
CONFIG = LogConfig(segment_bytes=500)


def manager(files: MemoryFiles, *paths: str, node: int = 1) -> LogManager:
    return LogManager.open(files, paths or ("data",), node, Random(1), NOW)
