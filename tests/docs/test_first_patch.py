"""docs/first-patch.md, done as it says in a copy of the sources: its test fails, its change is
applied, its test passes.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.checkout import FROM_CHECKOUT
from tests.kit.documents import ROOT

PAGE = (ROOT / "docs" / "first-patch.md").read_text()
TEST_S = 300
NEXT_IMPORT = "from raftka.wire.messages.produce import PRODUCE\n"  # in alphabetical order


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def copy_of_sources(folder: Path) -> None:
    """With what the tests of the broker need."""
    for name in ("raftka", "tests", "compat"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def test_the_first_patch(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed: it applies the page's change")
    copy_of_sources(tmp_path)
    (words,) = re.findall(r"^\./run test (tests/.*)$", PAGE, re.MULTILINE)
    file, *options = words.split()
    tests = tmp_path / file
    line, _, function = block("python").partition("\n\n\n")
    text = tests.read_text()
    assert text.count(NEXT_IMPORT) == 1
    tests.write_text(f"{text.replace(NEXT_IMPORT, line + chr(10) + NEXT_IMPORT)}\n\n{function}")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file, *options],
            cwd=tmp_path,
            env={**FROM_CHECKOUT, "PYTHONPATH": f"{tmp_path}:{tmp_path}/compat"},
            capture_output=True,
            text=True,
            check=False,
            timeout=TEST_S,
        )

    before = run()
    assert (before.returncode, "error_code=102" in before.stdout) == (1, True), before.stdout
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=block("diff"), text=True, check=True)
    after = run()
    assert (after.returncode, "1 passed" in after.stdout) == (0, True), after.stdout
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", file, "raftka/broker/handlers"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
