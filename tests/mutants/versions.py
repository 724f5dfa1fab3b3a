"""Planted where releases meet: formats before their level, levels before all nodes know them, data
and commands of a later release.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from raftka import versions
from raftka.broker.controller import controller_host, quorum
from raftka.metadata import image
from raftka.metadata.commands import UnknownCommand
from raftka.metadata.controller import features
from raftka.metadata.quorum import release_check
from raftka.metadata.records import Record
from raftka.versions import Format
from tests.mutants.registry import mutant, part_of


@mutant(controller_host, "encode_batch")
def records_of_a_later_level(encode: Any) -> Any:
    """A controller of the present release writes records that the earlier release cannot read,
    before an operator has raised the level: nodes of the earlier release end.
    """

    def bug(records: Sequence[Record], decided_at: int, level: int | None = None) -> Any:
        return encode(records, decided_at, versions.newest_level())

    return bug


@mutant(image, "METADATA_SNAPSHOT")
def snapshot_of_a_later_level(written: Any) -> Any:
    """A node writes its snapshot in the newest version at once: the way back ends unnoticed."""
    return replace(written, versions=((written.newest, 1),))


@mutant(features, "_find_unsupporting")
def levels_are_raised_before_all_nodes_know_them(_: Any) -> Any:
    """The controller raises a level while a node runs a release that does not know it."""

    def bug(*arguments: Any) -> Iterator[str]:
        yield from ()

    return bug


@mutant(quorum, "from_wire")
def command_of_a_later_release_ends_the_connection(from_wire: Any) -> Any:
    """A controller closes the connection of a node that passes on a command which it does not know:
    the node sends it again and again, and misses its heartbeats.
    """

    def bug(name: str, values: object) -> Any:
        try:
            return from_wire(name, values)
        except UnknownCommand as error:
            raise ValueError(str(error)) from None

    return bug


@mutant(Format, "check")
def data_of_a_later_release_are_taken(_: Any) -> Any:
    """A node begins with data of a later release, and writes what it does not understand anew."""

    def bug(self: Format, version: int, where: str) -> None: ...

    return bug


@part_of(data_of_a_later_release_are_taken, versions, "check_features")
@part_of(data_of_a_later_release_are_taken, image, "check_features")
@part_of(data_of_a_later_release_are_taken, release_check, "check_features")
def _levels_too(_: Any) -> Any:
    return lambda levels, where: None
