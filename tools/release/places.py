"""Places where a package is tried: a clean Debian, as a user without rights, or an interpreter of
this machine. Neither has a checkout.

A Debian is made once by debootstrap, in ~/.cache/raftka-debian; each try uses a copy of it.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.release.commands import run

DEBIANS = ("bookworm", "trixie")  # 12 with Python 3.11, 13 with Python 3.13
PYTHONS = ("3.12", "3.14")  # versions that no Debian above has
UNSTABLE = {"3.14": "sid"}  # a Debian that has it, while no stable one does
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "python3,python3-venv,ca-certificates"
# files by which a Debian reaches the package index
OF_THIS_MACHINE = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
)
FOLDER = "/try"  # in a Debian
# folders of version managers, below the home directory
MANAGED = (".pyenv/versions/{}*/bin/python{}", ".local/share/uv/python/cpython-{}*/bin/python{}")


class Place(NamedTuple):
    """`enter`: the words before `/bin/sh -c SCRIPT`. `folder`: the place's own folder as this
    machine sees it, `home`: the same as the scripts see it.
    """

    name: str
    enter: tuple[str, ...]
    folder: Path
    home: str
    python: str

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script there, with nothing of this process's environment but the PATH."""
        return subprocess.run(
            [*self.enter, "/bin/sh", "-c", f"set -e; cd {self.home}; {script}"],
            env={
                "HOME": self.home,
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHON": self.python,
                "LANG": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            check=False,
        )


def why_no_debian() -> str:
    """Return the reason why no Debian can be made here; empty: one can be made."""
    if os.geteuid() != 0:
        return "needs root, for chroot and mount"
    if shutil.which("debootstrap") is None:
        return "needs debootstrap (apt install debootstrap)"
    return ""


def make_debian(name: str) -> Path:
    """Return the root of a minimal system of that release, made once. Raises ReleaseFailed."""
    root = Path.home() / ".cache" / "raftka-debian" / name
    if not (root / "etc/debian_version").exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        making = root.with_suffix(".new")
        shutil.rmtree(making, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", name, making, MIRROR)
        making.rename(root)
    return root


@contextmanager
def in_debian(name: str, scratch: Path) -> Iterator[Place]:
    """A copy of that release, where scripts run as nobody. It is removed afterwards. Raises
    ReleaseFailed.
    """
    root = scratch / name
    run("cp", "-a", "--reflink=auto", make_debian(name), root)
    for path in OF_THIS_MACHINE:
        if Path(path).exists():
            shutil.copy(path, root / path[1:])
    folder = root / FOLDER[1:]
    folder.mkdir()
    run("chown", "nobody", folder)
    mounts = ((root / "dev", ("--bind", "/dev")), (root / "proc", ("-t", "proc", "proc")))
    mounted: list[Path] = []
    try:
        for target, options in mounts:
            run("mount", *options, target)
            mounted.append(target)
        chroot = shutil.which("chroot") or "chroot"
        enter = (chroot, "--userspec=nobody:nogroup", str(root))
        yield Place(name, enter, folder, FOLDER, "python3")
    finally:
        for target in reversed(mounted):
            run("umount", target)
        shutil.rmtree(root)


@contextmanager
def in_interpreter(version: str, python: str, scratch: Path) -> Iterator[Place]:
    """A folder of its own for an interpreter of this machine."""
    folder = scratch / f"python-{version}"
    folder.mkdir()
    try:
        yield Place(f"python {version}", (), folder, str(folder), python)
    finally:
        shutil.rmtree(folder)


def find_python(version: str) -> str:
    """Return the path of an interpreter of that version, such as 3.12, that can make virtual
    environments; empty where there is none.
    """
    patterns = [each.format(version, version) for each in MANAGED]
    found = [shutil.which(f"python{version}")]
    found += [str(path) for each in patterns for path in sorted(Path.home().glob(each))]
    for python in filter(None, found):
        command = [python, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return python
    return ""
