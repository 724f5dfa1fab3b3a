"""Writes to the cluster's own znodes: each is a command to the controller, decided in the entry
that the write becomes, or it is refused.
"""

from zookeeper_bridge.machine.writes.routes import write

__all__ = ["write"]
