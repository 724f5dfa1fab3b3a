"""The node's side of the process that checks payloads: starts it when it is needed, and ends it
when an answer takes too long.

Needs none of the registry's libraries. Called from one thread at a time.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import IO, Protocol

SECONDS = 10.0  # of one question, with the start of the process
LIBRARIES = ("jsonschema_rs", "google.protobuf", "grpc_tools")
REASON_CHARACTERS = 500
TOO_LONG = f"comparing it with its schema took more than {SECONDS:g} s"
CRASHED = "the process that compared it with its schema has ended"


class Schema(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def references(self) -> Sequence[tuple[str, str]]: ...


class _Late(Exception):
    pass


class _Ended(Exception):
    pass


def is_there() -> bool:
    """Return True if this installation has the libraries."""
    return all(find_spec(each.partition(".")[0]) is not None for each in LIBRARIES)


class ProcessJudge:
    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def judge(self, schema: Schema, payloads: list[bytes]) -> list[str | None]:
        """Return the reason why each payload is no value of the schema; None: it is one. Raise
        OSError when the process cannot be started.

        A question that takes too long, or ends the process twice, is answered for all of its
        payloads: that is the fault of schema or payload.
        """
        question = {
            "kind": schema.kind,
            "text": schema.text,
            "references": list(schema.references),
            "sizes": [len(each) for each in payloads],
        }
        head = json.dumps(question).encode()
        data = b"".join((len(head).to_bytes(4), head, *payloads))
        for _ in range(2):
            try:
                answer = json.loads(self._asked(data))
            except _Late:
                self.close()
                return [TOO_LONG] * len(payloads)
            except (_Ended, ValueError):  # ValueError: closed pipes, by `end`
                self.close()
                continue
            return [None if reason is None else reason[:REASON_CHARACTERS] for reason in answer]
        return [CRASHED] * len(payloads)

    def end(self) -> None:
        """For good, from any thread."""
        self._has_ended = True
        self.close()

    def close(self) -> None:
        """End the process; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _asked(self, data: bytes) -> bytes:
        process = self._process
        if self._has_ended:
            raise OSError("the node stops")
        if process is None or process.poll() is not None:
            self.close()
            command = [sys.executable, "-m", "raftka.registry.payloads.worker"]
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            if self._has_ended:  # meanwhile
                self.close()
                raise OSError("the node stops")
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        until = time.monotonic() + self._seconds
        self._write(process.stdin, memoryview(data), until)
        size = int.from_bytes(self._read(process.stdout, 4, until))
        return self._read(process.stdout, size, until)

    def _write(self, pipe: IO[bytes], data: memoryview, until: float) -> None:
        while data:
            _wait(pipe, select.POLLOUT, until)
            try:
                data = data[os.write(pipe.fileno(), data) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise _Ended from None

    def _read(self, pipe: IO[bytes], size: int, until: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            _wait(pipe, select.POLLIN, until)
            piece = os.read(pipe.fileno(), size - len(found))
            if not piece:
                raise _Ended
            found += piece
        return bytes(found)


def _wait(pipe: IO[bytes], event: int, until: float) -> None:
    """Raises _Late."""
    poll = select.poll()  # a broker has more descriptors than select takes
    poll.register(pipe, event)
    left = until - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise _Late
