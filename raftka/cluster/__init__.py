"""Three nodes with one line: in the caller's Trio process (`launch`), or as processes
(`Processes`). Knows of a broker only how it is started.
"""

from typing import TYPE_CHECKING

from raftka.runtime.supported import check_system

check_system()

if TYPE_CHECKING:
    from raftka.cluster.embedded import Cluster as Cluster
    from raftka.cluster.embedded import launch as launch
    from raftka.cluster.processes import Processes as Processes

HOMES = {"launch": "embedded", "Cluster": "embedded", "Processes": "processes"}


def __getattr__(name: str) -> object:
    """Imported when asked for: who starts processes needs no Trio, and a command answers in 0.3
    s.
    """
    if name not in HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
