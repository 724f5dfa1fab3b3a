"""`./run release VERSION`: make, prove and tag a release; print the commands that publish it.

Everything happens in a clone of HEAD. The checkout gets the commit and the tag when all has held,
so a release that fails leaves nothing behind but its output.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tools.release.artifacts import make_files
from tools.release.changelog import release_section
from tools.release.commands import ReleaseFailed, git, run
from tools.release.conditions import TAG, VERSION_LINE, check
from tools.release.placeholders import unfilled
from tools.release.places import DEBIANS, UNSTABLE
from tools.release.tries import try_everywhere

ROOT = Path(__file__).parents[2]
# modules that run before the commit: the site has no warning; the data directory becomes part of it
PROGRAMS = {"docs": ("tools.docs",), "data": ("bench.data_directory", "{version}")}
STEPS = (*PROGRAMS, *DEBIANS, *UNSTABLE.values())  # those that --skip may name


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    options = _parse(arguments)
    day = datetime.now(UTC).date().isoformat()
    target = root / "dist" / options.version
    try:
        check(root, options.version, day)
        with tempfile.TemporaryDirectory(prefix="raftka-release-") as folder:
            clone = prepare(root, options.version, day, Path(folder), options.skip)
            _say("two builds, SBOM, checksums")
            shutil.rmtree(target, ignore_errors=True)
            packages = make_files(clone, target, Path(folder))
            _say("tries")
            if not try_everywhere(packages, Path(folder), options.skip):
                raise ReleaseFailed("not all tries held")
            if options.dry_run:
                print(f"dry run: all held; the files are in {target}, nothing was committed")
                return 0
            take(root, clone, options.version)
    except ReleaseFailed as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(publishing(options.version, target, unfilled(root)))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run release", description=__doc__)
    parser.add_argument("version", metavar="VERSION", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--dry-run", action="store_true", help="make no commit and no tag")
    parser.add_argument(
        "--skip", action="append", default=[], choices=STEPS, help="with --dry-run: leave that out"
    )
    options = parser.parse_args(arguments)
    if options.skip and not options.dry_run:
        parser.error("--skip is for --dry-run: a release leaves nothing out")
    return options


def prepare(root: Path, version: str, day: str, scratch: Path, skipped: Sequence[str]) -> Path:
    """Return a clone of HEAD with the commit of the release. Raises ReleaseFailed."""
    clone = scratch / "raftka"
    run("git", "clone", "--quiet", root, clone)
    set_version(clone, version, day)
    for step, words in PROGRAMS.items():
        if step not in skipped:
            _say(step)
            _run_in_clone(clone, *(word.format(version=version) for word in words))
    git(clone, "add", "--all")
    for key in ("user.name", "user.email"):  # a clone does not have the checkout's own
        git(clone, "config", key, git(root, "config", key))
    git(clone, "commit", "--quiet", "--message", f"Release: raftka {version}")
    return clone


def _run_in_clone(clone: Path, *module: str) -> None:
    """Run a module of the clone with this interpreter and its packages. Raises ReleaseFailed."""
    environment = {**os.environ, "PYTHONPATH": f"{clone}:{clone / 'compat'}"}
    run(sys.executable, "-m", *module, folder=clone, environment=environment)


def set_version(checkout: Path, version: str, day: str) -> None:
    """Write the version where it stands: the package, the citation, the changelog."""
    replacements = {
        "raftka/__init__.py": (VERSION_LINE, f'__version__ = "{version}"'),
        "CITATION.cff": (re.compile(r"(?m)^version: .*$"), f"version: {version}"),
    }
    for name, (pattern, line) in replacements.items():
        text, count = pattern.subn(line, (checkout / name).read_text())
        if count != 1:
            raise ReleaseFailed(f"{name} has {count} lines for the version, not one")
        (checkout / name).write_text(text)
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text(release_section(changelog.read_text(), version, day))


def take(root: Path, clone: Path, version: str) -> None:
    """Move the checkout to the commit of the release, and tag it. Raises ReleaseFailed."""
    git(root, "fetch", "--quiet", clone, "HEAD")
    git(root, "merge", "--quiet", "--ff-only", "FETCH_HEAD")
    git(root, "tag", "--annotate", f"{TAG}{version}", "--message", f"raftka {version}")


def publishing(version: str, target: Path, placeholders: Sequence[str]) -> str:
    """Return the commands that publish, for a person to run."""
    lines = [f"raftka {version} is tagged; its files are in {target}. To publish it:"]
    if placeholders:
        lines += [f"  # first put the repository's name into {', '.join(placeholders)}"]
    return "\n".join(
        [
            *lines,
            "  git push origin HEAD",
            f"  git push origin {TAG}{version}   # release.yml builds and publishes",
            "  # without hosted CI:",
            f"  pipx run twine upload {target}/*.whl {target}/*.tar.gz",
        ]
    )


def _say(step: str) -> None:
    print(f"--- {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
