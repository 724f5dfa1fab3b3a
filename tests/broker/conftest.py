"""Common fixtures of the broker's tests: limits that are small enough to be hit."""

from collections.abc import Callable, Iterator

import pytest

from raftka.limits import Limit

Lower = Callable[[Limit, int], None]


@pytest.fixture
def lowered() -> Iterator[Lower]:
    """Give a limit another value until the test ends."""
    before: list[tuple[Limit, int]] = []

    def lower(limit: Limit, value: int) -> None:
        before.append((limit, limit.value))
        object.__setattr__(limit, "value", value)

    yield lower
    for limit, value in reversed(before):
        object.__setattr__(limit, "value", value)
