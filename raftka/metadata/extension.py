"""Another package's replicated state in the metadata log: a map of bytes to bytes under the
package's name.

Its records are put and delete, applied by every node with or without the package and part of every
snapshot: a node that does not have the package loses nothing of it. Knows no package and no meaning
of a key.

A node that has the package holds an Extension of it: it is told of each applied entry, and makes a
machine for the controller when this node leads. The machine decides the package's commands in the
controller's own batches, fenced like all others. It may write any record, have the controller
decide commands in the same batch, and add records to the batches of other commands.
"""

from collections.abc import Sequence
from typing import Protocol

from raftka.metadata.commands import WriteExtension
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.draft import Draft
from raftka.metadata.image import NO_ENTRIES, Delta, ExtensionImage, MetadataImage
from raftka.metadata.records import ExtensionChanged, ExtensionDelete, ExtensionPut, Record
from raftka.wire.errors import Code, KafkaError


class ExtensionMachine(Protocol):
    """Made of the committed image when this node's controller begins, dropped when it ends. It runs
    ahead of what is committed, as the controller.
    """

    def decide(self, payload: bytes, context: Context, draft: Draft) -> Outcome:
        """Changes nothing that is replicated; the reply is bytes. Raises KafkaError for what is
        refused as a whole.

        `draft`: where the controller decides its own commands, as far as the package wants any; its
        records count if they are in the outcome.
        """

    def beside(
        self, records: Sequence[Record], context: Context, image: MetadataImage
    ) -> Sequence[Record]:
        """Return the package's own records for the same batch, because of `records` that it has not
        decided. `image`: as it is before them.
        """

    def replay(self, offset: int, records: Sequence[Record]) -> None:
        """A batch of the controller's, of any records. Here alone what is replicated changes."""

    def deadline(self) -> float:
        """When `tick` wants to run; inf: never. A tick that has run moves it."""

    def tick(self, context: Context) -> Outcome: ...


class Extension(Protocol):
    """A package on one node."""

    package: str

    def applied(self, image: MetadataImage, delta: Delta) -> None:
        """An entry, or a snapshot, has become a part of the image."""

    def machine(self, image: MetadataImage, now: float) -> ExtensionMachine:
        """`image`: all that is committed, and `applied` was told of."""


def of_package(image: MetadataImage, package: str) -> ExtensionImage:
    return image.extensions.get(package, NO_ENTRIES)


def write(
    image: MetadataImage, command: WriteExtension, next_offset: int
) -> tuple[list[Record], int]:
    """Records, and the offset they will have. Raises INVALID_UPDATE_VERSION when the package's
    entries are not those the writer had read.
    """
    if not command.package:
        raise KafkaError(Code.INVALID_REQUEST, "an extension needs the package's name")
    changed_at = of_package(image, command.package).changed_at
    if command.read_at is not None and changed_at > command.read_at:
        raise KafkaError(
            Code.INVALID_UPDATE_VERSION,
            f"{command.package} has changed at {changed_at}, after {command.read_at}",
        )
    return [
        _record(command.package, key, value) for key, value in command.changes
    ], next_offset if command.changes else image.offset


def _record(package: str, key: bytes, value: bytes | None) -> Record:
    return ExtensionDelete(package, key) if value is None else ExtensionPut(package, key, value)


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
