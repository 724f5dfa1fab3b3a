"""The files of a release: sdist and wheel, built twice; the SBOM; the checksums.

`python -m tools.release.artifacts FOLDER` writes those of this checkout, as release.yml does.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.release.commands import ReleaseFailed, git, run
from tools.release.conditions import version_of

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
CHECKSUMS = "SHA256SUMS"
ROOT = Path(__file__).parents[2]


def make_files(source: Path, target: Path, scratch: Path) -> list[Path]:
    """Write all files of a release of `source`, a checkout, into `target`, which is empty or not
    there; return sdist and wheel. Raises ReleaseFailed.
    """
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise ReleaseFailed(f"{target} is not empty")
    tools = make_tools(scratch / "tools")
    packages = build_twice(tools, source, scratch, target)
    (wheel,) = (each for each in packages if each.suffix == ".whl")
    write_sbom(tools, wheel, version_of(source), scratch, target)
    print(write_checksums(target).read_text(), end="", flush=True)
    return packages


def make_tools(folder: Path) -> Path:
    """Install the pinned tools into a new environment; return its python."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS)
    return python


def build(tools: Path, source: Path, target: Path) -> list[Path]:
    """Build the sdist, and the wheel from it; return both. Files carry the time of the commit."""
    seconds = git(source, "log", "-1", "--format=%ct")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds}
    run(
        tools,
        *("-m", "build", "--no-isolation", "--outdir", target, source),
        environment=environment,
    )
    return sorted(target.iterdir())


def build_twice(tools: Path, source: Path, scratch: Path, target: Path) -> list[Path]:
    """Build a clone too, in another folder and with other permissions of new files. Raises
    ReleaseFailed unless both builds have the same bytes.
    """
    other = scratch / "built-again" / "from-a-clone"
    other.parent.mkdir()
    before = os.umask(0o077)
    try:
        run("git", "clone", "--quiet", source, other)
        again = build(tools, other, scratch / "again")
    finally:
        os.umask(before)
    made = build(tools, source, target)
    if different := differing(made, again):
        raise ReleaseFailed(
            f"two builds of the same commit differ: {', '.join(different)}; "
            f"compare {target} with {scratch / 'again'}"
        )
    return made


def differing(made: Iterable[Path], again: Iterable[Path]) -> list[str]:
    """Return the names of files that are not in both, or not the same bytes."""
    one, two = ({each.name: each.read_bytes() for each in files} for files in (made, again))
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def write_sbom(tools: Path, wheel: Path, version: str, scratch: Path, target: Path) -> Path:
    """Write the packages that the wheel and its base dependencies install today, as CycloneDX."""
    installed = scratch / "installed"
    run(sys.executable, "-m", "venv", "--without-pip", installed)
    python = installed / "bin" / "python"
    run(tools, "-m", "pip", "--python", python, "install", "--quiet", wheel)
    path = target / f"raftka-{version}.cdx.json"
    run(
        tools,
        *("-m", "cyclonedx_py", "environment", "--output-reproducible"),
        *("--output-format", "JSON", "--output-file", path, python),
    )
    bom = json.loads(path.read_text())
    bom["metadata"]["component"] = own = next(
        each for each in bom["components"] if each["name"] == "raftka"
    )
    bom["components"].remove(own)
    own["externalReferences"] = []  # of this machine: the path of the wheel
    path.write_text(json.dumps(bom, indent=2) + "\n")
    return path


def write_checksums(folder: Path) -> Path:
    """Write the SHA-256 of each file of the folder, as `sha256sum --check` reads them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != CHECKSUMS
    ]
    (folder / CHECKSUMS).write_text("".join(lines))
    return folder / CHECKSUMS


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tools.release.artifacts FOLDER", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="raftka-artifacts-") as scratch:
        try:
            make_files(ROOT, Path(arguments[0]).absolute(), Path(scratch))
        except ReleaseFailed as error:
            print(f"artifacts: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
