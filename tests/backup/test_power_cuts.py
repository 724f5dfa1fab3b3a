"""The power goes at every file call of a backup and of a restore. RAFTKA_BACKUP_LIVES says how many
lives: 1,000 take some minutes.
"""

import os
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from raftka.backup.catalogue import manifests_in, unfinished
from raftka.backup.create import take
from raftka.backup.manifest import DATA, METADATA
from raftka.backup.places import Folder
from raftka.backup.restore import restore
from raftka.backup.verify import verify
from raftka.log.directory import LogDirectoryError, check_readable
from raftka.metadata.quorum.journal import Journal, Standing
from tests.backup.small import Source, plan_of, settings_of
from tests.log.files import MemoryFiles, PowerLoss

LIVES = int(os.environ.get("RAFTKA_BACKUP_LIVES", "120"))  # of each kind
PLACE = "place"


def until_power_goes(files: MemoryFiles, at_call: int, work: Callable[[], object]) -> bool:
    """Return whether it went before the work was done."""
    files.power_off_at = files.calls + at_call
    try:
        work()
    except PowerLoss:
        return True
    finally:
        files.power_off_at = None
        files.locked.clear()
    return False


def calls_of(files: MemoryFiles, work: Callable[[], object]) -> int:
    before = files.calls
    work()
    return files.calls - before


def backed_up(seed: int) -> tuple[MemoryFiles, Source, Folder]:
    """One backup is there, and more records have come since."""
    files = MemoryFiles()
    source, place = Source.make(files, seed), Folder(files, PLACE)
    take(source, source.cut(), place, files, "first")
    source.write("orders", 0, 4, seed)
    return files, source, place


def create_again(source: Source, files: MemoryFiles, name: str) -> None:
    take(source, source.cut(), Folder(files, PLACE), files, name)


def test_the_power_goes_while_a_backup_is_made() -> None:
    files, source, _ = backed_up(0)
    calls = calls_of(files, lambda: create_again(source, files, "second"))
    assert calls > 50
    finished = 0
    for life in range(LIVES):
        random = Random(life)
        files, source, _ = backed_up(life % 7)
        at_call = 1 + life % (calls + 5)
        until_power_goes(files, at_call, partial(create_again, source, files, "second"))
        after = files.power_loss(random)
        place = Folder(after, PLACE)
        try:
            names = [manifest.name for manifest in manifests_in(place)]
            assert names in (["first"], ["first", "second"])
            assert set(unfinished(place)) <= {"second"}
            finished += len(names) - 1
            for manifest in manifests_in(place):
                verify(place, manifest)
            # the logs that are there now are backed up as ever, and nothing is left behind
            source = Source.make(MemoryFiles(), life % 7)
            create_again(source, moved(source, after), "third")
            wanted = {each.file for manifest in manifests_in(place) for each in manifest.files()}
            assert {*place.names(DATA), *place.names(METADATA)} == wanted
            assert unfinished(place) == []
            for manifest in manifests_in(place):
                verify(place, manifest)
        except BaseException as error:
            error.add_note(f"life {life}, call {at_call}")
            raise
    assert 0 < finished < LIVES


def moved(source: Source, after: MemoryFiles) -> MemoryFiles:
    """Give the logs of `source` the disk on which the place lies."""
    for name, inode in source.files.names.items():
        after.names[name] = after.durable_names[name] = inode
    after.directories |= source.files.directories
    for log in source.logs.values():
        log.close(clean=True)
    source.files = after
    for name, index in list(source.logs):
        source.open(name, index)
    return after


def contents(files: MemoryFiles) -> dict[str, bytes]:
    """All that was restored. Indexes are made again where they are missing."""
    return {
        name: bytes(inode.data)
        for name, inode in files.names.items()
        if name.startswith("new/") and not name.endswith(("index", ".lock", ".tmp"))
    }


def restore_all(files: MemoryFiles) -> None:
    place = Folder(files, PLACE)
    plan = plan_of(manifests_in(place)[-1])
    restore(place, plan, settings_of(), files, Random(1))


def starts(files: MemoryFiles, path: str) -> bool:
    """Return whether a node would start on the directory, and find a part of the backup there."""
    if not files.exists(path) or not [name for name in files.list(path) if name != ".lock"]:
        return False
    try:
        check_readable(files, path)
    except LogDirectoryError:
        return False
    return True


def test_the_power_goes_during_a_restore() -> None:
    files, _, _ = backed_up(0)
    calls = calls_of(files, lambda: restore_all(files))
    whole = contents(files)
    assert calls > 100
    paths = [path for each in settings_of() for path in each.log_dirs]
    assert all(starts(files, path) for path in paths)
    journal = Journal.open(files, settings_of()[0].metadata_directory, 1)
    assert journal.standing is Standing.SEED
    refused = 0
    for life in range(LIVES):
        random = Random(life)
        files, _, _ = backed_up(0)
        at_call = 1 + (life * calls) // LIVES
        assert until_power_goes(files, at_call, partial(restore_all, files))
        after = files.power_loss(random)
        try:
            if any(starts(after, path) for path in paths):
                found = contents(after)
                assert {name for name in whole if "__raftka_restore" not in name} <= found.keys()
            else:
                refused += 1
            # once more, with the power going again
            if random.random() < 0.5:
                until_power_goes(after, random.randint(1, calls), partial(restore_all, after))
                after = after.power_loss(random)
            restore_all(after)
            assert contents(after) == whole
            assert all(starts(after, path) for path in paths)
        except BaseException as error:
            error.add_note(f"life {life}, call {at_call}")
            raise
    assert refused > LIVES // 2


@pytest.mark.parametrize("at_call", [1, 40])
def test_a_restore_that_was_broken_off_names_the_next_step(at_call: int) -> None:
    files, _, _ = backed_up(0)
    until_power_goes(files, at_call + 20, lambda: restore_all(files))

    path = settings_of()[0].log_dirs[0]
    with pytest.raises(LogDirectoryError, match="its restore was broken off") as refusal:
        check_readable(files, path)
    assert "run `raftka backup restore` again" in refusal.value.remedy
