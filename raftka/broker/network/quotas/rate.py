"""Consumption that is compared with a quota: a rate over a sampled window, and a bucket of tokens,
both as Kafka computes them. Pure; time is an argument (s).

A sample of a rate begins with the first event after the previous sample has ended. The window
reaches from the oldest sample until now. Full samples that are missing count as if they had passed,
so a client that was silent may use all but one sample of the window at once.
"""

from collections import deque
from math import inf

# a sample that lacks no more than this of its length has ended: times are sums of fractions
ROUNDING_S = 1e-6


class Window:
    """`quota.window.num` samples of `quota.window.size.seconds`."""

    __slots__ = ("sample_s", "samples")

    def __init__(self, samples: int, sample_s: float) -> None:
        self.samples = samples
        self.sample_s = sample_s

    @property
    def full_s(self) -> float:
        return self.samples * self.sample_s

    @property
    def at_once_s(self) -> float:
        """Seconds of the quota that a client may use at once after a silence."""
        return (self.samples - 1) * self.sample_s


class Rate:
    __slots__ = ("_samples", "_total", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[list[float]] = deque()  # begin, last event, sum
        self._total = 0.0

    def record(self, value: float, now: float) -> None:
        """Count a value; a negative one takes back what was recorded."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._window.sample_s - ROUNDING_S:
            samples.append([now, now, 0.0])
        sample = samples[-1]
        sample[1] = now
        sample[2] += value
        self._total += value

    def window_s(self, now: float) -> float:
        """Return the length of the window now, and drop samples that are too old."""
        window, samples = self._window, self._samples
        while samples and (
            now - samples[0][1] >= window.full_s - ROUNDING_S or len(samples) > window.samples + 1
        ):
            self._total -= samples.popleft()[2]
        if not samples:
            self._total = 0.0
            return window.at_once_s
        elapsed = now - samples[0][0]
        missing = window.samples - 1 - int((elapsed + ROUNDING_S) / window.sample_s)
        return max(elapsed + max(0, missing) * window.sample_s, 0.001)

    def used(self, now: float) -> float:
        self.window_s(now)
        return self._total

    def delay_s(self, quota: float, now: float) -> float:
        """Return the seconds of silence after which the rate is the quota; 0: it is not above."""
        window_s = self.window_s(now)  # first: it drops old samples
        return max(0.0, self._total / quota - window_s)

    def is_idle(self, now: float) -> bool:
        """Return whether a new object would behave the same."""
        self.window_s(now)
        return not self._samples


class TokenBucket:
    """A whole window's worth of tokens; the last of them may be overdrawn by one request
    (KIP-599).
    """

    __slots__ = ("_at", "_quota", "_tokens", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tokens, self._at = inf, 0.0
        self._quota = 0.0  # the last one

    def record(self, value: float, quota: float, now: float) -> None:
        """Take tokens; a negative value gives them back."""
        self._refill(quota, now)
        self._tokens = min(self._tokens - value, quota * self._window.full_s)

    def delay_s(self, quota: float, now: float) -> float:
        """Return the seconds until the bucket is not below empty."""
        self._refill(quota, now)
        return max(0.0, -self._tokens / quota)

    def is_idle(self, now: float) -> bool:
        """Return whether a new object would behave the same."""
        self._refill(self._quota, now)
        return self._tokens >= self._quota * self._window.full_s

    def _refill(self, quota: float, now: float) -> None:
        self._tokens = min(
            self._tokens + max(0.0, now - self._at) * quota, quota * self._window.full_s
        )
        self._at, self._quota = now, quota
