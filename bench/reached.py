"""Record which code of modules imported under `watching` is reached: each statement, and both ways
of each `if` and each loop.

A mark is set before every statement, by a change of the module's syntax tree as it is imported.
With marks a simulated life takes about twice as long; with a tracer it would take ten times as
long.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

MARKS = "_marks_"  # the name by which a module knows its marks


class Reached:
    """The marks of one module. `marks`: one byte each, not zero if it was reached since `clear`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.marks = bytearray()
        self.lines: dict[int, int] = {}  # first line of a statement -> its mark
        self.branches: list[int] = []  # marks
        self.guards: dict[int, int] = {}  # line of a refusal -> its mark

    def clear(self) -> None:
        self.marks[:] = bytes(len(self.marks))

    def code(self) -> CodeType:
        tree = ast.parse(self.path.read_text())
        return compile(
            ast.fix_missing_locations(_Marking(self).visit(tree)),
            str(self.path),
            "exec",
            dont_inherit=True,
        )


class _Marking(ast.NodeTransformer):
    def __init__(self, reached: Reached) -> None:
        self._reached = reached

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                setattr(node, name, self._marked(block, may_begin_with_text=name == "body"))
        if isinstance(node, ast.If | ast.For | ast.While):
            node.orelse = [self._branch(node), *node.orelse]
            node.body = [self._branch(node), *node.body]
        return node

    def _marked(self, block: Sequence[ast.stmt], *, may_begin_with_text: bool) -> list[ast.stmt]:
        reached, out = self._reached, []
        for place, statement in enumerate(block):
            text = (
                place == 0
                and may_begin_with_text
                and isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
            )
            if not text and not isinstance(statement, ast.Global | ast.Nonlocal):
                mark = self._mark(statement)
                number = len(reached.marks) - 1
                reached.lines.setdefault(statement.lineno, number)
                if isinstance(statement, ast.Raise) or (
                    isinstance(statement, ast.If) and ends_early(statement)
                ):
                    inside = statement if isinstance(statement, ast.Raise) else statement.body[-1]
                    reached.guards[inside.lineno] = (
                        number if inside is statement else reached.lines[inside.lineno]
                    )
                out.append(mark)
            out.append(statement)
        return out

    def _branch(self, node: ast.stmt) -> ast.stmt:
        mark = self._mark(node)
        self._reached.branches.append(len(self._reached.marks) - 1)
        return mark

    def _mark(self, at: ast.stmt) -> ast.stmt:
        number = len(self._reached.marks)
        self._reached.marks.append(0)
        (statement,) = ast.parse(f"{MARKS}[{number}] = 1").body
        for each in ast.walk(statement):
            ast.copy_location(each, at)
        return statement


def ends_early(node: ast.If) -> bool:
    """Return whether the body only returns nothing or a constant: a computed value is an answer,
    not a refusal. Marks in the body are ignored.
    """
    body = [each for each in node.body if not _is_mark(each)]
    if [each for each in node.orelse if not _is_mark(each)] or len(body) != 1:
        return False
    (end,) = body
    if isinstance(end, ast.Return):
        return (
            end.value is None
            or isinstance(end.value, ast.Constant | ast.Attribute)
            or (isinstance(end.value, ast.Tuple) and not end.value.elts)
        )
    return isinstance(end, ast.Continue)


def _is_mark(node: ast.stmt) -> bool:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return (
        isinstance(target, ast.Subscript)
        and isinstance(target.value, ast.Name)
        and target.value.id == MARKS
    )


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, reached: Reached) -> None:
        super().__init__(name, path)
        self._reached = reached

    def get_code(self, fullname: str) -> CodeType:
        return self._reached.code()

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        module.__dict__[MARKS] = self._reached.marks
        exec(code, module.__dict__)


class _Finder(MetaPathFinder):
    def __init__(self, folders: Sequence[Path], found: list[Reached]) -> None:
        self._folders = folders
        self._found = found

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        where = Path(spec.origin) if spec is not None and spec.origin is not None else None
        if (
            spec is None
            or where is None
            or not any(folder in where.parents for folder in self._folders)
        ):
            return None
        self._found.append(reached := Reached(where))
        spec.loader = _Loader(fullname, str(where), reached)
        return spec


@contextmanager
def watching(folders: Sequence[Path]) -> Iterator[list[Reached]]:
    """Yield a list, to which the marks of each module in these folders are added when it is first
    imported.
    """
    found: list[Reached] = []
    finder = _Finder(folders, found)
    sys.meta_path.insert(0, finder)
    try:
        yield found
    finally:
        sys.meta_path.remove(finder)
