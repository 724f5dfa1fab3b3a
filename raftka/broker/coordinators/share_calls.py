"""Calls of share groups to the share coordinator: a call of a group's machine is one question for
each share partition, a bounded number of them at a time, and its answers come back to the machine
as one command. Knows no group's state.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from raftka.coordinator.share.commands import (
    DeleteState,
    InitializeState,
    Place,
    StateDeleted,
    StateInitialized,
)
from raftka.runtime.interfaces import Clock
from raftka.share.state import SharePartitionKey, ShareSummary
from raftka.wire.errors import KafkaError

AT_A_TIME = 200  # questions of one call that are under way
OF_TURN = 50  # questions that are asked in one turn


class Persister(Protocol):
    """The share coordinators of the cluster (share_persister.py). Each question is answered once,
    perhaps at once.
    """

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start: int,
        done: Callable[[KafkaError | None], None],
    ) -> None: ...

    def delete(self, key: SharePartitionKey, done: Callable[[KafkaError | None], None]) -> None: ...

    def summary(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        done: Callable[[ShareSummary | KafkaError], None],
    ) -> None: ...


class Questions:
    """Asks a question of each item, some at a time; `done` is called when all are answered."""

    def __init__(
        self,
        clock: Clock,
        items: Iterable[Place],
        ask: Callable[[Place, Callable[[object], None]], None],
        done: Callable[[dict[Place, object]], None],
    ) -> None:
        """`ask` is called with an item and the function to call with its answer; `done` with the
        answers.
        """
        self._clock = clock
        self._left = deque(items)
        self._ask = ask
        self._done = done
        self._answers: dict[Place, object] = {}
        self._under_way = 0
        self._scheduled = False

    def begin(self) -> None:
        """Ask the first questions."""
        if self._left:
            self._ask_some()
        else:
            self._done({})

    def _ask_some(self) -> None:
        self._scheduled = False
        for _ in range(OF_TURN):
            if not self._left or self._under_way >= AT_A_TIME:
                return
            item = self._left.popleft()
            self._under_way += 1
            self._ask(item, partial(self._answered, item))
        self._ask_later()

    def _ask_later(self) -> None:
        if self._left and not self._scheduled:
            self._scheduled = True
            self._clock.call_at(self._clock.now(), self._ask_some)

    def _answered(self, item: Place, answer: object) -> None:
        self._under_way -= 1
        self._answers[item] = answer
        if self._left:
            self._ask_later()
        elif not self._under_way:
            self._done(self._answers)


class ShareCalls:
    """Makes the calls of the machines."""

    def __init__(
        self,
        clock: Clock,
        persister: Persister,
        submit: Callable[[str, object, Callable[[object], None]], None],
    ) -> None:
        """`submit` gives a command to the coordinator of a group, and raises KafkaError where there
        is none.
        """
        self._clock = clock
        self._persister = persister
        self._submit = submit

    def call(self, call: InitializeState | DeleteState, failure: KafkaError | None) -> None:
        """Make a call that is in the log. With an error it is not known whether it is in the log:
        all of it has failed.
        """
        places = call.starts if isinstance(call, InitializeState) else call.places
        done = partial(self._answered, call)
        if failure is not None:
            done(dict.fromkeys(places, failure))
        else:
            Questions(self._clock, places, partial(self._ask, call), done).begin()

    def _ask(
        self, call: InitializeState | DeleteState, place: Place, done: Callable[[object], None]
    ) -> None:
        key = SharePartitionKey(call.group_id, *place)
        if isinstance(call, InitializeState):
            self._persister.initialize(key, call.state_epoch, call.starts[place], done)
        else:
            self._persister.delete(key, done)

    def _answered(self, call: InitializeState | DeleteState, answers: dict[Place, object]) -> None:
        errors = {
            place: answer for place, answer in answers.items() if isinstance(answer, KafkaError)
        }
        command = (
            StateInitialized(call.group_id, call.number, errors)
            if isinstance(call, InitializeState)
            else StateDeleted(call.group_id, call.number, errors)
        )
        try:
            self._submit(call.group_id, command, _heard)
        except KafkaError:
            # another coordinator, or this one after it has loaded, asks again
            return


def _heard(answer: object) -> None:
    """Do nothing: a command that was refused is one without an answer, and is asked for again."""
