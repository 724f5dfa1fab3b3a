"""Decisions of the registry: it looks schemas up, and decides which records a change writes. Knows
neither HTTP nor the topic's connections.

Methods that parse schemas or write are slow: they are for threads. The others take the lock for as
long as their answer is long.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from raftka.json_values import JsonObject
from raftka.registry.errors import (
    INVALID_SCHEMA,
    NOT_PERMITTED,
    REFERENCE_EXISTS,
    LimitReached,
    RegistryError,
    no_schema,
    no_subject,
    subject_deleted,
    subject_not_deleted,
    version_deleted,
    version_not_deleted,
)
from raftka.registry.limits import CONTEXTS, SCHEMA_CHARACTERS, STORED_CHARACTERS, VERSIONS
from raftka.registry.log import Decided, SchemasLog
from raftka.registry.parsed_schemas import ParsedSchemas, Resolved, format_of, incompatibilities
from raftka.registry.records import (
    AVRO,
    LARGEST_NUMBER,
    Body,
    Record,
    Registered,
    SchemaReference,
    context_record,
    delete_subject_record,
    mode_record,
    no_context_record,
    no_schema_record,
    schema_record,
    settings_record,
    used_ids_record,
)
from raftka.registry.settings import contracts
from raftka.registry.settings.changes import SettingsChanges, check_writable
from raftka.registry.settings.names import GROUP, METADATA, NORMALIZE, RULE_SETS, VALIDATE_NEW
from raftka.registry.state import LATEST, State
from raftka.registry.subjects import DEFAULT, context_of, prefix_of, within
from raftka.schemas.formats.schema import Parsed, Reference

CONFLICT, NOT_FOUND = 409, 404
DIGEST_BYTES = 16


class Asked(NamedTuple):
    """The schema of a request."""

    # An empty text means the text of the version before; an empty contract, likewise.
    body: Body
    normalize: bool = False
    schema_id: int | None = None  # given in mode IMPORT
    # LATEST: the version is to be the newest, and its metadata are to name it
    version: int | None = None


class Judged(NamedTuple):
    """The versions that a new one is compared with, and the level of compatibility."""

    level: str
    group: str | None  # the property whose value those have in common that are compared
    versions: Sequence[Registered]


class Registry:
    def __init__(self, log: SchemasLog, parsed: ParsedSchemas) -> None:
        self._log = log
        self._schemas = parsed
        self.settings = SettingsChanges(log)
        # Digests of the canonical forms of stored schemas, by context: parsing all schemas of a
        # subject is slow.
        self._digests: dict[tuple[str, Body], bytes] = {}

    @property
    def lock(self) -> threading.RLock:
        """The lock of the state, held while a question is answered."""
        return self._log.lock

    def ask(
        self, question: Callable[[State], JsonObject | list[object] | str]
    ) -> JsonObject | list[object] | str:
        """Answer a question about the state, which parses nothing. Raise RegistryError."""
        with self._log.lock:
            return question(self._log.state)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        with self._log.lock:
            return self._log.state.versions(subject, deleted=deleted)

    # schemas

    def find(self, subject: str, asked: Asked, *, deleted: bool = False) -> JsonObject:
        """Return the newest version of the subject with this schema. Raises RegistryError."""
        with self._log.lock:
            versions = self._log.state.versions(subject, deleted=deleted)
            alive = self._log.state.versions(subject)
        if not versions:
            raise no_subject(subject)
        if not asked.body.text:
            raise RegistryError(INVALID_SCHEMA, "Empty schema")
        same_text = (each for each in reversed(versions) if each.body.text == asked.body.text)
        found = next(
            (each for each in same_text if _as_stored(asked.body, each) == each.body), None
        )
        # A schema that this registry cannot parse is found by its text, above.
        if found is None:
            body = self._body(asked, subject)
            found = self._same(body, versions, subject)
            if found is None and alive:
                found = self._same(self._filled(subject, body, alive[-1]), versions, subject)
        if found is None:
            raise no_schema()
        return found.described

    def register(self, subject: str, asked: Asked) -> int:
        """Return the id of the schema; a schema that the subject has already is not written again.
        Raise RegistryError.
        """
        known = self._registered(subject, asked)
        if known is not None:
            return known.schema_id
        return self._log.write(lambda: self._new_version(subject, asked)).schema_id

    def _registered(self, subject: str, asked: Asked) -> Registered | None:
        """Return the version of the subject that has the request's schema, with all that settings
        would add to it; None: there is none yet.
        """
        with self._log.lock:
            state = self._log.state
            versions, importing = state.versions(subject), state.mode(subject) == "IMPORT"
            adding = not importing and any(
                state.setting(each, subject) is not None for each in (*METADATA, *RULE_SETS)
            )
        if not asked.body.text or not versions:
            return None
        body = self._body(asked, subject)
        if adding:
            body = self._filled(subject, body, versions[-1])
        known = self._same(body, versions[-1:] if asked.version == LATEST else versions, subject)
        if known is None or asked.version in (None, LATEST):
            return (
                known if known is not None and asked.schema_id in (None, known.schema_id) else None
            )
        if asked.schema_id != known.schema_id:
            return None
        return next(
            (each for each in versions if (each.version, each.body) == (asked.version, known.body)),
            None,
        )

    def _new_version(self, subject: str, asked: Asked) -> Decided[Registered]:
        known = self._registered(subject, asked)
        if known is not None:  # another instance, or another request, was faster
            return known, ()
        context = context_of(subject)
        with self._log.lock:
            state = self._log.state
            versions = state.versions(subject)
            mode = self._writable(subject, importing=asked.schema_id is not None)
            version, highest = state.next_version(subject), state.highest(context)
            before = (
                []
                if context == DEFAULT or state.has_context(context)
                else [context_record(context)]
            )
        if mode == "IMPORT":
            new = self._imported(subject, asked, versions, version)
            self._check_room(new)
            return new, (*before, schema_record(new))
        if not asked.body.text:
            if not versions:
                raise RegistryError(INVALID_SCHEMA, "Empty schema")
            last = versions[-1].body
            taken = replace(
                asked.body, schema_type=last.schema_type, text=last.text, references=last.references
            )
            asked = asked._replace(body=taken)
        body = self._body(asked, subject, new=True)
        body = self._filled(
            subject,
            body,
            versions[-1] if versions else None,
            version,
            says_version=asked.version is not None,
        )
        known = self._same(body, versions, subject) if asked.version is None else None
        if known is not None:
            return known, ()
        why = self._find_incompatibilities(body, self._to_judge(subject, versions), subject)
        if why:
            text = (
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{subject}", details: {"; ".join(why)}'
            )
            raise RegistryError(CONFLICT, text)
        if asked.version not in (None, LATEST, version):
            raise RegistryError(
                INVALID_SCHEMA,
                f"Invalid schema: version {asked.version} is not one more than the newest "
                f"version, {version - 1}",
            )
        with self._log.lock:
            known_id = self._log.state.id_of(body, context)
        if known_id is None and highest >= LARGEST_NUMBER:
            raise RegistryError(NOT_PERMITTED, "there is no id left")
        new = Registered(subject, version, known_id if known_id is not None else highest + 1, body)
        self._check_room(new)
        return new, (*before, schema_record(new))

    def _filled(
        self,
        subject: str,
        body: Body,
        previous: Registered | None,
        version: int = 0,
        *,
        says_version: bool = False,
    ) -> Body:
        """Return the schema with the contract that it will have: its own or that of the version
        before, with the defaults and overrides.

        `version`: the one that it will be; 0: none, it is only looked for.
        """
        with self._log.lock:
            state = self._log.state
            first, last = (
                contracts.read_metadata(state.setting(each, subject)) for each in METADATA
            )
            first_rules, last_rules = (
                contracts.read_rule_set(state.setting(each, subject)) for each in RULE_SETS
            )
        there = previous.body if previous is not None else body
        metadata = contracts.merged_metadata(first, body.metadata or there.metadata, last)
        rules = contracts.merged_rule_sets(first_rules, body.rule_set or there.rule_set, last_rules)
        if version and (says_version or contracts.VERSION in contracts.properties(metadata)):
            metadata = contracts.with_version(metadata, version)
        return replace(body, metadata=contracts.stored(metadata), rule_set=contracts.stored(rules))

    def _imported(
        self, subject: str, asked: Asked, versions: Sequence[Registered], version: int
    ) -> Registered:
        """Return a version with the id, and perhaps the version number, of another registry, which
        has checked it.
        """
        schema_id = asked.schema_id
        if schema_id is None:
            raise RegistryError(
                NOT_PERMITTED, f"Subject {subject} is in import mode: a schema has its id with it"
            )
        if not asked.body.text:
            raise RegistryError(INVALID_SCHEMA, "Empty schema")
        body = self._body(asked, subject)
        body = replace(
            body, metadata=contracts.stored(body.metadata), rule_set=contracts.stored(body.rule_set)
        )
        given = asked.version if asked.version not in (None, LATEST) else None
        new = Registered(subject, given or version, schema_id, body)
        known = self._same(body, versions, subject)
        if known is not None and known.schema_id == schema_id and given is None:
            return known
        with self._log.lock:
            state = self._log.state
            there = state.find_body(schema_id, context_of(subject))
            before = state.find_version(subject, new.version)
        if there is not None and there != body:
            raise RegistryError(
                NOT_PERMITTED, f"Overwrite new schema with id {schema_id} is not permitted."
            )
        if before is not None and before.schema_id != schema_id:
            raise RegistryError(
                NOT_PERMITTED,
                f"Subject {subject} has another schema as version {new.version}: id "
                f"{before.schema_id}",
            )
        return new

    def _check_room(self, new: Registered) -> None:
        """Raises LimitReached."""
        context, body = context_of(new.subject), new.body
        with self._log.lock:
            state = self._log.state
            versions, characters = state.version_count, state.characters
            contexts = len(state.contexts()) - 1
            is_new = context != DEFAULT and not state.has_context(context)
        if versions >= VERSIONS.value:
            raise LimitReached(VERSIONS, NOT_PERMITTED, f"the registry has {versions:,} versions")
        if is_new and contexts >= CONTEXTS.value:
            raise LimitReached(CONTEXTS, NOT_PERMITTED, f"the registry has {contexts:,} contexts")
        if body.characters > SCHEMA_CHARACTERS.value:
            raise LimitReached(
                SCHEMA_CHARACTERS,
                INVALID_SCHEMA,
                f"Invalid schema: with its contract it has {body.characters:,} characters",
            )
        if characters + body.characters > STORED_CHARACTERS.value:
            raise LimitReached(
                STORED_CHARACTERS,
                NOT_PERMITTED,
                f"the registry's schemas have {characters:,} characters",
            )

    def compatible(self, subject: str, version: int | None, asked: Asked) -> list[str]:
        """Return the reasons why the schema does not go with a version, LATEST for the newest;
        None: with the versions that the level names. Raise RegistryError.
        """
        if not asked.body.text:
            raise RegistryError(INVALID_SCHEMA, "Empty schema")
        body = self._body(asked, subject, new=True)
        with self._log.lock:
            state = self._log.state
            found = (
                state.versions(subject)
                if version is None
                else [self._to_compare(state, subject, version)]
            )
        versions = [each for each in found if each is not None]
        return self._find_incompatibilities(
            replace(body, metadata=contracts.stored(body.metadata)),
            self._to_judge(subject, versions),
            subject,
        )

    @staticmethod
    def _to_compare(state: State, subject: str, version: int) -> Registered | None:
        """Return the version to compare with. None: LATEST of a subject without versions, where all
        is compatible.
        """
        if version == LATEST and not state.versions(subject):
            return None
        return state.version(subject, version)

    # deleting

    def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        """Delete all versions of a subject. Return their numbers. Raise RegistryError."""

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
                records: list[Record] = (
                    [delete_subject_record(subject, alive[-1].version)]
                    if not permanent
                    else self._gone(state, going)
                )
                records += _unset(state, subject)
            return [each.version for each in going], records

        return self._log.write(decide)

    def delete_version(self, subject: str, version: int, *, permanent: bool) -> int:
        """Delete one version. Return its number. Raise RegistryError."""

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
                if not permanent:
                    return found.version, [schema_record(replace(found, deleted=True))]
                last = len(state.versions(subject, deleted=True)) == 1
                return found.version, [
                    *self._gone(state, [found]),
                    *(_unset(state, subject) if last else ()),
                ]

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
            if any(
                (by.subject, by.version) not in going for by in state.referrers(subject, version)
            ):
                raise RegistryError(
                    REFERENCE_EXISTS,
                    "One or more references exist to the schema "
                    f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
                )

    def delete_context(self, context: str) -> None:
        """Delete an empty context. Its level and its mode go too, and its ids begin again. Raise
        RegistryError.
        """

        def decide() -> Decided[None]:
            with self._log.lock:
                state, prefix = self._log.state, prefix_of(context)
                if context == DEFAULT or not state.has_context(context):
                    raise RegistryError(NOT_FOUND, f"Context '{context}' not found.")
                check_writable(state, prefix)
                if state.subjects(prefix, deleted=True):
                    raise RegistryError(
                        NOT_PERMITTED,
                        f"The context '{context}' is not empty: its subjects are to be deleted "
                        "for ever first",
                    )
                records = [no_context_record(context)]
                records += _unset(state, prefix)
            return None, records

        self._log.write(decide)

    def _writable(self, subject: str, *, importing: bool = False) -> str:
        """Return the mode. Under the lock. Raises RegistryError."""
        mode = check_writable(self._log.state, subject)
        if importing and mode != "IMPORT":
            raise RegistryError(NOT_PERMITTED, f"Subject {subject} is not in import mode")
        return mode

    # schemas and their types

    def _resolved(self, body: Body, context: str) -> Resolved:
        """Raises RegistryError."""
        found, characters = list[Reference](), body.characters
        with self._log.lock:
            try:
                for name, each in self._log.state.resolved(body.references, context):
                    found.append(Reference(name, each.text))
                    characters += len(each.text)
                    if characters > SCHEMA_CHARACTERS.value:
                        raise LimitReached(
                            SCHEMA_CHARACTERS,
                            INVALID_SCHEMA,
                            f"Invalid schema: with all that it refers to it has {characters:,} "
                            "characters",
                        )
            except LimitReached:
                raise
            except RegistryError as error:
                raise RegistryError(
                    INVALID_SCHEMA,
                    f"Invalid schema: a schema that it refers to is not there: {error}",
                ) from None
        return tuple(found)

    def _parsed(self, body: Body, subject: str, *, new: bool = False) -> Parsed:
        """Parse a schema. References are looked up in the context of `subject`. `new`: by today's
        rules, not those of older libraries.
        """
        return self._schemas.parsed(
            body.schema_type, body.text, self._resolved(body, context_of(subject)), new=new
        )

    def _digest(self, body: Body, subject: str) -> bytes:
        """Return the digest of the canonical form of a stored schema; empty if this registry cannot
        parse it, as another registry may have written it.
        """
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

    def _body(self, asked: Asked, subject: str, *, new: bool = False) -> Body:
        """Return the schema of a request as it is stored, but for its contract. `new`: it must
        follow the rules for new schemas. Raise RegistryError.
        """
        body = replace(
            asked.body, references=self._latest(asked.body.references, context_of(subject))
        )
        with self._log.lock:
            state = self._log.state
            normalize = asked.normalize or state.setting(NORMALIZE, subject) is True
            importing = state.mode(subject) == "IMPORT"
            strict = state.setting(VALIDATE_NEW, subject) is not False
        try:
            schema = self._parsed(body, subject, new=new and strict)
        except LimitReached:
            raise
        except RegistryError:
            format_of(body.schema_type)
            # the registry that it comes from has judged it
            if importing and body.schema_type != AVRO:
                return body
            raise
        return replace(body, text=schema.normalized if normalize and not importing else schema.text)

    def _latest(
        self, references: tuple[SchemaReference, ...], context: str
    ) -> tuple[SchemaReference, ...]:
        """Return references with the newest version in place of LATEST: a schema does not change
        when a schema that it refers to gets a new version.
        """
        if all(each.version != LATEST for each in references):
            return references
        with self._log.lock:
            found = (
                self._log.state.versions(within(context, each.subject))[-1:] for each in references
            )
            return tuple(
                each._replace(version=versions[-1].version)
                if each.version == LATEST and versions
                else each
                for each, versions in zip(references, found, strict=True)
            )

    def _same(self, body: Body, versions: Sequence[Registered], subject: str) -> Registered | None:
        """Return the newest of the subject's versions with this schema."""
        body = replace(
            body, metadata=contracts.stored(body.metadata), rule_set=contracts.stored(body.rule_set)
        )
        for each in reversed(versions):
            if each.body == body:
                return each
        wanted = (body.schema_type, body.references, body.rule_set)
        alike = [
            each
            for each in reversed(versions)
            if (each.body.schema_type, each.body.references, each.body.rule_set) == wanted
            and contracts.same_metadata(body.metadata, each.body.metadata, each.version)
        ]
        if not alike:
            return None
        digest = _digest_of(self._parsed(body, subject))
        return next((each for each in alike if self._digest(each.body, subject) == digest), None)

    def _to_judge(self, subject: str, versions: Sequence[Registered]) -> Judged:
        with self._log.lock:
            state = self._log.state
            return Judged(state.level(subject), state.setting(GROUP, subject), versions)

    def _find_incompatibilities(self, body: Body, judged: Judged, subject: str) -> list[str]:
        """`body`: of a new schema."""
        level, group, versions = judged
        if level == "NONE":
            return []
        new, found = self._parsed(body, subject), list[str]()
        if group is not None:
            value = contracts.properties(body.metadata).get(group)
            versions = [
                each
                for each in versions
                if contracts.properties(each.body.metadata).get(group) == value
            ]
        for each in versions if level.endswith("_TRANSITIVE") else versions[-1:]:
            if each.body.schema_type != body.schema_type:
                found.append(
                    f"version {each.version} is of the type {each.body.schema_type}, and this one "
                    f"{body.schema_type}"
                )
                continue
            try:
                old = self._parsed(each.body, subject)
            except RegistryError as error:  # another registry may have written it
                found.append(f"version {each.version} cannot be parsed here: {error}")
                continue
            found += incompatibilities(level, body.schema_type, new, each.version, old)
        return found

    def serialized(self, body: Body, subject: str) -> str:
        """Return the schema as `format=serialized` has it: Protobuf's descriptor in base64. Raise
        RegistryError.
        """
        serialize = getattr(format_of(body.schema_type), "serialized", None)
        return body.text if serialize is None else str(serialize(self._parsed(body, subject)))


def _digest_of(schema: Parsed) -> bytes:
    return blake2b(
        schema.canonical.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES
    ).digest()


def _as_stored(asked: Body, there: Registered) -> Body:
    """Return the asked schema, with the contract of a stored version where the request gives
    none.
    """
    metadata = asked.metadata or there.body.metadata
    rule_set = asked.rule_set or there.body.rule_set
    return replace(asked, metadata=contracts.stored(metadata), rule_set=contracts.stored(rule_set))


def _unset(state: State, scope: str) -> list[Record]:
    records = [settings_record(scope, None)] if scope in state.settings else []
    return records + ([mode_record(scope, None)] if scope in state.modes else [])
