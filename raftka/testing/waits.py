"""Waits of a test's thread: until a state is as wanted, or the time is up. Knows no cluster."""

import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from raftka.wire.errors import KafkaError

T = TypeVar("T")
WAIT_SECONDS = 10.0
PAUSE_SECONDS = 0.005

# set when nobody waits for the result any more: the task of an asynchronous caller was cancelled
abandoned: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)


class Abandoned(Exception):
    """The caller is gone. It goes to no one."""


def wait_for_truth(condition: Callable[[], T], timeout_s: float) -> T:
    """Call the condition until it is true, and return what it returned then; a KafkaError is not
    true yet. Raises TimeoutError with the last thing it returned or raised.
    """
    return wait_until("not so", condition, bool, repr, timeout_s)


def wait_until(
    complaint: str,
    read: Callable[[], T],
    wanted: Callable[[T], bool],
    describe: Callable[[T], str],
    timeout_s: float,
) -> T:
    """Read the state until it is wanted, and return it; a KafkaError is a state too. Raises
    TimeoutError: the complaint, the seconds, and the last state as `describe` has it.
    """
    deadline = time.monotonic() + timeout_s
    gone = abandoned.get()
    while True:
        failure: KafkaError | None = None
        try:
            found = read()
        except KafkaError as error:
            failure = error
        else:
            if wanted(found):
                return found
        if time.monotonic() > deadline:
            last = describe(found) if failure is None else str(failure)
            raise TimeoutError(f"{complaint} within {timeout_s:g} s; last: {last}")
        if gone is None:
            time.sleep(PAUSE_SECONDS)
        elif gone.wait(PAUSE_SECONDS):
            raise Abandoned
