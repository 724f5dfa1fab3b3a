"""Decisions on the entries of other packages: WriteExtension. Commands to a package's machine are
decided by that machine.
"""

from raftka.metadata.commands import WriteExtension
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.extension import of_package
from raftka.metadata.records import ExtensionDelete, ExtensionPut, Record
from raftka.wire.errors import Code, KafkaError


def decide_write_extension(draft: Draft, command: WriteExtension) -> Decision:
    """Put and delete entries; the reply is the offset that the records will have.

    Raises INVALID_UPDATE_VERSION when the package's entries have changed since the writer has read
    them.
    """
    if not command.package:
        raise KafkaError(Code.INVALID_REQUEST, "an extension needs the package's name")
    changed_at = of_package(draft.image, command.package).changed_at
    if command.read_at is not None and changed_at > command.read_at:
        raise KafkaError(
            Code.INVALID_UPDATE_VERSION,
            f"{command.package} has changed at {changed_at}, after {command.read_at}",
        )
    records: list[Record] = [
        ExtensionDelete(command.package, key)
        if value is None
        else ExtensionPut(command.package, key, value)
        for key, value in command.changes
    ]
    return records, draft.offset if records else draft.image.offset
