"""The choice of the real runtime: Linux's where it can run, else the portable one, or the one that
RAFTKA_RUNTIME names. Knows neither of them.
"""

import os
import select
import socket
from collections.abc import Callable, Sequence
from functools import cache

VARIABLE = "RAFTKA_RUNTIME"  # in the environment: linux or portable
LINUX, PORTABLE = "linux", "portable"
# Names without which the Linux runtime cannot run, by module.
NEEDED = {
    os: ("eventfd", "memfd_create", "preadv", "pwritev", "sendfile"),
    select: ("epoll",),
    socket: ("TCP_INFO", "TCP_SYNCNT"),
}


def chosen() -> str:
    """Return LINUX or PORTABLE. Raises ValueError when RAFTKA_RUNTIME has another value, or asks
    for the Linux runtime where that cannot run.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", LINUX, PORTABLE):
        raise ValueError(f"{VARIABLE}={asked} is not known: it is {LINUX} or {PORTABLE}")
    if asked != PORTABLE and (missing := missing_for_linux()):
        if asked == LINUX:
            raise ValueError(
                f"{VARIABLE}={LINUX} cannot run here, there is no {', '.join(missing)}: unset it, "
                f"or set {VARIABLE}={PORTABLE}"
            )
        return PORTABLE
    return asked or LINUX


@cache
def missing_for_linux() -> Sequence[str]:
    """Return what this system, or the sandbox around this process, does not have of it."""
    missing = [
        f"{module.__name__}.{name}"
        for module, names in NEEDED.items()
        for name in names
        if not hasattr(module, name)
    ]
    return missing or _refused_calls()


def _refused_calls() -> list[str]:
    """Return the calls that exist, and that the kernel or a filter of system calls refuses."""
    refused = []
    calls: dict[str, Callable[[], None]] = {
        "select.epoll": lambda: select.epoll().close(),
        "os.eventfd": lambda: os.close(os.eventfd(0)),
        "os.memfd_create": lambda: os.close(os.memfd_create("raftka")),
    }
    for name, make in calls.items():
        try:
            make()
        except OSError as error:
            refused.append(f"{name} ({error.strerror})")
    return refused
