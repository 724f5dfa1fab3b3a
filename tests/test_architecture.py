"""The house holds: floors, purity, sizes. Reads sources as syntax trees and imports none of them;
docs/architecture.md tells the reasons.

Every rule is shown to bite on a planted violation, at the end of the file.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.kit.house import (
    LARGER,
    MANY_FLAGS,
    MAX_ANY,
    MAX_FILE_LINES,
    MAX_FLAGS,
    MAX_FUNCTION_LINES,
    MAX_MODULES,
    ROOT,
    SMALL_MODULES,
    flags,
    home,
    own_nodes,
    small_modules,
    sources,
    violations,
    within,
)
from tests.kit.imports import imports, module_name


@pytest.mark.parametrize("path", [str(p.relative_to(ROOT)) for p in sources()])
def test_the_house_holds(path: str) -> None:
    assert violations(path, (ROOT / path).read_text()) == []


def crowded(paths: Iterable[str]) -> list[str]:
    folders = Counter(
        str(Path(path).parent)
        for path in paths
        if path.startswith(("raftka/", "compat/")) and not path.endswith("__init__.py")
    )
    allowed = {folder: LARGER.get(folder, MAX_MODULES) for folder in folders}
    return [
        f"{folder} has {count} modules, {allowed[folder]} are allowed"
        for folder, count in folders.items()
        if count > allowed[folder]
    ]


def test_no_folder_is_crowded() -> None:
    assert crowded(str(path.relative_to(ROOT)) for path in sources()) == []
    assert crowded(f"raftka/log/m{number}.py" for number in range(21)) == [
        "raftka/log has 21 modules, 20 are allowed"
    ]


def test_a_small_module_has_several_importers_or_a_reason() -> None:
    texts = {
        name: path.read_text()
        for path in sources()
        if (name := str(path.relative_to(ROOT))).startswith(("raftka/", "compat/"))
    }
    named = set(re.findall(r"`([\w/]+\.py):", (ROOT / "docs/map.md").read_text()))
    found = small_modules(texts, named)

    assert {path: user for path, user in found.items() if path not in SMALL_MODULES} == {}
    assert sorted(SMALL_MODULES.keys() - found.keys()) == [], "reasons that are not needed"


def test_a_small_module_with_one_importer_is_found() -> None:
    planted = {
        "raftka/log/part.py": "x = 1\n",
        "raftka/log/large.py": "x = 1\n" * 60,
        "raftka/log/shared.py": "x = 1\n",
        "raftka/log/answer.py": "x = 1\n",
        "raftka/log/log.py": "from raftka.log import part, large\nfrom raftka.log.shared import x\n"
        "from .answer import x\n",
        "raftka/log/other.py": "import raftka.log.shared\n",
        "raftka/broker/handlers/one.py": "x = 1\n",
        "raftka/broker/node.py": "from raftka.broker.handlers.one import x\n",
    }

    assert small_modules(planted, ["raftka/log/answer.py"]) == {
        "raftka/log/part.py": "raftka/log/log.py"
    }


def circles(imported: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Sets of modules that import each other, directly or through others (strongly connected, by
    Tarjan).
    """
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for target in imported.get(module, ()):
            if target not in order:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in path:
                lowest[module] = min(lowest[module], order[target])
        if lowest[module] == order[module]:
            circle = set(path[path.index(module) :])
            del path[path.index(module) :]
            if len(circle) > 1:
                found.append(circle)

    for module in imported:
        if module not in order:
            visit(module)
    return found


def test_modules_import_each_other_in_no_circle() -> None:
    paths = {
        module_name(name): name
        for path in sources()
        if (name := str(path.relative_to(ROOT))).startswith(("raftka/", "compat/"))
    }
    imported = {}
    for module, path in paths.items():
        names = {target for _, target in imports(ast.parse((ROOT / path).read_text()), path)}
        targets = {name if name in paths else name.rpartition(".")[0] for name in names}
        imported[module] = sorted(
            name for name in targets & paths.keys() if name != module and not within(module, name)
        )
    assert list(circles(imported)) == []
    assert circles({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": [], "e": ["d"]}) == [
        {"a", "b", "c"}
    ]


def lines_with_any(texts: Iterable[str]) -> int:
    return sum(1 for text in texts for line in text.splitlines() if re.search(r"\bAny\b", line))


def test_types_are_named() -> None:
    assert (
        lines_with_any(
            path.read_text()
            for path in sources()
            if path.is_relative_to(ROOT / "raftka") or path.is_relative_to(ROOT / "compat")
        )
        <= MAX_ANY
    )
    assert lines_with_any(["x: Any\nAnyApi = 1\ny: list[Any]", "Many"]) == 2


# classes whose one heir lives in another file, with the reason
HEIRS_ELSEWHERE = {
    "raftka.metadata.quorum.raft_engine.Engine": "an adapter of pysyncobj, which the voter refines",
    "raftka.chaos.simulated.faults.nemeses.Nemesis": "tests use it alone; a life arms it",
    "raftka.client.blocking.client.Client": "users have it; the pipeline words its errors",
    "raftka.pipeline.records.decoding.Decoder": "pickled to workers, with an envelope or without",
    "zookeeper_bridge.tree.projection.Projection": "writes compute one as well; Layout adds events",
    "pyspark_raftka.StreamReader": "Spark's interface; shared reading is a plugin of its own",
    "pyspark_raftka.Task": "Spark's interface; shared reading is a plugin of its own",
}


def bases_of(path: str, tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Each class of a module, and its bases, by their full names."""
    module = module_name(path)
    known = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    known |= {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known |= {each.name: f"{module}.{each.name}" for each in classes}
    for each in classes:
        texts = [
            ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            for base in each.bases
        ]
        heads = [text.partition(".") for text in texts]
        yield (
            f"{module}.{each.name}",
            [known.get(head, head) + dot + rest for head, dot, rest in heads],
        )


def heirs_elsewhere(modules: Mapping[str, str]) -> dict[str, str]:
    """Classes that have one heir, in another file: it belongs to them. Exceptions and protocols
    apart.
    """
    bases: dict[str, list[str]] = {}
    file: dict[str, str] = {}
    for path, source in modules.items():
        for name, found in bases_of(path, ast.parse(source)):
            bases[name], file[name] = found, path
    heirs: dict[str, list[str]] = {}
    for name, found in bases.items():
        for base in found:
            heirs.setdefault(base, []).append(name)

    def is_exempt(name: str) -> bool:
        return name.endswith(("Protocol", "Error", "Exception")) or any(
            is_exempt(base) for base in bases.get(name, ())
        )

    return {
        name: mine[0]
        for name, mine in heirs.items()
        if name in bases and len(mine) == 1 and file[mine[0]] != file[name] and not is_exempt(name)
    }


def test_no_class_has_its_one_heir_in_another_file() -> None:
    modules = {
        path: (ROOT / path).read_text()
        for path in (str(each.relative_to(ROOT)) for each in sources())
        if path.startswith(("raftka/", "compat/"))
    }
    found = heirs_elsewhere(modules)

    assert sorted(found.keys() - HEIRS_ELSEWHERE.keys()) == []
    assert sorted(HEIRS_ELSEWHERE.keys() - found.keys()) == [], "reasons that are not needed"


def test_an_heir_in_another_file_is_found() -> None:
    chain = {
        "raftka/log/x.py": "class Base:\n    pass\nclass Beside(Base):\n    pass\n",
        "raftka/log/y.py": "from raftka.log import x\nclass Heir(x.Beside):\n    pass\n",
        "raftka/log/z.py": "class Known(Protocol):\n    pass\nclass No(ValueError):\n    pass\n",
        "raftka/log/w.py": "from raftka.log.z import Known, No\n"
        "class Does(Known):\n    pass\nclass Never(No):\n    pass\n",
    }

    assert heirs_elsewhere(chain) == {"raftka.log.x.Beside": "raftka.log.y.Heir"}
    chain["raftka/log/v.py"] = "from raftka.log.x import Beside\nclass Second(Beside):\n    pass\n"
    assert heirs_elsewhere(chain) == {}


def test_every_package_has_a_floor() -> None:
    packages = {
        f"raftka.{p.stem}"
        for p in (ROOT / "raftka").iterdir()
        if p.suffix in ("", ".py") and not p.name.startswith((".", "__"))
    }
    on_a_floor = {package for package in packages if home(package) != "raftka"}

    edges = (
        "backup",
        "balance",
        "chaos",
        "cli",
        "cluster",
        "console",
        "doctor",
        "pipeline",
        "registry",
        "sql",
        "testing",
    )
    assert packages - on_a_floor <= {"raftka." + edge for edge in edges}


def test_few_classes_have_many_flags_and_all_that_are_listed_do() -> None:
    texts = {path: (ROOT / path.partition(":")[0]).read_text() for path in MANY_FLAGS}
    counts = {
        path: len(flags(node))
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and node.name == path.partition(":")[2]
    }

    assert len(MANY_FLAGS) <= 3
    assert counts.keys() == MANY_FLAGS.keys()
    assert min(counts.values()) > MAX_FLAGS


# Decisions of the data path that stand in one function: methods, and the functions of
# raftka/broker/ that call them.
DECIDED_ONCE = {
    "fetched": {"raftka/broker/fetch/reading.py:read_for_follower"},  # LeaderState
    # of Log: batches of clients, and the broker's own records
    "client_batches": {
        "raftka/broker/produce/append.py:append_batches",
        "raftka/broker/produce/append.py:append_uniform_batches",
        "raftka/broker/replica/partition.py:append",
        "raftka/broker/replica/partition.py:append_made",
    },
}


def users(texts: Mapping[str, str], method: str) -> set[str]:
    """Return the functions, as path:name, that call a method of this name or of a part with this
    name, or keep it to call it later.
    """
    found = set()
    for path, text in texts.items():
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            nodes = list(own_nodes(function))
            used = [node.func for node in nodes if isinstance(node, ast.Call)]
            used += [node.value for node in nodes if isinstance(node, ast.Assign)]
            if any(
                isinstance(each, ast.Attribute) and each.attr == method
                for expression in used
                for each in ast.walk(expression)
            ):
                found.add(f"{path}:{function.name}")
    return found


@pytest.mark.parametrize("method", DECIDED_ONCE)
def test_one_function_decides(method: str) -> None:
    texts = {
        name: path.read_text()
        for path in sources()
        if (name := str(path.relative_to(ROOT))).startswith("raftka/broker/")
    }

    assert users(texts, method) == DECIDED_ONCE[method]
    planted = {"raftka/broker/x.py": f"def f(x):\n    x.{method}(1)"}
    assert users(texts | planted, method) == DECIDED_ONCE[method] | {"raftka/broker/x.py:f"}


LONG = "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES

PLANTED = {
    "upwards": (
        "raftka/log/log.py",
        "from raftka.metadata.image import MetadataImage",
        "floor 1 imports raftka.metadata.image.MetadataImage of floor 2",
    ),
    "upwards, whole module": (
        "raftka/metadata/image.py",
        "import raftka.broker.node",
        "floor 2 imports raftka.broker.node of floor 3",
    ),
    "upwards, relative": (
        "raftka/wire/frame.py",
        "from ..log import log",
        "floor 0 imports raftka.log.log of floor 1",
    ),
    "upwards, for typing": (
        "raftka/broker/node.py",
        "if TYPE_CHECKING:\n    from raftka.cluster import launch",
        "of floor 4",
    ),
    "upwards, in a function": (
        "raftka/log/log.py",
        "def f():\n    import raftka.broker.node",
        "floor 1 imports raftka.broker.node of floor 3",
    ),
    "a room above": (
        "raftka/broker/replica/partition.py",
        "from raftka.broker.logs.mover import LogMover",
        "room replica imports raftka.broker.logs.mover.LogMover: logs is above it",
    ),
    "the node, for its type": (
        "raftka/broker/handlers/fetch.py",
        "if TYPE_CHECKING:\n    from raftka.broker.node import Node",
        "room handlers imports raftka.broker.node.Node: node is above it",
    ),
    "sideways on floor 2": (
        "raftka/replication/partition.py",
        "from raftka.metadata.image import MetadataImage",
        "floor 2 imports",
    ),
    "the real door": (
        "raftka/broker/node.py",
        "from raftka.runtime.real.runtime import open_runtime",
        "floor 3 imports raftka.runtime.real.runtime.open_runtime",
    ),
    "compat": ("raftka/cli/x.py", "import zookeeper_bridge.tree.tree", "nothing imports compat"),
    "compat by its folder": (
        "raftka/cli/x.py",
        "from compat import zookeeper_bridge",
        "nothing imports compat",
    ),
    "clock": ("raftka/log/log.py", "import time", "imports time: floor 1"),
    "clock in the broker": (
        "raftka/broker/node.py",
        "from time import monotonic",
        "imports time: floor 3",
    ),
    "random": (
        "raftka/metadata/controller/assignment.py",
        "import random",
        "imports random: floor 2",
    ),
    "random function": (
        "raftka/metadata/controller/assignment.py",
        "from random import Random, choice",
        "imports random: floor 2",
    ),
    "os": ("raftka/wire/frame.py", "import os.path", "imports os: floor 0"),
    "socket": ("raftka/client/connection.py", "import socket", "imports socket: floor 1"),
    "a client that blocks": (
        "raftka/broker/replica/fetcher.py",
        "from raftka.client.blocking.client import Client",
        "floor 3 imports raftka.client.blocking.client.Client of floor 4",
    ),
    "socket in the broker": ("raftka/broker/node.py", "import socket", "imports socket: floor 3"),
    "threads": (
        "raftka/runtime/simulated/world.py",
        "import threading",
        "imports threading: floor 3",
    ),
    "select": ("raftka/log/log.py", "import select", "imports select: floor 1"),
    "trio": ("raftka/replication/follower.py", "import trio", "imports trio: floor 2"),
    "uuid": ("raftka/metadata/controller/topics.py", "import uuid", "imports uuid: floor 2"),
    "uuid4 in the broker": (
        "raftka/broker/node.py",
        "import uuid\nx = uuid.uuid4()",
        "uses uuid.uuid4",
    ),
    "urandom in the broker": (
        "raftka/broker/node.py",
        "from os import urandom",
        "imports os.urandom",
    ),
    "to_thread in the broker": (
        "raftka/broker/node.py",
        "import trio\ntrio.to_thread.run_sync(f)",
        "uses trio.to_thread",
    ),
    "subprocess": (
        "raftka/metadata/quorum/journal.py",
        "import subprocess",
        "imports subprocess: floor 2",
    ),
    "open": ("raftka/metadata/quorum/journal.py", "f = open('x')", "calls open()"),
    "the broker in the registry": (
        "raftka/registry/log.py",
        "from raftka.log.log import Log",
        "the registry knows the broker as a client only",
    ),
    "framing in the formats of schemas": (
        "raftka/schemas/formats/avro/parser.py",
        "import raftka.schemas.framing",
        "formats of schemas know nothing but texts",
    ),
    "the registry below it": (
        "raftka/schemas/client.py",
        "import raftka.registry.state",
        "floor 0 imports raftka.registry.state of floor 4",
    ),
    "a library of schemas": (
        "raftka/cli/x.py",
        "from google.protobuf import descriptor_pb2",
        "only raftka/schemas/formats/ and values/ import it",
    ),
    "a library of schemas in the pipeline": (
        "raftka/pipeline/records/columns.py",
        "def f():\n    import fastavro",
        "only raftka/schemas/formats/ and values/ import it",
    ),
    "formats of schemas in the broker": (
        "raftka/broker/produce/schemas/checks.py",
        "from raftka.schemas.formats.avro import parse",
        "it needs the libraries of an extra",
    ),
    "a process in the formats of schemas": (
        "raftka/schemas/formats/avro/parser.py",
        "import subprocess",
        "imports subprocess: floor 0",
    ),
    "a client library": (
        "raftka/broker/handlers/fetch.py",
        "from kafka import KafkaConsumer",
        "raftka's one Kafka client is raftka.client",
    ),
    "another one": (
        "raftka/client/connection.py",
        "import confluent_kafka",
        "raftka's one Kafka client is raftka.client",
    ),
    "in a command": (
        "raftka/cli/admin/topics.py",
        "def f():\n    from kafka import KafkaAdminClient",
        "raftka's one Kafka client is raftka.client",
    ),
    "in compat": (
        "compat/zookeeper_bridge/verbs.py",
        "import kafka.errors",
        "raftka's one Kafka client is raftka.client",
    ),
    "requests by hand": (
        "raftka/cluster/ask.py",
        "from raftka.wire.frame import encode_request",
        "requests go through raftka.client",
    ),
    "another HTTP server": (
        "raftka/registry/server.py",
        "import httptools",
        "servers of HTTP use raftka.http",
    ),
    "Python's HTTP server": (
        "raftka/pipeline/page.py",
        "from http.server import BaseHTTPRequestHandler",
        "servers of HTTP use raftka.http",
    ),
    "the thread of a server in a node": (
        "raftka/broker/node.py",
        "from raftka.http.thread import ServerThread",
        "floor 3 imports raftka.http.thread.ServerThread of floor 4",
    ),
    "sockets in HTTP": ("raftka/http/server.py", "import socket", "imports socket: floor 1"),
    "the engine": (
        "raftka/broker/controller/quorum.py",
        "import pysyncobj",
        "only metadata/quorum/pysyncobj_core.py imports it",
    ),
    "a test, by a test": (
        "tests/broker/test_x.py",
        "from tests.broker.test_fetch import filled",
        "imports tests.broker.test_fetch.filled: helpers belong to tests/kit/",
    ),
    "a test as a module": (
        "tests/broker/stage.py",
        "from tests.broker import test_fetch",
        "imports tests.broker.test_fetch: helpers belong to tests/kit/",
    ),
    "a helper of tests, by bench": (
        "bench/x.py",
        "from tests.broker.stage import Stage",
        "bench/ imports tests/kit/ only",
    ),
    "a helper of tests, by the library": (
        "raftka/cli/x.py",
        "import tests.kit.imports",
        "tests are not installed",
    ),
    "an async generator": (
        "raftka/broker/node.py",
        "async def f():\n    yield 1",
        "f is an async generator",
    ),
    "an exception that is made once": (
        "raftka/metadata/x.py",
        "NO = ValueError()\ndef f():\n    raise NO",
        "raises NO",
    ),
    "a long function": ("compat/zookeeper_bridge/tree/tree.py", LONG, "f has 71 lines"),
    "a long method": (
        "raftka/cli/x.py",
        "class C:\n" + "".join(f"    {line}\n" for line in LONG.splitlines()),
        "f has 71 lines",
    ),
    "flags": (
        "raftka/cli/x.py",
        "class C:\n    a: bool\n    def __init__(self, b: bool) -> None:\n"
        "        self.b, self.c = b, True\n        self.d = self.c = not b\n",
        "C has 4 boolean fields",
    ),
    "a wide interface": (
        "raftka/broker/x.py",
        "class C(Protocol):\n" + "".join(f"    def f{n}(self) -> None: ...\n" for n in range(5)),
        "C has 5 methods",
    ),
    "a question": (
        "raftka/cli/x.py",
        'def f():\n    """What it returns."""',
        "a docstring begins with What",
    ),
    "a wide line": ("raftka/cli/x.py", "x = 1  # " + 92 * "x", "101 columns, 100 are allowed"),
    "a long file": ("tests/test_x.py", "x = 1\n" * MAX_FILE_LINES, "801 lines"),
    "no docstring": ("raftka/cli/x.py", "", "does not say what it is"),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_violation_is_found(rule: str) -> None:
    path, source, said = PLANTED[rule]
    text = f'"""Planted."""\n{source}' if rule != "no docstring" else "x = 1\n"

    found = violations(path, text)

    assert len(found) == 1, found
    assert said in found[0]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "raftka/log/log.py",
            "from random import Random\nfrom raftka.runtime.interfaces import Files\nfrom "
            "raftka.wire.errors import Code\nfrom . import segment",
        ),
        (
            "raftka/client/connection.py",
            "from raftka.runtime.interfaces import Connection\nfrom raftka.limits import "
            "REQUEST_BYTES",
        ),
        ("raftka/metadata/quorum/pysyncobj_core.py", "import sys, pysyncobj"),
        (
            "raftka/runtime/real/runtime.py",
            "import os, socket, threading, time, trio\nasync def f():\n    yield 1",
        ),
        (
            "raftka/runtime/real/files.py",
            "import os, threading\nfrom raftka.runtime.real.runtime import open_runtime",
        ),
        (
            "raftka/runtime/simulated/world.py",
            "import trio\nfrom raftka.runtime.interfaces import Clock\nfrom "
            "raftka.client.connection import ClientConnection",
        ),
        (
            "raftka/broker/node.py",
            "import trio\nfrom raftka.log.log import Log\nfrom uuid import UUID\nfrom "
            "raftka.broker.handlers import fetch\ndef f():\n    yield 1",
        ),
        (
            "raftka/cli/admin/topics.py",
            "import time\nfrom raftka.cluster import launch\nfrom raftka.runtime.real.runtime "
            "import open_runtime",
        ),
        ("bench/x.py", "from tests.kit.toolchains import Toolchains"),
        ("tests/broker/test_x.py", "from tests.broker.stage import Stage"),
        ("tests/mutants/scenarios_x.py", "from tests.broker.test_fetch import test_x"),
        ("tests/registry/test_planted_bugs.py", "from tests.registry import test_api"),
        ("raftka/schemas/formats/protobuf/protoc.py", "import subprocess, tempfile"),
        ("raftka/schemas/values/avro.py", "from io import BytesIO\nimport fastavro"),
        ("raftka/chaos/live/clients/clients.py", "import kafka, confluent_kafka, aiokafka"),
        ("raftka/chaos/live/clients/wire.py", "from raftka.wire.frame import encode_request"),
        (
            "compat/zookeeper_bridge/server/bridge.py",
            "from zookeeper_bridge.tree.tree import Tree\nfrom raftka.metadata.image import "
            "MetadataImage",
        ),
        ("raftka/cli/x.py", "\n".join(LONG.splitlines()[:MAX_FUNCTION_LINES])),
        ("raftka/cli/x.py", "class C:\n    a: bool\n    b: bool\n    c: bool\n    d: int\n"),
    ],
)
def test_what_is_allowed_is_not_found(path: str, source: str) -> None:
    assert violations(path, f'"""Fine."""\n{source}\n') == []
