"""How fast record batches become Arrow, one core: what a Spark task does beside waiting for its broker. No broker and no Spark runs."""

import statistics
import time
from collections.abc import Iterator

from raftka.wire.compression import NAMES
from raftka.wire.records import build_batch

RECORDS = 40_000  # an answer of 4 MB
BATCHES = {"16 KB, as Java's producers make them": 141, "100 KB": 1000}


def rows(runs: int) -> Iterator[str]:
    from raftka.pipeline.records.decode import Decoder

    for title, count in BATCHES.items():
        for codec, name in enumerate(NAMES):
            data = _answer(count, codec)
            seconds = []
            for _ in range(runs + 1):  # the first one is warm-up
                begin = time.process_time()
                found = sum(batch.num_rows for batch in Decoder(data, "trucks", 0, 0, RECORDS).batches())
                seconds.append(time.process_time() - begin)
                assert found == RECORDS, found
            yield f"| {title} | {name} | **{RECORDS / statistics.median(seconds[1:]) / 1e6:.2f}** |"


def _answer(count: int, codec: int) -> bytes:
    """Records of 100 bytes, ten of them the key."""
    out = bytearray()
    for base in range(0, RECORDS, count):
        records = [(b"k%09d" % at, b"%045d" % at * 2, (), 1_700_000_000_000 + at) for at in range(base, min(base + count, RECORDS))]
        out += build_batch(records, base_offset=base, compression=codec)
    return bytes(out)
