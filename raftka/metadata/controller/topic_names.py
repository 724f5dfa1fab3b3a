"""Names of topics: which are legal, and which differ only in `.` and `_`.

Names of metrics make no difference between these characters, so Kafka refuses the second such
topic.
"""

import re
from typing import Protocol

from raftka.metadata.image import MetadataImage
from raftka.wire.errors import Code, KafkaError, quoted

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
NAME_LENGTH = 249  # a directory is called name-partition, in 255 bytes


class Names(Protocol):
    def find_colliding(self, name: str) -> str | None:
        """Return the topic whose name differs from the given one at most in `.` and `_`."""


class TopicNames:
    """Names of the topics of an image that have a `.` or a `_`."""

    def __init__(self, image: MetadataImage) -> None:
        self._by_folded: dict[str, str] = {}
        for name in image.topic_ids:
            self.add(name)

    def add(self, name: str) -> None:
        if "." in name or "_" in name:
            self._by_folded[fold(name)] = name

    def remove(self, name: str) -> None:
        self._by_folded.pop(fold(name), None)

    def find_colliding(self, name: str) -> str | None:
        return self._by_folded.get(fold(name))


class NamesAbove:
    """Other names with the changes of a draft."""

    def __init__(self, below: Names) -> None:
        self._below = below
        self._changed: dict[str, str | None] = {}

    def add(self, name: str) -> None:
        if "." in name or "_" in name:
            self._changed[fold(name)] = name

    def remove(self, name: str) -> None:
        self._changed[fold(name)] = None

    def find_colliding(self, name: str) -> str | None:
        folded = fold(name)
        if folded in self._changed:
            return self._changed[folded]
        return self._below.find_colliding(name)


def fold(name: str) -> str:
    """Return the same text for all names that collide."""
    return name.replace(".", "_")


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION."""
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH:
        wrong = (
            f"the length of '{quoted(name)}' is longer than the max allowed length {NAME_LENGTH}"
        )
    elif not LEGAL_NAME.fullmatch(name):
        wrong = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    else:
        return
    raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")
