"""A log that is new, until it has its first record: what of it a loss of power may take."""

from random import Random

import pytest

from tests.log.files import MemoryFiles
from tests.log.managers import CONFIG, ID, manager


@pytest.mark.parametrize("seed", range(8))
def test_one_that_began_anew_keeps_its_offset(seed: int) -> None:
    """A follower whose leader's log begins later is in the ISR with that end, before it has a
    record.
    """
    files = MemoryFiles()
    log = manager(files).get_or_create("t", 0, ID, CONFIG)
    log.truncate_fully_and_start_at(7)
    assert log.flushed_offset == 7

    again = manager(files.power_loss(Random(seed))).get_or_create("t", 0, ID, CONFIG)
    assert (again.start_offset, again.end_offset) == (7, 7)
