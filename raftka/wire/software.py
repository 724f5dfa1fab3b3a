"""Valid names of client software in ApiVersions (KIP-511)."""

import re

SOFTWARE_NAME = "raftka"  # of our own nodes and tools
_PART = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def is_software(name: str, version: str) -> bool:
    return _PART.fullmatch(name) is not None and _PART.fullmatch(version) is not None
