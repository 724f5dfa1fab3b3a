"""SQL on streams: statements, the streams, tables and queries that they make, and their answers."""
