"""kafka-python's own integration tests, as they are in the source distribution of the version that
is installed, against one node.

They think that they have started the broker themselves, with their own settings: node 0, short
sessions allowed.
"""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest

from raftka.cluster.plan import NodePlan, plan_cluster
from raftka.cluster.ports import HeldPorts
from raftka.cluster.processes import Processes
from tests.kit.toolchains import CACHE

VERSION = version("kafka-python")
NOT_YET = (
    "test_transactional_producer_messages",
    "test_transactional_producer_offsets",
    "test_create_describe_delete_acls",
)
# Java's, with certificates and users
THEIR_OWN_BROKERS = ("test_ssl_integration.py", "test_sasl_integration.py")
PASSED_AT_LEAST = 52
LIKE_KAFKA = "4.3"
SETTINGS = {"group.min.session.timeout.ms": "100", "group.initial.rebalance.delay.ms": "0"}
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    stop = open


class SpawnedService:
    pass
"""


def test_kafka_pythons_own_integration_tests(tmp_path: Path) -> None:
    suite = unpacked(tmp_path)
    with HeldPorts(2) as ports, closing(Processes([node_0(tmp_path, ports)])) as cluster:
        cluster.start_all()
        cluster.wait_ready()

        outcomes = run(suite, cluster.bootstrap_servers)
        # their time limits are for a machine with nothing else to do: once more, alone
        if bad := failed(outcomes):
            outcomes |= run(suite, cluster.bootstrap_servers, bad)

    assert failed(outcomes) == set()
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= PASSED_AT_LEAST


def node_0(folder: Path, ports: HeldPorts) -> NodePlan:
    (plan,) = plan_cluster(folder / "cluster", ports.pairs(), SETTINGS)
    voters = plan.properties["controller.quorum.voters"].replace("1@", "0@", 1)
    zero = replace(
        plan,
        node_id=0,
        properties={**plan.properties, "node.id": "0", "controller.quorum.voters": voters},
    )
    zero.write()
    return zero


def unpacked(folder: Path) -> Path:
    """Without the file of theirs that is in no distribution: how they start Java."""
    archive = CACHE / f"kafka_python-{VERSION}.tar.gz"
    if not archive.exists():
        fetch(archive)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    suite = folder / f"kafka_python-{VERSION}"
    (suite / "test" / "__init__.py").touch()
    (suite / "test" / "service.py").write_text(SERVICE)
    return suite


def fetch(archive: Path) -> None:
    """By the pip that has made this environment, which has none of its own."""
    command = [
        getattr(sys, "_base_executable", sys.executable),
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        "kafka-python",
    ]
    found = subprocess.run(
        [*command, "--dest", str(archive.parent), f"kafka-python=={VERSION}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(
            f"pip cannot fetch kafka-python's source distribution: {found.stderr.strip()[-500:]}"
        )


def node_id(name: str) -> str:
    """As pytest takes it, of a name as the report has it: test.integration.MODULE::TEST, or with a
    class behind the module.
    """
    places, _, test = name.partition("::")
    folder, below, module, *classes = places.split(".")
    return "::".join([f"{folder}/{below}/{module}.py", *classes, test])


def failed(outcomes: Mapping[str, str]) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome in {"failure", "error"}}


def run(suite: Path, bootstrap: str, only: Iterable[str] = ()) -> dict[str, str]:
    """Outcomes by test: passed, failure, error, skipped. `only`: of these tests; else of all."""
    report = suite / "report.xml"
    env = {
        **os.environ,
        "KAFKA_VERSION": LIKE_KAFKA,
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_ROOT": str(suite),
    }
    ignored = [f"--ignore=test/integration/{name}" for name in THEIR_OWN_BROKERS]
    plugins = [
        word
        for name in ("randomly", "trio", "raftka", "hypothesispytest", "cacheprovider")
        for word in ("-p", f"no:{name}")
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        f"--rootdir={suite}",
        f"--junitxml={report}",
        *plugins,
        *ignored,
    ]
    ended = subprocess.run(
        [
            *command,
            "-k",
            " and ".join(f"not {name}" for name in NOT_YET),
            *(list(map(node_id, only)) or ["test/integration"]),
        ],
        cwd=suite,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    print(ended.stdout[-20_000:])
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}": next(
            (child.tag for child in case if child.tag in {"failure", "error", "skipped"}), "passed"
        )
        for case in cases
    }
