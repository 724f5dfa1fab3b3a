"""The backups in a place: list them, find one, and clean up behind one that was broken off."""

from raftka.backup.errors import BackupError
from raftka.backup.manifest import (
    DATA,
    MANIFESTS,
    METADATA,
    UNFINISHED,
    Manifest,
    decode_manifest,
    manifest_path,
)
from raftka.backup.places import PART, Place

MOST_BYTES = 1 << 30  # of a manifest


def manifests_in(place: Place) -> list[Manifest]:
    """Return all finished backups, the oldest first. Raises Damaged, NewerFormat, OSError."""
    paths = [path for path in place.names(MANIFESTS) if not path.endswith(PART)]
    found = [read_manifest(place, path) for path in paths]
    return sorted(found, key=lambda manifest: (manifest.begun_ms, manifest.name))


def read_manifest(place: Place, path: str) -> Manifest:
    return decode_manifest(place.read(path, 0, MOST_BYTES), f"{place.where}/{path}")


def find(place: Place, name: str | None) -> Manifest:
    """Return the backup of that name; None: the newest. Raises BackupError."""
    if name is not None:
        if not place.exists(manifest_path(name)):
            raise BackupError(f"{place.where} has no backup {name}: see `raftka backup list`")
        return read_manifest(place, manifest_path(name))
    manifests = manifests_in(place)
    if not manifests:
        raise BackupError(f"{place.where} has no backup")
    return manifests[-1]


def unfinished(place: Place) -> list[str]:
    """Return the names of backups that were begun and have no manifest: being made, or broken
    off.
    """
    names = [path.rpartition("/")[2] for path in place.names(UNFINISHED) if PART not in path]
    return [name for name in names if not place.exists(manifest_path(name))]


def clean_up(place: Place) -> list[str]:
    """Remove what backups have left that were broken off. Return the files. No other backup may be
    made in the place meanwhile. Raises Damaged, NewerFormat: then nothing is removed.
    """
    marks = place.names(UNFINISHED)
    if not marks:
        return []
    wanted = {each.file for manifest in manifests_in(place) for each in manifest.files()}
    wanted |= {manifest_path(manifest.name) for manifest in manifests_in(place)}
    doomed = [
        path
        for folder in (DATA, METADATA, MANIFESTS)
        for path in place.names(folder)
        if path not in wanted
    ]
    for path in (*doomed, *marks):
        place.remove(path)
    return doomed
