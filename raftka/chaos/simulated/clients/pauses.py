"""Pauses of a client between two requests: short once all is healed, because the life waits for
each client then.
"""

from random import Random

import trio

HURRIED_S = 0.2  # the longest pause then


class Pauses:
    def __init__(self, random: Random, between_s: tuple[float, float]) -> None:
        self._random = random
        self._between_s = between_s
        self._hurried = trio.Event()

    async def rest(self) -> None:
        pause_s = self._random.uniform(*self._between_s)
        if self._hurried.is_set():
            await trio.sleep(min(pause_s, HURRIED_S))
            return
        with trio.move_on_after(pause_s):
            await self._hurried.wait()

    def hurry(self) -> None:
        """End the pause that is under way, and keep all others short."""
        self._hurried.set()
