"""Names in the documents resolve: the file is there and has the class, function or table."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
MAP = ROOT / "docs" / "map.md"
PLACE = re.compile(r"`([\w./-]+\.py):([\w.]+)`")
FEWEST_ROWS = 100


@cache
def names_of(path: Path) -> frozenset[str]:
    """Return the names that a module defines: `Class`, `Class.method`, `function`, `TABLE`."""
    return frozenset(_names(ast.parse(path.read_text()).body, ""))


def _names(body: list[ast.stmt], owner: str) -> list[str]:
    names = []
    for node in body:
        if isinstance(node, ast.ClassDef):
            names += [f"{owner}{node.name}", *_names(node.body, f"{owner}{node.name}.")]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(f"{owner}{node.name}")
        elif isinstance(node, ast.Assign):
            names += [f"{owner}{each.id}" for each in node.targets if isinstance(each, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(f"{owner}{node.target.id}")
    return names


def unresolved(text: str) -> list[str]:
    """Return the places `file:name` of `text` that do not exist."""
    return [
        f"{file}:{name}"
        for file, name in PLACE.findall(text)
        if not (ROOT / file).is_file() or name not in names_of(ROOT / file)
    ]


def rows_without_a_place(text: str) -> list[str]:
    """Return the rows of the tables of `text` that name no place."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [
        row
        for row in rows
        if not PLACE.search(row) and not row.startswith("|---") and not row.endswith("| here |")
    ]


def test_places_in_the_documents_resolve() -> None:
    assert {
        document.name: wrong
        for document in DOCUMENTS
        if (wrong := unresolved(document.read_text()))
    } == {}


def test_map_has_a_place_in_each_row() -> None:
    text = MAP.read_text()

    assert rows_without_a_place(text) == []
    assert sum(line.startswith("|") and bool(PLACE.search(line)) for line in text.splitlines()) > (
        FEWEST_ROWS
    )


def test_wrong_rows_are_found() -> None:
    assert unresolved("| Log | `raftka/log/no_such_file.py:Log` |") == [
        "raftka/log/no_such_file.py:Log"
    ]
    assert unresolved("| Log | `raftka/log/log.py:Log.no_such_method` |") == [
        "raftka/log/log.py:Log.no_such_method"
    ]
    assert unresolved("| Log | `raftka/log/log.py:Log.append_marker` |") == []
    assert rows_without_a_place("| Log | in a file |") == ["| Log | in a file |"]
