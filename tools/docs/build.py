"""Building of the site: the pages are staged with the site's links and tables of contents, Sphinx
makes HTML of them, and each page lies beside its HTML as Markdown, listed in llms.txt.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.docs.navigation import INDEX, Entry, Navigation, navigate
from tools.docs.pages import FILES, ROOT, Page, PageError, for_site, read_pages

CONFIGURATION = Path(__file__).parent
LIST = "llms.txt"  # all pages, for machines


def build(out: Path, root: Path = ROOT) -> None:
    """Write the site into `out`, in place of the last one. Raises PageError for an orphan, a dead
    link, other files in `out`, and a warning of Sphinx, which has been printed then.
    """
    if out.exists() and any(out.iterdir()) and not (out / LIST).exists():
        raise PageError(f"{out} has files that are no site of ours: name another folder")
    pages = read_pages(root)
    navigation = navigate(pages)
    if navigation.orphans:
        raise PageError(
            f"no page leads to {', '.join(navigation.orphans)}: link it, best in {INDEX}"
        )
    texts, files = _rewritten(pages, root)
    with tempfile.TemporaryDirectory(prefix="raftka-docs-") as folder:
        source = Path(folder, "source")
        for path, page in pages.items():
            _write(source / f"{page.name}.md", texts[path] + contents(path, navigation, pages))
        for file in files:
            _copy(root / file, source / FILES / file)
        shutil.rmtree(out, ignore_errors=True)
        options = ("-q", "-W", "--keep-going", "-n", "-b", "html")
        doctrees = str(Path(folder, "doctrees"))
        folders = ["-c", str(CONFIGURATION), "-d", doctrees, str(source), str(out)]
        command = [sys.executable, "-m", "sphinx", *options, *folders]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            raise PageError("Sphinx has warnings")
    for path, page in pages.items():
        _write(out / f"{page.name}.md", texts[path])
    for file in files:
        _copy(root / file, out / FILES / file)
    _write(out / LIST, index_of(pages[INDEX], navigation, pages))


def contents(path: str, navigation: Navigation, pages: Mapping[str, Page]) -> str:
    """Return the hidden tables of contents at the end of a page, as MyST writes them."""
    entries = navigation.entries
    if path == INDEX:
        tables = navigation.sections
    else:
        tables = {"": entries[path].children} if entries[path].children else {}
    return "".join(
        _table(caption, (entries[each] for each in paths), pages)
        for caption, paths in tables.items()
        if paths
    )


def _table(caption: str, entries: Iterable[Entry], pages: Mapping[str, Page]) -> str:
    lines = [f"{each.label} </{pages[each.path].name}>" for each in entries]
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *lines, "```", ""])


def index_of(index: Page, navigation: Navigation, pages: Mapping[str, Page]) -> str:
    """Return llms.txt: a line for each page, with its address as Markdown."""
    lines = [f"# {index.title}", "", f"> {index.summary}"]
    for caption, paths in navigation.sections.items():
        lines += ["", f"## {caption}", ""]
        lines += [
            f"- [{entry.label}]({pages[entry.path].name}.md)"
            + (f": {entry.summary}" if entry.summary else "")
            for path in paths
            for entry in navigation.below(path)
        ]
    return "\n".join([*lines, ""])


def _rewritten(pages: Mapping[str, Page], root: Path) -> tuple[dict[str, str], set[str]]:
    texts, files = {}, set()
    for path, page in pages.items():
        texts[path], needed = for_site(page, pages, root)
        files |= needed
    return texts, files


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
