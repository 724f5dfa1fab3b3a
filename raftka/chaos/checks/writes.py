"""Was every written record kept, once, in its order, and no other? Whether consumers moved well is
not asked here.

lost-write           acknowledged, passed by readers, read by none
torn-transaction     the same, of a transaction of which other records were read
unseen               acknowledged, and not read even in the end: the tail is lost, or stale
aborted-read         G1a: somebody read what was said to be not written
phantom              somebody read what nobody wrote
precommitted-read    a transaction read its own records, before they were committed
nonmonotonic-send    a later send lies before an earlier one that was acknowledged before it began
                     (int-: within one operation)
reordered-send       a producer's records lie in another order than that in which they were sent
zombie-write         acknowledged to an epoch of a producer after a later one had been
"""

from collections.abc import Mapping, Sequence

from raftka.chaos.checks.rising import Rising
from raftka.chaos.checks.versions import Versions, happened
from raftka.chaos.history import FAIL, OK, TRANSACTION, History, Operation, Value
from raftka.chaos.verdict import Findings, Rules

ByKey = Mapping[str, Versions]


def check(
    history: History, ended: Sequence[Operation], versions: ByKey, rules: Rules, findings: Findings
) -> None:
    if rules.final_reads:
        bounds = {key: _bound(each) for key, each in versions.items()}
        for operation in history.operations:
            if operation.sends and operation.outcome != FAIL:
                _kept(operation, versions, bounds, findings)
    _reads(history, versions, rules, findings)
    _order(ended, rules, findings)
    if rules.idempotent:
        _producers(history, versions, findings)


def _bound(versions: Versions) -> int:
    """Readers have come so far: by the first place of each value, so that a duplicate further on
    moves nothing.
    """
    if not versions.elsewhere:
        return max((versions.index[versions.where[value]] for value in versions.read), default=-1)
    return max(
        (first for value in versions.read if (first := versions.first(value)) is not None),
        default=-1,
    )


def _kept(
    operation: Operation, versions: ByKey, bounds: Mapping[str, int], findings: Findings
) -> None:
    missing = [send for send in operation.sends if send[1] not in versions[send[0]].read]
    if not missing or not happened(operation, versions):
        return
    torn = operation.verb == TRANSACTION and len(missing) < len(operation.sends)
    for key, value, _ in missing:
        each = versions[key]
        last = each.last(value)
        if each.log_start and (last is None or each.offsets[last] < each.log_start):
            findings.note("deleted, or lost")  # before anybody had read it
            continue
        said = str(value) if last is None else f"{value} at offset {each.offsets[last]}"
        if torn:
            findings.wrong(
                "torn-transaction",
                key,
                f"{said} is lost, other records of its transaction are there",
                (operation,),
            )
        elif last is None or last > bounds[key]:
            findings.wrong("unseen", key, f"{said} was acknowledged, and never read", (operation,))
        else:
            findings.wrong(
                "lost-write", key, f"{said} is lost: readers have passed it", (operation,)
            )


def _reads(history: History, versions: ByKey, rules: Rules, findings: Findings) -> None:
    suspects = {key: found for key, each in versions.items() if (found := _suspects(each))}
    for operation in history.operations:
        if operation.polled and (suspects or operation.sends):
            for key, records in operation.polled.items():
                suspected = suspects.get(key, frozenset())
                own = {value for where, value, _ in operation.sends if where == key}
                for offset, value in records:
                    if value in suspected or value in own:
                        _bad_read(
                            operation,
                            versions[key].writers.get(value),
                            key,
                            offset,
                            value,
                            rules,
                            findings,
                        )


def _suspects(versions: Versions) -> frozenset[Value]:
    """Values that were read and should not have been."""
    return frozenset(
        value
        for value in versions.where
        if (writer := versions.writers.get(value)) is None or writer.outcome == FAIL
    )


def _bad_read(
    operation: Operation,
    writer: Operation | None,
    key: str,
    offset: int,
    value: Value,
    rules: Rules,
    findings: Findings,
) -> None:
    if writer is None:
        findings.wrong(
            "phantom", key, f"{value} was read at offset {offset}, nobody wrote it", (operation,)
        )
    elif writer.verb == TRANSACTION and not rules.read_committed:
        findings.note("read uncommitted")
    elif writer is operation:
        findings.wrong(
            "precommitted-read",
            key,
            f"a transaction read its own {value} at offset {offset}",
            (operation,),
        )
    else:
        findings.wrong(
            "aborted-read",
            key,
            f"{value} was read at offset {offset}, its write had failed",
            (operation, writer),
        )


def _order(ended: Sequence[Operation], rules: Rules, findings: Findings) -> None:
    """In real time: a send that has ended lies before one that begins later, of any client."""
    rising, epochs = Rising[int](max), Rising[int](max)
    for operation in ended:
        if not operation.sends:
            continue
        spans: dict[str, tuple[int, int]] = {}
        for key, value, offset in operation.sends:
            if offset is not None:
                low, high = spans.get(key, (offset, -1))
                if offset <= high and rules.idempotent:
                    findings.wrong(
                        "int-nonmonotonic-send",
                        key,
                        f"{value} lies at {offset}, one sent before it at {high}",
                        (operation,),
                    )
                spans[key] = (min(low, offset), max(high, offset))
        for key, (low, high) in spans.items():
            top = rising.top(key)
            before = rising.known(key, operation.began) if top is not None and top >= low else None
            if before is not None and before[0] >= low:
                said = (
                    f"what was sent later lies at {low}, at {before[0]} what was acknowledged "
                    "before it began"
                )
                findings.wrong("nonmonotonic-send", key, said, (before[1], operation))
            rising.learn(key, high, operation)
        if operation.producer:
            _fenced(operation, epochs, findings)


def _fenced(operation: Operation, epochs: Rising[int], findings: Findings) -> None:
    before = epochs.known(operation.producer, operation.began)
    if before is not None and before[0] > operation.epoch:
        said = (
            f"{operation.producer} wrote with epoch {operation.epoch} after it had written with "
            f"{before[0]}"
        )
        findings.wrong("zombie-write", operation.sends[0][0], said, (before[1], operation))
    epochs.learn(operation.producer, operation.epoch, operation)


def _producers(history: History, versions: ByKey, findings: Findings) -> None:
    """Also of several batches in flight, and of those whose answer was lost: wherever their records
    are known to lie.
    """
    reached: dict[tuple[str, str], tuple[int, Value, Operation]] = {}
    for operation in history.operations:
        if not operation.producer or operation.outcome == FAIL:
            continue
        for key, value, _ in operation.sends:
            offset = versions[key].where.get(value)
            if offset is None or value in versions[key].elsewhere:
                continue
            before = reached.get((operation.producer, key))
            if before is None or offset > before[0]:
                reached[operation.producer, key] = (offset, value, operation)
            elif operation is not before[2] or operation.outcome != OK:
                said = (
                    f"{operation.producer} sent {value} after {before[1]}, it lies at {offset} "
                    f"before {before[0]}"
                )
                findings.wrong("reordered-send", key, said, (before[2], operation))
