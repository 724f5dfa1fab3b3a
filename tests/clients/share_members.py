"""Members of share groups, each a real client in a process of its own. Knows no broker."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from tests.clients.workload import PATIENCE_S
from tests.kit.toolchains import Program

POLL_MS = 500
EXPLICIT = {"share.acknowledgement.mode": "explicit"}


class Delivered(NamedTuple):
    partition: int
    offset: int
    delivery_count: int  # with this one
    value: str

    @property
    def place(self) -> str:
        return f"{self.partition}:{self.offset}"


class Refused(Exception):
    """The client says that a command has failed; the text is its reason."""


class ShareMember:
    """`command`: a program that answers lines (python_share.py describes them)."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if kind is None and self._process.poll() is None:
            self.close()
        self.kill()

    def _ask(self, line: str) -> list[str]:
        """Return the words of the answer. Raises Refused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        head, *words = self._process.stdout.readline().split() or ["error", "it has ended"]
        if head != "ok":
            raise Refused(" ".join(words))
        return words

    def poll(self) -> list[Delivered]:
        found = []
        for word in self._ask(f"poll {POLL_MS}"):
            partition, offset, count, value = word.split(":")
            found.append(Delivered(int(partition), int(offset), int(count), value))
        return found

    def acknowledge(self, records: list[Delivered], kind: str) -> None:
        for each in records:
            self._ask(f"ack {each.place} {kind}")

    def commit(self) -> None:
        """Send the acknowledgements, and wait for the answer. Raises Refused."""
        self._ask("commit")

    def poll_until(self, holds: Callable[[list[Delivered]], bool]) -> list[Delivered]:
        """Return all that was delivered until it holds."""
        found: list[Delivered] = []
        end = time.monotonic() + PATIENCE_S
        while not holds(found):
            assert time.monotonic() < end, f"it did not come to that: {found}"
            found += self.poll()
        return found

    def close(self) -> None:
        """Leave the group; acknowledgements are sent before."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


Begin = Callable[[str, str, str, bool], ShareMember]  # brokers, topic, group, explicitly


def of_confluent(brokers: str, topic: str, group: str, explicitly: bool) -> ShareMember:
    settings = json.dumps(EXPLICIT if explicitly else {})
    module = "tests.clients.python_share"
    return ShareMember([sys.executable, "-m", module, brokers, topic, group, settings])


def of_java(program: Program) -> Begin:
    def begin(brokers: str, topic: str, group: str, explicitly: bool) -> ShareMember:
        properties = "\n".join(f"{k}={v}" for k, v in EXPLICIT.items()) if explicitly else ""
        env = {**program.env, "CLIENT_PROPERTIES": properties}
        return ShareMember([*program.command, brokers, topic, group], env)

    return begin


def of_franz_go(program: Program) -> Begin:
    """It has no modes: a record that is not acknowledged is accepted with the next poll."""

    def begin(brokers: str, topic: str, group: str, explicitly: bool) -> ShareMember:
        return ShareMember([*program.command, "share", brokers, topic, group], program.env)

    return begin
