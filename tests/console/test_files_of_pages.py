"""The files of the console's pages: their size together, and that they lead nowhere else."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console.browser.pages import PAGES
from tests.kit.toolchains import Missing, Program, Toolchains

LARGEST_BYTES = 150_000  # of all files together, as they are sent
FILES = sorted(each for each in PAGES.rglob("*") if each.is_file())
IMPORT = re.compile(r'(?:from|import\(|import) ?"(\.{1,2}/[^"]+)"')
TYPES = (
    *("--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022"),
    *("--module", "esnext", "--moduleResolution", "bundler", "--skipLibCheck"),
    *("--lib", "es2023,dom,dom.iterable"),
)


def test_all_pages_and_scripts_together_stay_small() -> None:
    sizes = {each.name: len(gzip.compress(each.read_bytes(), mtime=0)) for each in FILES}
    assert sum(sizes.values()) <= LARGEST_BYTES, sorted(sizes.items(), key=lambda each: -each[1])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_reaches_another_host(path: Path) -> None:
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[a-z][\w.-]*\.[a-z]{2,}", text) == []


def test_pages_have_no_inline_scripts_and_styles() -> None:
    text = (PAGES / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_every_import_leads_to_a_file() -> None:
    missing = [
        f"{path.relative_to(PAGES)}: {target}"
        for path in FILES
        if path.suffix == ".js"
        for target in IMPORT.findall(path.read_text())
        if not (path.parent / target).is_file()
    ]
    assert missing == []


@pytest.fixture
def typescript(request: pytest.FixtureRequest) -> Program:
    """With `--all-clients` it is fetched."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    try:
        return Toolchains(fetch=request.config.getoption("--all-clients")).typescript()
    except Missing as missing:
        pytest.skip(str(missing))


def run_typescript(typescript: Program, *paths: Path) -> list[str]:
    done = subprocess.run(
        [*typescript.command, *TYPES, *map(str, paths)],
        env=typescript.env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def test_types_of_comments_hold(typescript: Program, tmp_path: Path) -> None:
    scripts = [each for each in FILES if each.suffix == ".js" and each.name != "theme.js"]
    assert run_typescript(typescript, *scripts) == []
    wrong = tmp_path / "wrong.js"
    wrong.write_text("/** @type {number} */\nexport const size = 'large';\n")
    assert len(run_typescript(typescript, wrong)) == 1
