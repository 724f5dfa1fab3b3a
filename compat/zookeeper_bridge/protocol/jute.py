"""ZooKeeper's notation for bytes, and every record of its client protocol. Knows no connection and
no meaning.

A *kind* reads a value at a position and writes one; records are named tuples of kinds. Null is not
empty: buffers, strings and arrays may be None. Whatever can not be read raises Malformed, and no
more is looked at than there are bytes.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple


class Malformed(ValueError):
    """These bytes are not what they should be."""


Value = Any  # a decoded value: a number, text, bytes, a record of these, or a list
Read = Callable[[bytes, int], tuple[Value, int]]  # the value, and where the next begins
Write = Callable[[Value, list[bytes]], None]


class Kind(NamedTuple):
    read: Read
    write: Write
    least_bytes: int  # of any value: so many elements at most can be in so many bytes

    def decode(self, data: bytes, at: int = 0) -> Value:
        """The value at `at`; what lies behind it is not looked at, as ZooKeeper does. Raises
        Malformed.
        """
        try:
            return self.read(data, at)[0]
        except (struct_error, IndexError) as error:
            raise Malformed("it ends too early") from error

    def encode(self, value: object) -> bytes:
        out: list[bytes] = []
        self.write(value, out)
        return b"".join(out)


def _number(format: str) -> Kind:
    shape = Struct(format)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        return shape.unpack_from(data, at)[0], at + shape.size

    return Kind(read, lambda value, out: out.append(shape.pack(value)), shape.size)


INT, LONG, BOOL = _number(">i"), _number(">q"), _number(">?")
_SIZE = Struct(">i")
NULL = _SIZE.pack(-1)


def _read_buffer(data: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = _SIZE.unpack_from(data, at)
    at += 4
    if size < 0:
        if size == -1:
            return None, at
        raise Malformed(f"a length of {size}")
    if size > len(data) - at:
        raise Malformed(f"a length of {size}, and {len(data) - at} bytes are left")
    return data[at : at + size], at + size


def _write_buffer(value: bytes | None, out: list[bytes]) -> None:
    if value is None:
        out.append(NULL)
    else:
        out += (_SIZE.pack(len(value)), value)


def _read_string(data: bytes, at: int) -> tuple[str | None, int]:
    raw, at = _read_buffer(data, at)
    return None if raw is None else str(raw, "utf-8", "replace"), at


def _write_string(value: str | None, out: list[bytes]) -> None:
    _write_buffer(None if value is None else value.encode(), out)


BUFFER = Kind(_read_buffer, _write_buffer, 4)
STRING = Kind(_read_string, _write_string, 4)


def vector(element: Kind) -> Kind:
    def read(data: bytes, at: int) -> tuple[list[Value] | None, int]:
        (count,) = _SIZE.unpack_from(data, at)
        at += 4
        if count < 0:
            if count == -1:
                return None, at
            raise Malformed(f"an array of {count}")
        if count * element.least_bytes > len(data) - at:
            raise Malformed(f"an array of {count} in {len(data) - at} bytes")
        found = []
        for _ in range(count):
            value, at = element.read(data, at)
            found.append(value)
        return found, at

    def write(value: Sequence[object] | None, out: list[bytes]) -> None:
        if value is None:
            out.append(NULL)
            return
        out.append(_SIZE.pack(len(value)))
        for each in value:
            element.write(each, out)

    return Kind(read, write, 4)


def record(shape: Callable[..., Value], *kinds: Kind) -> Kind:
    reads, writes = [kind.read for kind in kinds], [kind.write for kind in kinds]

    def read(data: bytes, at: int) -> tuple[Value, int]:
        values = []
        for each in reads:
            value, at = each(data, at)
            values.append(value)
        return shape(*values), at

    def read_three(data: bytes, at: int) -> tuple[Value, int]:
        first, at = reads[0](data, at)
        second, at = reads[1](data, at)
        third, at = reads[2](data, at)
        return shape(first, second, third), at

    def write(value: Value, out: list[bytes]) -> None:
        for each, field in zip(writes, value, strict=True):
            each(field, out)

    return Kind(
        read_three if len(kinds) == 3 else read, write, sum(kind.least_bytes for kind in kinds)
    )


def _tuple(*values: object) -> tuple[Value, ...]:
    return values


# values


class Acl(NamedTuple):
    perms: int
    scheme: str | None
    id: str | None


class Stat(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int  # ms since the epoch
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


_STAT = Struct(">qqqqiiiqiiq")
STAT = Kind(
    lambda data, at: (Stat(*_STAT.unpack_from(data, at)), at + _STAT.size),
    lambda value, out: out.append(_STAT.pack(*value)),
    _STAT.size,
)
ACL = record(Acl, INT, STRING, STRING)
ACLS = vector(ACL)
STRINGS = vector(STRING)


# connecting

PASSWORD_BYTES = 16
OLD_CONNECT_BYTES = 44  # with a password of 16 bytes, and without the flag for read-only


class ConnectRequest(NamedTuple):
    protocol: int
    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    # None: the client is of a shape that has no such field, and takes none
    read_only: bool | None = None


class ConnectResponse(NamedTuple):
    timeout_ms: int
    session_id: int
    password: bytes
    read_only: bool | None  # None: leave the field out

    def encode(self) -> bytes:
        flag = b"" if self.read_only is None else BOOL.encode(self.read_only)
        return _CONNECTED.encode((0, self.timeout_ms, self.session_id, self.password)) + flag


_CONNECT = record(_tuple, INT, LONG, INT, LONG, BUFFER)
_CONNECTED = record(_tuple, INT, INT, LONG, BUFFER)


def decode_connect(data: bytes) -> ConnectRequest:
    """Raises Malformed."""
    try:
        values, at = _CONNECT.read(data, 0)
    except struct_error as error:
        raise Malformed("it ends too early") from error
    return ConnectRequest(*values)._replace(read_only=bool(data[at]) if at < len(data) else None)


def decode_connected(data: bytes) -> ConnectResponse:
    """Raises Malformed."""
    try:
        (_, timeout_ms, session_id, password), at = _CONNECTED.read(data, 0)
    except struct_error as error:
        raise Malformed("it ends too early") from error
    return ConnectResponse(
        timeout_ms, session_id, password, bool(data[at]) if at < len(data) else None
    )


REQUEST_HEADER = Struct(">ii")  # xid, opcode
REPLY_HEADER = Struct(">iqi")  # xid, zxid, error


# requests


class Create(NamedTuple):
    path: str | None
    data: bytes | None
    acl: list[Acl] | None
    flags: int
    ttl_ms: int = -1


class Delete(NamedTuple):
    path: str | None
    version: int


class PathWatch(NamedTuple):
    path: str | None
    watch: bool


class SetData(NamedTuple):
    path: str | None
    data: bytes | None
    version: int


class SetAcl(NamedTuple):
    path: str | None
    acl: list[Acl] | None
    version: int


class Path(NamedTuple):
    path: str | None


class CheckVersion(NamedTuple):
    path: str | None
    version: int


class Auth(NamedTuple):
    type: int
    scheme: str | None
    auth: bytes | None


class SetWatches(NamedTuple):
    relative_zxid: int
    data: list[str | None] | None
    exist: list[str | None] | None
    child: list[str | None] | None
    persistent: list[str | None] | None = None
    recursive: list[str | None] | None = None


class PathMode(NamedTuple):
    """addWatch: a mode; checkWatches and removeWatches: a type."""

    path: str | None
    mode: int


class Token(NamedTuple):
    token: bytes | None


class Reconfig(NamedTuple):
    joining: str | None
    leaving: str | None
    new_members: str | None
    config_id: int


CREATE = record(Create, STRING, BUFFER, ACLS, INT)
CREATE_TTL = record(Create, STRING, BUFFER, ACLS, INT, LONG)
DELETE = record(Delete, STRING, INT)
PATH_WATCH = record(PathWatch, STRING, BOOL)
SET_DATA = record(SetData, STRING, BUFFER, INT)
SET_ACL = record(SetAcl, STRING, ACLS, INT)
PATH = record(Path, STRING)
CHECK_VERSION = record(CheckVersion, STRING, INT)
AUTH = record(Auth, INT, STRING, BUFFER)
SET_WATCHES = record(SetWatches, LONG, STRINGS, STRINGS, STRINGS)
SET_WATCHES_2 = record(SetWatches, LONG, STRINGS, STRINGS, STRINGS, STRINGS, STRINGS)
PATH_MODE = record(PathMode, STRING, INT)
TOKEN = record(Token, BUFFER)
RECONFIG = record(Reconfig, STRING, STRING, STRING, LONG)

# answers are tuples of kinds

PATH_STAT = record(_tuple, STRING, STAT)
DATA_STAT = record(_tuple, BUFFER, STAT)
ACLS_STAT = record(_tuple, ACLS, STAT)
CHILDREN_STAT = record(_tuple, STRINGS, STAT)
IDENTITIES = vector(record(_tuple, STRING, STRING))
EVENT = record(_tuple, INT, INT, STRING)  # type, state, path


# multi: a sequence of (type, done, error) and what belongs to it, up to one that says done

MULTI_HEADER = Struct(">i?i")
MULTI_END = MULTI_HEADER.pack(-1, True, -1)


def decode_multi(
    data: bytes, at: int, kinds: dict[int, Kind], most: int
) -> list[tuple[int, Value]]:
    """(opcode, request) in their order. Raises Malformed, also for an opcode that may not be in it,
    and when there are more than `most`.
    """
    found: list[tuple[int, Value]] = []
    try:
        while True:
            opcode, done, _ = MULTI_HEADER.unpack_from(data, at)
            at += MULTI_HEADER.size
            if done:
                return found
            if opcode not in kinds or len(found) >= most:
                raise Malformed(f"{opcode} as operation {len(found) + 1} of a multi")
            request, at = kinds[opcode].read(data, at)
            found.append((opcode, request))
    except struct_error as error:
        raise Malformed("it ends too early") from error


def encode_multi(operations: Sequence[tuple[int, bytes]]) -> bytes:
    """As a client sends it; requests are bytes already."""
    return (
        b"".join([MULTI_HEADER.pack(opcode, False, -1) + body for opcode, body in operations])
        + MULTI_END
    )
