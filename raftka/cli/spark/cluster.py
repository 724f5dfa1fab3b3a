"""The cluster that a command of Spark's asks, and the login there. Spark is given the path of a
file: no secret is in its plans and logs.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from raftka.cli.connection_options import chosen


class Given(NamedTuple):
    """The options of the command line that name the cluster."""

    server: str
    is_named: bool  # it says so itself, or its environment or profile
    config: Path | None  # client properties; None: it says nothing of them

    @property
    def named_server(self) -> str | None:
        return self.server if self.is_named else None


@contextmanager
def given_cluster(server: str, folder: Path | None = None) -> Iterator[Given]:
    """The file is there until the block ends; one that is made of -X or a profile is for this user
    alone, in `folder`.
    """
    context = click.get_current_context()
    found = chosen(context)
    if not found.properties and not (found.profile and found.profile.properties):
        yield Given(server, found.is_named, Path(found.file).absolute() if found.file else None)
        return
    from raftka.cli.admin.client import properties_of

    properties, _ = properties_of(context)
    # of mode 0600
    descriptor, name = tempfile.mkstemp(prefix="raftka-client-", suffix=".json", dir=folder)
    try:
        with os.fdopen(descriptor, "w") as made:
            json.dump(properties, made)
        yield Given(server, found.is_named, Path(name))
    finally:
        Path(name).unlink(missing_ok=True)
