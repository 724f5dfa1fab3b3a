"""Asks the active controller: finds it, asks again until an answer comes or the time of the call is
up. Knows no Raft.

A call that got no answer is asked again: by then it may have been carried out, which every command
allows for.
"""

from collections.abc import Callable
from typing import Any

import trio

from raftka.broker.controller.controller_host import Done
from raftka.metadata.commands import Command, read_reply
from raftka.runtime.interfaces import Clock, Timer
from raftka.wire.errors import Code, KafkaError

RETRY_S = 0.03
CALL_S = 30.0  # a call without a time-out of its own


class _Call:
    __slots__ = ("command", "deadline", "done", "timer")

    def __init__(self, command: Command, deadline: float, done: Done) -> None:
        self.command = command
        self.deadline = deadline
        self.done: Done | None = done
        self.timer: Timer | None = None


class ControllerClient:
    def __init__(self, clock: Clock, ask_controller: Callable[[Command, Done], bool]) -> None:
        """`ask_controller`: asks once; False when no controller is known."""
        self.clock = clock
        self._ask_controller = ask_controller

    def call(self, command: Command, done: Done, timeout_s: float = CALL_S) -> None:
        """`done(error, None)` or `done(None, reply)`, once."""
        now = self.clock.now()
        call = _Call(command, now + timeout_s, done)
        call.timer = self.clock.call_at(
            call.deadline, lambda: self._finish(call, KafkaError(Code.REQUEST_TIMED_OUT), None)
        )
        self._try(call)

    async def ask(self, command: Command, timeout_s: float = CALL_S) -> Any:
        """The same for async handlers. Raises KafkaError."""
        answered = trio.Event()
        outcome: list[Any] = []

        def done(error: KafkaError | None, reply: object) -> None:
            outcome.extend((error, reply))
            answered.set()

        self.call(command, done, timeout_s)
        await answered.wait()
        if outcome[0] is not None:
            raise outcome[0]
        return outcome[1]

    def _try(self, call: _Call) -> None:
        if call.done is None:
            return
        if not self._ask_controller(
            call.command, lambda error, reply: self._answered(call, error, reply)
        ):
            self._again(call)

    def _answered(self, call: _Call, error: KafkaError | None, reply: object) -> None:
        if error is not None and error.code in (Code.NOT_CONTROLLER, Code.NETWORK_EXCEPTION):
            self._again(call)
            return
        if error is None:
            try:
                reply = read_reply(call.command, reply)
            except ValueError as failure:
                error = KafkaError(Code.UNKNOWN_SERVER_ERROR, f"the controller's reply: {failure}")
        self._finish(call, error, reply if error is None else None)

    def _again(self, call: _Call) -> None:
        if call.done is not None:
            self.clock.call_at(self.clock.now() + RETRY_S, lambda: self._try(call))

    @staticmethod
    def _finish(call: _Call, error: KafkaError | None, reply: object) -> None:
        done, call.done = call.done, None
        if call.timer is not None:
            call.timer.cancel()
        if done is not None:
            done(error, reply)
