"""Index entries of records that a power loss took: they must not come back with the next clean end."""

from raftka.log.segment import segment_path
from tests.log.given import DIRECTORY, NOW, append, batch, disk, open_log


def test_index_entries_of_lost_records_do_not_come_back_with_a_clean_end() -> None:
    files = disk()
    log = open_log(files, index_interval_bytes=100)
    for number in range(10):
        append(log, batch(2, timestamp=NOW + 10 * number, size=80))
    log.close(clean=True)
    path = segment_path(DIRECTORY, 0, ".log")
    data = files.read(path)
    files.replace(path, data[: len(data) // 2])  # a power loss took the tail of the records, and not that of the time index
    index = segment_path(DIRECTORY, 0, ".index")
    files.replace(index, files.read(index)[:8])

    log = open_log(files, recovery_point=10, index_interval_bytes=100)
    assert log.end_offset == 10
    log.close(clean=True)

    log = open_log(files, clean=True, recovery_point=10, index_interval_bytes=100)
    assert log.active.time_index.offsets[-1] < 10
    assert log.max_timestamp_offset(10) == (NOW + 41, 9, 0)
