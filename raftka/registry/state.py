"""What the records of `_schemas` say, read in their order: subjects and their versions, ids, levels and modes. Knows neither topic nor request.

Every question costs what its answer is long, but for the lists of all subjects.
"""

from collections.abc import Iterator, Sequence

from raftka.json_values import JsonObject
from raftka.registry.errors import no_schema, no_subject, no_version
from raftka.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    DELETE_SUBJECT,
    MODE,
    NOOP,
    SCHEMA,
    Body,
    Registered,
    SchemaReference,
    read_key,
    read_schema,
    read_value,
)

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
DEFAULT_LEVEL, DEFAULT_MODE = "BACKWARD", "READWRITE"
LATEST = -1


class State:
    """Not for several threads at once."""

    def __init__(self) -> None:
        self.highest_id = 0
        self.ignored = 0  # records that are none of a registry
        self.version_count = 0  # of all subjects, deleted ones too
        self.characters = 0  # of all schemas
        self.levels: dict[str | None, str] = {}  # by subject, None for all
        self.modes: dict[str | None, str] = {}
        self._subjects: dict[str, dict[int, Registered]] = {}  # by subject and version, deleted ones too
        self._bodies: dict[int, Body] = {}  # by id
        self._ids: dict[Body, int] = {}
        self._users: dict[int, dict[tuple[str, int], None]] = {}  # the versions that have an id
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}  # by the version that is referred to

    # reading records

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """A record that no registry wrote is counted and passed by: it must not keep all others away."""
        try:
            self._apply(key or b"", value)
        except ValueError:
            self.ignored += 1

    def _apply(self, key: bytes, value: bytes | None) -> None:
        kind, subject, version = read_key(key)
        found = read_value(value) if value is not None else None
        if kind == NOOP:
            self._raise_highest(found)
        elif kind in (CONFIG, MODE):
            self._configure(kind, subject, found)
        elif subject is None:
            raise ValueError("its key has no subject")
        elif kind == SCHEMA:
            new = read_schema(found) if found is not None else None
            if new is not None and (new.subject, new.version) != (subject, version):
                raise ValueError("its key is of another version than its value")
            self._forget(subject, version)
            if new is not None:
                self._keep(new)
        elif kind == DELETE_SUBJECT:
            up_to = found.get("version") if found is not None else None
            for each in list(self._subjects.get(subject, {}).values()):
                if isinstance(up_to, int) and each.version <= up_to and not each.deleted:
                    self._keep(Registered(subject, each.version, each.schema_id, each.body, deleted=True))
        elif kind == CLEAR_SUBJECT:
            for each in [each for each in self._subjects.get(subject, {}).values() if each.deleted]:
                self._forget(subject, each.version)
        else:
            raise ValueError(f"there are no keys of the type {kind}")

    def _raise_highest(self, found: JsonObject | None) -> None:
        highest = (found or {}).get("maxId", 0)
        if isinstance(highest, int):
            self.highest_id = max(self.highest_id, highest)

    def _configure(self, kind: str, subject: str | None, found: JsonObject | None) -> None:
        table, allowed, name = (self.levels, LEVELS, "compatibilityLevel") if kind == CONFIG else (self.modes, MODES, "mode")
        if found is None:
            table.pop(subject, None)
        elif found.get(name) in allowed:
            table[subject] = found[name]

    def _keep(self, version: Registered) -> None:
        place, versions = (version.subject, version.version), self._subjects.setdefault(version.subject, {})
        self.version_count += version.version not in versions
        versions[version.version] = version
        if version.schema_id not in self._bodies:
            self._bodies[version.schema_id] = version.body
            self.characters += len(version.body.text)
        self._ids.setdefault(version.body, version.schema_id)
        self._users.setdefault(version.schema_id, {})[place] = None
        self.highest_id = max(self.highest_id, version.schema_id)
        for each in version.body.references:
            referrers = self._referrers.setdefault((each.subject, each.version), {})
            referrers.pop(place, None) if version.deleted else referrers.setdefault(place)

    def _forget(self, subject: str, version: int) -> None:
        known = self._subjects.get(subject, {}).pop(version, None)
        if known is None:
            return
        self.version_count -= 1
        if not self._subjects[subject]:
            del self._subjects[subject]
        for each in known.body.references:
            referrers = self._referrers.get((each.subject, each.version), {})
            referrers.pop((subject, version), None)
            if not referrers:
                self._referrers.pop((each.subject, each.version), None)
        users = self._users[known.schema_id]
        del users[subject, version]
        if not users:
            del self._users[known.schema_id]
            body = self._bodies.pop(known.schema_id)
            self.characters -= len(body.text)
            if self._ids.get(body) == known.schema_id:
                del self._ids[body]

    # questions

    def level(self, subject: str) -> str:
        return self.levels.get(subject, self.levels.get(None, DEFAULT_LEVEL))

    def mode(self, subject: str) -> str:
        override = self.modes.get(None)
        return override if override == "READONLY_OVERRIDE" else self.modes.get(subject, override or DEFAULT_MODE)

    def body(self, schema_id: int) -> Body:
        """Raises RegistryError."""
        if schema_id not in self._bodies:
            raise no_schema(schema_id)
        return self._bodies[schema_id]

    def find_body(self, schema_id: int) -> Body | None:
        return self._bodies.get(schema_id)

    def find_version(self, subject: str, version: int) -> Registered | None:
        """Return it, deleted or not."""
        return self._subjects.get(subject, {}).get(version)

    def id_of(self, body: Body) -> int | None:
        return self._ids.get(body)

    def subjects_of(self, schema_id: int) -> Iterator[str]:
        """Return the subjects of the versions that have this id, one for each version. Raises RegistryError."""
        self.body(schema_id)
        return (subject for subject, _ in self._users[schema_id])

    def users(self, schema_id: int, *, deleted: bool = False) -> list[Registered]:
        """Return the versions that have this id, by subject. Raises RegistryError."""
        self.body(schema_id)
        found = [self._subjects[subject][version] for subject, version in sorted(self._users[schema_id])]
        return [each for each in found if deleted or not each.deleted]

    def subjects(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        def shown(subject: str) -> bool:
            is_deleted = all(each.deleted for each in self._subjects[subject].values())
            return is_deleted if deleted_only else deleted or not is_deleted

        return sorted(subject for subject in self._subjects if subject.startswith(prefix) and shown(subject))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        """Of a subject, the oldest first; none of one that is not there."""
        known = self._subjects.get(subject, {})
        return [known[version] for version in sorted(known) if deleted or not known[version].deleted]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Registered:
        """`version`: LATEST for the newest. Raises RegistryError."""
        known = self._subjects.get(subject, {})
        if not any(deleted or not each.deleted for each in known.values()):
            raise no_subject(subject)
        if version == LATEST:
            version = max(number for number, each in known.items() if deleted or not each.deleted)
        found = known.get(version)
        if found is None or (found.deleted and not deleted):
            raise no_version(version)
        return found

    def next_version(self, subject: str) -> int:
        return max(self._subjects.get(subject, {}), default=0) + 1

    def referrers(self, subject: str, version: int) -> list[Registered]:
        """Return the versions that refer to this one, without deleted ones."""
        return [self._subjects[by][number] for by, number in sorted(self._referrers.get((subject, version), ()))]

    def resolved(self, references: Sequence[SchemaReference]) -> Iterator[tuple[str, Body]]:
        """Name and body of each, those before it that it needs itself; a name once. Raises RegistryError for one that is not there."""
        seen: set[str] = set()
        waiting = [(each, False) for each in reversed(references)]
        while waiting:
            reference, ready = waiting.pop()
            body = self.version(reference.subject, reference.version, deleted=True).body
            if ready:
                yield reference.name, body
            elif reference.name not in seen:
                seen.add(reference.name)
                waiting.append((reference, True))
                waiting.extend((each, False) for each in reversed(body.references))

    def __len__(self) -> int:
        return len(self._bodies)

    def __iter__(self) -> Iterator[Registered]:
        """Return all versions, by subject."""
        for subject in sorted(self._subjects):
            yield from self.versions(subject, deleted=True)
