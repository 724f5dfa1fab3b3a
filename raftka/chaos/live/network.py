"""A network that this process and its children have to themselves: loopback and nothing else, so
that packets can be lost here and nobody else's.

Linux, and `tc` of iproute2; root, or a machine that lets everybody make user namespaces. Knows no
node.
"""

import ctypes
import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
# bytes, as between machines; loopback has 65,536, and a lost packet would be a whole answer
MTU = 1500
# Random number modulo 100; below the share it is dropped (TC_ACT_SHOT), else the next filter is
# asked. Classic BPF, which any kernel has.
LOSE = "5,32 0 0 4294963256,148 0 0 100,53 1 0 {percent},6 0 0 2,6 0 0 4294967295"


class OwnNetwork:
    """As long as `missing` says why there is none, nothing here may be called."""

    def __init__(self, missing: str = "the round has no network of its own") -> None:
        self.missing = missing

    def lose(self, percent: int) -> None:
        """So many of a hundred packets, between whomever."""
        _tc("qdisc", "add", "dev", "lo", "clsact")
        _tc(
            "filter",
            "add",
            "dev",
            "lo",
            "egress",
            "bpf",
            "da",
            "bytecode",
            LOSE.format(percent=percent),
        )

    def lose_none(self) -> None:
        _tc("qdisc", "del", "dev", "lo", "clsact")

    def narrow(self, kbit_s: int, queue_bytes: int) -> None:
        """All traffic together; what the queue has no room for is dropped."""
        _tc(
            "qdisc",
            "replace",
            "dev",
            "lo",
            "root",
            "tbf",
            "rate",
            f"{kbit_s}kbit",
            "burst",
            f"{2 * MTU}",
            "limit",
            f"{queue_bytes}",
        )

    def widen(self) -> None:
        _tc("qdisc", "del", "dev", "lo", "root")

    def hindered(self) -> int:
        """Packets that were dropped or had to wait, since `lose` or `narrow`."""
        words = _tc("-s", "qdisc", "show", "dev", "lo").replace(",", " ").split()
        return sum(
            int(count) for word, count in pairwise(words) if word in ("(dropped", "overlimits")
        )


def enter() -> OwnNetwork:
    """This process leaves the machine's network for good. Only a process with one thread may where
    it is not root's.
    """
    if _tool("tc") is None or _tool("ip") is None:
        return OwnNetwork("no network namespace: there is no `tc` (iproute2)")
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET if user == 0 else CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return OwnNetwork(f"no network namespace can be made: {os.strerror(ctypes.get_errno())}")
    if user != 0:  # root within, so that `tc` may
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _run("ip", "link", "set", "lo", "up", "mtu", f"{MTU}")
    return OwnNetwork(missing=_tried(OwnNetwork()))


def _tried(network: OwnNetwork) -> str:
    """Return the reason why this kernel cannot do it; empty: it can."""
    try:
        network.lose(1)
        network.lose_none()
        network.narrow(8_000, 100_000)
        network.widen()
    except subprocess.CalledProcessError as error:
        return f"`{' '.join(error.cmd)}` fails: {error.stderr.strip()}"
    return ""


def _tc(*arguments: str) -> str:
    return _run("tc", *arguments)


def _tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _run(name: str, *arguments: str) -> str:
    return subprocess.run(
        (_tool(name) or name, *arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
