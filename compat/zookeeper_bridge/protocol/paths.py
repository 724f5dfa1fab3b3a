"""The paths that ZooKeeper takes: its own rules, as its server applies them. Knows no tree."""

import re

from zookeeper_bridge.limits import PATH_BYTES, PATH_DEPTH
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError, beyond

ROOT = "/"
# Control characters, private ones, the last sixteen of the first plane, and what needs two units of
# UTF-16: all other planes.
_FORBIDDEN = re.compile("[\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|//|/\\.\\.?(?:/|$)")
_PLAIN = re.compile(r"(?:/[!-.0-~]+)+")  # nearly all paths: one look is enough


def check_path(path: str | None) -> str:
    """Returns it. Raises BAD_ARGUMENTS."""
    if path is None:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, "there is no path")
    if len(path) <= 255 and "/." not in path and _PLAIN.fullmatch(path) is not None:
        return path
    if (
        not path.startswith("/")
        or (path.endswith("/") and path != ROOT)
        or _FORBIDDEN.search(path) is not None
    ):
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"{path!r:.80} is no path")
    return path


def check_has_parent(path: str | None) -> str:
    """All that is asked of a path before its parent is looked for. Returns it. Raises
    BAD_ARGUMENTS.
    """
    if path is None or "/" not in path or "\0" in path:
        raise ZooKeeperError(Err.BAD_ARGUMENTS, f"{path!r:.80} has no parent")
    return path


def check_new(path: str) -> None:
    """Check a path that is to be created, with its suffix: it has bounds beside the packet's.
    Raises QUOTA_EXCEEDED.
    """
    if len(path) > PATH_BYTES.value // 4 and len(path.encode()) > PATH_BYTES.value:
        raise beyond(PATH_BYTES)
    if path.count("/") > PATH_DEPTH.value:
        raise beyond(PATH_DEPTH)


def parent_of(path: str) -> str:
    """Return the parent; the root's is the root."""
    return path[: path.rfind("/")] or ROOT


def name_of(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def child_of(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def ancestors(path: str) -> list[str]:
    """From the path itself up to the root."""
    found = [path]
    while path != ROOT:
        path = parent_of(path)
        found.append(path)
    return found
