"""A file with the number of the process that runs here, for those who want to send it a signal.
Knows no node.
"""

import os
from pathlib import Path


class PidFile:
    """Beside server.properties; where that directory is not ours to write, whoever started us knows
    the pid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self) -> None:
        # with the number in its name: nodes whose files lie in one directory start at once
        whole = self.path.with_suffix(f".pid.{os.getpid()}.tmp")
        try:
            whole.write_text(f"{os.getpid()}\n", encoding="ascii")
            whole.replace(self.path)
        except PermissionError:
            pass

    def remove(self) -> None:
        """Only while it is ours: a second start on the same directory must not take the first one's
        away.
        """
        try:
            if self.path.read_text(encoding="ascii").strip() == str(os.getpid()):
                self.path.unlink()
        except OSError:
            pass
