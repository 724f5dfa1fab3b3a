"""Each key's records in the order of their offsets, as far as anybody saw or was told: what the
other checks stand on.

Offsets that hold no record for a consumer (the ends of transactions, aborted records) drop out, so
neighbours have neighbouring *indexes*. Finds itself inconsistent-offsets: two values at one offset;
duplicate: one value at two.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from raftka.chaos.history import FAIL, OK, TRANSACTION, History, Operation, Value
from raftka.chaos.verdict import Findings, Rules

OFFSET, VALUE = itemgetter(0), itemgetter(1)


@dataclass(slots=True)
class Versions:
    """One key's."""

    key: str
    writers: dict[Value, Operation] = field(default_factory=dict)
    read: set[Value] = field(default_factory=set)  # by polls that are ok
    # offset -> value, the first that was seen there
    at: dict[int, Value] = field(default_factory=dict)
    # value -> offset, the first at which it was seen
    where: dict[Value, int] = field(default_factory=dict)
    # further values
    others_at: dict[int, set[Value]] = field(default_factory=lambda: defaultdict(set))
    # further offsets
    elsewhere: dict[Value, set[int]] = field(default_factory=lambda: defaultdict(set))
    index: dict[int, int] = field(default_factory=dict)  # of each offset
    offsets: list[int] = field(default_factory=list)  # of each index
    log_start: int = 0  # the furthest that was told: what lies before it may be gone
    transactions: list[Operation] = field(default_factory=list)  # that wrote, or may have

    def saw(self, offset: int, value: Value) -> None:
        if self.at.setdefault(offset, value) != value:
            self.others_at[offset].add(value)
        if self.where.setdefault(value, offset) != offset:
            self.elsewhere[value].add(offset)

    def finish(self) -> None:
        self.offsets = sorted(self.at)
        self.index = {offset: index for index, offset in enumerate(self.offsets)}

    def first(self, value: Value) -> int | None:
        """Smallest index of a value; None: nobody knows where it lies."""
        if value not in self.where:
            return None
        offset = self.where[value]
        return self.index[
            min(offset, *self.elsewhere[value]) if value in self.elsewhere else offset
        ]

    def last(self, value: Value) -> int | None:
        if value not in self.where:
            return None
        offset = self.where[value]
        return self.index[
            max(offset, *self.elsewhere[value]) if value in self.elsewhere else offset
        ]


def happened(operation: Operation, versions: Mapping[str, Versions]) -> bool:
    """Must have been committed as a whole: ok, or a transaction of which one record was read. Of
    other writes each record stands alone.
    """
    if operation.outcome == OK:
        return True
    if operation.outcome == FAIL or operation.verb != TRANSACTION:
        return False
    return any(value in versions[key].read for key, value, _ in operation.sends)


class _ByKey(dict[str, Versions]):
    def __missing__(self, key: str) -> Versions:
        found = self[key] = Versions(key)
        return found


def versions_of(history: History, rules: Rules, findings: Findings) -> dict[str, Versions]:
    found = _ByKey()
    for operation in history.operations:
        if operation.sends:
            _wrote(operation, found, findings)
        if operation.polled or operation.told:
            _polled(operation, found)
    for operation in history.operations:
        if operation.sends and happened(operation, found):
            for key, value, offset in operation.sends:
                if offset is not None:
                    found[key].saw(offset, value)
    for versions in found.values():
        versions.finish()
        _conflicts(versions, rules, findings)
    return dict(found)


def _wrote(operation: Operation, found: dict[str, Versions], findings: Findings) -> None:
    transactional = operation.verb == TRANSACTION
    for key, value, _ in operation.sends:
        versions = found[key]
        other = versions.writers.setdefault(value, operation)
        if other is not operation:
            findings.wrong(
                "bad-history", key, f"{value} is sent twice, no value may be", (other, operation)
            )
        if transactional and (
            not versions.transactions or versions.transactions[-1] is not operation
        ):
            versions.transactions.append(operation)


def _polled(operation: Operation, found: dict[str, Versions]) -> None:
    """Also of polls that failed: what a consumer is given is for good."""
    for key, records in operation.polled.items():
        versions = found[key]
        values = list(map(VALUE, records))
        # else all is known, from another reader
        if values != list(map(versions.at.get, map(OFFSET, records))):
            for offset, value in records:
                versions.saw(offset, value)
        if operation.outcome == OK:
            versions.read.update(values)
    for key, told in operation.told.items():
        found[key].log_start = max(found[key].log_start, told.log_start)


def _conflicts(versions: Versions, rules: Rules, findings: Findings) -> None:
    for offset, others in versions.others_at.items():
        values = [versions.at[offset], *sorted(others, key=str)]
        said = " and ".join(map(str, values))
        findings.wrong(
            "inconsistent-offsets",
            versions.key,
            f"offset {offset} holds {said}",
            [versions.writers.get(value) for value in values],
        )
    for value, further in versions.elsewhere.items():
        if rules.idempotent:
            offsets = sorted({versions.where[value], *further})
            findings.wrong(
                "duplicate",
                versions.key,
                f"{value} lies at the offsets {offsets}",
                (versions.writers.get(value),),
            )
        else:
            findings.note("duplicate")
