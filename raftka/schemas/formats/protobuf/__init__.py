"""Protobuf schemas: compiled by protoc, compared, printed from descriptors."""

from raftka.schemas.formats.protobuf.parser import (
    ProtobufSchema,
    incompatibilities,
    parse,
    serialized,
)

__all__ = ["ProtobufSchema", "incompatibilities", "parse", "serialized"]
