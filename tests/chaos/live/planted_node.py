"""A node with a bug, for `python -m`: what it writes to the topic of live rounds it says to be on
the disk, and flushes nothing.
"""

from collections.abc import Iterable

from raftka.cli import main
from raftka.runtime.real.flushes import Flush, Flusher, Open

MARK = "/chaos-"
_honest = Flusher.flush


def _lying(self: Flusher, asked: Iterable[Flush]) -> None:
    for files, paths, done in asked:
        kept = [file for file in files if _kept(file)]
        named = [path for path in paths if MARK not in path]
        if kept or named:
            _honest(self, [(kept, named, done)])
        else:
            self._post(lambda done=done: done(None))  # type: ignore[misc]


def _kept(file: Open) -> bool:
    return MARK not in file.path  # type: ignore[attr-defined]


Flusher.flush = _lying  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
