"""Take away from this interpreter what Linux has and macOS has not, before a program is imported:
with this folder in PYTHONPATH a program fails here where it would fail there.

The list follows the availability notes in CPython's documentation of each module. Trio keeps its
own `select`: on macOS it waits by kqueue, which Linux has not.
"""

import errno
import fcntl
import os
import re
import resource
import select
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from types import ModuleType
from typing import Any

import trio

# Names by module, as regular expressions, and where that is not in the documentation, the reason.
ABSENT: dict[ModuleType, str] = {
    os: r"eventfd.* | EFD_.* | memfd_create | MFD_.* | pidfd_open | PIDFD_.* | pipe2"
    r"| timerfd.* | TFD_.* | fdatasync | posix_fadvise | posix_fallocate | POSIX_FADV_.*"
    r"| splice | SPLICE_.*"
    r"| copy_file_range | getrandom | GRND_.* | setns | unshare | CLONE_.* | waitid | P_PIDFD"
    r"| sched_(get|set)(affinity|param|scheduler) | sched_rr_get_interval"
    r"| SCHED_(BATCH|IDLE|RESET.*)"
    r"| (get|set|list|remove)xattr | XATTR_.* | [gs]etres[ug]id | RWF_.*"
    r"| O_(DIRECT|NOATIME|PATH|TMPFILE|RSYNC|LARGEFILE)"
    r"| preadv | pwritev"  # macOS has them since version 11
    r"| sendfile",  # macOS has one with other rules: the portable runtime does without
    select: r"epoll | EPOLL.* | POLLRDHUP",
    signal: r"pidfd_send_signal | sigtimedwait | sigwaitinfo"
    r"| SIG(STKFLT|POLL|PWR|RTMIN|RTMAX|CLD)",
    socket: r"SOCK_(NONBLOCK|CLOEXEC)"
    r"| SOCK_SEQPACKET"  # macOS has the name, and refuses it for AF_UNIX
    r"| MSG_(MORE|NOSIGNAL|CMSG_CLOEXEC|ERRQUEUE|CONFIRM|FASTOPEN|PROXY)"
    r"| TCP_(INFO|SYNCNT|USER_TIMEOUT|KEEPIDLE|CORK|DEFER_ACCEPT|LINGER2|QUICKACK|WINDOW_CLAMP"
    r"|CONGESTION|MD5SIG|ULP|REPAIR.*|SAVE.*|THIN.*|COOKIE.*|TIMESTAMP|CC_INFO|FASTOPEN_.*|INQ)"
    r"| SO_(PEERCRED|PASSCRED|PASSSEC|PEERSEC|BINDTODEVICE|DOMAIN|PROTOCOL|MARK|PRIORITY)"
    r"| SO_INCOMING_CPU"
    r"| [AP]F_(PACKET|NETLINK|VSOCK|ALG|CAN|TIPC|RDS|QIPCRTR|BLUETOOTH)"
    r"| (CAN|ALG|TIPC|NETLINK|PACKET|UDPLITE|VMADDR|SO_VM)_.*",
    fcntl: r"F_(ADD|GET)_SEALS | F_SEAL_.* | F_[GS]ETPIPE_SZ | F_NOTIFY | DN_.* | F_[GS]ETLEASE"
    r"| F_[GS]ETSIG | LOCK_(MAND|READ|WRITE|RW) | FICLONE.* | F_OFD_.*",
    resource: r"prlimit | RUSAGE_THREAD | RLIMIT_(MSGQUEUE|NICE|RTPRIO|RTTIME|SIGPENDING)",
}
# functions of Linux' C library that ctypes would find
ABSENT_FUNCTIONS = re.compile(
    "prctl|fallocate|syncfs|fstatfs|mallopt|gnu_get_libc_version|unshare|setns|syscall|epoll_.*"
)
LONGEST_PATH = 103  # of a socket, in bytes
NO_FOLDER = ("/proc", "/sys")  # of the kernel


def keep_for_trio() -> None:
    own = ModuleType("select")
    own.__dict__.update(select.__dict__)
    trio._core._io_epoll.select = own  # type: ignore[attr-defined]


def take_away() -> None:
    for module, pattern in ABSENT.items():
        wanted = re.compile(pattern, re.VERBOSE)
        for name in [name for name in vars(module) if wanted.fullmatch(name)]:
            delattr(module, name)
    # what these have found when they were imported
    selectors.DefaultSelector = selectors.PollSelector  # type: ignore[assignment,misc]
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]


def refuse(event: str, given: tuple[Any, ...]) -> None:
    """An audit hook: what is asked of the kernel without a name of Python's."""
    if event in ("open", "os.listdir", "os.scandir") and isinstance(given[0], str):
        if given[0].startswith(NO_FOLDER):
            raise FileNotFoundError(errno.ENOENT, "macOS has no such folder", given[0])
    elif event == "ctypes.dlsym" and ABSENT_FUNCTIONS.fullmatch(str(given[1])):
        raise AttributeError(f"macOS has no function {given[1]}")
    elif (
        event == "socket.bind"
        and given[0].family == socket.AF_UNIX
        and (not given[1] or str(given[1]).startswith("\0") or len(given[1]) > LONGEST_PATH)
    ):
        raise OSError(errno.EINVAL, f"macOS has no such address: {given[1]!r}")


keep_for_trio()
take_away()
sys.addaudithook(refuse)
