"""Two directories with logs of one name: of two topics, or of one."""

from random import Random

import pytest

from raftka.log.directory import DirectoryFailure, LogDirectoryError
from tests.log.files import MemoryFiles
from tests.log.given import append, batch
from tests.log.managers import CONFIG, ID, OTHER, manager


@pytest.mark.parametrize("wanted", [ID, OTHER])
def test_of_two_topics_of_one_name_in_two_directories_the_living_one_stays(wanted: bytes) -> None:
    """The topic was deleted and made again while a directory was away; checkpoints before the
    metadata is known keep what they say of both.
    """
    files = MemoryFiles()
    manager(files, "a", "b").close({})
    for path, topic_id, records in (("a", ID, 5), ("b", OTHER, 7)):
        logs = manager(files, path)
        log = logs.get_or_create("t", 0, topic_id, CONFIG)
        append(log, batch(records))
        log.set_start_offset(records - 2)
        logs.write_checkpoints({("t", 0): records})
        logs.close({("t", 0): records})
    for _ in range(2):
        logs = manager(files, "a", "b")
        assert {bytes(topic_id) for held in logs.held().values() for topic_id, _ in held} == {
            ID,
            OTHER,
        }
        logs.write_checkpoints({})
        for home in logs.directories:
            home.unlock()
    logs = manager(files, "a", "b")

    log = logs.get_or_create("t", 0, wanted, CONFIG)

    records = 5 if wanted == ID else 7
    assert (log.end_offset, log.start_offset) == (records, records - 2)
    assert logs.high_watermark("t", 0) == records
    logs.remove_namesakes(list(logs.namesakes))
    assert [path for path in ("a", "b") if "t-0" in files.list(path)] == [
        "a" if wanted == ID else "b"
    ]
    logs.close({("t", 0): records})
    assert manager(files, "a", "b").get_or_create("t", 0, wanted, CONFIG).end_offset == records


def test_a_namesake_in_a_directory_that_fails_is_offline() -> None:
    files = MemoryFiles()
    for path, topic_id in (("a", ID), ("b", OTHER)):
        logs = manager(files, path)
        append(logs.get_or_create("t", 0, topic_id, CONFIG), batch(5))
        logs.close({})
    logs = manager(files, "a", "b")

    logs.fail(logs.directories[1], OSError("gone"))

    assert logs.lies_offline(("t", 0), OTHER)
    assert not logs.lies_offline(("t", 0), ID)
    with pytest.raises(DirectoryFailure):
        logs.get_or_create("t", 0, OTHER, CONFIG)
    assert logs.get_or_create("t", 0, ID, CONFIG).end_offset == 5


def test_two_logs_of_one_topics_partition_are_refused() -> None:
    files = MemoryFiles()
    for path in ("a", "b"):
        logs = manager(files, path)
        append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
        logs.close({})

    with pytest.raises(LogDirectoryError, match="t-0 lies in a and in b"):
        manager(files, "a", "b")


@pytest.mark.parametrize("fails", ["a", "b"])
def test_a_log_that_was_made_while_a_directory_was_away_takes_the_place_of_what_lies_there(
    fails: str,
) -> None:
    """The replica went elsewhere and came back; the power goes before the next start."""
    files = MemoryFiles()
    logs = manager(files, "a", "b")
    logs.preferred["t", 0] = next(home for home in logs.directories if home.path == fails)
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(5))
    logs.close({})
    logs = manager(files, "a", "b")
    logs.get_or_create("t", 0, ID, CONFIG)
    logs.fail(logs.home(("t", 0)), OSError("gone"))
    logs.remove([("t", 0)])
    append(logs.get_or_create("t", 0, ID, CONFIG), batch(7))

    files = files.power_loss(Random(fails))
    logs = manager(files, "a", "b")

    assert logs.get_or_create("t", 0, ID, CONFIG).end_offset == 7
    assert logs.home(("t", 0)).path != fails
    logs.close({})
    assert manager(files, "a", "b").get_or_create("t", 0, ID, CONFIG).end_offset == 7
