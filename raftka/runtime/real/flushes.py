"""Flush dirty files: by the kernel itself where it offers that (linux/kernel.py); many files at
once by their file system (linux/volumes.py); by threads where names are to be flushed, and
everywhere else.

A thread that flushes costs more than the flush of a few files: it and the loop take the interpreter
from each other a dozen times. `bench/` has the measurements.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Protocol

from raftka.runtime.real.syncing import sync_data, sync_path

THREADS = 2
MANY = 24  # files that one flush of a directory has, before syncfs is worth its thread

Done = Callable[[OSError | None], None]
Post = Callable[[Callable[[], None]], None]


class Volume(Protocol):
    """A file system that can be flushed by one call."""

    def takes(self, files: int) -> bool:
        """Return whether so many files are flushed by one call now."""

    def ask(self, fds: Sequence[int], report: Done) -> bool:
        """Return whether the caller has to run `work` in a thread, which calls `report` there."""

    def work(self) -> None: ...

    def close(self) -> None: ...


class Open(Protocol):
    @property
    def fd(self) -> int: ...
    @property
    def volume(self) -> Volume | None:
        """Its file system, where that can be flushed by one call."""


# open files; paths of others, or of directories; what to call when all are flushed
Flush = tuple[Sequence[Open], Sequence[str], Done]


class Job:
    """Files and names that are flushed together; `done` gets the first error, in the loop."""

    __slots__ = ("_done", "_error", "_left")

    def __init__(self, parts: int, done: Done) -> None:
        self._left = parts
        self._error: OSError | None = None
        self._done = done

    def part_done(self, error: OSError | None) -> None:
        self._error = self._error or error
        self._left -= 1
        if not self._left:
            self._done(self._error)


class Kernel(Protocol):
    """Flushes that the kernel makes by itself."""

    eventfd: int  # becomes readable when some are done

    @property
    def works(self) -> bool:
        """Return whether it makes flushes here."""

    @property
    def busy(self) -> bool:
        """Return whether flushes are under way."""

    def submit(self, wanted: Sequence[tuple[int, Job]]) -> Sequence[tuple[int, Job]]:
        """Begin to flush descriptors; return those that it does not take."""

    def reap(self, *, wait: bool) -> Sequence[tuple[int, Job]]:
        """Report flushes that are done to their jobs, and begin more. Return those that the kernel
        does not take.
        """

    def close(self) -> None: ...


class Flusher:
    """`post` runs a thread's function on the loop. Where there is a `kernel`, the loop calls
    `ready` for each write to its eventfd, or for some together.
    """

    def __init__(self, post: Post, kernel: Kernel | None = None) -> None:
        self.kernel = kernel
        self._post = post
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def flush(self, asked: Iterable[Flush]) -> None:
        """Begin all of these flushes."""
        wanted: list[tuple[int, Job]] = []
        for files, paths, done in asked:
            names = bool(paths) or not files
            volume = files[0].volume if len(files) >= MANY else None
            if (
                volume is not None
                and all(file.volume is volume for file in files)
                and volume.takes(len(files))
            ):
                job = Job(2 if names else 1, done)
                self._by_volume(volume, [file.fd for file in files], job)
            elif self.kernel is None or not self.kernel.works:
                # one piece of work for all files: each piece costs the loop a wake-up
                job = Job(1, done)
                self._in_thread([file.fd for file in files], paths, job)
                continue
            else:
                job = Job(len(files) + (1 if names else 0), done)
                wanted += [(file.fd, job) for file in files]
            if names:
                self._in_thread((), paths, job)
        if wanted and self.kernel is not None:
            self._in_threads(self.kernel.submit(wanted))

    def ready(self, events: int) -> None:
        self._reap(wait=False)

    def stop(self) -> None:
        """Stop after all requested flushes are done."""
        while self.kernel is not None and self.kernel.busy:
            self._reap(wait=True)
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self.kernel is not None:
            self.kernel.close()

    def _reap(self, *, wait: bool) -> None:
        if self.kernel is not None:
            self._in_threads(self.kernel.reap(wait=wait))

    def _by_volume(self, volume: Volume, fds: Sequence[int], job: Job) -> None:
        if volume.ask(fds, lambda error: self._post(lambda: job.part_done(error))):
            self._begin(volume.work)

    def _in_threads(self, refused: Sequence[tuple[int, Job]]) -> None:
        for fd, job in refused:
            self._in_thread((fd,), (), job)

    def _in_thread(self, fds: Sequence[int], paths: Sequence[str], job: Job) -> None:
        def work() -> None:
            error = sync_files(fds, paths)
            self._post(lambda: job.part_done(error))

        self._begin(work)

    def _begin(self, work: Callable[[], None]) -> None:
        while len(self._threads) < THREADS:
            self._threads.append(
                threading.Thread(
                    target=self._run, name=f"raftka-flush-{len(self._threads)}", daemon=True
                )
            )
            self._threads[-1].start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def sync_files(fds: Sequence[int], paths: Sequence[str] = ()) -> OSError | None:
    """Flush open files, then other files and directories by their names; one that was deleted
    meanwhile is passed over. Return the first error.
    """
    first: OSError | None = None
    for fd in fds:
        try:
            sync_data(fd)
        except OSError as error:
            first = first or error
    for path in paths:
        try:
            sync_path(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            first = first or error
    return first
