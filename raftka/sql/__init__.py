"""SQL on topics: a server of each user and cluster has one Spark, which prompts and programs share.

`connect` is the way in for programs; docs/sql.md tells the rest.
"""

from raftka.sql.client import Connection, SqlError, connect, connect_async
from raftka.sql.functions import function

__all__ = ["Connection", "SqlError", "connect", "connect_async", "function"]
