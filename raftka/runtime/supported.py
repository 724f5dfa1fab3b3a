"""The systems that raftka runs on. Imports nothing that another system has not."""

import sys

NO_WINDOWS = (
    "raftka runs on Linux and macOS, not on Windows: install and start it in WSL 2 "
    "(learn.microsoft.com/windows/wsl), clients on Windows reach it at localhost"
)


def check_system() -> None:
    """Raise ImportError on Windows."""
    if sys.platform == "win32":
        raise ImportError(NO_WINDOWS)
