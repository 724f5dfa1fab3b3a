"""The sets of voters of one log: the one that counts, and those before it. Knows no other node."""

from collections.abc import Iterable, Iterator, Sequence

from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft_types import Entry
from raftka.metadata.quorum.voter_sets import VoterSet, ids_of, set_in


class VoterSets:
    """The sets of one log, the oldest first. The last one counts."""

    def __init__(self, configured: Sequence[int], journal: Journal) -> None:
        """`configured`: controller.quorum.voters; empty on a node that is none of them."""
        self._configured = frozenset(configured)
        self._journal = journal
        self._sets: list[tuple[int, VoterSet]] = []  # (index, set)
        self.ids = self._configured
        # the set that counts; None: that of controller.quorum.voters
        self.current: VoterSet | None = None
        self.reload()

    @property
    def index(self) -> int:
        """Index of the entry or snapshot with the set that counts; 0: there is none."""
        return self._sets[-1][0] if self._sets else 0

    def at(self, index: int) -> VoterSet | None:
        """The set that counts for a log that ends with the entry at `index`."""
        return next((voters for begins, voters in reversed(self._sets) if begins <= index), None)

    def reload(self) -> None:
        """Read all sets of the journal."""
        begins, journal = self._journal.snapshot_index, self._journal
        found = journal.snapshot_voters
        self._sets = [] if found is None else [(begins, found)]
        self._sets += _sets_in(entry for entry in journal.entries[1:] if entry.index > begins)
        self._count()

    def appended(self, entry: Entry) -> None:
        self._sets += _sets_in((entry,))
        self._count()

    def cut(self, index: int) -> None:
        """Forget sets of entries from `index` on."""
        while self._sets and self._sets[-1][0] >= index:
            self._sets.pop()
        self._count()

    def forget_before(self, index: int) -> None:
        """Forget sets that do not count any more at `index`, where a snapshot is."""
        while len(self._sets) > 1 and self._sets[1][0] <= index:
            self._sets.pop(0)

    def _count(self) -> None:
        self.current = current = self._sets[-1][1] if self._sets else None
        self.ids = self._configured if current is None else ids_of(current)


def _sets_in(entries: Iterable[Entry]) -> Iterator[tuple[int, VoterSet]]:
    for entry in entries:
        voters = set_in(entry.command)
        if voters is not None:
            yield entry.index, voters
