"""Tests of the runtime run with each of its loops."""

import pytest


@pytest.fixture(params=[False, True], ids=["beside others", "around Trio"])
def alone(request: pytest.FixtureRequest) -> bool:
    """With each of the two loops."""
    return bool(request.param)
