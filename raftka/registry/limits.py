"""The registry's limits. Each has a counter on its page /metrics, as a node's limits have."""

from raftka.limits import KIB, MIB, Limit

# a request
HEAD_BYTES = Limit("registry_head_bytes", 16 * KIB, "of a request before its body")
REQUEST_BYTES = Limit(
    "registry_request_bytes",
    4 * MIB,
    "of a request's body: a schema's text is a string in JSON, with each quote escaped",
)
BODIES_BYTES = Limit(
    "registry_bodies_bytes",
    64 * MIB,
    "of all bodies that are not answered yet: then a further one may have 64 KiB",
)
NAME_CHARACTERS = Limit(
    "registry_name_characters",
    1_000,
    "of a subject's name: a topic has 249, a strategy may add a record's name",
)
CONTEXT_CHARACTERS = Limit("registry_context_characters", 255, "of a context's name")
SCHEMA_CHARACTERS = Limit(
    "registry_schema_characters",
    MIB,
    "of a schema's text and of all that it refers to: parsing costs a second and twenty times that",
)

# the registry
VERSIONS = Limit(
    "registry_versions",
    100_000,
    "of all subjects, deleted ones too; and as many subjects with a level, or a mode, of their own",
)
CONTEXTS = Limit(
    "registry_contexts",
    1_000,
    "that have, or had, a schema, beside the one without a name; empty ones can be deleted",
)
STORED_CHARACTERS = Limit(
    "registry_stored_characters", 256 * MIB, "of all schemas: they are in memory"
)
PARSED_CHARACTERS = Limit(
    "registry_parsed_characters",
    8 * MIB,
    "of the schemas that are kept parsed, which take twenty times that; the oldest leave first",
)
USERS = Limit(
    "registry_users",
    1_000,
    "users whose rights are kept; the one whose login is oldest leaves first",
)
RIGHTS = Limit(
    "registry_rights",
    1_000_000,
    "topics that these users have rights on, together: about 150 bytes each",
)

# connections
CONNECTIONS = Limit("registry_connections", 1_000, "at once; further ones are closed")
IDLE_SECONDS = Limit("registry_idle_seconds", 60, "for one request, and between two")
AT_WORK = Limit("registry_at_work", 4, "requests that threads work at; further ones wait")

ALL = (
    HEAD_BYTES,
    REQUEST_BYTES,
    BODIES_BYTES,
    NAME_CHARACTERS,
    CONTEXT_CHARACTERS,
    SCHEMA_CHARACTERS,
    VERSIONS,
    CONTEXTS,
    STORED_CHARACTERS,
    PARSED_CHARACTERS,
    USERS,
    RIGHTS,
    CONNECTIONS,
    IDLE_SECONDS,
    AT_WORK,
)
