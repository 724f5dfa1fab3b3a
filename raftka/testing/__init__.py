"""A real cluster for the tests of any project: real sockets, a real protocol, ready in half a
second, with faults on demand.

    with raftka.testing.Cluster(nodes=3) as cluster:
        producer = AnyClient(cluster.bootstrap_servers)

pytest finds the fixtures `raftka_cluster` and `raftka_topic` by itself (plugin.py). docs/testing.md
has examples.
"""

from typing import TYPE_CHECKING

from raftka.runtime.supported import check_system

if TYPE_CHECKING:
    from raftka.testing.access import ClientOptions as ClientOptions
    from raftka.testing.aio import AsyncCluster as AsyncCluster
    from raftka.testing.cluster import Cluster as Cluster
    from raftka.testing.faults.fault import Fault as Fault
    from raftka.testing.views import GroupView as GroupView
    from raftka.testing.views import StoredRecord as StoredRecord

HOMES = {
    "AsyncCluster": "aio",
    "ClientOptions": "access",
    "Cluster": "cluster",
    "Fault": "faults.fault",
    "GroupView": "views",
    "StoredRecord": "views",
}


def __getattr__(name: str) -> object:
    """Imported when asked for: pytest loads the plugin in every run of everybody."""
    if name not in HOMES:
        raise AttributeError(name)
    check_system()
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
