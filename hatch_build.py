"""Writes the commit into wheel and sdist, as raftka/commit.txt: `raftka --version` shows it.

An sdist is built from a checkout; a wheel from the checkout or from the sdist, which has the file.
"""

import runpy
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitStamp(BuildHookInterface):
    """Hatchling's hook of both targets. An editable installation gets no stamp: git knows more."""

    def initialize(self, version: str, build_data: dict) -> None:
        root = Path(self.root)
        known = runpy.run_path(str(root / "raftka" / "cli" / "version.py"))
        if version == "editable" or (root / "raftka" / known["STAMP"]).exists():
            return
        commit = known["commit_of_checkout"](root)
        if not commit:
            self.app.display_warning("no git here: the package will not name its commit")
            return
        self._folder = tempfile.TemporaryDirectory(prefix="raftka-commit-")
        stamp = Path(self._folder.name) / known["STAMP"]
        stamp.write_text(f"{commit}\n")
        build_data["force_include"][str(stamp)] = f"raftka/{known['STAMP']}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
