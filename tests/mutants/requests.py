"""Planted where requests that come in one piece are answered together: what each of them must have, and where the first begins."""

from typing import Any

from raftka.checksum import crc32c
from raftka.log.log import Log
from raftka.wire.frame import FrameBuffer
from tests.mutants.registry import mutant


@mutant(Log, "append_alike")
def alike_batches_have_any_crc(append_alike: Any) -> Any:
    """Batches that are appended together get a new CRC of their bytes: a record that was damaged on its way is stored, and looks sound."""

    def bug(self: Log, start: bytes, headers: Any, crcs: Any, bodies: Any, *rest: Any) -> Any:
        return append_alike(self, start, headers, tuple(map(crc32c, bodies)), bodies, *rest)

    return bug


@mutant(FrameBuffer, "is_between_frames")
def alike_requests_begin_anywhere(_: Any) -> Any:
    """Bytes in the middle of a request that look like requests are taken for requests: the broker carries out a value that a client stores."""
    return property(lambda self: True)
