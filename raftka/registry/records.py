"""The records of the topic `_schemas`, keys and values, as Confluent's registry writes them.

A key is JSON with `keytype` first; values are JSON, or null, which takes back what the key said:

    SCHEMA {subject, version}     a version of a subject, or that it is deleted but can still be
                                  looked up by its id
    DELETE_SUBJECT {subject}      all versions up to one of them are deleted
    CLEAR_SUBJECT {subject}       forget the subject's deleted versions
    CONFIG, MODE {subject}        the level of compatibility, the mode; of a whole context where the
                                  subject is `:.NAME:` or, without a name, null
    CONTEXT {tenant, context}     a context that has, or had, a schema. A value of ours may have
                                  {"maxId": N}, as that of NOOP
    NOOP                          nothing. A value {"maxId": N} of ours keeps ids from being given
                                  out again when the schemas that had them are gone

Other registries, and later versions of Confluent's, write fields that this one does not know. They
are kept when a record is written anew: `unknown_fields`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from raftka.json_values import Json, JsonObject
from raftka.registry.settings.contracts import described, kept_metadata, kept_rule_set
from raftka.registry.settings.names import is_known
from raftka.registry.subjects import DEFAULT, Name
from raftka.versions import SCHEMAS

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA, DELETE_SUBJECT, CLEAR_SUBJECT = "SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT"
CONFIG, MODE, CONTEXT, NOOP = "CONFIG", "MODE", "CONTEXT", "NOOP"
TENANT = "default"
MAGIC = {SCHEMA: 1}  # 0 for the other types of keys
LARGEST_NUMBER = (1 << 31) - 1  # of an id or a version: they have 32 bits in Confluent's formats
KNOWN = {  # fields of values
    SCHEMA: (
        "subject",
        "version",
        "id",
        "schemaType",
        "references",
        "metadata",
        "ruleSet",
        "schema",
        "deleted",
    ),
    DELETE_SUBJECT: ("subject", "version"),
    CLEAR_SUBJECT: ("subject",),
    MODE: ("mode",),
    CONTEXT: ("tenant", "context", "maxId"),
    NOOP: ("maxId",),
}

Record = tuple[bytes, bytes | None]


class SchemaReference(NamedTuple):
    """A schema that another one refers to: its name there, its subject and its version."""

    name: str
    subject: str
    version: int

    @property
    def described(self) -> JsonObject:
        return self._asdict()


@dataclass(frozen=True, slots=True)
class Body:
    """A schema without its place: two subjects may have the same one, and then it has one id."""

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    metadata: str = ""  # a contract: see contracts.py
    rule_set: str = ""

    @property
    def characters(self) -> int:
        return len(self.text) + len(self.metadata) + len(self.rule_set)

    @property
    def described(self) -> JsonObject:
        """Return the fields that all answers have: those of Avro's type, of no references and of no
        contract are left out.
        """
        found: JsonObject = {} if self.schema_type == AVRO else {"schemaType": self.schema_type}
        if self.references:
            found["references"] = [each.described for each in self.references]
        if self.metadata:
            found["metadata"] = described(self.metadata)
        if self.rule_set:
            found["ruleSet"] = described(self.rule_set)
        return {**found, "schema": self.text}


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    body: Body
    deleted: bool = False

    @property
    def described(self) -> JsonObject:
        return {
            "subject": self.subject,
            "version": self.version,
            "id": self.schema_id,
            **self.body.described,
        }


class Key(NamedTuple):
    kind: str
    subject: str | None = None
    version: int = 0
    context: str = DEFAULT

    @property
    def written(self) -> bytes:
        """The bytes of the key as Confluent's registry writes them."""
        if self.kind == NOOP:
            return _key(NOOP)
        if self.kind == CONTEXT:
            return _key(CONTEXT, tenant=TENANT, context=self.context)
        if self.kind == SCHEMA:
            return _key(SCHEMA, subject=self.subject, version=self.version)
        return _key(self.kind, subject=self.subject)


def schema_record(version: Registered) -> Record:
    return _key(SCHEMA, subject=version.subject, version=version.version), _bytes(
        {**version.described, "deleted": version.deleted}
    )


def no_schema_record(version: Registered) -> Record:
    """Return the record that removes a version, as if it had never been."""
    return _key(SCHEMA, subject=version.subject, version=version.version), None


def delete_subject_record(subject: str, up_to: int) -> Record:
    return _key(DELETE_SUBJECT, subject=subject), _bytes({"subject": subject, "version": up_to})


def clear_subject_record(subject: str | None) -> Record:
    return _key(CLEAR_SUBJECT, subject=subject), _bytes({"subject": subject})


def settings_record(subject: str | None, settings: JsonObject | None) -> Record:
    return _key(CONFIG, subject=subject), None if settings is None else _bytes(settings)


def mode_record(subject: str | None, mode: str | None) -> Record:
    return _key(MODE, subject=subject), None if mode is None else _bytes({"mode": mode})


def context_record(context: str) -> Record:
    return _key(CONTEXT, tenant=TENANT, context=context), _bytes(
        {"tenant": TENANT, "context": context}
    )


def no_context_record(context: str) -> Record:
    return _key(CONTEXT, tenant=TENANT, context=context), None


def used_ids_record(highest: int, context: str = DEFAULT) -> Record:
    if context == DEFAULT:
        return _key(NOOP), _bytes({"maxId": highest})
    return _key(CONTEXT, tenant=TENANT, context=context), _bytes(
        {"tenant": TENANT, "context": context, "maxId": highest}
    )


def read_key(key: bytes) -> Key:
    """Raises ValueError, NewerFormat."""
    found = _mapping(key)
    magic = found.get("magic")
    if type(magic) is int:
        SCHEMAS.check(magic, "the topic of schemas")
    kind, subject, version = found.get("keytype"), found.get("subject"), found.get("version", 0)
    context = found.get("context", DEFAULT)
    if (
        not isinstance(kind, str)
        or not isinstance(subject, str | None)
        or type(version) is not int
        or not isinstance(context, str)
    ):
        raise ValueError("its key is none of a registry")
    subject = subject if subject is None else Name.of(subject).text
    if kind not in (SCHEMA, DELETE_SUBJECT):
        subject = subject or None  # the context without a name
    return Key(kind, subject, version, context)


def read_value(value: bytes) -> JsonObject:
    """Raises ValueError."""
    return _mapping(value)


def read_schema(value: Mapping[str, object]) -> Registered:
    """Raises ValueError."""
    subject, version, schema_id, text = (
        value.get(name) for name in ("subject", "version", "id", "schema")
    )
    schema_type, deleted = value.get("schemaType") or AVRO, value.get("deleted") is True
    if (
        not isinstance(subject, str)
        or type(version) is not int
        or type(schema_id) is not int
        or not isinstance(text, str)
    ):
        raise ValueError("its value is no schema")
    if not 1 <= version <= LARGEST_NUMBER or schema_id < 0:
        raise ValueError("its value has a version or an id that none can have")
    metadata, rule_set = kept_metadata(value.get("metadata")), kept_rule_set(value.get("ruleSet"))
    body = Body(
        str(schema_type), text, read_references(value.get("references")), metadata, rule_set
    )
    return Registered(Name.of(subject).text, version, schema_id, body, deleted)


def unknown_fields(kind: str, value: JsonObject) -> JsonObject:
    """Return the fields of a value that this registry does not know, and would lose if it wrote the
    record again.
    """
    if kind == CONFIG:
        return {name: each for name, each in value.items() if not is_known(name, each)}
    known = KNOWN.get(kind, ())
    found = {name: each for name, each in value.items() if name not in known}
    references = value.get("references")
    if (
        kind == SCHEMA
        and isinstance(references, list)
        and any(each.keys() - set(SchemaReference._fields) for each in references)
    ):
        found["references"] = references
    return found


def with_fields(record: Record, more: JsonObject) -> Record:
    key, value = record
    if value is None or not more:
        return record
    rewritten = {**more, **_mapping(value)}
    if "references" in more:
        # the same ones, with what they have beside their names
        rewritten["references"] = more["references"]
    return key, _bytes(rewritten)


def known_settings(value: JsonObject) -> JsonObject:
    """Return the settings of a CONFIG record that this registry acts on."""
    return {name: each for name, each in value.items() if is_known(name, each)}


def read_references(found: object, *, exact: bool = False) -> tuple[SchemaReference, ...]:
    """Read the references of a schema. `exact`: refuse unknown fields, as in a request. Raise
    ValueError.
    """
    if found is None:
        return ()
    if not isinstance(found, list):
        raise ValueError("references are a list")
    for each in found if exact else ():
        if isinstance(each, Mapping) and (more := each.keys() - set(SchemaReference._fields)):
            raise ValueError(f"a reference has no field {min(more)!r:.100}")
    return tuple(_reference(each) for each in found)


def _reference(found: object) -> SchemaReference:
    name, subject, version = (
        (found.get(each) for each in SchemaReference._fields)
        if isinstance(found, Mapping)
        else (None, None, None)
    )
    if not isinstance(name, str) or not isinstance(subject, str) or type(version) is not int:
        raise ValueError("a reference has a name, a subject and the number of a version")
    return SchemaReference(name, subject, version)


def _key(kind: str, **rest: object) -> bytes:
    return _bytes({"keytype": kind, **rest, "magic": MAGIC.get(kind, 0)})


def _bytes(value: Json) -> bytes:
    """Half of a surrogate pair, which another writer of the topic may have left, is written
    escaped, as it came.
    """
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _mapping(data: bytes) -> JsonObject:
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    return found
