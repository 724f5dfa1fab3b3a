"""Tries of a package where only Python is: each is a shell script. Beside them the figures of a
first use: seconds, and the size of the environment.
"""

import shutil
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tools.release.places import (
    DEBIANS,
    PYTHONS,
    UNSTABLE,
    Place,
    find_python,
    in_debian,
    in_interpreter,
    why_no_debian,
)

PLUGIN_TEST = """
def test_a_record_comes_back(raftka_cluster, raftka_topic):
    assert raftka_cluster.bootstrap_servers and raftka_topic
"""
# a node with TLS and certificates of clients, on free ports
NODE_FILE = """
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
client, controller = [each.getsockname()[1] for each in sockets]
print(f'''process.roles=broker,controller
node.id=1
listeners=SSL://localhost:{client},CONTROLLER://localhost:{controller}
listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SSL
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:{controller}
log.dirs=tls
ssl.keystore.location=store.pem
ssl.truststore.location=cert.pem
ssl.client.auth=required''')
"""
# bytes of the installed packages, with the bytecode that pip makes and without
SIZE = """
import os, sys, sysconfig
sizes = {True: 0, False: 0}
for folder, _, names in os.walk(sysconfig.get_path("purelib")):
    if "/pip" not in folder and "/setuptools" not in folder:
        for name in names:
            sizes[name.endswith(".pyc")] += os.path.getsize(os.path.join(folder, name))
print(sum(sizes.values()), sizes[False])
"""
LARGEST_BYTES = 25_000_000  # of the base package with its dependencies, without bytecode

START = (
    "(VENV/bin/raftka broker start --dev --port 0 > ready & echo $! > pid); "
    "until grep -qs bootstrap.servers ready; do kill -0 $(cat pid); sleep 0.02; done; "
    "export RAFTKA_BOOTSTRAP_SERVER=$(sed -n 's/bootstrap.servers=//p' ready); "
)
STOP = "kill $(cat pid)"
TRIES = {
    "install": "$PYTHON -m venv venv && venv/bin/pip install --quiet FILE",
    "version names the commit": "venv/bin/raftka --version | grep -E 'commit [0-9a-f]{12}'",
    "python -m raftka": "venv/bin/python -m raftka --version",
    "no checkout": (
        'venv/bin/python -c "import raftka, sys; assert raftka.__file__.startswith(sys.prefix), '
        'raftka.__file__"'
    ),
    "typed": "test -f venv/lib/python3*/site-packages/raftka/py.typed",
    "demo": "seq 1 2000 > lines && venv/bin/raftka demo lines",
    "a node without a file": START.replace("VENV", "venv")
    + "venv/bin/raftka topics create t && echo one | venv/bin/raftka produce t && "
    "venv/bin/raftka consume t --from start --exit-at-end | grep one; " + STOP,
    "TLS with PEM files": (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem; "
        "cat key.pem cert.pem > store.pem; venv/bin/python node_file.py > tls.properties; "
        "(venv/bin/raftka broker start tls.properties 2> tls.log & echo $! > pid); "
        "at=localhost:$(sed -n 's/.*SSL:..localhost:\\([0-9]*\\),.*/\\1/p' tls.properties); "
        'x="--bootstrap-server $at -X security.protocol=SSL -X ssl.truststore.location=cert.pem '
        '-X ssl.keystore.location=store.pem"; '
        "until venv/bin/raftka topics create tls $x; do kill -0 $(cat pid); sleep 0.1; done; "
        "echo one | venv/bin/raftka produce tls $x && "
        "venv/bin/raftka consume tls --from start --exit-at-end $x | grep one; " + STOP
    ),
    "simulated lives": (
        "venv/bin/pip install --quiet 'FILE[chaos]' && venv/bin/raftka chaos sim --seeds 1-3"
    ),
    "pytest plugin": "venv/bin/pip install --quiet pytest && venv/bin/pytest -q test_plugin.py",
}
# pip's cache is warm: the first try has filled it
MEASURE = (
    "$PYTHON -m venv warm; date +%s.%N; warm/bin/pip install --quiet FILE; date +%s.%N; "
    + START.replace("VENV", "warm")
    + "echo one | warm/bin/raftka produce first > sent; date +%s.%N; "
    + STOP
    + "; warm/bin/python size.py"
)


class Figures(NamedTuple):
    install_s: float
    record_s: float  # from the end of pip to the first acknowledged record
    all_bytes: int
    bytes_without_bytecode: int


def try_file(place: Place, file: Path) -> dict[str, str]:
    """Try the package there and print the outcomes; return the failures: the end of the output by
    the name of the try.
    """
    (place.folder / "test_plugin.py").write_text(PLUGIN_TEST)
    (place.folder / "size.py").write_text(SIZE)
    (place.folder / "node_file.py").write_text(NODE_FILE)
    shutil.copy(file, place.folder)
    _say(place, file, place.run("$PYTHON --version").stdout.strip())
    wrong = {}
    for name, script in TRIES.items():
        done = place.run(script.replace("FILE", f"./{file.name}"))
        if done.returncode:
            wrong[name] = (done.stdout + done.stderr)[-2000:]
        _say(place, file, f"{name}: {'FAILED' if done.returncode else 'ok'}")
    done = place.run(MEASURE.replace("FILE", f"./{file.name}"))
    try:
        figures = read_figures(done.stdout)
    except ValueError:
        wrong["figures"] = (done.stdout + done.stderr)[-2000:]
        return wrong
    _say(
        place,
        file,
        f"pip {figures.install_s:.1f} s, then {figures.record_s:.2f} s to the first record; "
        f"{figures.bytes_without_bytecode / 1e6:.1f} MB, "
        f"{figures.all_bytes / 1e6:.1f} MB with bytecode",
    )
    if figures.bytes_without_bytecode > LARGEST_BYTES:
        wrong["size"] = f"the environment is larger than {LARGEST_BYTES / 1e6:g} MB"
    return wrong


def _say(place: Place, file: Path, text: str) -> None:
    print(f"{place.name}  {file.name}  {text}", flush=True)


def read_figures(output: str) -> Figures:
    """Read the output of MEASURE. Raises ValueError."""
    began, installed, acknowledged, sizes = output.strip().splitlines()
    all_bytes, without = sizes.split()
    return Figures(
        float(installed) - float(began),
        float(acknowledged) - float(installed),
        int(all_bytes),
        int(without),
    )


def try_everywhere(files: Iterable[Path], scratch: Path, skipped: Iterable[str] = ()) -> bool:
    """Try each file in each Debian, and the wheel with the interpreters of this machine; return
    whether all held. Print the reason where a place is left out; a missing Debian does not hold
    unless it is in `skipped`.
    """
    holds = True
    debians = []
    for name in DEBIANS:
        if name in skipped:
            print(f"{name}: not tried, as asked")
        elif why := why_no_debian():
            print(f"{name}: not tried: {why}", file=sys.stderr)
            holds = False
        else:
            debians.append(partial(in_debian, name, scratch))
    wheel_only = []
    for version in PYTHONS:
        if python := find_python(version):
            wheel_only.append(partial(in_interpreter, version, python, scratch))
        elif version in UNSTABLE and not why_no_debian() and UNSTABLE[version] not in skipped:
            wheel_only.append(partial(in_debian, UNSTABLE[version], scratch))
        else:
            print(f"python {version}: not tried: no interpreter here, and no Debian that has it")
    for file in files:
        for enter in [*debians, *(wheel_only if file.suffix == ".whl" else [])]:
            with enter() as place:
                for name, output in try_file(place, file).items():
                    holds = False
                    print(f"--- {place.name} {file.name} {name}\n{output}", file=sys.stderr)
    return holds
