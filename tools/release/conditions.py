"""Conditions of a release, checked before it begins. Each refusal says how to mend it."""

import re
from pathlib import Path

from tools.release.changelog import ChangelogError, parse_version, release_section
from tools.release.commands import ReleaseFailed, git

TAG = "v"
VERSION_LINE = re.compile(r'(?m)^__version__ = "(.*)"$')


def check(root: Path, version: str, day: str) -> None:
    """Raises ReleaseFailed for a dirty tree, a tag that exists, a version that is not greater than
    those before, and a changelog without changes.
    """
    try:
        wanted = parse_version(version)
    except ChangelogError as error:
        raise ReleaseFailed(str(error)) from None
    if changed := git(root, "status", "--porcelain"):
        raise ReleaseFailed(f"commit or remove these files first:\n{changed}")
    tags = git(root, "tag", "--list", f"{TAG}*").split()
    if f"{TAG}{version}" in tags:
        raise ReleaseFailed(f"the tag {TAG}{version} exists: that version is out")
    present = version_of(root)
    released = [each.removeprefix(TAG) for each in tags if _is_version(each.removeprefix(TAG))]
    newest = max(released, key=parse_version, default=None)
    if newest is not None and wanted <= parse_version(newest):
        raise ReleaseFailed(f"{version} is not greater than {newest}, the newest release")
    if wanted < parse_version(present):
        raise ReleaseFailed(f"{version} is smaller than {present}, which raftka/__init__.py has")
    try:
        release_section((root / "CHANGELOG.md").read_text(), version, day)
    except ChangelogError as error:
        raise ReleaseFailed(f"CHANGELOG.md: {error}") from None


def version_of(root: Path) -> str:
    """Return the version of a checkout. Raises ReleaseFailed."""
    match = VERSION_LINE.search((root / "raftka" / "__init__.py").read_text())
    if match is None:
        raise ReleaseFailed("raftka/__init__.py has no line __version__ = ...")
    return match[1]


def _is_version(text: str) -> bool:
    try:
        parse_version(text)
    except ChangelogError:
        return False
    return True
