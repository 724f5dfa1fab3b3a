"""The sampled rate and the bucket of tokens, compared with Kafka's definition and with recorded
numbers; which quota applies to whom.
"""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.broker.network.quotas.precedence import Bound, Quotas, applied, rates_of_addresses
from raftka.broker.network.quotas.rate import Rate, TokenBucket, Window
from raftka.metadata.image import QuotaEntity
from raftka.metadata.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    USER,
    entity_of,
)

WINDOW = Window(11, 1.0)
SAMPLES = 11


class Slow:
    """Kafka's definition in milliseconds, over all events: a sample begins with the first event
    after the one before has ended.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[int, int, int]] = []  # begin, last event, sum

    def record(self, value: int, now_ms: int) -> None:
        if not self.samples or now_ms - self.samples[-1][0] >= 1000:
            self.samples.append((now_ms, now_ms, 0))
        begin, _, total = self.samples[-1]
        self.samples[-1] = (begin, now_ms, total + value)

    def delay_ms(self, quota: int, now_ms: int) -> int:
        kept = [each for each in self.samples if now_ms - each[1] < SAMPLES * 1000]
        elapsed = now_ms - kept[0][0] if kept else 0
        elapsed += max(0, SAMPLES - 1 - elapsed // 1000) * 1000
        rate = sum(each[2] for each in kept) / (max(elapsed, 1) / 1000)
        return max(0, round((rate - quota) / quota * elapsed))


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 50_000)), min_size=1, max_size=60))
def test_rate_is_kafkas(events: list[tuple[int, int]]) -> None:
    rate, slow, now_ms = Rate(WINDOW), Slow(), 1000
    for pause_ms, value in events:
        now_ms += pause_ms
        rate.record(value, now_ms / 1000)
        slow.record(value, now_ms)
        assert rate.delay_s(1000, now_ms / 1000) * 1000 == pytest.approx(
            slow.delay_ms(1000, now_ms), abs=1
        )


def test_recorded_delays() -> None:
    """Exchanges 648, 649 and 661: 20 kB twice at 2000 B/s; 10,060 B at 1000 B/s."""
    rate = Rate(WINDOW)
    rate.record(20_110, 5.0)
    assert rate.delay_s(2000, 5.0) == pytest.approx(0.055, abs=0.001)
    rate.record(20_110, 5.165)
    assert rate.delay_s(2000, 5.165) == pytest.approx(9.945, abs=0.001)
    rate = Rate(WINDOW)
    rate.record(10_060, 5.0)
    assert rate.delay_s(1000, 5.001) == pytest.approx(0.059, abs=0.001)


def test_silent_rate_is_as_new() -> None:
    rate = Rate(WINDOW)
    rate.record(1e9, 0.0)
    assert not rate.is_idle(10.9)
    assert rate.is_idle(11.0)
    assert rate.delay_s(1, 11.0) == 0


def test_bucket_holds_a_window_and_is_overdrawn_once() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.record(30, 1, 5.0)
    assert bucket.delay_s(1, 5.0) == 19
    assert bucket.delay_s(1, 14.0) == 10
    assert bucket.delay_s(1, 24.0) == 0
    bucket.record(-30, 1, 24.0)
    assert bucket.is_idle(24.0)
    bucket.record(11, 1, 24.0)
    assert bucket.delay_s(1, 24.0) == 0
    assert not bucket.is_idle(34.9)
    assert bucket.is_idle(35.0)


LEVELS: tuple[
    tuple[dict[str, str | None], tuple[str | None, str | None]], ...
] = (  # Kafka's order; what each counts together for user u and client c
    ({USER: "u", CLIENT_ID: "c"}, ("u", "c")),
    ({USER: "u", CLIENT_ID: None}, ("u", "c")),
    ({USER: "u"}, ("u", None)),
    ({USER: None, CLIENT_ID: "c"}, ("u", "c")),
    ({USER: None, CLIENT_ID: None}, ("u", "c")),
    ({USER: None}, ("u", None)),
    ({CLIENT_ID: "c"}, (None, "c")),
    ({CLIENT_ID: None}, (None, "c")),
)


def entity(components: Mapping[str, str | None]) -> QuotaEntity:
    return entity_of(components.items())


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_first_of_eight_levels_applies(first: int) -> None:
    quotas = {
        entity(level): {PRODUCER_BYTE_RATE: 10.0 + at}
        for at, (level, _) in enumerate(LEVELS)
        if at >= first
    }
    quotas[entity({USER: "other"})] = quotas[entity({IP: None})] = {PRODUCER_BYTE_RATE: 1.0}

    found = applied(quotas, 1, "User:u", "c")
    assert found.produce == Bound((PRODUCER_BYTE_RATE, *LEVELS[first][1]), 10.0 + first)
    assert found.fetch is None


def test_each_key_is_looked_up_by_itself() -> None:
    quotas: Quotas = {
        ((USER, "u"),): {CONSUMER_BYTE_RATE: 5.0},
        ((CLIENT_ID, None),): {PRODUCER_BYTE_RATE: 6.0, CONSUMER_BYTE_RATE: 7.0},
    }
    found = applied(quotas, 1, "User:u", None)
    assert (found.produce, found.fetch) == (
        Bound((PRODUCER_BYTE_RATE, None, ""), 6.0),
        Bound((CONSUMER_BYTE_RATE, "u", None), 5.0),
    )


def test_addresses_are_compared_as_numbers() -> None:
    names = ("10.0.0.9", "0:0:0:0:0:0:0:1", "::ffff:10.0.0.8", None)
    quotas: Quotas = {
        ((IP, name),): {CONNECTION_CREATION_RATE: float(at)} for at, name in enumerate(names)
    }
    assert rates_of_addresses(quotas) == {"10.0.0.9": 0.0, "::1": 1.0, "10.0.0.8": 2.0, None: 3.0}
