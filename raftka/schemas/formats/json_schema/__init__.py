"""JSON Schemas: parsed, compared, their references resolved."""

from raftka.schemas.formats.json_schema.parser import JsonSchema, incompatibilities, parse

__all__ = ["JsonSchema", "incompatibilities", "parse"]
