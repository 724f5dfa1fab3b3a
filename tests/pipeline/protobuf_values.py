"""Values as Confluent's Protobuf serializer writes them."""

from base64 import b64decode
from typing import Any

from tests.registry.rest import Rest

PROTO = """syntax = "proto3";
package shop;
message Envelope {
  Value before = 1; Value after = 2; Source source = 3; string op = 4; int64 ts_ms = 5;
}
message Value {
  int64 id = 1; string state = 2; optional string price = 3; optional int32 due = 4;
  optional int64 at = 5; optional bytes blob = 6;
}
message Source { int64 ts_ms = 1; int64 lsn = 2; }
"""
KEY_PROTO = """syntax = "proto3";
package shop;
message Key { int64 id = 1; }
"""


def in_protobuf(registry: Any, subject: str, text: str, message: str) -> Any:
    """Return a function that writes a mapping as Confluent's serializer does: behind the schema id
    and the place of the message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    with Rest(registry) as rest:
        number = rest.register(subject, text, schemaType="PROTOBUF")
        compiled = rest.get(f"/schemas/ids/{number}?format=serialized")["schema"]
    file = descriptor_pb2.FileDescriptorProto.FromString(b64decode(compiled))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    place = [each.name for each in file.message_type].index(message)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{message}"))
    indexes = b"\0" if place == 0 else bytes([2, 2 * place])
    return lambda **values: (
        b"\0" + number.to_bytes(4, "big") + indexes + kind(**values).SerializeToString()
    )
