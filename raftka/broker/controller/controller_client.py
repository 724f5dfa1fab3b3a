"""Sends commands to the active controller: finds it, and sends a command again until a reply comes
or the call's time is up.

A command without a reply may have been executed before it is sent again: executing it twice must be
harmless for every command.
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
AGAIN = frozenset({Code.NOT_CONTROLLER, Code.NETWORK_EXCEPTION})  # another node may know better


class _Call:
    __slots__ = ("command", "deadline", "done", "timer")

    def __init__(self, command: Command, deadline: float, done: Done) -> None:
        self.command = command
        self.deadline = deadline
        self.done: Done | None = done
        self.timer: Timer | None = None


class ControllerClient:
    def __init__(
        self,
        clock: Clock,
        ask_controller: Callable[[Command, Done], bool],
        again: frozenset[Code] = AGAIN,
    ) -> None:
        """`ask_controller` sends a command once; it returns False when no controller is known.
        `again`: refusals after which the command is sent again.
        """
        self.clock = clock
        self._ask_controller = ask_controller
        self._again = again

    def call(self, command: Command, done: Done, timeout_s: float = CALL_S) -> None:
        """Send the command; call `done(error, None)` or `done(None, reply)` once."""
        now = self.clock.now()
        call = _Call(command, now + timeout_s, done)
        call.timer = self.clock.call_at(
            call.deadline, lambda: self._finish(call, KafkaError(Code.REQUEST_TIMED_OUT), None)
        )
        self._send(call)

    async def ask(self, command: Command, timeout_s: float = CALL_S) -> Any:
        """Send the command and return the reply. Raises KafkaError."""
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

    def _send(self, call: _Call) -> None:
        if call.done is None:
            return
        if not self._ask_controller(
            call.command, lambda error, reply: self._on_reply(call, error, reply)
        ):
            self._send_later(call)

    def _on_reply(self, call: _Call, error: KafkaError | None, reply: object) -> None:
        if error is not None and error.code in self._again:
            self._send_later(call)
            return
        if error is None:
            try:
                reply = read_reply(call.command, reply)
            except ValueError as failure:
                error = KafkaError(Code.UNKNOWN_SERVER_ERROR, f"the controller's reply: {failure}")
        self._finish(call, error, reply if error is None else None)

    def _send_later(self, call: _Call) -> None:
        if call.done is not None:
            self.clock.call_at(self.clock.now() + RETRY_S, lambda: self._send(call))

    @staticmethod
    def _finish(call: _Call, error: KafkaError | None, reply: object) -> None:
        done, call.done = call.done, None
        if call.timer is not None:
            call.timer.cancel()
        if done is not None:
            done(error, reply)
