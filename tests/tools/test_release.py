"""`./run release`: what it refuses, and what it leaves in the checkout."""

from pathlib import Path

import pytest

import tools.release.__main__ as release
from tests.tools.repositories import git, make_repository
from tools.release import tries
from tools.release.artifacts import differing, make_files, write_checksums
from tools.release.changelog import ChangelogError, parse, release_section
from tools.release.commands import ReleaseFailed
from tools.release.conditions import check
from tools.release.places import Place
from tools.release.tries import TRIES, read_figures, try_everywhere, try_file

CHANGES = """# Changes

Words.

## Unreleased

- A new thing.

## 0.1.0 (2026-12-01)

- The first thing.
"""
DAY = "2027-01-31"
# in place of the real ones
DOCS = """from pathlib import Path
Path("build").mkdir()
"""
DATA_DIRECTORY = """import sys
from pathlib import Path
Path(sys.argv[1] + ".golden").write_text(Path("raftka/__init__.py").read_text())
"""
FILES = {
    "CHANGELOG.md": CHANGES,
    "CITATION.cff": "title: raftka\nversion: 0.1.0\n",
    "raftka/__init__.py": '"""raftka."""\n\n__version__ = "0.1.0"\n',
    ".gitignore": "/dist/\n/build/\n",
    "tools/__init__.py": "",
    "tools/docs.py": DOCS,
    "bench/__init__.py": "",
    "bench/data_directory.py": DATA_DIRECTORY,
    ".github/CODEOWNERS": "* @OWNER/raftka\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "checkout", FILES)
    git(root, "tag", "v0.1.0")
    return root


def test_a_version_that_is_next_is_not_refused(root: Path) -> None:
    check(root, "0.2.0", DAY)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("0.1.0", "the tag v0.1.0 exists"),
        ("0.0.9", "0.0.9 is not greater than 0.1.0"),
        ("v0.2.0", "'v0.2.0' is not a version"),
        ("0.2", "'0.2' is not a version"),
    ],
)
def test_a_version_that_is_not_greater_is_refused(root: Path, version: str, reason: str) -> None:
    with pytest.raises(ReleaseFailed, match=reason):
        check(root, version, DAY)


def test_numbers_are_compared_not_their_digits(root: Path) -> None:
    git(root, "tag", "v0.9.0")
    git(root, "tag", "v0.10.0")
    with pytest.raises(ReleaseFailed, match=r"0\.9\.5 is not greater than 0\.10\.0"):
        check(root, "0.9.5", DAY)


def test_a_version_below_that_of_the_package_is_refused(root: Path) -> None:
    (root / "raftka/__init__.py").write_text('__version__ = "0.3.0"\n')
    git(root, "commit", "--quiet", "--all", "--message", "next")
    with pytest.raises(ReleaseFailed, match=r"0\.2\.0 is smaller than 0\.3\.0"):
        check(root, "0.2.0", DAY)


@pytest.mark.parametrize("name", ["CHANGELOG.md", "a new file"])
def test_a_dirty_tree_is_refused(root: Path, name: str) -> None:
    (root / name).write_text("changed")
    with pytest.raises(ReleaseFailed, match=f'(?s)commit or remove.*"?{name}'):
        check(root, "0.2.0", DAY)


def test_a_release_without_changes_is_refused(root: Path) -> None:
    (root / "CHANGELOG.md").write_text(CHANGES.replace("- A new thing.\n\n", ""))
    git(root, "commit", "--quiet", "--all", "--message", "nothing")
    with pytest.raises(ReleaseFailed, match="there is nothing to release"):
        check(root, "0.2.0", DAY)


def test_a_real_release_leaves_nothing_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        release.main(["0.2.0", "--skip", "docs"])
    assert "--skip is for --dry-run" in capsys.readouterr().err


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The clones of which files were made, in place of the files."""
    clones: list[Path] = []

    def make(source: Path, target: Path, scratch: Path) -> list[Path]:
        clones.append(source)
        assert git(source, "status", "--porcelain") == ""
        return []

    monkeypatch.setattr(release, "make_files", make)
    monkeypatch.setattr(release, "try_everywhere", lambda files, scratch, skipped: True)
    return clones


def test_a_release_is_one_commit_and_its_tag(root: Path, built: list[Path]) -> None:
    before = git(root, "rev-parse", "HEAD")

    assert release.main(["0.2.0"], root) == 0

    assert git(root, "rev-parse", "HEAD^") == before
    assert git(root, "rev-parse", "v0.2.0^{commit}") == git(root, "rev-parse", "HEAD")
    assert git(root, "log", "-1", "--format=%s") == "Release: raftka 0.2.0"
    assert '__version__ = "0.2.0"' in (root / "raftka/__init__.py").read_text()
    assert "version: 0.2.0" in (root / "CITATION.cff").read_text()
    log = parse((root / "CHANGELOG.md").read_text())
    assert (log.unreleased, [each.version for each in log.sections]) == ("", ["0.2.0", "0.1.0"])
    assert len(built) == 1
    # the data directory is made by the code of the release, and is in its commit
    assert '__version__ = "0.2.0"' in git(root, "show", "HEAD:0.2.0.golden")


def test_documents_with_a_warning_are_not_released(
    root: Path, built: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "tools/docs.py").write_text("raise SystemExit('page.md: a warning')\n")
    git(root, "commit", "--quiet", "--all", "--message", "a page")

    assert release.main(["0.2.0"], root) == 1

    assert "page.md: a warning" in capsys.readouterr().err
    assert (git(root, "tag"), built) == ("v0.1.0", [])


def test_the_commands_that_publish_are_printed(
    root: Path, built: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    release.main(["0.2.0"], root)

    printed = capsys.readouterr().out
    assert "git push origin v0.2.0" in printed
    assert "put the repository's name into .github/CODEOWNERS" in printed


def test_a_dry_run_leaves_the_checkout_alone(root: Path, built: list[Path]) -> None:
    before = git(root, "rev-parse", "HEAD"), git(root, "tag"), git(root, "status", "--porcelain")

    assert release.main(["0.2.0", "--dry-run"], root) == 0

    after = git(root, "rev-parse", "HEAD"), git(root, "tag"), git(root, "status", "--porcelain")
    assert (after, len(built)) == (before, 1)


def test_a_failed_try_leaves_no_tag(
    root: Path,
    built: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(release, "try_everywhere", lambda files, scratch, skipped: False)

    assert release.main(["0.2.0"], root) == 1

    assert git(root, "tag") == "v0.1.0"
    assert "not all tries held" in capsys.readouterr().err


def test_unreleased_lines_become_the_section_of_the_version() -> None:
    assert release_section(CHANGES, "0.2.0", DAY) == CHANGES.replace(
        "## Unreleased\n\n- A new thing.", f"## Unreleased\n\n## 0.2.0 ({DAY})\n\n- A new thing."
    )


def test_unreleased_lines_join_a_section_that_waits() -> None:
    waiting = CHANGES.replace("(2026-12-01)", "(unreleased)")
    grouped = waiting.replace("- A new", "### Group\n- A new")

    assert parse(release_section(grouped, "0.1.0", DAY)).sections[0].body == (
        "- The first thing.\n\n### Group\n- A new thing."
    )
    released = parse(release_section(waiting, "0.1.0", DAY))

    assert [(each.version, each.date) for each in released.sections] == [("0.1.0", DAY)]
    assert released.sections[0].body == "- The first thing.\n- A new thing."
    with pytest.raises(ChangelogError, match=r"0\.1\.0 waits to be released first"):
        release_section(waiting, "0.2.0", DAY)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("## Unreleased", "## Changes to come", "the first section is not"),
        ("(2026-12-01)", "(soon)", "is not a heading"),
        ("(2026-12-01)", "(2026-13-01)", "month must be in"),
        ("## 0.1.0", "## 0.1.0 (2026-12-02)\n\n- x\n\n## 0.1.1", "not in order"),
        ("- The", "- x\n\n## 0.0.9 (unreleased)\n\n- The", "only the newest"),
    ],
)
def test_a_changelog_in_disorder_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(CHANGES.replace(old, new))


def test_builds_that_differ_are_named(tmp_path: Path) -> None:
    for folder, files in {
        "one": {"a": "1", "b": "2"},
        "two": {"a": "1", "b": "3", "c": ""},
    }.items():
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)

    one, two = (list((tmp_path / name).iterdir()) for name in ("one", "two"))

    assert differing(one, two) == ["b", "c"]
    assert differing(one, one) == []


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")

    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  file\n"
    assert write_checksums(tmp_path).read_text() == expected
    assert write_checksums(tmp_path).read_text() == expected


def test_files_of_a_release_do_not_mix_with_others(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(ReleaseFailed, match="is not empty"):
        make_files(tmp_path, tmp_path, tmp_path)


def test_a_place_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tries, "why_no_debian", lambda: "needs root")
    monkeypatch.setattr(tries, "find_python", lambda version: "")

    assert not try_everywhere([], tmp_path)
    told = capsys.readouterr()
    assert "bookworm: not tried: needs root\ntrixie: not tried: needs root" in told.err
    assert "python 3.14: not tried: no interpreter here" in told.out
    assert try_everywhere([], tmp_path, ["bookworm", "trixie"])


def test_a_failed_script_of_a_place_does_not_hold(tmp_path: Path) -> None:
    place = Place("here", (), tmp_path, str(tmp_path), "false")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "x.whl").touch()

    wrong = try_file(place, tmp_path / "given" / "x.whl")

    assert set(wrong) == {*TRIES, "figures"}


def test_the_figures_of_a_first_use_are_read() -> None:
    figures = read_figures("100.5\n104.0\n105.25\n31000000 17500000\n")

    assert (figures.install_s, figures.record_s) == (3.5, 1.25)
    assert (figures.all_bytes, figures.bytes_without_bytecode) == (31_000_000, 17_500_000)
    with pytest.raises(ValueError, match="not enough values"):
        read_figures("100.5\n104.0\n")
