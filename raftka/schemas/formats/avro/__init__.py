"""Avro schemas: parsed, compared, written in a normal form."""

from raftka.schemas.formats.avro.parser import AvroSchema, incompatibilities, parse

__all__ = ["AvroSchema", "incompatibilities", "parse"]
