"""Changes of settings and modes: of a subject or a context, None for the context without a name."""

from collections.abc import Sized

from raftka.json_values import JsonObject
from raftka.registry.errors import (
    INVALID_MODE,
    NOT_PERMITTED,
    REFERENCE_EXISTS,
    UNPROCESSABLE,
    LimitReached,
    RegistryError,
    no_level,
    no_mode,
    no_subject,
)
from raftka.registry.limits import SCHEMA_CHARACTERS, STORED_CHARACTERS, VERSIONS
from raftka.registry.log import Decided, SchemasLog
from raftka.registry.records import (
    Record,
    clear_subject_record,
    mode_record,
    no_schema_record,
    settings_record,
    used_ids_record,
)
from raftka.registry.settings.names import ALIAS
from raftka.registry.state import DEFAULT_MODE, MODES, State
from raftka.registry.subjects import GLOBAL, Name, context_of, new_subject, prefix_of, within


def check_writable(state: State, scope: str | None) -> str:
    """Return the mode. Under the lock. Raise RegistryError."""
    mode = state.mode(scope)
    subject = f"Subject {scope}" if scope is not None else "The context without a name"
    if mode in ("READONLY", "READONLY_OVERRIDE"):
        raise RegistryError(NOT_PERMITTED, f"{subject} is in read-only mode")
    if mode not in MODES:  # another registry has set it
        raise RegistryError(
            NOT_PERMITTED, f"{subject} is in mode {mode:.100}, which this registry does not know"
        )
    return mode


class SettingsChanges:
    """Changes of settings. They write to the topic, which is slow."""

    def __init__(self, log: SchemasLog) -> None:
        self._log = log

    def settings(self, scope: str | None, *, default: bool = False) -> JsonObject:
        """Return the scope's own, and the level that holds for it. `default`: all that hold for it.
        Raise RegistryError.
        """
        with self._log.lock:
            state = self._log.state
            if default:
                return state.settings_of(scope)
            own = state.settings.get(scope)
            if own is None and scope not in (None, prefix_of(GLOBAL)):
                raise no_level(scope or "")
            return state.with_level(own or {}, scope)

    def alias(self, subject: str) -> str:
        """Return the subject that an alias names: a lookup in a dict, without the lock."""
        return self._log.state.alias(subject)

    def update(self, scope: str | None, changes: JsonObject) -> JsonObject:
        """Change some settings, by name; None takes one back. Return the scope's own. Raise
        RegistryError.
        """
        if changes.get(ALIAS):
            if not Name.of(scope or "").subject:
                raise RegistryError(UNPROCESSABLE, "an alias is of one subject, not of a context")
            new_subject(within(context_of(scope or ""), changes[ALIAS]))

        def decide() -> Decided[JsonObject]:
            with self._log.lock:
                state = self._log.state
                check_writable(state, scope)
                _check_table(state.settings, scope)
                own = {**state.settings.get(scope, {}), **changes}
                own = {name: value for name, value in own.items() if value is not None}
                added = sum(len(str(value)) for value in changes.values())
                if added > SCHEMA_CHARACTERS.value:
                    raise LimitReached(
                        SCHEMA_CHARACTERS, UNPROCESSABLE, f"settings have {added:,} characters"
                    )
                if state.characters + added > STORED_CHARACTERS.value:
                    raise LimitReached(
                        STORED_CHARACTERS,
                        NOT_PERMITTED,
                        f"the registry has {state.characters:,} characters",
                    )
                is_new = own != state.settings.get(scope, {})
            return own, (settings_record(scope, own),) if is_new else ()

        return self._log.write(decide)

    def forget(self, scope: str | None) -> JsonObject:
        """Remove all settings of the scope. Return the earlier ones. Raise RegistryError."""

        def decide() -> Decided[JsonObject]:
            with self._log.lock:
                state = self._log.state
                check_writable(state, scope)
                own = state.settings.get(scope)
                if own is None and scope is not None:
                    raise no_subject(scope)
                return state.with_level(own or {}, scope), (settings_record(scope, None),)

        return self._log.write(decide)

    def mode(self, scope: str | None, *, default: bool = False) -> str:
        """`default`: of the context, where the subject has none. Raise RegistryError."""
        with self._log.lock:
            state = self._log.state
            if scope is not None and scope not in state.modes and not default:
                raise no_mode(scope)
            return state.own_mode(scope)

    def set_mode(self, scope: str | None, mode: str, *, force: bool = False) -> str:
        """IMPORT without `force` asks for a scope without versions; deleted ones are deleted for
        ever. Raise RegistryError.
        """
        if mode not in MODES:
            raise RegistryError(INVALID_MODE, f"Invalid mode. Valid values are {', '.join(MODES)}")

        def decide() -> Decided[str]:
            with self._log.lock:
                state = self._log.state
                _check_table(state.modes, scope)
                cleared = (
                    []
                    if mode != "IMPORT" or force or state.own_mode(scope) == "IMPORT"
                    else _emptied(state, scope)
                )
            return mode, (*cleared, mode_record(scope, mode))

        return self._log.write(decide)

    def forget_mode(self, scope: str | None, *, recursive: bool = False) -> str | None:
        """Remove the mode of a scope. Return the earlier one. `recursive`: those of all subjects of
        a context too. Raise RegistryError.
        """

        def decide() -> Decided[str | None]:
            with self._log.lock:
                modes = self._log.state.modes
                before = modes.get(scope)
                if before is None and scope is not None and not recursive:
                    raise no_subject(scope)
                within_it = [
                    each for each in modes if recursive and _is_of(each, scope) and each != scope
                ]
            return before or (None if scope is not None else DEFAULT_MODE), [
                mode_record(each, None) for each in (scope, *within_it)
            ]

        return self._log.write(decide)


def _is_of(subject: str | None, context: str | None) -> bool:
    name = Name.of(context or "")
    return not name.subject and bool(subject) and context_of(subject or "") == name.context


def _emptied(state: State, scope: str | None) -> list[Record]:
    """Return the records that delete a scope's deleted versions for ever. Raise RegistryError where
    there are others.
    """
    name = Name.of(scope or "")
    prefix = ":*:" if name.context == GLOBAL else prefix_of(name.context)
    subjects = [name.text] if name.subject else state.subjects(prefix, deleted=True)
    versions = [each for subject in subjects for each in state.versions(subject, deleted=True)]
    if any(not each.deleted for each in versions):
        raise RegistryError(NOT_PERMITTED, "Cannot import since found existing subjects")
    if not versions:
        return []
    for each in versions:
        if state.referrers(each.subject, each.version):
            raise RegistryError(
                REFERENCE_EXISTS, f"Version {each.version} of subject {each.subject} is referred to"
            )
    contexts = dict.fromkeys(context_of(each.subject) for each in versions)
    used = [used_ids_record(state.highest(context), context) for context in contexts]
    # of null it would be all contexts
    cleared = [clear_subject_record(scope)] if scope is not None else []
    return [*used, *map(no_schema_record, versions), *cleared]


def _check_table(table: Sized, scope: str | None) -> None:
    """Raise LimitReached."""
    if scope not in table and len(table) >= VERSIONS.value:  # type: ignore[operator]
        raise LimitReached(
            VERSIONS, NOT_PERMITTED, f"{len(table):,} subjects have settings of their own"
        )
