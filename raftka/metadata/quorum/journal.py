"""The quorum's write-ahead log and snapshots: term, vote and entries of one voter, in memory and
durable. Knows no network, clock or rule of Raft.

Two files: `journal` (records, see journal_format) and `snapshot`. Changes are staged; `take_sync`
writes them with one append; when the caller has flushed what it got, `synced` says so. A file is
replaced, never changed: a crash at any point leaves the old one or the new one. The snapshot is
always replaced before the journal that needs it. An error of the disk is the caller's end: nothing
here is tried again.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from raftka.checksum import crc32c
from raftka.metadata.quorum.journal_format import (
    SNAPSHOT_HEAD,
    Item,
    JournalDamaged,
    Kind,
    SnapshotHead,
    decode_journal,
    decode_snapshot_head,
    encode_item,
    encode_record,
    encode_snapshot,
    flatten,
)
from raftka.metadata.quorum.raft_types import Entry, Snapshot
from raftka.metadata.quorum.voter_sets import (
    SET_BEFORE_STATE,
    SIZE,
    MalformedVoters,
    VoterSet,
    decode_set,
    take_off,
)
from raftka.runtime.interfaces import File, Files
from raftka.versions import JOURNAL_ITEMS

CHUNK = 1024 * 1024  # bytes read at once when a snapshot is checked


class Standing(IntEnum):
    """The role of this directory in the quorum."""

    EMPTY = 0  # nothing was ever written: new, or its disk was lost
    VOTER = 1
    # its disk was lost: neither votes nor acknowledges until it has been brought up to date
    JOINING = 2
    # all that is left of a quorum: waits for the others, all of them empty, to begin anew with what
    # it has (recovery.py)
    SEED = 3
    BROKEN_OFF = 4  # about to become a seed: the command that does it must be run again


class Recovery(NamedTuple):
    """Identifies a quorum that was recovered, so that members of the quorum before it are refused;
    every member of the new one has it.
    """

    number: int  # random; 0: never recovered
    voters: tuple[int, ...]


NEVER = Recovery(0, ())


class WrongDirectory(Exception):
    """The directory belongs to another node or another cluster."""


class Journal:
    def __init__(
        self, files: Files, directory: str, node_id: int, release: Callable[[], None]
    ) -> None:
        """Call `Journal.open`."""
        self.files, self.directory, self.node_id = files, directory, node_id
        self.term = 0
        self.vote: int | None = None
        self.standing = Standing.EMPTY
        self.cluster_id: str | None = None
        self.recovery = NEVER
        # the first one is the base: only its index and term count
        self.entries: list[Entry] = [Entry(b"", 0, 0)]
        self.snapshot: SnapshotHead | None = None
        # that count at the snapshot; None: those of controller.quorum.voters
        self.snapshot_voters: VoterSet | None = None
        self.flushed_index = 0  # entries up to there are on the disk
        self.size_bytes = 0  # of the journal file
        self.written_bytes = 0  # since the last snapshot
        self._synced_bytes = 0  # of the journal file: so much is on disk
        self._path, self._snapshot_path = f"{directory}/journal", f"{directory}/snapshot"
        self._file: File | None = None
        self._snapshot_file: File | None = None
        self._number = 0  # of the last record in the file
        self._staged: list[bytes] = []
        self.syncing = False  # between take_sync and synced
        self._flushing_index = 0
        self._release = release

    @classmethod
    def open(
        cls, files: Files, directory: str, node_id: int, cluster_id: str | None = None
    ) -> "Journal":
        """Take the directory's lock (BlockingIOError if another has it) and read what is there; a
        torn last record is cut off.

        Raises JournalDamaged, NewerFormat, and WrongDirectory if it is another node's or, where
        both are known, another cluster's.
        """
        files.make_directory(directory)
        journal = cls(files, directory, node_id, files.lock(f"{directory}/.lock"))
        try:
            journal._load()
            if cluster_id is not None and journal.cluster_id not in (None, cluster_id):
                raise WrongDirectory(
                    f"{directory} belongs to cluster {journal.cluster_id}, not to {cluster_id}"
                )
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Close the files; staged bytes are dropped."""
        for file in (self._file, self._snapshot_file):
            if file is not None:
                file.close()
        self._file = self._snapshot_file = None
        self._release()

    # what is in it

    @property
    def base(self) -> Entry:
        """The last entry that is not kept any more."""
        return self.entries[0]

    @property
    def last(self) -> Entry:
        return self.entries[-1]

    @property
    def snapshot_index(self) -> int:
        """0: there is none."""
        return self.snapshot.index if self.snapshot is not None else 0

    def term_at(self, index: int) -> int | None:
        """The term of the entry at `index`, the base's too; None if it is not here."""
        at = index - self.entries[0].index
        return self.entries[at].term if 0 <= at < len(self.entries) else None

    @property
    def unsynced(self) -> bool:
        return self.syncing or bool(self._staged)

    def read_snapshot(self) -> Snapshot:
        """The whole snapshot, checked again as it is read, without the voters before its state."""
        assert self.snapshot is not None
        head = self.snapshot
        state = self.read_chunk(0, head.size_bytes)
        if len(state) != head.size_bytes or crc32c(state) != head.crc:
            raise JournalDamaged(f"the snapshot of {self.directory} is damaged")
        return Snapshot(head.index, head.term, take_off(state)[1])

    def read_chunk(self, position: int, size: int) -> bytes:
        """Bytes of the snapshot, as a leader sends them: of the voters, if it has them, and of the
        state.
        """
        assert self._snapshot_file is not None
        return self._snapshot_file.read(SNAPSHOT_HEAD + position, size)

    # changes, durable after the next sync

    def append(self, entry: Entry) -> None:
        assert entry.index == self.entries[-1].index + 1, "entries are appended one after the other"
        self.entries.append(entry)
        self._staged += encode_item(Kind.ENTRY, entry.index, entry.term, entry.command)

    def cut(self, index: int) -> None:
        """Forget the entry at `index` and all behind it."""
        assert index > self.base.index
        del self.entries[index - self.base.index :]
        self.flushed_index = min(self.flushed_index, index - 1)
        self._staged += encode_item(Kind.CUT, index)

    def set_vote(self, term: int, vote: int | None) -> None:
        assert term >= self.term, "terms never fall"
        if (term, vote) != (self.term, self.vote):
            self.term, self.vote = term, vote
            self._staged += encode_item(Kind.VOTE, term, 0 if vote is None else vote + 1)

    def set_standing(self, standing: Standing) -> None:
        self.standing = standing
        self._staged += encode_item(Kind.STANDING, standing)

    def set_recovery(self, recovery: Recovery) -> None:
        if recovery != self.recovery:
            self.recovery = recovery
            self._staged += _encode_recovery(recovery)

    def set_cluster_id(self, cluster_id: str) -> None:
        if self.cluster_id not in (None, cluster_id):
            raise WrongDirectory(
                f"{self.directory} belongs to cluster {self.cluster_id}, not to {cluster_id}"
            )
        if self.cluster_id is None:
            self.cluster_id = cluster_id
            self._staged += encode_item(Kind.CLUSTER, data=cluster_id.encode())

    def take_sync(self) -> list[File]:
        """Write what is staged; the caller flushes what this returns, then calls `synced`. Raises
        OSError: the node's end.
        """
        assert not self.syncing
        self.syncing = True
        self._flushing_index = self.entries[-1].index
        if self._file is None:
            self._rewrite()
            return []
        record = encode_record(self._number + 1, self._staged)
        self._staged = []
        self._file.append(record)
        self._number += 1
        self.size_bytes += (size := sum(map(len, record)))
        self.written_bytes += size
        return [self._file]

    def synced(self) -> None:
        self.syncing = False
        self._synced_bytes = self.size_bytes
        self.flushed_index = self._flushing_index

    def abandon(self) -> None:
        """A write or flush failed, the process ends. What the disk may not have goes: the next
        process would read it from memory and believe it.

        A kernel takes pages whose flush failed for clean: it shows them to readers, and does not
        write them again.
        """
        try:
            if self._file is not None:
                self._file.truncate(self._synced_bytes)
        except OSError:
            pass  # then it can not be written at all, and will not be opened

    # snapshots, durable when these return; never while a sync is under way

    def compact(self, index: int, state: bytes, keep_from: int) -> None:
        """The bytes of a snapshot as of `index`; entries before `keep_from` are forgotten."""
        assert not self.syncing
        term = self.term_at(index)
        assert term is not None
        self._replace_snapshot(index, term, state)
        keep_from = min(keep_from, index + 1)
        if keep_from - 1 > self.base.index:
            drop = keep_from - 1 - self.base.index
            self.entries[: drop + 1] = [Entry(b"", keep_from - 1, self.entries[drop].term)]
        self._rewrite()

    def install(self, snapshot: Snapshot) -> None:
        """A leader's snapshot; entries behind it stay if they continue it."""
        assert not self.syncing
        self._replace_snapshot(snapshot.index, snapshot.term, snapshot.state)
        self._begin_at(snapshot.index, snapshot.term)
        self._rewrite()

    def begin_anew(self, snapshot: Snapshot, recovery: Recovery) -> None:
        """Begin a new log of this snapshot; the node must not run. A crash in the middle is visible
        in the directory.
        """
        assert snapshot.index > self.last.index
        self.standing = Standing.BROKEN_OFF
        self._rewrite()
        self._replace_snapshot(snapshot.index, snapshot.term, snapshot.state)
        self._begin_at(snapshot.index, snapshot.term)
        self.term, self.vote, self.standing = max(self.term, snapshot.term), None, Standing.SEED
        self.recovery = recovery
        self._rewrite()

    def _begin_at(self, index: int, term: int) -> None:
        """Forget what is before the snapshot, and what does not continue it."""
        continues = self.term_at(index) == term
        later = self.entries[index - self.base.index + 1 :] if continues else []
        self.entries = [Entry(b"", index, term), *later]

    def _replace_snapshot(self, index: int, term: int, state: bytes) -> None:
        self.files.replace(self._snapshot_path, encode_snapshot(index, term, state))
        self._open_snapshot()

    def _open_snapshot(self) -> None:
        if self._snapshot_file is not None:
            self._snapshot_file.close()
        self._snapshot_file = self.files.open(self._snapshot_path)
        self.snapshot = decode_snapshot_head(self._snapshot_file.read(0, SNAPSHOT_HEAD))
        self.snapshot_voters = self._read_snapshot_voters()

    def _read_snapshot_voters(self) -> VoterSet | None:
        begin = self.read_chunk(0, 1 + SIZE.size)
        if begin[:1] != SET_BEFORE_STATE or len(begin) < 1 + SIZE.size:
            return None
        assert self.snapshot is not None
        size = min(SIZE.unpack_from(begin, 1)[0], self.snapshot.size_bytes)
        try:
            return decode_set(self.read_chunk(1, SIZE.size + size))[0]
        except MalformedVoters as error:
            raise JournalDamaged(f"the snapshot of {self.directory} is damaged: {error}") from error

    def _rewrite(self) -> None:
        """A new journal file with all that is in memory, staged or not, as its first record."""
        items = [
            encode_item(Kind.NODE, self.node_id),
            encode_item(Kind.BASE, self.base.index, self.base.term),
            encode_item(Kind.VOTE, self.term, 0 if self.vote is None else self.vote + 1),
            encode_item(Kind.STANDING, self.standing),
            *([_encode_recovery(self.recovery)] if self.recovery != NEVER else []),
            *(
                [encode_item(Kind.CLUSTER, data=self.cluster_id.encode())]
                if self.cluster_id is not None
                else []
            ),
            *(
                encode_item(Kind.ENTRY, entry.index, entry.term, entry.command)
                for entry in self.entries[1:]
            ),
        ]
        record = encode_record(1, flatten(items))
        self.files.replace(self._path, b"".join(record))
        if self._file is not None:
            self._file.close()
        self._file = self.files.open(self._path)
        self._staged, self._number = [], 1
        self.size_bytes, self.written_bytes = sum(map(len, record)), 0
        self._synced_bytes = self.size_bytes
        self.flushed_index = self.last.index

    # start

    def _load(self) -> None:
        has_journal = self.files.exists(self._path)
        has_snapshot = self.files.exists(self._snapshot_path)
        if not has_journal:
            if has_snapshot:
                raise JournalDamaged(f"{self.directory} has a snapshot but no journal")
            return
        data = self.files.read(self._path)
        items, self._number, end = decode_journal(data)
        for item in items:
            self._load_item(item)
        self.flushed_index = self.last.index
        self.size_bytes = self.written_bytes = self._synced_bytes = end
        self._file = self.files.open(self._path)
        if end < len(data):  # never acknowledged: the turn that wrote it did not end
            self._file.truncate(end)
        # it is believed from now on; if only the process had ended, the last of it may be in memory
        # alone
        self._file.sync()
        if has_snapshot:
            self._load_snapshot()
        elif self.base.index > 0:
            raise JournalDamaged(
                f"{self.directory} begins behind entry {self.base.index} but has no snapshot"
            )

    def _load_item(self, item: Item) -> None:
        match item.kind:
            case Kind.ENTRY:
                self.entries.append(Entry(item.data, item.a, item.b))
            case Kind.CUT:
                del self.entries[item.a - self.base.index :]
            case Kind.VOTE:
                self.term, self.vote = item.a, item.b - 1 if item.b else None
            case Kind.STANDING:
                self.standing = Standing(item.a)
            case Kind.RECOVERED:
                self.recovery = Recovery(
                    item.a, tuple(int(each) for each in item.data.decode().split(","))
                )
            case Kind.CLUSTER:
                self.cluster_id = item.data.decode()
            case Kind.BASE:
                self.entries = [Entry(b"", item.a, item.b)]
            case Kind.NODE:
                if item.a != self.node_id:
                    raise WrongDirectory(
                        f"{self.directory} belongs to node {item.a}, not to {self.node_id}"
                    )
            case _:
                JOURNAL_ITEMS.check(item.kind, self.directory)
                raise JournalDamaged(f"{self.directory} has an item of kind {item.kind}")

    def _load_snapshot(self) -> None:
        self._open_snapshot()
        assert self.snapshot is not None
        index, term, size = self.snapshot.index, self.snapshot.term, self.snapshot.size_bytes
        crc = 0
        for position in range(0, size, CHUNK):
            crc = crc32c(self.read_chunk(position, min(CHUNK, size - position)), crc)
        if crc != self.snapshot.crc:
            raise JournalDamaged(f"the snapshot of {self.directory} is damaged")
        if index < self.base.index:
            raise JournalDamaged(
                f"{self.directory} begins behind entry {self.base.index}, its snapshot ends at "
                f"{index}"
            )
        if self.term_at(index) != term:  # a crash between the two files of `install`
            self._begin_at(index, term)
            self._rewrite()


def _encode_recovery(recovery: Recovery) -> list[bytes]:
    return encode_item(
        Kind.RECOVERED, recovery.number, data=",".join(map(str, recovery.voters)).encode()
    )
