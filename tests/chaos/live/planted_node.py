"""A node with a bug, for `python -m`: what it writes to the topic of live rounds it says to be on the disk, and flushes nothing."""

from raftka.cli import main
from raftka.runtime.real_flushes import Flusher, Open

MARK = "/chaos-"
_honest = Flusher.flush


def _lying(self: Flusher, files, paths, done) -> None:  # type: ignore[no-untyped-def]
    def kept(file: Open) -> bool:
        return MARK not in file.path  # type: ignore[attr-defined]

    honest_files, honest_paths = [file for file in files if kept(file)], [path for path in paths if MARK not in path]
    if honest_files or honest_paths:
        _honest(self, honest_files, honest_paths, done)
    else:
        self._post(lambda: done(None))


Flusher.flush = _lying  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
