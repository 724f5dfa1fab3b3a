"""Error codes of ZooKeeper's server, by their names in the Java client. Knows no operation."""

from enum import IntEnum

from raftka.limits import Limit


class Err(IntEnum):
    AGAIN = 1  # never told to a client: the entry is full, ask once more
    OK = 0
    RUNTIME_INCONSISTENCY = -2  # of an operation behind the one that failed, in a multi
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    NO_WATCHER = -121
    RECONFIG_DISABLED = -123
    # its name is of the time when SASL was all that could be required
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
    QUOTA_EXCEEDED = -125  # ZooKeeper's for a quota that is enforced: here for the bridge's limits


class ZooKeeperError(Exception):
    """Refused: the reply's header carries the code, and there is no body."""

    def __init__(self, code: Err, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.limit: Limit | None = None


def beyond(limit: Limit, code: Err = Err.QUOTA_EXCEEDED) -> ZooKeeperError:
    """More than a limit allows; whoever catches it counts it under the limit's metric."""
    error = ZooKeeperError(code, f"{limit.name}: {limit.value} are allowed ({limit.reason})")
    error.limit = limit
    return error
