"""One direction between two machines of the simulated network: how late what passes it is. Knows no
connection.
"""

from random import Random
from typing import Protocol

DELAY_S = (0.0001, 0.0008)  # one way
RESEND_S = 0.2  # a lost piece comes so much later, and twice that when it is lost again


class Waiting(Protocol):
    """A pipe with pieces that met a cut."""

    def resume(self) -> None: ...


class Link:
    __slots__ = ("cut", "high_s", "late", "late_s", "loss", "low_s", "pipes", "random")

    def __init__(self, low_s: float, high_s: float, random: Random) -> None:
        self.low_s = low_s
        self.high_s = high_s
        self.loss = 0.0
        self.late = 0.0  # the share of the pieces that comes later, by up to `late_s`
        self.late_s = 0.0
        self.cut = False
        self.random = random
        self.pipes: dict[int, Waiting] = {}  # those with pieces that wait for the link to heal

    def delay(self) -> float:
        random = self.random.random
        delay = self.low_s + random() * (self.high_s - self.low_s)
        if self.late and random() < self.late:
            delay += random() * self.late_s
        if self.loss:
            again = RESEND_S
            while random() < self.loss and again < 60:
                delay += again
                again *= 2
        return delay
