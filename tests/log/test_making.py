"""Directories of new partitions: few new files, and each partition can be told from others whatever
becomes of its siblings.
"""

import errno

import pytest

from raftka.log.checkpoints import PARTITION_METADATA, decode_partition_metadata
from raftka.log.manager import Maker
from tests.log.files import MemoryFiles

ONE, OTHER = b"1" * 16, b"2" * 16


def topic_id(files: MemoryFiles, path: str) -> bytes:
    return decode_partition_metadata(files.read(f"{path}/{PARTITION_METADATA}"))


def test_partitions_of_a_topic_share_the_file_that_names_it() -> None:
    files = MemoryFiles()
    maker = Maker(files, ())
    for index in range(25):
        maker.make("/data", f"/data/t-{index}", ONE)
        maker.make("/data", f"/data/other-{index}", OTHER)

    assert {topic_id(files, f"/data/t-{index}") for index in range(25)} == {ONE}
    assert {topic_id(files, f"/data/other-{index}") for index in range(25)} == {OTHER}
    assert (
        len({id(inode) for name, inode in files.names.items() if name.endswith(PARTITION_METADATA)})
        == 2
    )
    assert len({id(inode) for name, inode in files.names.items() if name.endswith(".log")}) == 50


def test_a_metadata_file_that_is_replaced_leaves_the_other_partitions_alone() -> None:
    files = MemoryFiles()
    maker = Maker(files, ())
    maker.make("/data", "/data/t-0", ONE)
    maker.make("/data", "/data/t-1", ONE)

    files.replace(
        f"/data/t-0/{PARTITION_METADATA}", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg"
    )

    assert topic_id(files, "/data/t-0") != ONE
    assert topic_id(files, "/data/t-1") == ONE


@pytest.mark.parametrize("code", [errno.EPERM, errno.EMLINK, errno.ENOENT, errno.EXDEV])
def test_where_there_are_no_links_each_partition_has_its_own_file(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    files = MemoryFiles()

    def link(old: str, new: str) -> None:
        raise OSError(code, "no link", new)

    monkeypatch.setattr(files, "link", link)
    maker = Maker(files, ())
    for index in range(3):
        maker.make("/data", f"/data/t-{index}", ONE)

    assert [topic_id(files, f"/data/t-{index}") for index in range(3)] == [ONE] * 3


def test_log_directories_share_no_file() -> None:
    files = MemoryFiles()
    maker = Maker(files, ())
    maker.make("/a", "/a/t-0", ONE)
    maker.make("/b", "/b/t-1", ONE)

    assert (
        files.names[f"/a/t-0/{PARTITION_METADATA}"]
        is not files.names[f"/b/t-1/{PARTITION_METADATA}"]
    )
