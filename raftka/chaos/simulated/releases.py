"""Nodes of another release in this process, beside those of the present one.

`load` unpacks the wheel of the other release and copies its package under another name, such as
`raftka_3f2a91c0`: in the copy each import of `raftka` has the new name. So the two releases have
modules, classes and registries of their own, and their nodes share nothing but bytes: of the
simulated network, and of the disks.

Shared on purpose:

- `raftka/runtime/interfaces.py`: the simulated runtime and a node agree on its classes.
- The installed libraries. None of them keeps state of a node: msgpack, crc32c and cramjam are
  functions, Trio is the one scheduler of the simulation, and of pysyncobj raftka uses the core
  alone, whose only global, the clock, it sets before each call.

Judges look inside nodes of their own release only (`Cluster.judged`).
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from zipfile import ZipFile

from raftka import __version__, versions
from raftka.broker.node import Node
from raftka.cluster.services import open_edges
from raftka.log import log, recovery
from raftka.metadata.configs.settings import NodeSettings
from raftka.runtime import interfaces
from raftka.runtime.interfaces import Runtime
from raftka.versions import KRAFT_VERSION, RAFTKA_VERSION

PACKAGE = "raftka"
IMPORTS = re.compile(r"^(\s*(?:from|import) )raftka(?=[.\s])", re.MULTILINE)
NAME_CHARACTERS = 12  # of a wheel's checksum
SHARED = {"runtime.interfaces": interfaces}
REBUILD_PRODUCERS = ("log.log", "log.recovery")  # checks/forgotten.py watches these
INSTALLED, RENAMED = "installed", "renamed"


@dataclass(frozen=True)
class Release:
    """The parts of a release that start a node, and the levels of features that it supports."""

    name: str
    node: Callable[..., Node]
    settings: Callable[[Mapping[str, str]], object]
    open_edges: Callable[[Any], object]
    supported: Mapping[str, tuple[int, int]]  # by feature: the lowest and the highest level
    rebuild_producers: Sequence[ModuleType]

    def make_node(self, runtime: Runtime, properties: Mapping[str, str], log_to: IO[str]) -> Node:
        """A node of another release has the class of that release, and is no `Node` for
        isinstance.
        """
        return self.node(runtime, self.settings(properties), log_to=log_to)

    @property
    def level(self) -> int:
        """The newest level of `raftka.version` that it knows."""
        return self.supported[RAFTKA_VERSION][1]


PRESENT = Release(
    f"{__version__} (present)",
    Node,
    NodeSettings.from_properties,
    open_edges,
    versions.SUPPORTED,
    [log, recovery],
)


def raised_levels(earlier: Release) -> dict[str, int]:
    """Return the levels to raise after an upgrade, by feature. Voters stay where they are
    configured: kraft.version is raised by a command of its own.
    """
    return {
        name: high
        for name, (_, high) in PRESENT.supported.items()
        if name != KRAFT_VERSION and high > earlier.supported.get(name, (0, 0))[1]
    }


@cache
def load(wheel: Path) -> Release:
    """Return the release in that file. Raises OSError, BadZipFile and ImportError."""
    folder = unpacked(wheel)
    name = f"{PACKAGE}_{folder.name}"
    sys.path.append(str(folder / RENAMED))
    for shared, module in SHARED.items():
        sys.modules[f"{name}.{shared}"] = module

    def module_of(path: str) -> Any:
        return import_module(f"{name}.{path}")

    return Release(
        f"{import_module(name).__version__} ({name})",
        module_of("broker.node").Node,
        module_of("metadata.configs.settings").NodeSettings.from_properties,
        module_of("cluster.services").open_edges,
        module_of("versions").SUPPORTED,
        [module_of(path) for path in REBUILD_PRODUCERS],
    )


def cache_folder() -> Path:
    """Return the folder of wheels and unpacked releases, which may be removed at any time."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "raftka-releases"


def unpacked(wheel: Path) -> Path:
    """Return a folder with the files of the wheel in INSTALLED, and the renamed package in RENAMED.
    It is made once, also when several processes come at a time. Raises OSError and BadZipFile.
    """
    digits = sha256(wheel.read_bytes()).hexdigest()[:NAME_CHARACTERS]
    folder = cache_folder() / digits
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "made"
            with ZipFile(wheel) as files:
                files.extractall(made / INSTALLED)
            _rename(made, f"{PACKAGE}_{digits}")
            with suppress(OSError):  # another process was first
                made.rename(folder)
    return folder


def installed(wheel: Path) -> Path:
    """Return the folder from which other processes import that release. Raises as `unpacked`."""
    return unpacked(wheel) / INSTALLED


def _rename(folder: Path, name: str) -> None:
    package = folder / INSTALLED / PACKAGE
    target = folder / RENAMED / name
    shutil.copytree(package, target)
    for path in target.rglob("*.py"):
        path.write_text(IMPORTS.sub(rf"\g<1>{name}", path.read_text()))
