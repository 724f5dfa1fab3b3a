"""Processes that end with the one that started them: a cluster leaves no node behind, however it
ends. On Linux the kernel sees to it; elsewhere a thread of the child waits for the end of a pipe,
which the parent holds open.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypedDict

from raftka.runtime.real.choice import LINUX, chosen
from raftka.runtime.real.system import chosen_system

VARIABLE = "RAFTKA_PARENT"  # in the environment of a child: the parent's pid, the pipe's descriptor
PR_SET_NAME = 15


class ChildOptions(TypedDict, total=False):
    """Arguments of Popen."""

    env: Mapping[str, str]
    pass_fds: Sequence[int]
    preexec_fn: Callable[[], object]


_held: dict[int, int] = {}  # the reading end of a pipe that this process holds open, by its pid


def options_of_child(environment: Mapping[str, str], more: Sequence[int] = ()) -> ChildOptions:
    """Return arguments of Popen for a process that gets SIGTERM when this thread or process ends.
    `environment`: of the child, which is Python and calls `follow_parent`. `more`: descriptors that
    it gets.
    """
    if chosen() == LINUX:
        # two system calls, nothing that could wait for a thread of the parent
        by_kernel = partial(chosen_system().end_with_parent, os.getpid(), -1, signal.SIGTERM)
        return {"env": environment, "pass_fds": [*more], "preexec_fn": by_kernel}
    held = _held.get(os.getpid())
    if held is None:
        held, _ = os.pipe()
        _held.clear()  # a fork's parent's
        _held[os.getpid()] = held
    return {
        "env": {**environment, VARIABLE: f"{os.getpid()} {held}"},
        "pass_fds": [*more, held],
    }


def follow_parent() -> None:
    """Do as the parent has asked with `options_of_child`."""
    if told := os.environ.pop(VARIABLE, ""):
        parent, held = map(int, told.split())
        end_with_parent(parent, held)


def end_with_parent(parent: int, held: int) -> None:
    """Send this process SIGTERM when `parent`, which holds the other end of the pipe open, ends."""
    chosen_system().end_with_parent(parent, held, signal.SIGTERM)


def name_process(name: str) -> None:
    """Show this name in lists of processes, where the system can."""
    if chosen() == LINUX:
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
