"""A rate that replicas which catch up must not exceed (KIP-73): pure, time is an argument. Knows no
replica and no setting.
"""

from math import inf


class Throttle:
    """Bytes that went through are paid off at `rate`; until it is, nothing more goes. So a large
    answer is followed by a long pause, and the mean holds.
    """

    __slots__ = ("free_at", "rate")

    def __init__(self) -> None:
        self.rate = inf  # bytes a second
        self.free_at = -inf  # when the last of it is paid

    def set_rate(self, rate: float, now: float) -> None:
        """Pay what is not paid yet at the new rate: who raises it need not wait for the old one."""
        if rate != self.rate:
            owed = (
                max(0.0, self.free_at - now) * self.rate
                if self.free_at < inf and self.rate < inf
                else 0.0
            )
            self.rate = rate
            self.free_at = now + owed / rate if rate else inf

    def passed(self, size_bytes: int, now: float) -> None:
        self.free_at = max(self.free_at, now) + (size_bytes / self.rate if self.rate else inf)
