"""One truck in Avro, JSON Schema and Protobuf."""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

TRUCK = (
    '{"type":"record","name":"Truck","namespace":"fleet","fields":[{"name":"number",'
    '"type":"int"},{"name":"at","type":"string","default":""}]}'
)
JSON_TRUCK = (
    '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Truck","type":"object",'
    '"properties":{"number":{"type":"integer"}},"required":["number"],"additionalProperties":false}'
)


def truck_class() -> Any:
    """Return protoc's class of a file that imports a file of Google's and one of its own."""
    pool = descriptor_pool.Default()
    field = descriptor_pb2.FieldDescriptorProto
    place = descriptor_pb2.FileDescriptorProto(
        name="tests/place.proto", package="tests", syntax="proto3"
    )
    place.message_type.add(name="Place").field.add(
        name="latitude", number=1, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL
    )
    truck = descriptor_pb2.FileDescriptorProto(
        name="tests/truck.proto", package="tests", syntax="proto3"
    )
    truck.dependency.extend(["tests/place.proto", "google/protobuf/timestamp.proto"])
    message = truck.message_type.add(name="Truck")
    for number, (name, kind) in enumerate(
        (("at", ".tests.Place"), ("since", ".google.protobuf.Timestamp")), 1
    ):
        message.field.add(
            name=name,
            number=number,
            type=field.TYPE_MESSAGE,
            type_name=kind,
            label=field.LABEL_OPTIONAL,
        )
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in (place, truck):
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.Truck"))
