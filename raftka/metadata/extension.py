"""Another package's replicated state in the metadata log: a map of bytes to bytes under the package's name.

Its records are put and delete, applied by every node with or without the package and part of every snapshot: a node that does not have the
package loses nothing of it. Knows no package and no meaning of a key.
"""

from raftka.metadata.commands import WriteExtension
from raftka.metadata.image import EMPTY, ExtensionImage, MetadataImage
from raftka.metadata.records import ExtensionDelete, ExtensionPut, Record
from raftka.wire.errors import Code, KafkaError

NOTHING = ExtensionImage(0, EMPTY)


def of_package(image: MetadataImage, package: str) -> ExtensionImage:
    return image.extensions.get(package, NOTHING)


def write(image: MetadataImage, command: WriteExtension, next_offset: int) -> tuple[list[Record], int]:
    """Records, and the offset they will have. Raises INVALID_UPDATE_VERSION when the package's entries are not those the writer had read."""
    if not command.package:
        raise KafkaError(Code.INVALID_REQUEST, "an extension needs the package's name")
    changed_at = of_package(image, command.package).changed_at
    if command.read_at is not None and changed_at > command.read_at:
        raise KafkaError(Code.INVALID_UPDATE_VERSION, f"{command.package} has changed at {changed_at}, after {command.read_at}")
    return [_record(command.package, key, value) for key, value in command.changes], next_offset if command.changes else image.offset


def _record(package: str, key: bytes, value: bytes | None) -> Record:
    return ExtensionDelete(package, key) if value is None else ExtensionPut(package, key, value)
