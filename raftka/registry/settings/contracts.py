"""Data contracts: the metadata and the rule set of a schema, as JSON of one form for each meaning.

A contract is kept as text, "" for none: two schemas are one only if their contracts are equal.
Rules are run by clients; the registry stores them and merges them with those of its settings.
"""

import json
from collections.abc import Mapping
from functools import lru_cache

from raftka.json_values import Json, JsonObject

VERSION = "confluent:version"  # a property that holds the number of the version
METADATA = ("tags", "properties", "sensitive")
PHASES = ("migrationRules", "domainRules", "encodingRules")
MODES = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
PAIRS = ("WRITEREAD", "UPDOWN")  # modes whose actions may be two, with a comma
KINDS = ("TRANSFORM", "CONDITION")
PLACES = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")
TEXTS = ("name", "doc", "type", "expr", "onSuccess", "onFailure")
RULE = (*TEXTS, "kind", "mode", "tags", "params", "disabled")
NAME_CHARACTERS = 256
KEPT_CHARACTERS = 4_096
SHOWN = 80

Contract = str


class InvalidContract(Exception):
    """The message names the field."""


# of requests


def read_metadata(found: Json, where: str = "metadata") -> Contract:
    """Return "" for null, "{}" for metadata without content. Raise InvalidContract."""
    if found is None:
        return ""
    _check_fields(found, METADATA, where)
    tags = {
        name: _strings(values, f"{where}.tags") for name, values in _object(found, "tags", where)
    }
    properties = _texts(found, "properties", where)
    sensitive = _strings(found.get("sensitive"), f"{where}.sensitive")
    return _written(_filled({"tags": tags, "properties": properties, "sensitive": sensitive}))


def read_rule_set(found: Json, where: str = "ruleSet") -> Contract:
    """Return "" for null, "{}" for a set without rules. Raise InvalidContract."""
    if found is None:
        return ""
    _check_fields(found, (*PHASES, "enableAt"), where)
    names: set[str] = set()
    phases = {phase: _rules(found.get(phase), phase, where, names) for phase in PHASES}
    place = found.get("enableAt")
    if place is not None and place not in PLACES:
        raise InvalidContract(f"{where}.enableAt is one of {', '.join(PLACES)}")
    return _written(_filled({**phases, "enableAt": place}))


def _rules(found: Json, phase: str, where: str, names: set[str]) -> list[JsonObject]:
    if not isinstance(found, list | None):
        raise InvalidContract(f"{where}.{phase} is no list")
    rules = [_rule(each, f"{where}.{phase}", MODES[phase]) for each in found or ()]
    for rule in rules:
        if rule["name"] in names:
            raise InvalidContract(f"{where} has two rules with the name {rule['name']!r}")
        names.add(rule["name"])
    return rules


def _rule(found: Json, where: str, modes: tuple[str, ...]) -> JsonObject:
    _check_fields(found, RULE, where)
    for name in TEXTS:
        if not isinstance(found.get(name), str | None):
            raise InvalidContract(f"{where}.{name} is no string")
    _check_name(found.get("name"), where)
    kind, mode = found.get("kind") or KINDS[0], found.get("mode") or "WRITEREAD"
    disabled = found.get("disabled") or False
    if not found.get("type"):
        raise InvalidContract(f"rule {found['name']} in {where} has no type")
    if kind not in KINDS:
        raise InvalidContract(f"{where}.kind is one of {', '.join(KINDS)}")
    if mode not in modes:
        raise InvalidContract(f"{where}.mode is one of {', '.join(modes)}")
    if not isinstance(disabled, bool):
        raise InvalidContract(f"{where}.disabled is true or false")
    for name in ("onSuccess", "onFailure"):
        if mode not in PAIRS and "," in (found.get(name) or ""):
            raise InvalidContract(f"{where}.{name} has two actions, which a {mode} rule has not")
    rest = {
        "tags": _strings(found.get("tags"), f"{where}.tags"),
        "params": _texts(found, "params", where),
    }
    texts = {name: found.get(name) for name in TEXTS}
    return {**_filled({**texts, **rest}), "kind": kind, "mode": mode, "disabled": disabled}


def _check_name(name: str | None, where: str) -> None:
    if not name or len(name) > NAME_CHARACTERS:
        raise InvalidContract(
            f"a rule in {where} has no name, or one of more than {NAME_CHARACTERS} characters"
        )
    if not (name[0].isalpha() or name[0] == "_") or not all(
        each.isalnum() or each in "_-" for each in name
    ):
        raise InvalidContract(
            f"the name {name[:SHOWN]!r} of a rule in {where} has a letter or _ first, then "
            "letters, digits, _ and -"
        )


def _check_fields(found: Json, known: tuple[str, ...], where: str) -> None:
    if not isinstance(found, dict):
        raise InvalidContract(f"{where} is no JSON object")
    for name in found:
        if name not in known:
            raise InvalidContract(f"{where} has no field {name[:SHOWN]!r}")


def _object(found: JsonObject, name: str, where: str) -> list[tuple[str, Json]]:
    value = found.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidContract(f"{where}.{name} is no JSON object")
    return sorted((value or {}).items())


def _texts(found: JsonObject, name: str, where: str) -> dict[str, str]:
    value = dict(_object(found, name, where))
    if not all(isinstance(each, str) for each in value.values()):
        raise InvalidContract(f"{where}.{name} has a value that is no string")
    return value


def _strings(found: Json, where: str) -> list[str]:
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidContract(f"{where} is no list of strings")
    return sorted(set(found))


def _filled(found: JsonObject) -> JsonObject:
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _written(found: JsonObject) -> Contract:
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# of records


def kept_metadata(found: Json) -> Contract:
    """Return it as another registry may have written it: with fields that this one does not
    know.
    """
    try:
        text = read_metadata(found)
    except InvalidContract:
        text = _written(found)
    return stored(text)


def kept_rule_set(found: Json) -> Contract:
    try:
        text = read_rule_set(found)
    except InvalidContract:
        text = _written(found)
    return stored(text)


def stored(contract: Contract) -> Contract:
    """Return the contract as it is stored: an empty one is none."""
    return "" if contract == "{}" else contract


def described(contract: Contract) -> Json:
    return json.loads(contract)


def properties(metadata: Contract) -> Mapping[str, str]:
    return _kept_properties(metadata) if len(metadata) <= KEPT_CHARACTERS else _properties(metadata)


def _properties(metadata: Contract) -> Mapping[str, str]:
    found = _loaded(metadata).get("properties")
    return found if isinstance(found, dict) else {}


# metadata may be a megabyte: longer ones are read each time
_kept_properties = lru_cache(maxsize=1_000)(_properties)


def _loaded(contract: Contract) -> JsonObject:
    found = json.loads(contract) if contract else {}
    return found if isinstance(found, dict) else {}


# merging


def merged_metadata(*layers: Contract) -> Contract:
    """Merge layers of metadata: of two values for a name the later layer's counts."""
    found: JsonObject = {}
    for layer in filter(None, layers):
        new = _loaded(layer)
        for name in ("tags", "properties"):
            if isinstance(new.get(name), dict):
                found[name] = {**found.get(name, {}), **new[name]}
        if isinstance(new.get("sensitive"), list):
            found["sensitive"] = sorted({*found.get("sensitive", ()), *new["sensitive"]})
        found |= {name: value for name, value in new.items() if name not in METADATA}
    return _written(found) if found else ""


def merged_rule_sets(*layers: Contract) -> Contract:
    """Merge layers of rules: a rule replaces those of its name in earlier layers."""
    found: JsonObject = {}
    for layer in filter(None, layers):
        new = _loaded(layer)
        for phase in PHASES:
            rules = new.get(phase)
            rules = (
                [each for each in rules if isinstance(each, dict)]
                if isinstance(rules, list)
                else []
            )
            names = {each.get("name") for each in rules}
            kept = [each for each in found.get(phase, ()) if each.get("name") not in names]
            if kept or rules:
                found[phase] = kept + rules
        found |= {name: value for name, value in new.items() if name not in PHASES}
    return _written(found) if found else ""


def with_version(metadata: Contract, version: int) -> Contract:
    changed = {**properties(metadata), VERSION: str(version)}
    return _written({**_loaded(metadata), "properties": changed})


def without_version(metadata: Contract) -> Contract:
    if VERSION not in properties(metadata):
        return metadata
    found = _loaded(metadata)
    kept = {name: value for name, value in found["properties"].items() if name != VERSION}
    return stored(_written(_filled({**found, "properties": kept})))


def same_metadata(asked: Contract, there: Contract, version: int) -> bool:
    """Return True if two contracts are equal, but for a version that only one of them may name."""
    if asked == there:
        return True
    said, says = properties(asked).get(VERSION), properties(there).get(VERSION)
    if said is None and says is not None:
        return asked == without_version(there)
    return says is None and said == str(version) and without_version(asked) == there
