"""Build the wheel and the sdist, and try each in clean Debian 12 and 13 (Python 3.11 and 3.13):
`python -m bench.wheel`.

Needs root, for chroot, and debootstrap (apt install debootstrap). A Debian is made once, in
~/.cache/raftka-debian; each try uses a copy of it.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DEBIANS = ("bookworm", "trixie")
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "python3,python3-venv,ca-certificates"
# its way to the package index
OF_THIS_MACHINE = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
)
HERE = Path(__file__).resolve().parent.parent

PLUGIN_TEST = """
def test_a_record_comes_back(raftka_cluster, raftka_topic):
    assert raftka_cluster.bootstrap_servers and raftka_topic
"""

# in the Debian, in /try, as a user without rights
TRIES = {
    "install": "python3 -m venv venv && venv/bin/pip install --quiet FILE",
    "version": "venv/bin/raftka --version",
    "no check-out": (
        'venv/bin/python -c "import raftka, sys; assert raftka.__file__.startswith(sys.prefix), '
        'raftka.__file__"'
    ),
    "typed": "test -f venv/lib/python3*/site-packages/raftka/py.typed",
    "demo": "seq 1 2000 > lines && venv/bin/raftka demo lines",
    "a node without a file": (
        "(venv/bin/raftka broker start --dev --port 0 > ready & echo $! > pid); "
        "until grep bootstrap.servers ready; do kill -0 $(cat pid); done; "
        "export RAFTKA_BOOTSTRAP_SERVER=$(sed s/.*=// ready); "
        "venv/bin/raftka topics create t && echo one | venv/bin/raftka produce t && "
        "venv/bin/raftka consume t --from start --exit-at-end | grep one; "
        "kill $(cat pid)"
    ),
    "simulated lives": (
        "venv/bin/pip install --quiet 'FILE[chaos]' && venv/bin/raftka chaos sim --seeds 1-3"
    ),
    "pytest plugin": "venv/bin/pip install --quiet pytest && venv/bin/pytest -q test_plugin.py",
}


def run(*command: object, **options: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **options)  # type: ignore[call-overload]


def built(folder: Path) -> list[Path]:
    """The sdist, and the wheel made from it."""
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--quiet", "build")
    run(folder / "venv/bin/python", "-m", "build", "--outdir", folder / "dist", HERE)
    return sorted((folder / "dist").iterdir())


def debian(name: str) -> Path:
    """A minimal system of that release, made once."""
    root = Path.home() / ".cache" / "raftka-debian" / name
    if not (root / "etc/debian_version").exists():
        root.parent.mkdir(parents=True, exist_ok=True)
        making = root.with_suffix(".new")
        shutil.rmtree(making, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", name, making, MIRROR)
        making.rename(root)
    return root


def tried(name: str, file: Path, folder: Path) -> dict[str, str]:
    """Return the failures, by the name of the try: the end of its output."""
    root = folder / name
    run("cp", "-a", "--reflink=auto", debian(name), root)
    for path in OF_THIS_MACHINE:
        if Path(path).exists():
            shutil.copy(path, root / path[1:])
    (root / "try").mkdir()
    (root / "try" / "test_plugin.py").write_text(PLUGIN_TEST)
    shutil.copy(file, root / "try")
    run("chown", "-R", "nobody", root / "try")
    wrong = {}
    run("mount", "--bind", "/dev", root / "dev")
    run("mount", "-t", "proc", "proc", root / "proc")
    try:
        for what, command in TRIES.items():
            script = (
                f"set -e; cd /try; export HOME=/try; {command.replace('FILE', './' + file.name)}"
            )
            done = subprocess.run(
                ["chroot", "--userspec=nobody:nogroup", root, "/bin/sh", "-c", script],
                capture_output=True,
                text=True,
                check=False,
            )
            print(
                f"{name}  {file.name}  {what}: {'ok' if done.returncode == 0 else 'FAILED'}",
                flush=True,
            )
            if done.returncode:
                wrong[what] = (done.stdout + done.stderr)[-2000:]
    finally:
        run("umount", root / "proc")
        run("umount", root / "dev")
        shutil.rmtree(root)
    return wrong


def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory(prefix="raftka-wheel-") as folder:
        for file in built(Path(folder)):
            for name in DEBIANS:
                for what, output in tried(name, file, Path(folder)).items():
                    failed = True
                    print(f"--- {name} {file.name} {what}\n{output}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
