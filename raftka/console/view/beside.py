"""State that pages keep beside a session or a view: made at the first look, shared by all pages of
its owner, and gone with it.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary, ref

Owner = TypeVar("Owner")
T = TypeVar("T")


class Beside(Generic[Owner, T]):
    """For many threads."""

    def __init__(self, make: Callable[[Callable[[], Owner]], T]) -> None:
        """`make` gets a function that returns the owner, and raises OSError when that is gone: a
        reference of the state's own would keep the owner.
        """
        self._make = make
        self._lock = threading.Lock()
        self._of: WeakKeyDictionary[Owner, T] = WeakKeyDictionary()

    def of(self, owner: Owner) -> T:
        with self._lock:
            found = self._of.get(owner)
            if found is None:
                found = self._of[owner] = self._make(_finder(owner))
            return found


def _finder(owner: Owner) -> Callable[[], Owner]:
    weak = ref(owner)

    def find() -> Owner:
        found = weak()
        if found is None:
            raise OSError("the session has ended")
        return found

    return find
