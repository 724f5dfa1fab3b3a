"""State beside a session or a view: one for each owner, and it goes with its owner."""

import gc
from collections.abc import Callable

import pytest

from raftka.console.view.beside import Beside


class Owner:
    pass


class State:
    def __init__(self, owner: Callable[[], Owner]) -> None:
        self.owner = owner


def test_each_owner_has_one() -> None:
    states: Beside[Owner, State] = Beside(State)
    one, other = Owner(), Owner()

    assert states.of(one) is states.of(one)
    assert states.of(one) is not states.of(other)
    assert states.of(one).owner() is one


def test_state_does_not_keep_its_owner() -> None:
    states: Beside[Owner, State] = Beside(State)
    owner = Owner()
    state = states.of(owner)
    del owner
    gc.collect()

    with pytest.raises(OSError, match="has ended"):
        state.owner()
