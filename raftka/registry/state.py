"""What the records of `_schemas` say, read in their order: contexts, subjects and their versions, ids, levels and modes.

Knows neither topic nor request. Subjects have the names that `subjects.py` writes: those of a context begin with it. Ids are a context's own.

Every question costs what its answer is long, but for the lists of all subjects.
"""

from collections.abc import Iterator, Sequence

from raftka.json_values import JsonObject
from raftka.registry.errors import no_schema, no_subject, no_version
from raftka.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
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
from raftka.registry.subjects import DEFAULT, EVERY, GLOBAL, Name, context_of, prefix_of, within

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
DEFAULT_LEVEL, DEFAULT_MODE = "BACKWARD", "READWRITE"
LATEST = -1


class Ids:
    """Of a context."""

    def __init__(self) -> None:
        self.highest = 0
        self.bodies: dict[int, Body] = {}
        self.numbers: dict[Body, int] = {}
        self.users: dict[int, dict[tuple[str, int], None]] = {}  # the versions that have an id


NO_IDS = Ids()


class State:
    """Not for several threads at once."""

    def __init__(self) -> None:
        self.ignored = 0  # records that are none of a registry
        self.version_count = 0  # of all subjects, deleted ones too
        self.characters = 0  # of all schemas
        self.levels: dict[str | None, str] = {}  # by subject or context, None for the context without a name
        self.modes: dict[str | None, str] = {}
        self._subjects: dict[str, dict[int, Registered]] = {}  # by subject and version, deleted ones too
        self._ids: dict[str, Ids] = {}  # by context
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}  # by the version that is referred to

    # reading records

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """A record that no registry wrote is counted and passed by: it must not keep all others away."""
        try:
            self._apply(key or b"", value)
        except ValueError:
            self.ignored += 1

    def _apply(self, key: bytes, value: bytes | None) -> None:
        kind, subject, version, context = read_key(key)
        subject = subject if subject is None else Name.of(subject).text
        found = read_value(value) if value is not None else None
        if kind == NOOP:
            self._raise_highest(found, DEFAULT)
        elif kind == CONTEXT:
            self._take_context(context, found)
        elif kind in (CONFIG, MODE):
            self._configure(kind, subject or None, found)
        elif not subject or context_of(subject) == EVERY:
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

    def _raise_highest(self, found: JsonObject | None, context: str) -> None:
        highest = (found or {}).get("maxId", 0)
        if isinstance(highest, int):
            ids = self._ids.setdefault(context, Ids())
            ids.highest = max(ids.highest, highest)

    def _take_context(self, context: str, found: JsonObject | None) -> None:
        if found is not None:
            self._raise_highest(found, context)
        elif context in self._ids and not self._ids[context].bodies:
            del self._ids[context]

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
        context = context_of(version.subject)
        ids = self._ids.setdefault(context, Ids())
        if version.schema_id not in ids.bodies:
            ids.bodies[version.schema_id] = version.body
            self.characters += len(version.body.text)
        ids.numbers.setdefault(version.body, version.schema_id)
        ids.users.setdefault(version.schema_id, {})[place] = None
        ids.highest = max(ids.highest, version.schema_id)
        for each in version.body.references:
            referrers = self._referrers.setdefault((within(context, each.subject), each.version), {})
            referrers.pop(place, None) if version.deleted else referrers.setdefault(place)

    def _forget(self, subject: str, version: int) -> None:
        known = self._subjects.get(subject, {}).pop(version, None)
        if known is None:
            return
        self.version_count -= 1
        if not self._subjects[subject]:
            del self._subjects[subject]
        context = context_of(subject)
        for each in known.body.references:
            referred = (within(context, each.subject), each.version)
            referrers = self._referrers.get(referred, {})
            referrers.pop((subject, version), None)
            if not referrers:
                self._referrers.pop(referred, None)
        ids = self._ids[context]
        users = ids.users[known.schema_id]
        del users[subject, version]
        if not users:
            del ids.users[known.schema_id]
            body = ids.bodies.pop(known.schema_id)
            self.characters -= len(body.text)
            if ids.numbers.get(body) == known.schema_id:
                del ids.numbers[body]

    # questions

    def level(self, subject: str | None) -> str:
        return self._setting(self.levels, subject) or DEFAULT_LEVEL

    def mode(self, subject: str) -> str:
        if self.is_frozen(subject):
            return "READONLY_OVERRIDE"
        return self.own_mode(subject)

    def own_mode(self, subject: str | None) -> str:
        """As it is set, even where its context is frozen."""
        return self._setting(self.modes, subject) or DEFAULT_MODE

    @staticmethod
    def _setting(table: dict[str | None, str], subject: str | None) -> str | None:
        """Of the subject, else of its context, else of all contexts."""
        scopes = (subject, prefix_of(context_of(subject or "")) or None, prefix_of(GLOBAL))
        return next((table[each] for each in scopes if each in table), None)

    def is_frozen(self, subject: str | None) -> bool:
        """Return whether its context, or all of them, can only be read, whatever the subject's own mode is."""
        context = prefix_of(context_of(subject or "")) or None
        return "READONLY_OVERRIDE" in (self.modes.get(context), self.modes.get(prefix_of(GLOBAL)))

    def contexts(self) -> list[str]:
        """Return the one without a name first."""
        return [DEFAULT, *sorted(self._ids.keys() - {DEFAULT})]

    def has_context(self, context: str) -> bool:
        return context in self._ids

    def highest(self, context: str = DEFAULT) -> int:
        return self._ids.get(context, NO_IDS).highest

    def body(self, schema_id: int, context: str = DEFAULT) -> Body:
        """Raises RegistryError."""
        found = self.find_body(schema_id, context)
        if found is None:
            raise no_schema(schema_id)
        return found

    def find_body(self, schema_id: int, context: str = DEFAULT) -> Body | None:
        return self._ids.get(context, NO_IDS).bodies.get(schema_id)

    def find_context(self, schema_id: int, subject: str) -> str:
        """Return the context whose id is meant: the subject's own. For one without, that of the first context in which it has the id."""
        name = Name.of(subject)
        if name.context == DEFAULT and name.subject:
            for context in self.contexts():
                users = self._ids.get(context, NO_IDS).users.get(schema_id, ())
                if any(each == Name(context, name.subject).text for each, _ in users):
                    return context
        return name.context

    def find_version(self, subject: str, version: int) -> Registered | None:
        """Return it, deleted or not."""
        return self._subjects.get(subject, {}).get(version)

    def id_of(self, body: Body, context: str = DEFAULT) -> int | None:
        return self._ids.get(context, NO_IDS).numbers.get(body)

    def subjects_of(self, schema_id: int, context: str = DEFAULT) -> Iterator[str]:
        """Return the subjects of the versions that have this id, one for each version. Raises RegistryError."""
        self.body(schema_id, context)
        return (subject for subject, _ in self._ids[context].users[schema_id])

    def users(self, schema_id: int, context: str = DEFAULT, *, deleted: bool = False) -> list[Registered]:
        """Return the versions that have this id, by subject. Raises RegistryError."""
        self.body(schema_id, context)
        found = [self._subjects[subject][version] for subject, version in sorted(self._ids[context].users[schema_id])]
        return [each for each in found if deleted or not each.deleted]

    def subjects(self, prefix: str = ":*:", *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """Return those whose name begins so. `:*:` before the prefix: in all contexts; without a context: in the one without a name."""
        context, start = Name.of(prefix)

        def named(subject: str) -> bool:
            if context == EVERY:
                return not start or Name.of(subject).subject.startswith(start)
            return subject.startswith(prefix_of(context) + start) and (context != DEFAULT or not subject.startswith(":."))

        def shown(subject: str) -> bool:
            if not named(subject):
                return False
            is_deleted = all(each.deleted for each in self._subjects[subject].values())
            return is_deleted if deleted_only else deleted or not is_deleted

        return sorted(subject for subject in self._subjects if shown(subject))

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

    def resolved(self, references: Sequence[SchemaReference], context: str = DEFAULT) -> Iterator[tuple[str, Body]]:
        """Name and body of each, those before it that it needs itself; a name once. `context`: of the schema that refers to them.

        Raises RegistryError for one that is not there.
        """
        seen: set[str] = set()
        waiting = [(each, context, False) for each in reversed(references)]
        while waiting:
            reference, context, ready = waiting.pop()
            subject = within(context, reference.subject)
            body = self.version(subject, reference.version, deleted=True).body
            if ready:
                yield reference.name, body
            elif reference.name not in seen:
                seen.add(reference.name)
                waiting.append((reference, context, True))
                waiting.extend((each, context_of(subject), False) for each in reversed(body.references))

    def __len__(self) -> int:
        return sum(len(ids.bodies) for ids in self._ids.values())

    def __iter__(self) -> Iterator[Registered]:
        """Return all versions, by subject."""
        for subject in sorted(self._subjects):
            yield from self.versions(subject, deleted=True)
