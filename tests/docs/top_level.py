"""Run a Python file that may await at its top level, on Trio: `python -m tests.docs.top_level`."""

import ast
import inspect
import sys
from pathlib import Path

import trio

if __name__ == "__main__":
    file = Path(sys.argv[1])
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(file.read_text(), str(file), "exec", flags=flags, dont_inherit=True)
    namespace: dict[str, object] = {"__name__": "__main__"}
    if code.co_flags & inspect.CO_COROUTINE:

        async def block() -> None:
            await eval(code, namespace)

        trio.run(block)
    else:
        exec(code, namespace)
