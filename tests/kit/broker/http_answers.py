"""A server of HTTP in the simulated world: a connection that answers each whole request."""

from collections.abc import Callable, Sequence

from raftka.runtime.interfaces import Buffer, Transport


class Answers:
    """One connection. `answer` gets the head of a request and its body; without bytes from it the
    request gets no answer.
    """

    def __init__(self, answer: Callable[[str, bytes], bytes]) -> None:
        self._answer = answer
        self._transport: Transport
        self._output: list[Buffer] = []
        self._received = b""

    def opened(self, transport: Transport) -> None:
        self._transport = transport

    def room(self) -> memoryview | None:
        return None

    def receive(self, view: memoryview) -> None:
        if not view:
            self._transport.close("the other side has")
            return
        self._received += view
        head, end, body = self._received.partition(b"\r\n\r\n")
        _, _, length = head.partition(b"\r\nContent-Length: ")
        if end and len(body) == int(length.split()[0] if length else 0):
            self._output = [self._answer(head.decode(), body)]
            self._transport.wake()

    def take_output(self) -> Sequence[Buffer]:
        output, self._output = self._output, []
        return output

    def closed(self, reason: str) -> None:
        pass
