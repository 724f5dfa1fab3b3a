"""The output of one broker of several that write to one place: each line has the broker's id. Knows
no broker.
"""

import io
from typing import IO


class Labelled(io.TextIOBase):
    """Write `node=ID` before each line that does not name its node, such as a line of a traceback;
    lines of the event log do.
    """

    def __init__(self, stream: IO[str], node_id: str) -> None:
        self._stream = stream
        self._label = f"node={node_id}"
        self._fields = f'"node": {node_id},', f'"node": {node_id}}}'
        self._held = ""  # a line without its end

    def write(self, text: str) -> int:
        *lines, self._held = (self._held + text).split("\n")
        if lines:
            self._stream.write("".join(f"{self._labelled(line)}\n" for line in lines))
        return len(text)

    def _labelled(self, line: str) -> str:
        has_one = (
            any(each in line for each in self._fields)
            if line.startswith("{")
            else f" {self._label} " in f"{line} "
        )
        return line if has_one else f"{self._label} {line}"

    def flush(self) -> None:
        self._stream.flush()

    def finish(self) -> None:
        """Write a last line that has no end."""
        if self._held:
            self.write("\n")
        self.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()
