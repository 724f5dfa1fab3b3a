"""`./run bench` on a machine where only raftka itself is installed."""

import subprocess
import sys

BLOCKED = ("numpy", "pyarrow", "pyspark", "msgspec", "deltalake")  # of the extra raftka[pipeline]
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))
sys.argv = ["bench", "--help"]
import runpy
runpy.run_module("bench", run_name="__main__")
"""


def test_starts_without_the_libraries_of_the_pipeline() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert "pipeline-flows" in done.stdout
