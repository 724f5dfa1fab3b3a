"""Count sent, acknowledged and read records, key by key, and find lost, duplicated and reordered
ones. Pure; knows no client.

Records of a key carry a number that counts from 0. One thread sends, another acknowledges, a third
reads: each writes only its own fields.
"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

NUMBER, RUN = "n", "run"  # names of headers


@dataclass(slots=True)
class KeyTally:
    """Two bytes for each record: whether it was acknowledged, and how often it was read."""

    acknowledged: bytearray = field(default_factory=bytearray)
    times_read: bytearray = field(default_factory=bytearray)
    out_of_order: int = 0
    highest_read: int = -1
    partition: int = -1  # where its records went, as the first acknowledgement said
    sent_hash: "hashlib._Hash" = field(default_factory=sha256)
    read_hash: "hashlib._Hash" = field(default_factory=sha256)


@dataclass(frozen=True, slots=True)
class Verdict:
    sent: int
    acknowledged: int
    given_up: int  # sent and never acknowledged: not lost, but not delivered either
    read: int
    lost: int  # acknowledged and never read
    duplicated: int
    out_of_order: int
    sent_hash: str
    read_hash: str

    @property
    def good(self) -> bool:
        return (
            not (self.lost or self.duplicated or self.out_of_order or self.given_up)
            and self.sent_hash == self.read_hash
        )


class Tally:
    def __init__(self, keys: Iterable[bytes]) -> None:
        self.keys = {key: KeyTally() for key in keys}
        self.acknowledged_of: dict[int, int] = {}  # by partition
        self.read_of: dict[int, int] = {}
        # its records carry this beside their number: others may write to the same topic
        self.run = secrets.token_hex(8).encode()
        self.foreign = 0  # records of other writers, which are not counted

    def send(self, key: bytes, value: bytes) -> int:
        """Count a record as sent, and return the number that it must carry."""
        tally = self.keys[key]
        tally.sent_hash.update(value)
        tally.times_read.append(0)
        tally.acknowledged.append(0)
        return len(tally.acknowledged) - 1

    def acknowledge(self, key: bytes, number: int, partition: int) -> None:
        tally = self.keys[key]
        tally.partition = partition
        tally.acknowledged[number] = 1
        self.acknowledged_of[partition] = self.acknowledged_of.get(partition, 0) + 1

    def read_record(
        self,
        key: bytes | None,
        headers: Iterable[tuple[str, bytes | None]],
        value: bytes | None,
        partition: int,
    ) -> None:
        """Count a record that was read; one of another writer counts as foreign."""
        found = dict(headers)
        number = found.get(NUMBER) or b""
        tally = self.keys.get(key) if key is not None else None
        if (
            found.get(RUN) != self.run
            or tally is None
            or value is None
            or not number.isdigit()
            or int(number) >= len(tally.times_read)
        ):
            self.foreign += 1
            return
        self.read(key or b"", int(number), value, partition)

    def headers_of(self, number: int) -> list[tuple[str, bytes]]:
        """Return the headers of a record of this tally."""
        return [(NUMBER, b"%d" % number), (RUN, self.run)]

    def read(self, key: bytes, number: int, value: bytes, partition: int) -> None:
        tally = self.keys[key]
        if number < tally.highest_read and not tally.times_read[number]:
            tally.out_of_order += 1
        tally.highest_read = max(tally.highest_read, number)
        tally.times_read[number] = min(255, tally.times_read[number] + 1)
        tally.read_hash.update(value)
        self.read_of[partition] = self.read_of.get(partition, 0) + 1

    @property
    def acknowledged(self) -> int:
        return sum(self.acknowledged_of.values())

    @property
    def read_count(self) -> int:
        return sum(self.read_of.values())

    def busiest(self) -> int:
        """Return the partition with the most acknowledged records; -1 when there is none yet."""
        return max(self.acknowledged_of, key=lambda p: self.acknowledged_of[p], default=-1)

    def sent_to(self, partition: int) -> dict[bytes, int]:
        """Return how many records of each key of that partition have been sent so far."""
        return {
            key: len(tally.acknowledged)
            for key, tally in self.keys.items()
            if tally.partition == partition
        }

    def verdict(self) -> Verdict:
        tallies = self.keys.values()
        sent = sum(len(t.acknowledged) for t in tallies)
        return Verdict(
            sent=sent,
            acknowledged=self.acknowledged,
            given_up=sent - self.acknowledged,
            read=sum(len(t.times_read) - t.times_read.count(0) for t in tallies),
            lost=sum(
                1
                for t in tallies
                for acked, read in zip(t.acknowledged, t.times_read, strict=True)
                if acked and not read
            ),
            duplicated=sum(
                sum(t.times_read) - (len(t.times_read) - t.times_read.count(0)) for t in tallies
            ),
            out_of_order=sum(t.out_of_order for t in tallies),
            sent_hash=sha256(b"".join(t.sent_hash.digest() for t in tallies)).hexdigest(),
            read_hash=sha256(b"".join(t.read_hash.digest() for t in tallies)).hexdigest(),
        )
