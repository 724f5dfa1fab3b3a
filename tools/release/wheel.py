"""Build sdist and wheel of this checkout as it is, and try both: `./run wheel`.

Needs root, for chroot, and debootstrap (apt install debootstrap).
"""

import sys
import tempfile
from pathlib import Path

from tools.release.artifacts import build, make_tools
from tools.release.commands import ReleaseFailed
from tools.release.tries import try_everywhere

ROOT = Path(__file__).parents[2]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="raftka-wheel-") as folder:
        scratch = Path(folder)
        try:
            files = build(make_tools(scratch / "tools"), ROOT, scratch / "dist")
            return 0 if try_everywhere(files, scratch) else 1
        except ReleaseFailed as error:
            print(f"wheel: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
