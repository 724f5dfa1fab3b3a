"""A mapping with changes that its base does not have yet: a decision about one member of thousands
copies nothing of the others. Knows no group.
"""

from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Overlay(MutableMapping[K, V]):
    """`base` does not change meanwhile. Keys are in the order in which the base would have them
    after the changes.

    A look at all of them copies the base, once.
    """

    __slots__ = ("_added", "_base", "_copy", "_count", "_gone")

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self._base = base
        self._added: dict[K, V] = {}
        # keys of the base that were deleted, also those that were set again
        self._gone: set[K] = set()
        self._count = len(base)
        self._copy: dict[K, V] | None = None

    def __getitem__(self, key: K) -> V:
        if self._copy is not None:
            return self._copy[key]
        if key in self._added:
            return self._added[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    def get(self, key: K, default: object = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        if self._copy is not None:
            return key in self._copy
        return key in self._added or (key in self._base and key not in self._gone)

    def __setitem__(self, key: K, value: V) -> None:
        if self._copy is not None:
            self._copy[key] = value
            return
        self._count += key not in self
        self._added[key] = value

    def __delitem__(self, key: K) -> None:
        if self._copy is not None:
            del self._copy[key]
            return
        if key not in self:
            raise KeyError(key)
        self._added.pop(key, None)
        if key in self._base:
            self._gone.add(key)
        self._count -= 1

    def __len__(self) -> int:
        return self._count if self._copy is None else len(self._copy)

    def __iter__(self) -> Iterator[K]:
        return iter(self._whole())

    def values(self) -> ValuesView[V]:
        return self._whole().values()

    def items(self) -> ItemsView[K, V]:
        return self._whole().items()

    def _whole(self) -> dict[K, V]:
        if self._copy is None:
            self._copy = dict(self._base)
            for key in self._gone:
                del self._copy[key]
            self._copy.update(self._added)
        return self._copy
