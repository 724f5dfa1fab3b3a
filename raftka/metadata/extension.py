"""Another package's replicated state in the metadata log: a map of bytes to bytes under the
package's name.

Every node applies the records (put and delete), with or without the package, and keeps the entries
in its snapshots: a node without the package loses none of them.

A node with the package has an Extension. The node calls it after each applied entry. When the node
becomes the controller, the Extension makes a machine, which decides the package's commands. Its
records are appended and fenced as the controller's own. The machine may write any record, decide
the controller's commands in the same batch, and add records to the batches of other commands.
"""

from collections.abc import Sequence
from typing import Protocol

from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.draft import Draft
from raftka.metadata.image import NO_ENTRIES, Delta, ExtensionImage, MetadataImage
from raftka.metadata.records import ExtensionChanged, ExtensionDelete, ExtensionPut, Record


class ExtensionMachine(Protocol):
    """Decides a package's commands. It is made of the committed image when this node becomes the
    controller, and dropped when it is not any more. Like the controller it replays records before
    they are committed.
    """

    def decide(self, payload: bytes, context: Context, draft: Draft) -> Outcome:
        """Decide a command of the package, without a change of replicated state; the reply is
        bytes.

        `draft`: for the controller's own commands (`decide_in_draft`). Its records take effect only
        if they are in the outcome. Raises KafkaError when the command is refused as a whole.
        """

    def beside(
        self, records: Sequence[Record], context: Context, image: MetadataImage
    ) -> Sequence[Record]:
        """Return the package's own records for the same batch, because of `records` that it has not
        decided. `image`: before these records.
        """

    def replay(self, offset: int, records: Sequence[Record]) -> None:
        """Apply a batch of the controller, of any records. Only here replicated state changes."""

    def deadline(self) -> float:
        """Return the time of the next `tick`; inf: none is needed. A tick moves it."""

    def tick(self, context: Context) -> Outcome: ...


class Extension(Protocol):
    """A package on one node."""

    package: str

    def applied(self, image: MetadataImage, delta: Delta) -> None:
        """React to an entry or a snapshot that has become a part of the image."""

    def machine(self, image: MetadataImage, now: float) -> ExtensionMachine:
        """Make the machine. `image`: all that is committed; `applied` was called with all of it."""


def of_package(image: MetadataImage, package: str) -> ExtensionImage:
    return image.extensions.get(package, NO_ENTRIES)


def changes_of(package: str, records: Sequence[Record]) -> list[tuple[bytes, bytes | None]]:
    """Return the changes that the records make to that package's entries, in order."""
    changes: list[tuple[bytes, bytes | None]] = []
    for record in records:
        match record:
            case ExtensionChanged(of, several) if of == package:
                changes += several
            case ExtensionPut(of, key, value) if of == package:
                changes.append((key, value))
            case ExtensionDelete(of, key) if of == package:
                changes.append((key, None))
    return changes
