"""A node's settings from the environment of this process, and from a file below it."""

import errno
import os
from pathlib import Path

from raftka.cluster.properties import parse
from raftka.limits import SETTING_FILE_CHARACTERS
from raftka.metadata.configs.environment import FromEnvironment, read_environment


def node_properties(file: str | None) -> FromEnvironment:
    """Return the properties that `raftka broker start --from-env FILE` starts a node with. `file`:
    None: nothing is below the environment. Raises OSError, or ValueError that names the file or the
    variables.
    """
    below: dict[str, str] = {}
    if file is not None:
        try:
            below = parse(_read(file))
        except OSError as error:
            raise ValueError(f"{file}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
    return read_environment(os.environ, below, _read)


def _read(path: str) -> str:
    with Path(path).open(encoding="utf-8") as file:
        text = file.read(SETTING_FILE_CHARACTERS + 1)
    if len(text) > SETTING_FILE_CHARACTERS:
        raise OSError(errno.EFBIG, f"it has more than {SETTING_FILE_CHARACTERS} characters", path)
    return text
