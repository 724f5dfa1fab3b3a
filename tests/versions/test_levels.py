"""docs/versions.md and raftka/versions.py say the same, and a level is what its row says."""

import pytest

from raftka import versions
from raftka.versions import FORMATS, LEVELS, NewerFormat, check_features, level_of
from tests.kit.documents import ROOT, rows

VERSIONS = (ROOT / "docs" / "versions.md").read_text()


def test_the_document_has_the_table_of_levels() -> None:
    told = [row for row in rows("## Levels", VERSIONS) if len(row) == 5][1:]

    assert told == [
        [str(each.number), each.release, str(each.metadata_version), each.adds, each.writes]
        for each in LEVELS
    ]


def test_the_document_has_the_table_of_formats() -> None:
    told = [row for row in rows("## Formats", VERSIONS) if len(row) == 5][1:]

    assert told == [
        [each.name, each.place, each.field, str(each.newest), f"`{each.checked_by}`"]
        for each in FORMATS
    ]


def test_levels_begin_at_1_and_none_is_left_out() -> None:
    assert [each.number for each in LEVELS] == list(range(1, len(LEVELS) + 1))


def test_versions_of_a_format_rise_with_levels_that_exist() -> None:
    known = {each.number for each in LEVELS}
    for each in FORMATS:
        assert list(each.versions) == sorted(each.versions)
        assert {level for _, level in each.versions} <= known, each.name
        assert each.versions[0][1] == 1 or each.at(each.versions[0][1]) == each.versions[0][0]


def test_a_version_is_written_from_its_level_on() -> None:
    later = versions.Format("x", "y", "z", ((3, 1), (4, 2), (5, 4)), "w")

    assert [later.at(level) for level in (1, 2, 3, 4, 5)] == [3, 4, 4, 5, 5]


def test_a_newer_version_is_refused_by_name_and_an_older_one_is_not() -> None:
    later = versions.Format("notes", "y", "z", ((3, 1), (4, 2)), "w")

    later.check(0, "/data")
    later.check(4, "/data")
    with pytest.raises(
        NewerFormat, match=r"^/data has version 5 of notes, and this release reads up to version 4$"
    ):
        later.check(5, "/data")


def test_a_cluster_of_before_the_first_release_has_level_1() -> None:
    assert level_of({}) == 1
    assert level_of({versions.RAFTKA_VERSION: 3}) == 3


@pytest.mark.parametrize(
    ("features", "told"),
    [
        ({"raftka.version": 4}, "raftka.version 4, and this release knows it up to 3"),
        ({"metadata.version": 34}, "metadata.version 34, and this release knows it up to 33"),
        ({"share.version": 3}, "share.version 3, and this release knows it up to 2"),
        ({"streams.version": 2}, "streams.version 2, and this release knows it up to 1"),
    ],
)
def test_a_finalized_level_that_is_not_known_is_refused(
    features: dict[str, int], told: str
) -> None:
    with pytest.raises(NewerFormat, match=f"^it has {told}$"):
        check_features({"group.version": 1, **features}, "it")


def test_all_that_a_cluster_is_formed_with_is_supported() -> None:
    check_features(versions.FORMED_WITH, "a new cluster")
    assert versions.FORMED_WITH[versions.RAFTKA_VERSION] == LEVELS[-1].number
