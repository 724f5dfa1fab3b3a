"""State that the records of `_schemas` make when they are read in their order: contexts, subjects
and their versions, ids, levels and modes.

Knows neither topic nor request. Subjects have the names that `subjects.py` writes: those of a
context begin with it. Ids are a context's own.

The time of a question grows with the length of its answer, but for the lists of all subjects.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from raftka.json_values import Json, JsonObject
from raftka.registry.errors import no_schema, no_subject, no_version
from raftka.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    LARGEST_NUMBER,
    MODE,
    NOOP,
    SCHEMA,
    Body,
    Key,
    Record,
    Registered,
    SchemaReference,
    known_settings,
    read_key,
    read_schema,
    read_value,
    unknown_fields,
    with_fields,
)
from raftka.registry.settings.names import ALIAS, LEVEL, NAMES
from raftka.registry.subjects import DEFAULT, EVERY, GLOBAL, Name, context_of, prefix_of, within

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
DEFAULT_LEVEL, DEFAULT_MODE = "BACKWARD", "READWRITE"
LATEST = -1


class Ids:
    """The schema ids of a context."""

    def __init__(self) -> None:
        self.highest = 0
        self.bodies: dict[int, Body] = {}
        self.by_body: dict[Body, int] = {}
        self.users: dict[int, dict[tuple[str, int], None]] = {}  # the versions that have an id


NO_IDS = Ids()


class State:
    """The state of a registry. Not for several threads at once."""

    def __init__(self) -> None:
        self.ignored = 0  # records that are none of a registry
        self.version_count = 0  # of all subjects, deleted ones too
        self.characters = 0  # of all schemas
        # by subject or context, None for the context without a name
        self.settings: dict[str | None, JsonObject] = {}
        self.modes: dict[str | None, str] = {}
        # by subject and version, deleted ones too
        self._subjects: dict[str, dict[int, Registered]] = {}
        self._ids: dict[str, Ids] = {}  # by context
        # by the version that is referred to
        self._referrers: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        # fields of the newest value of a key that this registry does not know
        self._unknown: dict[Key, JsonObject] = {}
        # forms of keys that another registry writes: compaction takes them for other keys
        self._written: dict[Key, tuple[bytes, ...]] = {}

    # reading records

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Read a record. A record that no registry wrote is counted and skipped: it must not stop
        the reading of all others.
        """
        try:
            self._apply(key or b"", value)
        except ValueError:
            self.ignored += 1

    def _apply(self, written: bytes, value: bytes | None) -> None:
        key = read_key(written)
        kind, subject, version, context = key
        found = read_value(value) if value is not None else None
        if kind == NOOP:
            self._raise_highest(found, DEFAULT)
        elif kind == CONTEXT:
            self._take_context(context, found)
        elif kind == CONFIG:
            self._configure(subject, found)
        elif kind == MODE:
            self._take_mode(subject, found)
        elif kind == CLEAR_SUBJECT:
            self._clear(subject, found)
        elif not subject or context_of(subject) == EVERY:
            raise ValueError("its key has no subject")
        elif kind == SCHEMA:
            self._take_schema(subject, version, found)
        elif kind == DELETE_SUBJECT:
            up_to = found.get("version") if found is not None else None
            for each in list(self._subjects.get(subject, {}).values()):
                if isinstance(up_to, int) and each.version <= up_to and not each.deleted:
                    self._keep(replace(each, deleted=True))
        else:
            raise ValueError(f"there are no keys of the type {kind}")
        self._remember(key, written, found)

    def _remember(self, key: Key, written: bytes, found: JsonObject | None) -> None:
        """Keep the fields and forms of keys that this registry does not know: it would lose them if
        it wrote the record again.
        """
        unknown = unknown_fields(key.kind, found) if found is not None else {}
        if unknown:
            self._unknown[key] = unknown
        else:
            self._unknown.pop(key, None)
        known = self._written.get(key, (key.written,))
        if written not in known:
            self._written[key] = (*known, written)

    def rewritten(self, records: Iterable[Record]) -> Iterator[Record]:
        """Return the records with the unknown fields of the records that they replace, under each
        form of their key.
        """
        for record in records:
            key = read_key(record[0])
            filled = with_fields(record, self._unknown.get(key, {}))
            for written in self._written.get(key, (filled[0],)):
                yield written, filled[1]

    def _raise_highest(self, found: JsonObject | None, context: str) -> None:
        highest = (found or {}).get("maxId", 0)
        ids = self._ids.setdefault(context, Ids())
        if type(highest) is int and highest <= LARGEST_NUMBER:
            ids.highest = max(ids.highest, highest)

    def _take_context(self, context: str, found: JsonObject | None) -> None:
        if found is not None:
            self._raise_highest(found, context)
        elif context in self._ids and not self._ids[context].bodies:
            del self._ids[context]

    def _configure(self, subject: str | None, found: JsonObject | None) -> None:
        """Replace a configuration as a whole: a setting that the record leaves out is not set, even
        if an earlier record set it.
        """
        self.characters -= _size(self.settings.pop(subject, None))
        if found is not None:
            self.settings[subject] = known_settings(found)
            self.characters += _size(self.settings[subject])

    def _take_mode(self, subject: str | None, found: JsonObject | None) -> None:
        mode = (found or {}).get("mode")
        if isinstance(mode, str):
            self.modes[subject] = mode
        else:
            self.modes.pop(subject, None)

    def _take_schema(self, subject: str, version: int, found: JsonObject | None) -> None:
        new = read_schema(found) if found is not None else None
        if new is not None and (new.subject, new.version) != (subject, version):
            raise ValueError("its key is of another version than its value")
        self._forget(subject, version)
        if new is not None:
            self._keep(new)

    def _clear(self, subject: str | None, found: JsonObject | None) -> None:
        if found is None:
            return
        for name in (
            [subject]
            if subject and Name.of(subject).subject
            else self.subjects(subject or ":*:", deleted=True)
        ):
            for each in [each for each in self._subjects.get(name, {}).values() if each.deleted]:
                self._forget(name, each.version)
                self._unknown.pop(Key(SCHEMA, name, each.version), None)

    def _keep(self, version: Registered) -> None:
        place = (version.subject, version.version)
        versions = self._subjects.setdefault(version.subject, {})
        self.version_count += version.version not in versions
        versions[version.version] = version
        context = context_of(version.subject)
        ids = self._ids.setdefault(context, Ids())
        if version.schema_id not in ids.bodies:
            ids.bodies[version.schema_id] = version.body
            self.characters += version.body.characters
        ids.by_body.setdefault(version.body, version.schema_id)
        ids.users.setdefault(version.schema_id, {})[place] = None
        # A larger id does not fit Confluent's formats, so the next id does not follow it.
        if version.schema_id <= LARGEST_NUMBER:
            ids.highest = max(ids.highest, version.schema_id)
        for each in version.body.references:
            referrers = self._referrers.setdefault(
                (within(context, each.subject), each.version), {}
            )
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
            self.characters -= body.characters
            if ids.by_body.get(body) == known.schema_id:
                del ids.by_body[body]

    # questions

    def setting(self, name: str, subject: str | None) -> Json:
        """Return the setting of the subject, else of its context, else of all contexts; None if
        none of them has it.
        """
        return next((found[name] for found in self._settings(subject) if name in found), None)

    def settings_of(self, subject: str | None) -> JsonObject:
        """Return all settings that hold for the subject, its own and its context's."""
        found: JsonObject = {}
        for each in reversed(list(self._settings(subject))):
            found |= each
        if subject not in self.settings or ALIAS not in self.settings[subject]:
            found.pop(ALIAS, None)  # of the one subject alone
        return self.with_level({name: found[name] for name in NAMES if name in found}, subject)

    def with_level(self, settings: JsonObject, subject: str | None) -> JsonObject:
        return {LEVEL: self.level(subject), **settings}

    def _settings(self, subject: str | None) -> Iterator[JsonObject]:
        return (self.settings[each] for each in _scopes(subject) if each in self.settings)

    def level(self, subject: str | None) -> str:
        return str(self.setting(LEVEL, subject) or DEFAULT_LEVEL)

    def alias(self, subject: str) -> str:
        """Return the subject that is meant."""
        alias = self.settings.get(subject, {}).get(ALIAS)
        return within(context_of(subject), alias) if alias else subject

    def mode(self, subject: str | None) -> str:
        if self.is_frozen(subject):
            return "READONLY_OVERRIDE"
        return self.own_mode(subject)

    def own_mode(self, subject: str | None) -> str:
        """Return the mode that is set for the subject, even where its context is frozen."""
        return next(
            (self.modes[each] for each in _scopes(subject) if each in self.modes), DEFAULT_MODE
        )

    def is_frozen(self, subject: str | None) -> bool:
        """Return whether its context, or all of them, can only be read, whatever the subject's own
        mode is.
        """
        context = prefix_of(context_of(subject or "")) or None
        return "READONLY_OVERRIDE" in (self.modes.get(context), self.modes.get(prefix_of(GLOBAL)))

    def contexts(self) -> list[str]:
        """Return all contexts, first the one without a name."""
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
        """Return the context whose id is meant: the subject's own. For one without, that of the
        first context in which it has the id.
        """
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
        return self._ids.get(context, NO_IDS).by_body.get(body)

    def subjects_of(self, schema_id: int, context: str = DEFAULT) -> Iterator[str]:
        """Return the subjects of the versions that have this id, one for each version. Raises
        RegistryError.
        """
        self.body(schema_id, context)
        return (subject for subject, _ in self._ids[context].users[schema_id])

    def users(
        self, schema_id: int, context: str = DEFAULT, *, deleted: bool = False
    ) -> list[Registered]:
        """Return the versions that have this id, by subject. Raises RegistryError."""
        self.body(schema_id, context)
        found = [
            self._subjects[subject][version]
            for subject, version in sorted(self._ids[context].users[schema_id])
        ]
        return [each for each in found if deleted or not each.deleted]

    def subjects(
        self, prefix: str = ":*:", *, deleted: bool = False, deleted_only: bool = False
    ) -> list[str]:
        """Return the subjects whose names begin with the prefix. `:*:` before it: in all contexts;
        without a context: in the one without a name.
        """
        context, start = Name.of(prefix)

        def named(subject: str) -> bool:
            if context == EVERY:
                return not start or Name.of(subject).subject.startswith(start)
            return subject.startswith(prefix_of(context) + start) and (
                context != DEFAULT or not subject.startswith(":.")
            )

        def shown(subject: str) -> bool:
            if not named(subject):
                return False
            is_deleted = all(each.deleted for each in self._subjects[subject].values())
            return is_deleted if deleted_only else deleted or not is_deleted

        return sorted(subject for subject in self._subjects if shown(subject))

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        """Return the versions of a subject, the oldest first; an unknown subject has none."""
        known = self._subjects.get(subject, {})
        return [
            known[version] for version in sorted(known) if deleted or not known[version].deleted
        ]

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
        return [
            self._subjects[by][number]
            for by, number in sorted(self._referrers.get((subject, version), ()))
        ]

    def resolved(
        self, references: Sequence[SchemaReference], context: str = DEFAULT
    ) -> Iterator[tuple[str, Body]]:
        """Return name and body of all schemas that references lead to, each after those that it
        needs, each name once. `context`: of the schema that has the references.

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
                waiting.extend(
                    (each, context_of(subject), False) for each in reversed(body.references)
                )

    def __len__(self) -> int:
        return sum(len(ids.bodies) for ids in self._ids.values())

    def __iter__(self) -> Iterator[Registered]:
        """Return all versions, by subject."""
        for subject in sorted(self._subjects):
            yield from self.versions(subject, deleted=True)


def _scopes(subject: str | None) -> tuple[str | None, ...]:
    """Return the scopes where a setting or a mode of a subject may be set, the nearest first."""
    return subject, prefix_of(context_of(subject or "")) or None, prefix_of(GLOBAL)


def _size(settings: Mapping[str, Json] | None) -> int:
    return len(json.dumps(settings)) if settings else 0
