"""The one name that is not known before the project has a public home: its organisation there.

OWNER stands for it in these files. `./run release` says so as long as one has it, and
tests/tools/test_project_files.py finds it elsewhere.
"""

from pathlib import Path

OWNER = "@OWNER"
FILES = (".github/CODEOWNERS",)


def unfilled(root: Path) -> list[str]:
    """Return the files that still have the placeholder."""
    return [name for name in FILES if OWNER in (root / name).read_text()]
