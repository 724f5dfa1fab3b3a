"""The registry's limits. Each has a counter on its page /metrics, as a node's limits have."""

from raftka.limits import KIB, MIB, Limit

SCHEMA_CHARACTERS = Limit("registry_schema_characters", MIB, "of a schema's text: parsing costs a second and twenty times its size")
REQUEST_BYTES = Limit("registry_request_bytes", 4 * MIB, "of a request's body: a schema's text is a string in JSON, with each quote escaped")
HEAD_BYTES = Limit("registry_head_bytes", 16 * KIB, "of a request before its body")
CONNECTIONS = Limit("registry_connections", 1_000, "at once; further ones are closed")
IDLE_SECONDS = Limit("registry_idle_seconds", 60, "for one request, and between two")
PARSED_SCHEMAS = Limit("registry_parsed_schemas", 1_000, "schemas that are kept parsed; the one that was asked for longest ago leaves first")
AT_WORK = Limit("registry_at_work", 4, "requests that threads work at; further ones wait")
USERS = Limit("registry_users", 1_000, "whose rights are kept: some bytes a topic each; who came longest ago leaves first")

ALL = (SCHEMA_CHARACTERS, REQUEST_BYTES, HEAD_BYTES, CONNECTIONS, IDLE_SECONDS, PARSED_SCHEMAS, AT_WORK, USERS)
