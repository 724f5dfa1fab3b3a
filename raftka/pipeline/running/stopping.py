"""SIGTERM and Ctrl-C of `raftka pipeline run`: at its start they break it off at once, later it
ends between two batches.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """It is to end before it has begun. No error, and nothing that a handler of errors may
    catch.
    """


class Stopping:
    """`event` is set when it is to end. For the main thread."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._is_starting = False
        self.listen()

    def listen(self) -> None:
        """Take the signals. Call it again with each Spark session, which takes Ctrl-C for
        itself.
        """
        for number in SIGNALS:
            signal.signal(number, self._came)

    @contextmanager
    def start(self) -> Iterator[None]:
        """Raises Stopped inside, wherever it waits. An error that comes of the end itself, as of a
        Java that was told to end too, is Stopped too.
        """
        self._is_starting = True
        try:
            self._check()
            yield
            self._check()
        except KeyboardInterrupt:
            raise Stopped from None
        except Exception:
            if self.event.is_set():
                raise Stopped from None
            raise
        finally:
            self._is_starting = False

    def _check(self) -> None:
        if self.event.is_set():
            raise Stopped

    def _came(self, number: int, frame: FrameType | None) -> None:
        is_first = not self.event.is_set()
        self.event.set()
        if self._is_starting and is_first:
            self._is_starting = False
            raise Stopped


def end_children() -> None:
    """End the child processes: a Java of which an interrupted start has lost the handle."""
    for task in Path("/proc/self").glob("task/*"):  # there is none on macOS
        with suppress(OSError):
            for child in (task / "children").read_text().split():
                os.kill(int(child), signal.SIGTERM)
