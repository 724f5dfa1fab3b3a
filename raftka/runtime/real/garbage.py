"""Short garbage collections: a collection visits the objects that came since the one before,
however many objects the node keeps.

Left alone, a full collection visits every object of the process in one piece, in the middle of any
request: 130 ms for a million. Here the objects that a full collection leaves are frozen
(`gc.freeze`): they are freed as before when no reference is left, and no later collection visits
them. Cycles among frozen objects are found when the process has half as much memory again: then one
collection visits all objects.
"""

import gc
import sys
from collections.abc import Callable, Mapping

# objects before a collection of the youngest; such collections before one of the middle generation
YOUNG, MIDDLE = 2_000, 10
FULL = 2  # collections of the middle generation before a full one, so of some 60,000 objects: 2 ms
# pieces of memory, some 4 MB, beyond half as many again as after the last visit to all objects
MORE_BLOCKS = 50_000


class ShortCollections:
    """The interpreter tells it of each collection."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        """`is_busy`: a long request is under way. Its objects are no growth, and to visit them
        takes long.
        """
        self._is_busy = is_busy
        self._visits_all = False  # the next full collection
        self._blocks = 0  # pieces of memory after the last visit to all objects

    def begin(self) -> None:
        gc.collect()
        self._freeze_all()
        # a full one comes when objects have grown by a quarter: the interpreter must not count the
        # frozen ones
        gc.collect()
        gc.set_threshold(YOUNG, MIDDLE, FULL)
        gc.callbacks.append(self._on_collection)

    def end(self) -> None:
        gc.callbacks.remove(self._on_collection)

    def _freeze_all(self) -> None:
        self._visits_all = False
        self._blocks = sys.getallocatedblocks()
        gc.freeze()

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase != "stop" or info["generation"] != 2:
            return
        if self._visits_all:
            self._freeze_all()
        elif (blocks := sys.getallocatedblocks()) > 1.5 * self._blocks + MORE_BLOCKS and (
            not self._is_busy() or blocks > 3 * self._blocks
        ):
            self._visits_all = True
            gc.unfreeze()
        else:
            gc.freeze()
