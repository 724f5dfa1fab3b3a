"""Limits of the SQL server. `GET /health` shows how often each was hit."""

from raftka.limits import KIB, MIB, Limit

HEAD_BYTES = Limit("sql_head_bytes", 16 * KIB, "of a request before its body")
REQUEST_BYTES = Limit("sql_request_bytes", MIB, "of a request's body: the text of a statement")
BODIES_BYTES = Limit(
    "sql_bodies_bytes",
    16 * MIB,
    "of all bodies that are not answered yet: then a further one may have 64 KiB",
)
CONNECTIONS = Limit("sql_connections", 200, "at once; programs without the token make room")
SECONDS = Limit(
    "sql_seconds", 3600, "until a statement has its first row, and a client takes a piece of rows"
)
STRANGER_SECONDS = Limit("sql_stranger_seconds", 20, "for a client that has not shown the token")
STATEMENTS = Limit(
    "sql_statements", 32, "that run at once, a thread each; further ones are refused"
)
UNREAD_SECONDS = Limit(
    "sql_unread_seconds", 60, "that a live answer waits until a client asks for its rows"
)
ROWS_BYTES = Limit(
    "sql_rows_bytes", MIB, "of an answer that its client has not taken: then its work waits"
)
USERS = Limit("sql_users", 100, "that are logged in: the one seen last longest ago makes room")
TABLES = Limit(
    "sql_tables", 20, "materialised at once: the one not asked for longest makes room for another"
)
TABLE_BYTES = Limit(
    "sql_table_bytes", 2048 * MIB, "of a materialised table's file: larger ones are read by Spark"
)

ALL = (
    HEAD_BYTES,
    REQUEST_BYTES,
    BODIES_BYTES,
    CONNECTIONS,
    SECONDS,
    STRANGER_SECONDS,
    STATEMENTS,
    UNREAD_SECONDS,
    ROWS_BYTES,
    USERS,
    TABLES,
    TABLE_BYTES,
)
