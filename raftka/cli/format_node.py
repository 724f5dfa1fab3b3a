"""`raftka broker format FILE`: make the directories of a node, for a cluster that begins at
kraft.version 1. Opens no connection; clusters of controller.quorum.voters need no format.
"""

import sys
from pathlib import Path
from random import SystemRandom

from raftka.cluster.properties import parse
from raftka.log.checkpoints import uuid_text
from raftka.log.directory import LogDirectory, LogDirectoryError
from raftka.metadata.configs.settings import METADATA_DIRECTORY, NodeSettings
from raftka.metadata.quorum.initial_voters import InitialVoter, parse_initial, write_initial
from raftka.runtime.real.files import RealFiles

USAGE, FAILED = 2, 1
EVERYWHERE = ("", "0.0.0.0", "::")


def format_node(file: str, *, standalone: bool = False, initial: str | None = None) -> int:
    """Make the directories of the node whose properties `file` has. Return the exit code.

    `standalone`: the node forms a quorum alone. `initial`: the voters of the quorum,
    id@host:port:directory,... With neither the node follows a quorum that is there.
    """
    try:
        settings = NodeSettings.from_properties(parse(Path(file).read_text(encoding="utf-8")))
        voters = parse_initial(initial) if initial is not None else ()
        _check(settings, voters, forms=standalone or bool(voters))
        address = _own_address(settings) if standalone else ("", 0)
    except (OSError, ValueError) as error:
        return _complain(f"{file}: {error}", USAGE)
    try:
        directory_id = _make_directories(settings, voters)
        if standalone:
            voters = (InitialVoter(settings.node_id, *address, directory_id),)
        if voters:
            files = RealFiles(lambda done: done())
            files.make_directory(settings.metadata_directory)
            write_initial(files, settings.metadata_directory, voters)
    except (OSError, LogDirectoryError) as error:
        return _complain(str(error), FAILED)
    print(f"Formatted node {settings.node_id}, directory id {uuid_text(directory_id)}.")
    if voters:
        print(f"It forms a quorum of {', '.join(str(each.node_id) for each in voters)}.")
    return 0


def _check(settings: NodeSettings, voters: tuple[InitialVoter, ...], *, forms: bool) -> None:
    """Raises ValueError."""
    if settings.voters:
        raise ValueError(
            "controller.quorum.voters needs no format; with kraft.version 1 give "
            "controller.quorum.bootstrap.servers in its place"
        )
    if forms and not settings.is_controller:
        raise ValueError(f"node {settings.node_id} is no controller")
    if forms and settings.metadata_directory != f"{settings.log_dirs[0]}/{METADATA_DIRECTORY}":
        raise ValueError("leave metadata.log.dir out: the first of log.dirs has the voter's id")
    if voters and settings.node_id not in [each.node_id for each in voters]:
        raise ValueError(f"the initial controllers do not have node {settings.node_id}")
    for path in settings.log_dirs:
        if (Path(path) / "meta.properties").exists():
            raise ValueError(f"{path} is formatted already, or in use")


def _own_address(settings: NodeSettings) -> tuple[str, int]:
    """Return where other nodes find this controller. Raises ValueError."""
    listener = settings.controller_listeners[0]
    if listener.host not in EVERYWHERE:
        return listener.host, listener.port
    for host, port in settings.bootstrap_servers:
        if port == listener.port:
            return host, port
    raise ValueError(
        "no host is known: the controller listens everywhere, and none of "
        "controller.quorum.bootstrap.servers has its port"
    )


def _make_directories(settings: NodeSettings, voters: tuple[InitialVoter, ...]) -> bytes:
    """Return the id of the directory with the metadata log. Raises OSError, LogDirectoryError."""
    given = [each.directory_id for each in voters if each.node_id == settings.node_id]
    files = RealFiles(lambda done: done())
    found: list[bytes] = []
    for path in settings.log_dirs:
        if given and not found:
            LogDirectory.take(files, path, settings.node_id, given[0])
        made = LogDirectory(files, path, settings.node_id, SystemRandom())
        made.unlock()
        found.append(made.directory_id)
    return found[0]


def _complain(text: str, code: int) -> int:
    print(f"raftka: {text}", file=sys.stderr, flush=True)
    return code
