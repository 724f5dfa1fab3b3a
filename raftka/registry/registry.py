"""What the registry does: looks schemas up, and decides which records a change writes. Knows neither HTTP nor the topic's connections.

Methods that parse schemas or write are slow: they are for threads. The others take the lock for as long as their answer is long.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from raftka.json_values import JsonObject
from raftka.registry.errors import (
    INVALID_LEVEL,
    INVALID_MODE,
    INVALID_SCHEMA,
    NOT_PERMITTED,
    REFERENCE_EXISTS,
    LimitReached,
    RegistryError,
    no_level,
    no_mode,
    no_schema,
    no_subject,
    subject_deleted,
    subject_not_deleted,
    version_deleted,
    version_not_deleted,
)
from raftka.registry.formats.schema import Parsed, Reference
from raftka.registry.limits import CONTEXTS, SCHEMA_CHARACTERS, STORED_CHARACTERS, VERSIONS
from raftka.registry.log import Decided, SchemasLog
from raftka.registry.records import (
    Body,
    Record,
    Registered,
    context_record,
    delete_subject_record,
    level_record,
    mode_record,
    no_context_record,
    no_schema_record,
    schema_record,
    used_ids_record,
)
from raftka.registry.schemas import ParsedSchemas, Resolved, format_of, problems
from raftka.registry.state import DEFAULT_LEVEL, DEFAULT_MODE, LATEST, LEVELS, MODES, State
from raftka.registry.subjects import DEFAULT, GLOBAL, Name, context_of, prefix_of

CONFLICT, NOT_FOUND = 409, 404
LARGEST_ID = (1 << 31) - 1
DIGEST_BYTES = 16


class Asked(NamedTuple):
    """A schema as a request has it."""

    body: Body
    normalize: bool = False
    schema_id: int | None = None  # these two are given in mode IMPORT
    version: int | None = None


class Registry:
    def __init__(self, log: SchemasLog, parsed: ParsedSchemas) -> None:
        self._log = log
        self._schemas = parsed
        self._digests: dict[
            tuple[str, Body], bytes
        ] = {}  # by context, of the canonical forms of schemas that are stored; parsing all of a subject's is slow

    @property
    def lock(self) -> threading.RLock:
        """Held while a question is answered."""
        return self._log.lock

    def ask(self, question: Callable[[State], JsonObject | list[object] | str]) -> JsonObject | list[object] | str:
        """A question that parses nothing. Raises RegistryError."""
        with self._log.lock:
            return question(self._log.state)

    # schemas

    def find(self, subject: str, asked: Asked, *, deleted: bool = False) -> JsonObject:
        """Return the newest version of the subject with this schema. Raises RegistryError."""
        with self._log.lock:
            versions = self._log.state.versions(subject, deleted=deleted)
        if not versions:
            raise no_subject(subject)
        found = self._same(self._body(asked, subject), versions, subject)
        if found is None:
            raise no_schema()
        return found.described

    def register(self, subject: str, asked: Asked) -> int:
        """Return its id; of one that the subject has already, without a write. Raises RegistryError."""
        body = self._body(asked, subject)
        with self._log.lock:
            versions = self._log.state.versions(subject)
        known = self._same(body, versions, subject)
        if known is not None and asked.schema_id in (None, known.schema_id) and asked.version in (None, known.version):
            return known.schema_id
        return self._log.write(lambda: self._new_version(subject, body, asked)).schema_id

    def _new_version(self, subject: str, body: Body, asked: Asked) -> Decided[Registered]:
        context = context_of(subject)
        with self._log.lock:
            state = self._log.state
            versions, mode, level = state.versions(subject), self._writable(subject, importing=asked.schema_id is not None), state.level(subject)
            version, known_id, highest = state.next_version(subject), state.id_of(body, context), state.highest(context)
            before = [] if context == DEFAULT or state.has_context(context) else [context_record(context)]
        known = self._same(body, versions, subject)
        if mode == "IMPORT":
            new = self._imported(subject, body, asked, version)
            self._check_room(new)
            return new, (*before, schema_record(new))
        if known is not None:
            return known, ()
        why = self._problems(level, body, versions, subject)
        if why:
            text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: {"; ".join(why)}'
            raise RegistryError(CONFLICT, text)
        if known_id is None and highest >= LARGEST_ID:
            raise RegistryError(NOT_PERMITTED, "there is no id left")
        new = Registered(subject, version, known_id if known_id is not None else highest + 1, body)
        self._check_room(new)
        return new, (*before, schema_record(new))

    def _imported(self, subject: str, body: Body, asked: Asked, version: int) -> Registered:
        """With the id, and perhaps the version, of another registry."""
        schema_id = asked.schema_id
        if schema_id is None or not 0 <= schema_id <= LARGEST_ID:
            raise RegistryError(NOT_PERMITTED, f"Subject {subject} is in import mode: a schema has its id with it")
        new = Registered(subject, asked.version or version, schema_id, body)
        with self._log.lock:
            state = self._log.state
            there, before = state.find_body(schema_id, context_of(subject)), state.find_version(subject, new.version)
        if there is not None and there != body:
            raise RegistryError(NOT_PERMITTED, f"Overwrite new schema with id {schema_id} is not permitted.")
        if before is not None and before.schema_id != schema_id:
            raise RegistryError(NOT_PERMITTED, f"Subject {subject} has another schema as version {new.version}: id {before.schema_id}")
        return new

    def _check_room(self, new: Registered) -> None:
        """Raises LimitReached."""
        context, body = context_of(new.subject), new.body
        with self._log.lock:
            state = self._log.state
            versions, characters, contexts = state.version_count, state.characters, len(state.contexts()) - 1
            is_new = context != DEFAULT and not state.has_context(context)
        if versions >= VERSIONS.value:
            raise LimitReached(VERSIONS, NOT_PERMITTED, f"the registry has {versions:,} versions")
        if is_new and contexts >= CONTEXTS.value:
            raise LimitReached(CONTEXTS, NOT_PERMITTED, f"the registry has {contexts:,} contexts")
        if characters + len(body.text) > STORED_CHARACTERS.value:
            raise LimitReached(STORED_CHARACTERS, NOT_PERMITTED, f"the registry's schemas have {characters:,} characters")

    def compatible(self, subject: str, version: int | None, asked: Asked) -> list[str]:
        """Return why the schema does not go with a version, LATEST for the newest; None for those that the level names. Raises RegistryError."""
        body = self._body(asked, subject)
        with self._log.lock:
            state = self._log.state
            level = state.level(subject)
            versions = state.versions(subject) if version is None else [self._to_compare(state, subject, version)]
        return self._problems(level, body, [each for each in versions if each is not None], subject)

    @staticmethod
    def _to_compare(state: State, subject: str, version: int) -> Registered | None:
        """Nothing has been registered where the newest of no versions is asked for: then all is compatible."""
        if version == LATEST and not state.versions(subject):
            return None
        return state.version(subject, version)

    # deleting

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Return the versions that are gone. Raises RegistryError."""

        def decide() -> Decided[list[int]]:
            with self._log.lock:
                state = self._log.state
                everything, alive = state.versions(subject, deleted=True), state.versions(subject)
                if not everything:
                    raise no_subject(subject)
                self._writable(subject)
                if permanent and alive:
                    raise subject_not_deleted(subject)
                if not permanent and not alive:
                    raise subject_deleted(subject)
                going = everything if permanent else alive
                self._unreferenced(state, going)
                records: list[Record] = [delete_subject_record(subject, alive[-1].version)] if not permanent else self._gone(state, going)
                records += [level_record(subject, None)] if subject in state.levels else []
                records += [mode_record(subject, None)] if subject in state.modes else []
            return [each.version for each in going], records

        return self._log.write(decide)

    def delete_version(self, subject: str, version: int, *, permanent: bool) -> int:
        """Return the version that is gone. Raises RegistryError."""

        def decide() -> Decided[int]:
            with self._log.lock:
                state = self._log.state
                found = state.version(subject, version, deleted=permanent or version != LATEST)
                self._writable(subject)
                if found.deleted and not permanent:
                    raise version_deleted(subject, found.version)
                if permanent and not found.deleted:
                    raise version_not_deleted(subject, found.version)
                self._unreferenced(state, [found])
                gone = Registered(subject, found.version, found.schema_id, found.body, deleted=True)
                return found.version, self._gone(state, [found]) if permanent else [schema_record(gone)]

        return self._log.write(decide)

    @staticmethod
    def _gone(state: State, versions: Iterable[Registered]) -> list[Record]:
        """`versions`: of one subject, at least one."""
        going = list(versions)
        context = context_of(going[0].subject)
        return [used_ids_record(state.highest(context), context), *map(no_schema_record, going)]

    @staticmethod
    def _unreferenced(state: State, versions: Iterable[Registered]) -> None:
        going = {(each.subject, each.version) for each in versions}
        for subject, version in going:
            if any((by.subject, by.version) not in going for by in state.referrers(subject, version)):
                raise RegistryError(
                    REFERENCE_EXISTS, f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}."
                )

    def delete_context(self, context: str) -> None:
        """Of an empty context; its level and its mode go too, and its ids begin again. Raises RegistryError."""

        def decide() -> Decided[None]:
            with self._log.lock:
                state, prefix = self._log.state, prefix_of(context)
                if context == DEFAULT or not state.has_context(context):
                    raise RegistryError(NOT_FOUND, f"Context '{context}' not found.")
                if state.is_frozen(prefix):
                    raise RegistryError(NOT_PERMITTED, f"Context {context} is in read-only mode")
                if state.subjects(prefix, deleted=True):
                    raise RegistryError(NOT_PERMITTED, f"The context '{context}' is not empty: its subjects are to be deleted for ever first")
                records = [no_context_record(context)]
                records += [level_record(prefix, None)] if prefix in state.levels else []
                records += [mode_record(prefix, None)] if prefix in state.modes else []
            return None, records

        self._log.write(decide)

    # levels and modes; of a subject or a context, None for the context without a name

    def level(self, subject: str | None, *, default: bool = False) -> str:
        """`default`: of the context, where the subject has none. Raises RegistryError."""
        with self._log.lock:
            state = self._log.state
            if subject is not None and subject not in state.levels and not default:
                raise no_level(subject)
            return state.level(subject)

    def set_level(self, subject: str | None, level: str | None) -> str:
        """None: none of its own any more. Return what it was or is. Raises RegistryError."""
        if level is not None and level not in LEVELS:
            raise RegistryError(INVALID_LEVEL, f"Invalid compatibility level. Valid values are {', '.join(map(str.lower, LEVELS))}")

        def decide() -> Decided[str]:
            with self._log.lock:
                if self._log.state.is_frozen(subject):
                    raise RegistryError(NOT_PERMITTED, "All subjects are in read-only mode")
                before = self._log.state.levels.get(subject)
                self._check_table(self._log.state.levels, subject)
            if level is None and before is None and subject is not None:
                raise no_subject(subject)
            return level or before or DEFAULT_LEVEL, (level_record(subject, level),)

        return self._log.write(decide)

    def mode(self, subject: str | None, *, default: bool = False) -> str:
        """`default`: of the context, where the subject has none. Raises RegistryError."""
        with self._log.lock:
            state = self._log.state
            if subject is not None and subject not in state.modes and not default:
                raise no_mode(subject)
            return state.own_mode(subject)

    def set_mode(self, subject: str | None, mode: str | None, *, force: bool = False) -> str:
        """None: none of its own any more. Return what it was or is. Raises RegistryError."""
        if mode is not None and mode not in MODES:
            raise RegistryError(INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}")

        def decide() -> Decided[str]:
            with self._log.lock:
                state = self._log.state
                before = state.modes.get(subject)
                self._check_table(state.modes, subject)
                name = Name.of(subject or "")
                prefix = ":*:" if name.context == GLOBAL else prefix_of(name.context)
                has_schemas = any(state.versions(name.text) if name.subject else state.subjects(prefix))
            if mode is None and before is None and subject is not None:
                raise no_subject(subject)
            if mode == "IMPORT" and before != "IMPORT" and has_schemas and not force:
                raise RegistryError(NOT_PERMITTED, "Cannot import since found existing subjects")
            return mode or before or DEFAULT_MODE, (mode_record(subject, mode),)

        return self._log.write(decide)

    @staticmethod
    def _check_table(table: Mapping[str | None, str], subject: str | None) -> None:
        """Raises LimitReached."""
        if subject not in table and len(table) >= VERSIONS.value:
            raise LimitReached(VERSIONS, NOT_PERMITTED, f"{len(table):,} subjects have settings of their own")

    def _writable(self, subject: str, *, importing: bool = False) -> str:
        """Return the mode. Under the lock. Raises RegistryError."""
        mode = self._log.state.mode(subject)
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            raise RegistryError(NOT_PERMITTED, f"Subject {subject} is in read-only mode")
        if importing and mode != "IMPORT":
            raise RegistryError(NOT_PERMITTED, f"Subject {subject} is not in import mode")
        return mode

    # schemas and their types

    def _resolved(self, body: Body, context: str) -> Resolved:
        """Raises RegistryError."""
        found, characters = list[Reference](), len(body.text)
        with self._log.lock:
            try:
                for name, each in self._log.state.resolved(body.references, context):
                    found.append(Reference(name, each.text))
                    characters += len(each.text)
                    if characters > SCHEMA_CHARACTERS.value:
                        raise LimitReached(
                            SCHEMA_CHARACTERS, INVALID_SCHEMA, f"Invalid schema: with all that it refers to it has {characters:,} characters"
                        )
            except LimitReached:
                raise
            except RegistryError as error:
                raise RegistryError(INVALID_SCHEMA, f"Invalid schema: a schema that it refers to is not there: {error}") from None
        return tuple(found)

    def _parsed(self, body: Body, subject: str) -> Parsed:
        """`subject`: of the context in which references are looked up."""
        return self._schemas.parsed(body.schema_type, body.text, self._resolved(body, context_of(subject)))

    def _digest(self, body: Body, subject: str) -> bytes:
        """Of the canonical form of a stored schema; empty for one that this registry cannot parse, as another registry may have written it."""
        key = (context_of(subject), body)
        if key not in self._digests:
            try:
                digest = _digest_of(self._parsed(body, subject))
            except RegistryError:
                digest = b""
            if len(self._digests) >= VERSIONS.value:  # of schemas that are gone
                self._digests.clear()
            self._digests[key] = digest
        return self._digests[key]

    def _body(self, asked: Asked, subject: str) -> Body:
        """As it is stored. Raises RegistryError."""
        schema = self._parsed(asked.body, subject)
        return Body(asked.body.schema_type, schema.normalized if asked.normalize else schema.text, asked.body.references)

    def _same(self, body: Body, versions: Sequence[Registered], subject: str) -> Registered | None:
        """Return the newest of the subject's versions with this schema."""
        for each in reversed(versions):
            if each.body == body:
                return each
        alike = [each for each in reversed(versions) if (each.body.schema_type, each.body.references) == (body.schema_type, body.references)]
        if not alike:
            return None
        wanted = _digest_of(self._parsed(body, subject))
        return next((each for each in alike if self._digest(each.body, subject) == wanted), None)

    def _problems(self, level: str, body: Body, versions: Sequence[Registered], subject: str) -> list[str]:
        if level == "NONE":
            return []
        new, found = self._parsed(body, subject), list[str]()
        for each in versions if level.endswith("_TRANSITIVE") else versions[-1:]:
            if each.body.schema_type != body.schema_type:
                found.append(f"version {each.version} is of the type {each.body.schema_type}, and this one {body.schema_type}")
                continue
            try:
                old = self._parsed(each.body, subject)
            except RegistryError as error:  # another registry may have written it
                found.append(f"version {each.version} cannot be parsed here: {error}")
                continue
            found += problems(level, body.schema_type, new, each.version, old)
        return found

    def serialized(self, body: Body, subject: str) -> str:
        """Protobuf's descriptor in base64. Raises RegistryError."""
        serialize = getattr(format_of(body.schema_type), "serialized", None)
        return body.text if serialize is None else str(serialize(self._parsed(body, subject)))


def _digest_of(schema: Parsed) -> bytes:
    return blake2b(schema.canonical.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
