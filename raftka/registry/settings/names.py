"""Settings of subjects and contexts (`/config`): their names, and requests that change them.

What a subject does not set is its context's, else that of all contexts.
"""

from raftka.json_values import Json, JsonObject
from raftka.registry.errors import (
    INVALID_LEVEL,
    INVALID_RULE_SET,
    UNPROCESSABLE,
    RegistryError,
)
from raftka.registry.settings.contracts import (
    InvalidContract,
    described,
    read_metadata,
    read_rule_set,
    stored,
)

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
LEVEL, POLICY, GROUP, ALIAS = (
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "alias",
)
NORMALIZE, VALIDATE_NEW = "normalize", "validateNewSchemas"
SWITCHES = (NORMALIZE, VALIDATE_NEW, "validateFields", "validateRules")
METADATA = ("defaultMetadata", "overrideMetadata")
RULE_SETS = ("defaultRuleSet", "overrideRuleSet")
NAMES = (LEVEL, POLICY, GROUP, ALIAS, "aliasForDeks", *SWITCHES, *METADATA, *RULE_SETS)
GROUP_CHARACTERS = 1_000
UNSUPPORTED: dict[str, tuple[Json, ...]] = {  # the values of each that this registry does
    POLICY: ("STRICT",),
    "validateFields": (False,),
    "validateRules": (False,),
    "aliasForDeks": (),
}


def is_known(name: str, value: Json) -> bool:
    """Return True if this registry acts on a value in a record."""
    if name == LEVEL:
        return value in LEVELS
    if name in SWITCHES:
        return isinstance(value, bool)
    if name in METADATA or name in RULE_SETS:
        return isinstance(value, dict)
    return name in NAMES and isinstance(value, str)


def read_changes(asked: JsonObject) -> JsonObject:
    """Return the settings that a request changes; None takes one back. Raise RegistryError.

    A level of null, which clients send for "not given", changes nothing: DELETE takes it back.
    """
    changes: JsonObject = {}
    level = asked.get("compatibility")
    other = asked.get(LEVEL)
    if level is not None and other is not None and level != other:
        raise RegistryError(UNPROCESSABLE, f"compatibility and {LEVEL} differ")
    level = other if level is None else level
    if level is not None:
        changes[LEVEL] = _level(level)
    for name, value in asked.items():
        if name in ("compatibility", LEVEL):
            continue
        if name not in NAMES:
            raise RegistryError(UNPROCESSABLE, f"there is no setting {name!r:.100}")
        changes[name] = None if value is None else _value(name, value)
    return changes


def _level(value: Json) -> str:
    level = value.upper() if isinstance(value, str) else value
    if level not in LEVELS:
        raise RegistryError(
            INVALID_LEVEL,
            "Invalid compatibility level. Valid values are "
            + ", ".join(each.lower() for each in LEVELS),
        )
    return str(level)


def _value(name: str, value: Json) -> Json:
    if name in UNSUPPORTED and value not in UNSUPPORTED[name]:
        raise RegistryError(
            UNPROCESSABLE, f"{name}={value!r:.100} is not supported by this registry"
        )
    if name in SWITCHES and not isinstance(value, bool):
        raise RegistryError(UNPROCESSABLE, f"{name} is true or false")
    if name in (GROUP, ALIAS) and (not isinstance(value, str) or len(value) > GROUP_CHARACTERS):
        raise RegistryError(
            UNPROCESSABLE, f"{name} is no string of at most {GROUP_CHARACTERS} characters"
        )
    try:
        if name in METADATA:
            return described(stored(read_metadata(value, name)) or "null")
        if name in RULE_SETS:
            return described(stored(read_rule_set(value, name)) or "null")
    except InvalidContract as error:
        raise RegistryError(
            INVALID_RULE_SET if name in RULE_SETS else UNPROCESSABLE, str(error)
        ) from None
    return None if value == "" else value
