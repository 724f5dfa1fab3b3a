"""The cluster that a command of Spark's asks, and the login there. Spark is given the path of a
file: no secret is in its plans and logs.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from raftka.cli.options import CLIENT_FILE, CLIENT_PROFILE, CLIENT_PROPERTIES

if TYPE_CHECKING:
    from raftka.cli.admin.profiles import Profile


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
    profile: Profile | None = context.meta.get(CLIENT_PROFILE)
    is_named = context.get_parameter_source(
        "bootstrap_server"
    ) is not ParameterSource.DEFAULT or bool(profile and profile.server)
    file: str | None = context.meta.get(CLIENT_FILE)
    if not context.meta.get(CLIENT_PROPERTIES) and not (profile and profile.properties):
        yield Given(server, is_named, None if file is None else Path(file).absolute())
        return
    from raftka.cli.admin.client import command_properties

    properties, _ = command_properties()
    # of mode 0600
    descriptor, name = tempfile.mkstemp(prefix="raftka-client-", suffix=".json", dir=folder)
    try:
        with os.fdopen(descriptor, "w") as made:
            json.dump(properties, made)
        yield Given(server, is_named, Path(name))
    finally:
        Path(name).unlink(missing_ok=True)
