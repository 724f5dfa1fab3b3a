"""Runs protoc on texts of clients: in a process of its own, with bounds of time, memory and output,
which sees a temporary folder.

A process and not a call: protoc prints errors to the descriptor 2, ends the process that it is in
when memory is short, and cannot be stopped. It costs 0.1 s. It opens imports below its include
paths only (it refuses `..` in them), which are the temporary folder and those of Google's files.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from google.protobuf import descriptor_pb2

from raftka.schemas.formats.schema import InvalidSchema

SECONDS = 20.0
CPU_SECONDS = 10
MEMORY = 2 << 30
OUTPUT = 64 << 20
# exit code for a file that is wrong; Python and the kernel have others when there is no memory
REFUSED = 100
MAX_NAME = 200  # characters of a reference's name, which becomes a path
TOLD = 2_000  # characters of protoc's complaints
NOISE = re.compile(r"^WARNING: |^[IWE]\d{4} |: warning: ")
CHILD = """
import resource, sys
limits = dict(RLIMIT_CPU={cpu}, RLIMIT_AS={memory}, RLIMIT_FSIZE={output}, RLIMIT_CORE=0)
if sys.platform == "darwin":
    del limits["RLIMIT_AS"]  # macOS knows no such limit
for limit, value in limits.items():
    resource.setrlimit(getattr(resource, limit), (value, value))
from grpc_tools import _protoc_compiler
sys.exit({refused} if _protoc_compiler.run_main([each.encode() for each in sys.argv]) else 0)
"""

# Files that clients import without sending them as references: Google's, from two packages, and
# Confluent's, whose types its clients know.
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


def compile_files(
    files: Mapping[str, str], names: Sequence[str]
) -> descriptor_pb2.FileDescriptorSet:
    """Descriptors of files (texts by name), those of `names` and all that they import, each after
    its imports. Raises InvalidSchema.

    Files with the names of known ones are left out.
    """
    with tempfile.TemporaryDirectory(prefix="raftka-protoc-") as folder:
        for name, text in {**files, **OURS}.items():
            check_name(name)
            if name in OURS or not is_known(name):
                _write(Path(folder), name, text)
        output = Path(folder, "descriptors")
        child = CHILD.format(cpu=CPU_SECONDS, memory=MEMORY, output=OUTPUT, refused=REFUSED)
        options = [
            *(f"-I{each}" for each in (f"{folder}/files", *folders())),
            "--include_imports",
            f"--descriptor_set_out={output}",
        ]
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", child, *options, *names],
                cwd=f"{folder}/files",  # protoc looks there for the names first
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidSchema(f"protoc took longer than {SECONDS:.0f} s") from None
        if done.returncode == REFUSED:
            raise InvalidSchema(_complaint(done.stderr, f"{folder}/files/"))
        if done.returncode:
            raise InvalidSchema(
                f"protoc took more than {CPU_SECONDS} s or {MEMORY >> 20} MiB (exit code "
                f"{done.returncode})"
            )
        return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())


def check_name(name: str) -> None:
    """Raise InvalidSchema for a name that is no plain path below a folder, or an option of
    protoc's.
    """
    parts = name.split("/")
    plain = all(each.strip(".") and each.isprintable() and "\\" not in each for each in parts)
    if not plain or name.startswith(("-", "@")) or len(name.encode()) > MAX_NAME:
        raise InvalidSchema(
            f"{name[:MAX_NAME]!r} is no name for a reference: a path without . and .., of at most "
            f"{MAX_NAME} bytes, is one"
        )


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / "files" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise InvalidSchema(
            f"the reference {name} is both a file and a folder of another one"
        ) from None


def _complaint(stderr: bytes, folder: str) -> str:
    """Return protoc's errors as one line, without warnings, log lines, and the folder's path."""
    lines = [
        line.removeprefix(folder)
        for line in stderr[: 4 * TOLD].decode(errors="replace").splitlines()
    ]
    text = "; ".join(line for line in lines if not NOISE.search(line))
    return text if len(text) <= TOLD else text[:TOLD] + "..."


@cache
def folders() -> tuple[str, ...]:
    """Return the folders where protoc finds Google's files."""
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
    """Return True for a file that protoc knows. A reference of that name is left out, so that no
    client replaces the file.
    """
    return name in OURS or (
        name.startswith(PREFIXES) and any((Path(folder) / name).is_file() for folder in folders())
    )
