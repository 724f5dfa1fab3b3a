"""Runs protoc on texts of strangers: in a process of its own, with bounds of time, memory and output, which sees a temporary folder.

A process and not a call: protoc prints errors to the descriptor 2, ends the process that it is in when memory is short, and cannot be stopped.
It costs 0.1 s. It opens imports below its include paths only (it refuses `..` in them), which are the temporary folder and its own well-known types.
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

from raftka.registry.formats.schema import InvalidSchema

SECONDS = 20.0
CPU_SECONDS = 10
MEMORY = 2 << 30
OUTPUT = 64 << 20
MAX_NAME = 200  # characters of a reference's name, which becomes a path
TOLD = 2_000  # characters of protoc's complaints
NOISE = re.compile(r"^WARNING: |^[IWE]\d{4} |: warning: ")
CHILD = """
import resource, sys
for limit, value in ((resource.RLIMIT_CPU, {cpu}), (resource.RLIMIT_AS, {memory}), (resource.RLIMIT_FSIZE, {output}), (resource.RLIMIT_CORE, 0)):
    resource.setrlimit(limit, (value, value))
from grpc_tools import _protoc_compiler
sys.exit(_protoc_compiler.run_main([each.encode() for each in sys.argv]))
"""


def compile_files(files: Mapping[str, str], names: Sequence[str]) -> descriptor_pb2.FileDescriptorSet:
    """Descriptors of files (texts by name), those of `names` and all that they import, each after its imports. Raises InvalidSchema.

    Files with the names of well-known types are left out: protoc has its own.
    """
    with tempfile.TemporaryDirectory(prefix="raftka-protoc-") as folder:
        for name, text in files.items():
            if not is_well_known(name):
                _write(Path(folder), name, text)
        output = Path(folder, "descriptors.bin.out")  # no file of a schema: see _write
        child = CHILD.format(cpu=CPU_SECONDS, memory=MEMORY, output=OUTPUT)
        options = [f"-I{folder}/files", f"-I{_includes()}", "--include_imports", f"--descriptor_set_out={output}"]
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", child, *options, *names],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidSchema(f"protoc took longer than {SECONDS:.0f} s") from None
        if done.returncode < 0 or (done.returncode and not done.stderr):
            raise InvalidSchema(f"protoc took more than {CPU_SECONDS} s or {MEMORY >> 20} MiB (exit code {done.returncode})")
        if done.returncode:
            raise InvalidSchema(_complaint(done.stderr, f"{folder}/files/"))
        return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())


def is_well_known(name: str) -> bool:
    return check_name(name) and (Path(_includes()) / name).is_file()


def check_name(name: str) -> bool:
    """Raise InvalidSchema for a name that is no plain path below a folder."""
    parts = name.split("/")
    if len(name.encode()) > MAX_NAME or not all(each.strip(".") and each.isprintable() and "\\" not in each for each in parts):
        raise InvalidSchema(f"{name[:MAX_NAME]!r} is no name for a reference: a path without . and .., of at most {MAX_NAME} bytes, is one")
    return True


def _write(folder: Path, name: str, text: str) -> None:
    check_name(name)
    path = folder / "files" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise InvalidSchema(f"the reference {name} is both a file and a folder of another one") from None


@cache
def _includes() -> str:
    spec = find_spec("grpc_tools")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "_proto")


def _complaint(stderr: bytes, folder: str) -> str:
    """Its errors as one line, without warnings, log lines, and the folder's path."""
    lines = [line.removeprefix(folder) for line in stderr[: 4 * TOLD].decode(errors="replace").splitlines()]
    text = "; ".join(line for line in lines if not NOISE.search(line))
    return text if len(text) <= TOLD else text[:TOLD] + "..."
