"""Files that clients import without sending them as references: Google's, from two packages, and
Confluent's, whose types its clients know.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("grpc_tools", "google.type")  # google/protobuf/*.proto, google/type/*.proto
PREFIXES = ("google/protobuf/", "google/type/")
META = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
option java_package = "io.confluent.protobuf";
option java_outer_classname = "MetaProto";
message Meta {
  string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
TYPE = """
syntax = "proto3";
package confluent.type;
option java_package = "io.confluent.protobuf.type";
option java_multiple_files = true;
option java_outer_classname = "{name}Proto";
message {name} {{ {fields} }}
"""
OURS = {
    "confluent/meta.proto": META,
    "confluent/type/decimal.proto": TYPE.format(
        name="Decimal", fields="bytes value = 1; uint32 precision = 2; int32 scale = 3;"
    ),
    "confluent/type/variant.proto": TYPE.format(
        name="Variant", fields="bytes metadata = 1; bytes value = 2;"
    ),
}


@cache
def folders() -> tuple[str, ...]:
    """Where protoc finds Google's files."""
    found = []
    for package in PACKAGES:
        spec = find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        assert places, package
        found.append(
            str(
                Path(places[0]) / "_proto"
                if package == "grpc_tools"
                else Path(places[0]).parent.parent
            )
        )
    return tuple(found)


def is_known(name: str) -> bool:
    """References of these names are left out, so that nobody replaces them."""
    return name in OURS or (
        name.startswith(PREFIXES) and any((Path(folder) / name).is_file() for folder in folders())
    )
