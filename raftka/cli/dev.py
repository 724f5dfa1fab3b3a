"""`raftka broker start --dev`: one node without a properties file, for trying things out. Its
settings are those that `cluster start` plans.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from raftka.cli.broker import start
from raftka.cluster.plan import PlanError, plan_cluster, ports_from
from raftka.cluster.ports import HeldPorts, check_free


def start_dev(port: int, data: Path | None) -> int:
    """Run the node until SIGTERM; returns the exit code. Without `data` it keeps everything in a
    temporary folder and removes that at the end.
    """
    folder = data or Path(tempfile.mkdtemp(prefix="raftka-dev-"))
    held = HeldPorts(0 if port else 2)
    try:
        check_free(1, port, None, metrics=False, option="--port")
        (plan,) = plan_cluster(folder, ports_from(port, 1) if port else held.pairs())
        plan.write()
        kept = "it is removed when the node ends" if data is None else "it stays"
        print(f"raftka: the data is in {folder}, {kept}", file=sys.stderr, flush=True)
        return start(str(plan.properties_file), f"bootstrap.servers={plan.address}")
    except PlanError as error:
        print(f"raftka: {error}", file=sys.stderr)
        return 1
    finally:
        held.release()
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)
