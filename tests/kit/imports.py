"""Names that a module imports."""

import ast
from collections.abc import Iterator
from pathlib import Path

OUTSIDE = {
    "time",
    "random",
    "socket",
    "select",
    "selectors",
    "threading",
    "multiprocessing",
    "concurrent",
    "subprocess",
    "secrets",
    "asyncio",
}
OUTSIDE_OF_PURE = OUTSIDE | {
    "os",
    "trio",
    "uuid",
    "io",
    "pathlib",
    "tempfile",
    "shutil",
    "datetime",
}


def module_name(path: str) -> str:
    """`raftka/log/log.py` is raftka.log.log; below compat/ the import name has no compat."""
    parts = list(Path(path).with_suffix("").parts)
    if parts[0] == "compat":
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, path: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported, `from a import b` as a.b; imports for type
    checking count as well.
    """
    package = module_name(path).split(".")
    if not path.endswith("__init__.py"):
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
