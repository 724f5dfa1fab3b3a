"""Watches of a node's connections, with the rules of ZooKeeper 3.9. Knows no tree and no bytes.

One-shot watches on data (getData and exists share one set) and on children; persistent ones, which
fire for both and stay; recursive ones, which fire for all paths below them, and never for a change
of children. A connection gets one event for one change.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Generic, TypeVar

from zookeeper_bridge.protocol.paths import ROOT, ancestors, parent_of

C = TypeVar("C")


class Kind(IntEnum):
    """Numbers as checkWatches and removeWatches have them; ANY is all of them."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    RECURSIVE = 5


class EventType(IntEnum):
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILD = 4


KINDS = (Kind.DATA, Kind.CHILDREN, Kind.PERSISTENT, Kind.RECURSIVE)


class Watches(Generic[C]):
    def __init__(self, tell: Callable[[C, EventType, str], None]) -> None:
        self._tell = tell
        self._watchers: dict[Kind, dict[str, dict[C, None]]] = {kind: {} for kind in KINDS}
        self._of: dict[C, dict[tuple[Kind, str], None]] = {}
        self.count = 0

    def count_of(self, connection: C) -> int:
        return len(self._of.get(connection, ()))

    def add(self, connection: C, kind: Kind, path: str) -> None:
        own = self._of.setdefault(connection, {})
        if (kind, path) not in own:
            own[kind, path] = None
            self._watchers[kind].setdefault(path, {})[connection] = None
            self.count += 1

    def has(self, connection: C, kind: Kind, path: str) -> bool:
        own = self._of.get(connection, {})
        return any((each, path) in own for each in _meant(kind))

    def remove(self, connection: C, kind: Kind, path: str) -> bool:
        """Remove a connection's watches of this kind; return False if there was none."""
        dropped = [self._drop(connection, each, path) for each in _meant(kind)]
        return True in dropped

    def remove_connection(self, connection: C) -> None:
        for kind, path in list(self._of.get(connection, ())):
            self._drop(connection, kind, path)

    def _drop(self, connection: C, kind: Kind, path: str) -> bool:
        own = self._of.get(connection, {})
        if (kind, path) not in own:
            return False
        del own[kind, path]
        if not own:
            del self._of[connection]
        watchers = self._watchers[kind][path]
        del watchers[connection]
        if not watchers:
            del self._watchers[kind][path]
        self.count -= 1
        return True

    # events of znodes

    def created(self, path: str) -> None:
        self._node(EventType.CREATED, path, (Kind.DATA,))
        self._child(path)

    def changed(self, path: str) -> None:
        self._node(EventType.CHANGED, path, (Kind.DATA,))

    def deleted(self, path: str) -> None:
        self._node(EventType.DELETED, path, (Kind.DATA, Kind.CHILDREN))
        self._child(path)

    def _node(self, event: EventType, path: str, one_shot: Iterable[Kind]) -> None:
        told: dict[C, None] = {}
        for kind in one_shot:
            told.update(dict.fromkeys(self._once(kind, path)))
        told.update(self._watchers[Kind.PERSISTENT].get(path, {}))
        if recursive := self._watchers[Kind.RECURSIVE]:
            for each in ancestors(path):
                told.update(recursive.get(each, {}))
        for connection in told:
            self._tell(connection, event, path)

    def _child(self, path: str) -> None:
        if path == ROOT:
            return
        parent = parent_of(path)
        told = dict.fromkeys(self._once(Kind.CHILDREN, parent)) | self._watchers[
            Kind.PERSISTENT
        ].get(parent, {})
        for connection in told:
            self._tell(connection, EventType.CHILD, parent)

    def _once(self, kind: Kind, path: str) -> Iterable[C]:
        told = self._watchers[kind].pop(path, None)
        if told is None:
            return ()
        for connection in told:
            own = self._of[connection]
            del own[kind, path]
            if not own:
                del self._of[connection]
        self.count -= len(told)
        return told

    # lists for four-letter words

    def by_path(self) -> Iterator[tuple[str, list[C]]]:
        paths = dict.fromkeys(path for kind in KINDS for path in self._watchers[kind])
        for path in paths:
            yield (
                path,
                list(
                    dict.fromkeys(
                        each for kind in KINDS for each in self._watchers[kind].get(path, ())
                    )
                ),
            )

    def by_connection(self) -> Iterator[tuple[C, list[str]]]:
        for connection, own in self._of.items():
            yield connection, list(dict.fromkeys(path for _, path in own))


def _meant(kind: Kind) -> Iterable[Kind]:
    return KINDS if kind is Kind.ANY else (kind,)
