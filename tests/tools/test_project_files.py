"""Files that speak of the project as a whole agree with each other."""

import re
import subprocess
from pathlib import Path

from raftka import __version__
from tools.release.changelog import WAITING, parse, parse_version
from tools.release.placeholders import FILES, OWNER

ROOT = Path(__file__).parents[2]
NAMING = {"tools/release/placeholders.py", "tests/tools/test_project_files.py"}
TESTS = {"tests/tools/test_release.py"}


def test_the_changelog_ends_in_the_version_of_the_package() -> None:
    newest = parse((ROOT / "CHANGELOG.md").read_text()).sections[0]

    assert parse_version(newest.version) <= parse_version(__version__) or newest.date == WAITING
    assert newest.version == __version__


def test_each_change_is_one_line() -> None:
    log = parse((ROOT / "CHANGELOG.md").read_text())
    for body in (log.unreleased, *(each.body for each in log.sections)):
        assert [line for line in body.splitlines() if line.startswith((" ", "\t"))] == []


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_owner_is_open_in_the_named_files_only() -> None:
    tracked = subprocess.run(
        ["git", "grep", "--files-with-matches", "--fixed-strings", OWNER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()

    assert set(tracked) - NAMING - TESTS <= set(FILES)


def test_actions_are_pinned_to_commits_with_their_version() -> None:
    lines = [
        line.strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    pinned = re.compile(r"- uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")

    assert len(lines) > 5
    assert [line for line in lines if not pinned.fullmatch(line)] == []


def test_all_pythons_of_the_classifiers_are_in_the_matrix() -> None:
    project, workflow = (
        (ROOT / name).read_text() for name in ("pyproject.toml", ".github/workflows/test.yml")
    )
    versions = re.findall(r"Programming Language :: Python :: (3\.\d+)", project)

    assert versions
    assert f"python: {str(versions).replace(chr(39), chr(34))}" in workflow
