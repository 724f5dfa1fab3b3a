"""The operations by their numbers, and which record each has for its body."""

from enum import IntEnum

from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.jute import Kind


class Op(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN_2 = 12
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES_2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11


BODIES: dict[Op, Kind] = {
    Op.CREATE: jute.CREATE,
    Op.DELETE: jute.DELETE,
    Op.EXISTS: jute.PATH_WATCH,
    Op.GET_DATA: jute.PATH_WATCH,
    Op.SET_DATA: jute.SET_DATA,
    Op.GET_ACL: jute.PATH,
    Op.SET_ACL: jute.SET_ACL,
    Op.GET_CHILDREN: jute.PATH_WATCH,
    Op.SYNC: jute.PATH,
    Op.GET_CHILDREN_2: jute.PATH_WATCH,
    Op.CHECK: jute.CHECK_VERSION,
    Op.CREATE_2: jute.CREATE,
    Op.RECONFIG: jute.RECONFIG,
    Op.CHECK_WATCHES: jute.PATH_MODE,
    Op.REMOVE_WATCHES: jute.PATH_MODE,
    Op.CREATE_CONTAINER: jute.CREATE,
    Op.CREATE_TTL: jute.CREATE_TTL,
    Op.AUTH: jute.AUTH,
    Op.SET_WATCHES: jute.SET_WATCHES,
    Op.SASL: jute.TOKEN,
    Op.GET_EPHEMERALS: jute.PATH,
    Op.GET_ALL_CHILDREN_NUMBER: jute.PATH,
    Op.SET_WATCHES_2: jute.SET_WATCHES_2,
    Op.ADD_WATCH: jute.PATH_MODE,
}
IN_MULTI: dict[int, Kind] = {
    op: BODIES[op]
    for op in (
        Op.CREATE,
        Op.DELETE,
        Op.SET_DATA,
        Op.CHECK,
        Op.CREATE_2,
        Op.CREATE_CONTAINER,
        Op.CREATE_TTL,
    )
}
IN_MULTI_READ: dict[int, Kind] = {op: BODIES[op] for op in (Op.GET_DATA, Op.GET_CHILDREN)}

WRITES = frozenset(
    {
        Op.CREATE,
        Op.DELETE,
        Op.SET_DATA,
        Op.SET_ACL,
        Op.CHECK,
        Op.MULTI,
        Op.CREATE_2,
        Op.RECONFIG,
        Op.CREATE_CONTAINER,
        Op.CREATE_TTL,
        Op.CLOSE_SESSION,
    }
)
