"""Which paths ZooKeeper takes: its own rules, as its server applies them. Knows no tree."""

import re

from zookeeper_bridge.errors import Err, ZooKeeperError, beyond
from zookeeper_bridge.limits import PATH_BYTES, PATH_DEPTH

ROOT = "/"
# Control characters, what UTF-16 keeps for surrogates, private characters, and the last sixteen of the first plane; all other planes are allowed.
_FORBIDDEN = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]|//")
_PLAIN = re.compile(r"(?:/[!-.0-~]+)+")  # nearly all paths: one look is enough


def check_path(path: str | None, *, sequential: bool = False) -> str:
    """Returns it. Raises BAD_ARGUMENTS. `sequential`: a number will be put behind it, so it may end with a slash."""
    if path is None:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, "there is no path")
    if len(path) <= 255 and _PLAIN.fullmatch(path) is not None:
        return path
    seen = path + "1" if sequential else path
    if not seen.startswith("/") or (seen.endswith("/") and seen != ROOT) or _FORBIDDEN.search(seen) is not None:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"{path!r:.80} is no path")
    return path


def check_new(path: str) -> None:
    """What is created has bounds beside the packet's; a suffix included. Raises QUOTA_EXCEEDED."""
    if len(path) > PATH_BYTES.value // 4 and len(path.encode()) > PATH_BYTES.value:
        raise beyond(PATH_BYTES)
    if path.count("/") > PATH_DEPTH.value:
        raise beyond(PATH_DEPTH)


def parent_of(path: str) -> str:
    """Of the root: the root."""
    return path[: path.rfind("/")] or ROOT


def name_of(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def child_of(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def is_within(path: str, ancestor: str) -> bool:
    """It, or something below it."""
    return ancestor in (path, ROOT) or path.startswith(ancestor + "/")


def ancestors(path: str) -> list[str]:
    """From the path itself up to the root."""
    found = [path]
    while path != ROOT:
        path = parent_of(path)
        found.append(path)
    return found
