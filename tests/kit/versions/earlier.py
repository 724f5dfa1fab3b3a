"""The release before this one, for tests of mixed versions."""

from functools import cache
from pathlib import Path

import pytest

from raftka.chaos.simulated.releases import Release, load
from tools.release.commands import ReleaseFailed
from tools.release.earlier import earlier_wheel


@cache
def wheel() -> Path:
    """Return its wheel, built once; skip the test where the history does not have it."""
    try:
        return earlier_wheel()
    except ReleaseFailed as error:
        pytest.skip(str(error))


def earlier_release() -> Release:
    return load(wheel())
