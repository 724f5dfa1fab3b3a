"""The bytes on disk, entry by entry as Kafka writes them: offset index, time index, and the small
text files.
"""

import pytest

from raftka.log import checkpoints
from raftka.log.checkpoints import CheckpointError
from raftka.log.segments.index import OffsetIndex, TimeIndex
from raftka.versions import NewerFormat
from tests.log.files import MemoryFiles
from tests.log.given import DIRECTORY, NOW, append, batch, disk, open_log


def ints(data: bytes, *sizes: int) -> list[tuple[int, ...]]:
    rows, at = [], 0
    while at < len(data):
        row = []
        for size in sizes:
            row.append(int.from_bytes(data[at : at + size], "big"))
            at += size
        rows.append(tuple(row))
    return rows


def closed(**config: int) -> tuple[MemoryFiles, int]:
    """Ten batches of three records, the fifth the youngest but the last."""
    files = disk()
    log = open_log(files, **config)  # type: ignore[arg-type]
    for at in range(10):
        append(log, batch(3, seed=at, timestamp=NOW + (1000 if at == 4 else at)))
    size = log.segments.active.size // 10
    log.close(clean=True)
    return files, size


def test_an_index_entry_is_last_offset_and_position_of_the_batch_that_crosses_the_interval() -> (
    None
):
    files, size = closed(index_interval_bytes=200)
    assert 100 < size < 200

    # the first batch whose predecessors since the last entry are more than 200 bytes: every second
    assert ints(files.read(f"{DIRECTORY}/{0:020d}.index"), 4, 4) == [
        (3 * at + 2, at * size) for at in (2, 4, 6, 8)
    ]


def test_the_time_index_moves_forward_only_and_ends_with_the_largest() -> None:
    files, _ = closed(index_interval_bytes=200)

    assert ints(files.read(f"{DIRECTORY}/{0:020d}.timeindex"), 8, 4) == [
        (NOW + 4, 8),
        (NOW + 1002, 14),
    ]


def test_a_segment_that_is_sealed_has_its_largest_timestamp_although_no_interval_is_full() -> None:
    files, _ = closed()

    assert files.read(f"{DIRECTORY}/{0:020d}.index") == b""
    assert ints(files.read(f"{DIRECTORY}/{0:020d}.timeindex"), 8, 4) == [(NOW + 1002, 14)]


def test_lookups() -> None:
    index = OffsetIndex(100)
    for offset, position in (110, 4200), (130, 9000), (131, 13_500):
        index.append(offset, position)

    assert [index.lookup(offset) for offset in (100, 109, 110, 129, 130, 131, 500)] == [
        0,
        0,
        4200,
        4200,
        9000,
        13_500,
        13_500,
    ]
    assert [index.boundary(position) for position in (0, 4199, 4200, 8999, 20_000)] == [
        0,
        0,
        4200,
        4200,
        13_500,
    ]
    index.truncate(131)
    assert len(index) == 2


def test_time_lookups() -> None:
    index = TimeIndex(100)
    for timestamp, offset in (1000, 110), (2000, 120), (1500, 130), (2500, 131):
        index.append(timestamp, offset)

    assert [index.lookup(timestamp) for timestamp in (1, 1000, 1001, 2000, 2001, 9999)] == [
        100,
        100,
        110,
        110,
        120,
        131,
    ]
    assert index.last() == (2500, 131)
    index.truncate(131)
    assert index.last() == (2000, 120)


def test_an_index_file_that_is_cut_or_ends_in_zeros_gives_what_is_sound() -> None:
    index = OffsetIndex(0)
    for at in range(1, 5):
        index.append(10 * at, 5000 * at)
    data = index.unwritten()

    for size in range(len(data) + 1):
        assert len(OffsetIndex(0, data[:size])) == size // 8
    assert list(OffsetIndex(0, data + bytes(800)).offsets) == [10, 20, 30, 40]
    assert len(OffsetIndex(0, bytes(800))) == 0
    assert len(TimeIndex(0, bytes(1200))) == 0


def test_text_files_are_kafkas() -> None:
    topic_id = bytes.fromhex("a99a79771d50451951") + bytes(7)

    assert checkpoints.encode_offsets({("t", 1): 0, ("t", 0): 29400}) == b"0\n2\nt 1 0\nt 0 29400\n"
    assert checkpoints.encode_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert (
        checkpoints.encode_partition_metadata(topic_id)
        == b"version: 0\ntopic_id: qZp5dx1QRRlRAAAAAAAAAA"
    )
    assert (
        checkpoints.decode_partition_metadata(checkpoints.encode_partition_metadata(topic_id))
        == topic_id
    )
    assert checkpoints.encode_clean_shutdown(11) == b'{"version":0,"brokerEpoch":11}'
    assert checkpoints.decode_properties(
        b"#\n#Sat Nov 21 10:29:03 UTC 2026\nnode.id=1\ndirectory.id=2SR1rQLJvAbjNRmfYv_8ig\n"
        b"version=1\n"
    ) == {
        "node.id": "1",
        "directory.id": "2SR1rQLJvAbjNRmfYv_8ig",
        "version": "1",
    }
    assert (
        checkpoints.uuid_text(checkpoints.uuid_bytes("2SR1rQLJvAbjNRmfYv_8ig"))
        == "2SR1rQLJvAbjNRmfYv_8ig"
    )


def test_an_empty_checkpoint_says_nothing_and_a_cut_one_is_refused() -> None:
    whole = checkpoints.encode_offsets({("a", 0): 12, ("b-c", 3): 45})

    assert checkpoints.decode_offsets(whole) == {("a", 0): 12, ("b-c", 3): 45}
    assert checkpoints.decode_offsets(b"") == {}
    for size in range(1, len(whole)):
        with pytest.raises(CheckpointError):
            checkpoints.decode_offsets(whole[:size])


@pytest.mark.parametrize(
    "text", [b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\n2\na 0 1\n", b"0\n-1\n", b"x"]
)
def test_a_checkpoint_that_is_none(text: bytes) -> None:
    with pytest.raises(CheckpointError):
        checkpoints.decode_offsets(text)


def test_a_checkpoint_of_a_later_release_is_not_taken_for_a_damaged_one() -> None:
    with pytest.raises(NewerFormat):
        checkpoints.decode_offsets(b"1\n0\n")
