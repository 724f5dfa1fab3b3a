"""Build the image, say how large it is, and try it: `./run image [--base IMAGE] [--tag NAME]`.

Needs buildah (apt install buildah), and root for its isolation by chroot. Without --base it makes a
Debian of its own with debootstrap, for machines that reach no registry of images.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from raftka import __version__
from tools.image.tries import try_image

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DEBIAN = "trixie"
MIRROR = "http://deb.debian.org/debian"
BASE = "localhost/raftka-base"
MOST_BYTES = 60_000_000  # compressed
# of this machine, and where the build sees them: its network may have a certificate of its own
CERTIFICATES, INSIDE = "/etc/ssl/certs/ca-certificates.crt", "/certificates.crt"
# what Debian's own slim images leave out
NOT_SLIM = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)
GLOBAL = ("--storage-driver", "vfs")


def buildah(*arguments: object) -> str:
    """Run buildah and return what it prints, which goes to standard error as well."""
    done = subprocess.run(
        ["buildah", *GLOBAL, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    sys.stderr.write(done.stdout)
    return done.stdout.strip()


def make_base(folder: Path) -> str:
    """Return the name of an image that has Debian's smallest system, without documents."""
    home = folder / DEBIAN
    subprocess.run(
        ["debootstrap", "--variant=minbase", DEBIAN, str(home), MIRROR],
        stdout=sys.stderr,
        check=True,
    )
    for each in NOT_SLIM:
        for inside in (home / each).glob("*"):
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    container = buildah("from", "scratch")
    try:
        buildah("copy", "--quiet", container, home, "/")
        buildah("commit", "--quiet", container, BASE)
    finally:
        buildah("rm", container)
    return BASE


def make_context(folder: Path) -> Path:
    """Return a folder with what the Containerfile copies: the wheel and the properties file."""
    context = folder / "context"
    (context / "tools/image").mkdir(parents=True)
    shutil.copy(HERE / "server.properties", context / "tools/image")
    # this environment has no pip, the interpreter behind it has
    python = Path(sys.base_prefix) / "bin/python3"
    command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*map(str, command), str(context / "dist"), str(ROOT)], check=True)
    return context


def build(base: str, tag: str, context: Path) -> None:
    revision = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    certificates = (
        [f"--volume={CERTIFICATES}:{INSIDE}:ro", f"--build-arg=PIP_CERT={INSIDE}"]
        if Path(CERTIFICATES).exists()
        else []
    )
    buildah(
        "build",
        "--isolation=chroot",
        "--format=docker",  # OCI's format has no health check
        "--pull-never" if base == BASE else "--pull",
        f"--build-arg=BASE={base}",
        f"--build-arg=VERSION={__version__}",
        f"--build-arg=REVISION={revision or 'unknown'}",
        *certificates,
        f"--tag={tag}",
        f"--file={HERE / 'Containerfile'}",
        context,
    )


def compressed_bytes(tag: str, folder: Path) -> int:
    """Return the size of the image's layers as a registry would store them."""
    pushed = folder / "pushed"
    buildah("push", "--quiet", "--format=v2s2", tag, f"dir:{pushed}")
    manifest = json.loads((pushed / "manifest.json").read_text())
    return sum(layer["size"] for layer in manifest["layers"])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run image", description=__doc__)
    parser.add_argument("--base", help="Debian's image; one is made unless given")
    parser.add_argument("--tag", default="localhost/raftka", help="name of the image")
    parser.add_argument("--no-tries", action="store_true", help="build and measure it only")
    given = parser.parse_args(arguments)
    if missing := [each for each in ("buildah", "debootstrap") if shutil.which(each) is None]:
        print(f"image: {missing[0]} is missing: apt install {missing[0]}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="raftka-image-") as name:
        folder = Path(name)
        base = given.base or make_base(folder)
        build(base, given.tag, make_context(folder))
        size = compressed_bytes(given.tag, folder)
        print(f"{given.tag}: {size / 1e6:.1f} MB compressed")
        if size > MOST_BYTES:
            print(f"image: more than {MOST_BYTES / 1e6:.0f} MB", file=sys.stderr)
            return 1
        if not given.no_tries:
            try_image(given.tag, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
