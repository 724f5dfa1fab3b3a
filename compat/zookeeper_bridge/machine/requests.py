"""A write as it came: whose path it is of, the clients' or the cluster's, and many of them as one.
A refusal has changed nothing.
"""

from collections.abc import Sequence

from zookeeper_bridge.limits import MULTI_BYTES, OPERATIONS_OF_MULTI
from zookeeper_bridge.machine.operations import CONTAINER_FLAG, CREATES, VERBS, Caller, Done, fits
from zookeeper_bridge.machine.writes import write
from zookeeper_bridge.protocol import jute
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError, beyond
from zookeeper_bridge.protocol.jute import Malformed
from zookeeper_bridge.protocol.opcodes import BODIES, IN_MULTI, Op
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.rules import Kind, Rule, rule_of
from zookeeper_bridge.tree.tree import Layer

MULTI, RECONFIG = int(Op.MULTI), int(Op.RECONFIG)
DECODERS = {int(op): kind.decode for op, kind in BODIES.items()}


def perform(layer: Layer, opcode: int, body: bytes, caller: Caller) -> bytes:
    """The body of the reply. Raises ZooKeeperError, and then nothing has changed."""
    try:
        if opcode == MULTI:
            return _multi(layer, body, caller)
        request = DECODERS[opcode](body)
    except Malformed as error:
        raise ZooKeeperError(Err.MARSHALLING, str(error)) from error
    return _one(layer, opcode, request, caller)[1]


def _one(layer: Layer, opcode: int, request: jute.Value, caller: Caller) -> Done:
    if opcode != RECONFIG:
        rule = rule_of(request.path or "")
        if rule is not None and rule.kind is not Kind.STORED:
            return _of_the_cluster(rule, layer, opcode, request, caller)
        if rule is not None and caller.rights.guarded and opcode != Op.CHECK:
            acl.check(acl.GUARDED, acl.WRITE, caller.identities)
    return VERBS[opcode](layer, opcode, request, caller)


def _of_the_cluster(rule: Rule, layer: Layer, opcode: int, request: object, caller: Caller) -> Done:
    """On a branch: it has several steps, and each of them may refuse."""
    draft, controls = Layer(layer, layer.offset), caller.controls.branch()
    done = write(rule, draft, opcode, request, caller._replace(controls=controls))
    layer.replay(draft.changes)
    controls.keep()
    return done


def _multi(layer: Layer, body: bytes, caller: Caller) -> bytes:
    """All or nothing, and each operation sees what those before it did. It never fails as a whole:
    its results say what failed.
    """
    draft, controls = Layer(layer, layer.offset), caller.controls.branch()
    caller = caller._replace(controls=controls)
    done: list[Done] = []
    operations = jute.decode_multi(body, 0, IN_MULTI, OPERATIONS_OF_MULTI.value + 1)
    if len(operations) > OPERATIONS_OF_MULTI.value:
        raise beyond(OPERATIONS_OF_MULTI)
    if any(
        opcode in CREATES and (request.acl is None or not fits(opcode, request.flags))
        for opcode, request in operations
    ):
        raise ZooKeeperError(
            Err.MARSHALLING,
            "a create without an ACL, or with flags that are none: the whole of it can not be read",
        )
    for opcode, request in operations:
        if opcode in CREATES and request.flags == CONTAINER_FLAG:
            opcode = Op.CREATE_CONTAINER
        try:
            done.append(_one(draft, opcode, request, caller))
            if draft.change_bytes > MULTI_BYTES.value:
                done.pop()
                raise beyond(MULTI_BYTES)
        except ZooKeeperError as error:
            if error.limit is not None:
                caller.hit(error.limit)
            behind = len(operations) - len(done) - 1
            return _failed(
                [Err.OK] * len(done) + [error.code] + [Err.RUNTIME_INCONSISTENCY] * behind
            )
    layer.replay(draft.changes)
    controls.keep()
    return (
        b"".join([jute.MULTI_HEADER.pack(kind, False, 0) + answer for kind, answer in done])
        + jute.MULTI_END
    )


def _failed(codes: Sequence[Err]) -> bytes:
    return (
        b"".join(
            [jute.MULTI_HEADER.pack(-1, False, code) + jute.INT.encode(code) for code in codes]
        )
        + jute.MULTI_END
    )
