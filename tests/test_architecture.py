"""The house holds: floors, purity, sizes. Reads sources as syntax trees and imports none of them;
docs/architecture.md tells the reasons.

Every rule is shown to bite on a planted violation, at the end of the file.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.kit.imports import OUTSIDE, OUTSIDE_OF_PURE, imports, module_name

ROOT = Path(__file__).parent.parent
SOURCES = ("raftka", "compat", "tests", "bench", "examples")
MAX_COLUMNS = 100
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 70
MAX_MODULES = 20  # of a folder, __init__.py not counted
# one file for each API or family
LARGER = {
    "raftka/broker/handlers": 65,
    "raftka/wire/messages": 30,
}

MAX_METHODS = 4  # of an interface of the broker; a property is an attribute
MAX_FLAGS = 3  # boolean fields of a class: with more, an Enum and a table of transitions are due
# Classes that have more, and the reason.
MANY_FLAGS = {
    "raftka/chaos/verdict.py:Rules": "promises of a workload, each independent of the others",
    "raftka/chaos/simulated/swarm.py:Plan": "kinds of choices that a seed may draw",
    "raftka/chaos/simulated/swarm.py:Settings": "choices that a seed draws, each by itself",
}

# lines of raftka/ and compat/ with the word Any: mypy sees nothing behind it. It may only fall
MAX_ANY = 288

# The longest name that fits a module's decides. A floor sees what is below it, and its own package.
FLOORS = {
    "raftka.wire": 0,
    "raftka.limits": 0,
    "raftka.json_values": 0,
    "raftka.checksum": 0,
    "raftka.properties_file": 0,
    "raftka.runtime": 0,
    "raftka.client": 1,
    "raftka.http": 1,
    "raftka.log": 1,
    "raftka.metadata": 2,
    "raftka.replication": 2,
    "raftka.coordinator": 2,
    "raftka.security": 0,
    "raftka.schemas": 0,
    "raftka.broker": 3,
    "raftka.client.blocking": 4,
    "raftka.http.thread": 4,
    "raftka.runtime.real": 3,
    "raftka.runtime.simulated": 3,
    "raftka": 4,
    "zookeeper_bridge": 4,
    "pyspark_raftka": 4,
    "pyspark_raftka_delta": 4,
    "pyspark_raftka_iceberg": 4,
    "pyspark_raftka_stream": 4,
    "pyspark_raftka_table": 4,
    "pyspark_raftka_webhook": 4,
}
# Rooms of the broker, the lowest first. A room sees those below it, and itself; types count.
# docs/architecture.md says what each holds.
ROOMS = (
    "telemetry",
    "context",
    "purgatory",
    "work",
    "network",
    "controller",
    "replica",
    "logs",
    "coordinators",
    "produce",
    "fetch",
    "handlers",
    "exporter",
    "refusal",
    "node",
)
OPEN_FLOORS = {0, 4}  # the ground is one piece, and the edges may use each other
COMPAT = (
    "zookeeper_bridge",
    "pyspark_raftka",
    "pyspark_raftka_delta",
    "pyspark_raftka_iceberg",
    "pyspark_raftka_stream",
    "pyspark_raftka_table",
    "pyspark_raftka_webhook",
    "compat",
)
THE_DOOR = "raftka.runtime.real"  # the one package that touches the outside

FORBIDDEN_NAMES = {"os.urandom", "uuid.uuid1", "uuid.uuid4", "trio.to_thread"}
KAFKA_CLIENTS = {"kafka", "confluent_kafka", "aiokafka"}
# what they show is that libraries work with a node
REAL_CLIENTS = ("raftka.cluster.demo", "raftka.cluster.traffic", "raftka.chaos.live.clients")
# These alone make frames of requests: TLS and SASL are built in the first; the checker's client
# stands apart.
OPENS = ("raftka.client.connection", "raftka.chaos.live.clients.wire")
# The registry knows the broker as a client. The libraries of formats and values come with extras.
REGISTRY = "raftka.registry"
REGISTRY_SEES = (
    "raftka.schemas",
    "raftka.client",
    "raftka.http",
    "raftka.wire",
    "raftka.runtime",
    "raftka.security",
    "raftka.limits",
    "raftka.json_values",
    "raftka.properties_file",
)
# These plant bugs and run the tests of others under them, to show that each test finds its bug.
RUN_TESTS = re.compile(r"tests/mutants/scenarios\w*\.py|tests/\w+/test_planted\w*\.py")
PIPELINE = "raftka.pipeline"
SCHEMAS = "raftka.schemas"
SCHEMA_LIBRARIES = ("google.protobuf", "jsonschema_rs", "grpc_tools", "avro", "fastavro")
# The broker imports the rest of raftka.schemas: these two import the libraries.
FORMATS, VALUES = "raftka.schemas.formats", "raftka.schemas.values"
# They touch the outside although they are on floor 0: protoc is a process, and the others make
# values of the standard library.
OUTSIDE_OF_SCHEMAS = {
    "raftka.schemas.formats.protobuf.protoc": {"subprocess", "tempfile", "pathlib"},
    "raftka.schemas.values.avro": {"io"},
    "raftka.schemas.values.protobuf": {"datetime"},
}
ENGINE = "pysyncobj"
HTTP, HTTP_PARSERS = "raftka.http", ("httptools", "http.server", "h11")
ENGINE_USERS = ("raftka.metadata.quorum.pysyncobj_core",)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def home(module: str) -> str:
    """The entry of FLOORS that a module belongs to."""
    return max((package for package in FLOORS if within(module, package)), key=len)


def check_floor(module: str, target: str) -> str | None:
    if any(within(target, package) for package in COMPAT):
        return (
            None
            if any(within(module, package) for package in COMPAT)
            else f"imports {target}: nothing imports compat"
        )
    if not within(target, "raftka") or target in ("raftka", "raftka.__version__"):
        return None
    here, there = home(module), home(target)
    if (
        here == there
        or FLOORS[there] < FLOORS[here]
        or (FLOORS[here] == FLOORS[there] and FLOORS[here] in OPEN_FLOORS)
    ):
        return None
    return f"floor {FLOORS[here]} imports {target} of floor {FLOORS[there]}"


def check_room(module: str, target: str) -> str | None:
    here, there = (
        name.split(".")[2] if within(name, "raftka.broker") and name != "raftka.broker" else ""
        for name in (module, target)
    )
    if here in ROOMS and there in ROOMS and ROOMS.index(there) > ROOMS.index(here):
        return f"room {here} imports {target}: {there} is above it"
    return None


def check_schemas(module: str, target: str) -> str | None:
    if any(within(target, library) for library in SCHEMA_LIBRARIES):
        return (
            None
            if within(module, FORMATS) or within(module, VALUES)
            else (
                f"imports {target}: it comes with an extra, and only raftka/schemas/formats/ and "
                "values/ import it"
            )
        )
    if (
        within(module, FORMATS)
        and within(target, "raftka")
        and not any(within(target, each) for each in (FORMATS, "raftka.json_values"))
    ):
        return f"imports {target}: formats of schemas know nothing but texts"
    if any(within(target, each) for each in (FORMATS, VALUES)) and not any(
        within(module, each) for each in (SCHEMAS, REGISTRY, PIPELINE)
    ):
        return f"imports {target}: it needs the libraries of an extra"
    return None


def check_registry(module: str, target: str) -> str | None:
    seen = (REGISTRY, *REGISTRY_SEES, "raftka.__version__")
    if (
        within(module, REGISTRY)
        and within(target, "raftka")
        and not any(within(target, each) for each in seen)
    ):
        return f"imports {target}: the registry knows the broker as a client only"
    return None


def check_purity(module: str, target: str) -> str | None:
    floor, top = FLOORS[home(module)], target.split(".", maxsplit=1)[0]
    if top in KAFKA_CLIENTS and not any(within(module, each) for each in REAL_CLIENTS):
        return f"imports {top}: raftka's one Kafka client is raftka.client"
    if target == "raftka.wire.frame.encode_request" and module not in OPENS:
        return f"imports {target}: requests go through raftka.client"
    if any(within(target, each) for each in HTTP_PARSERS) and not within(module, HTTP):
        return f"imports {target}: servers of HTTP use raftka.http"
    if floor == 4 or home(module) == THE_DOOR:
        return None
    if top == ENGINE and not module.startswith(ENGINE_USERS):
        return f"imports {ENGINE}: only metadata/quorum/pysyncobj_core.py imports it"
    if top in OUTSIDE_OF_SCHEMAS.get(module, ()):
        return None
    if target in FORBIDDEN_NAMES:
        return f"imports {target}: ask the runtime"
    if target != "random.Random" and top in (OUTSIDE_OF_PURE if floor < 3 else OUTSIDE):
        return f"imports {top}: floor {floor} reaches the outside through runtime/ only"
    return None


def is_in_test(target: str) -> bool:
    parts = target.split(".")
    return any(
        name.startswith("test_") and ROOT.joinpath(*parts[:depth], f"{name}.py").is_file()
        for depth, name in enumerate(parts)
    )


def check_tests(path: str, target: str) -> str | None:
    """Helpers of tests are in modules that are no tests, those for bench/ in tests/kit/."""
    if not within(target, "tests"):
        return None
    if path.startswith(("raftka/", "compat/")):
        return f"imports {target}: tests are not installed"
    if path.startswith("bench/") and not within(target, "tests.kit"):
        return f"imports {target}: of tests, bench/ imports tests/kit/ only"
    if is_in_test(target) and not RUN_TESTS.fullmatch(path):
        return f"imports {target}: helpers belong to tests/kit/ or to a module that is no test"
    return None


def check_calls(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    """What needs no import of its own: open(), os.urandom through a whole module."""
    if FLOORS[home(module)] == 4 or home(module) == THE_DOOR:
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
            and FLOORS[home(module)] < 3
        ):
            yield node.lineno, "calls open(): files come from the runtime"
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and f"{node.value.id}.{node.attr}" in FORBIDDEN_NAMES
        ):
            yield node.lineno, f"uses {node.value.id}.{node.attr}: ask the runtime"


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """What is inside a function, without the functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


TABLES = [  # of data, a row a line
    name
    for name, ignored in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"][
        "lint"
    ]["per-file-ignores"].items()
    if "E501" in ignored
]
PRAGMA = re.compile(r"  # (type: ignore|noqa|fmt:).*$")


def check_width(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Lines that are too wide; a note to a tool at the end of a line does not count."""
    if any(
        Path(path).match(name.removesuffix("**") + "*" * name.endswith("**")) for name in TABLES
    ):
        return
    for number, line in enumerate(source.splitlines(), 1):
        columns = len(PRAGMA.sub("", line))
        if columns > MAX_COLUMNS and not line.lstrip().startswith("from "):
            yield number, f"{columns} columns, {MAX_COLUMNS} are allowed"


def check_raises(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id.isupper():
            yield (
                node.lineno,
                f"raises {node.exc.id}, which is made once: each time adds to its traceback, with "
                "all that is in the frames",
            )


def is_boolean(value: ast.expr | None, parameters: set[str]) -> bool:
    match value:
        case ast.Constant(value=bool()) | ast.UnaryOp(op=ast.Not()) | ast.Compare():
            return True
        case ast.Name(id=name):
            return name in parameters
        case ast.Call(func=ast.Name(id="bool")):
            return True
    return False


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, bool]]:
    """Yield target, value, and whether the target is declared to be a bool."""
    if isinstance(node, ast.AnnAssign):
        is_bool = isinstance(node.annotation, ast.Name) and node.annotation.id == "bool"
        yield node.target, node.value, is_bool
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from (
                    (each, value, False)
                    for each, value in zip(target.elts, node.value.elts, strict=False)
                )
            else:
                yield target, node.value, False


def flags(owner: ast.ClassDef) -> set[str]:
    """Return the boolean fields of a class. Private fields of pysyncobj are its own."""
    found = {
        target.id
        for node in owner.body
        for target, _, is_bool in assigned(node)
        if is_bool and isinstance(target, ast.Name)
    }
    for function in owner.body:
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        parameters = {
            each.arg
            for each in (*function.args.args, *function.args.kwonlyargs)
            if isinstance(each.annotation, ast.Name) and each.annotation.id == "bool"
        }
        found |= {
            target.attr
            for node in ast.walk(function)
            for target, value, is_bool in assigned(node)
            if isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
            and (is_bool or is_boolean(value, parameters))
        }
    return {name for name in found if not name.startswith("_SyncObj__")}


def check_classes(tree: ast.Module, path: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        names = flags(node)
        if len(names) > MAX_FLAGS and f"{path}:{node.name}" not in MANY_FLAGS:
            yield node.lineno, f"{node.name} has {len(names)} boolean fields: {sorted(names)}"
        if path.startswith("raftka/broker/") and "Protocol" in map(ast.unparse, node.bases):
            methods = [
                each.name
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                and "property" not in map(ast.unparse, each.decorator_list)
            ]
            if len(methods) > MAX_METHODS:
                yield node.lineno, f"{node.name} has {len(methods)} methods: {methods}"


def check_functions(tree: ast.Module, module: str | None) -> Iterator[tuple[int, str]]:
    generators_allowed = module is None or FLOORS[home(module)] == 4 or home(module) == THE_DOOR
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {lines} lines, {MAX_FUNCTION_LINES} are allowed"
        if (
            isinstance(node, ast.AsyncFunctionDef)
            and not generators_allowed
            and any(isinstance(n, ast.Yield) for n in own_nodes(node))
        ):
            yield (
                node.lineno,
                f"{node.name} is an async generator: its end depends on the garbage collector",
            )


def violations(path: str, source: str) -> list[str]:
    tree, lines = ast.parse(source), source.count("\n")
    found = []
    if lines > MAX_FILE_LINES:
        found.append((1, f"{lines} lines, {MAX_FILE_LINES} are allowed"))
    if source.strip() and not ast.get_docstring(tree):
        found.append((1, "does not say what it is: no docstring"))
    module = module_name(path) if path.startswith(("raftka/", "compat/")) else None
    for line, target in imports(tree, path):
        if said := check_tests(path, target):
            found.append((line, said))
    if module is not None:
        for line, target in imports(tree, path):
            checks = (check_floor, check_room, check_schemas, check_registry, check_purity)
            found += [(line, said) for check in checks if (said := check(module, target))]
        found += [*check_calls(tree, module), *check_classes(tree, path)]
    found += [*check_functions(tree, module), *check_raises(tree), *check_width(path, source)]
    return [f"{path}:{line}: {said}" for line, said in sorted(found)]


def sources() -> list[Path]:
    return sorted(p for top in SOURCES for p in (ROOT / top).rglob("*.py"))


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
    "raftka.runtime.simulated.disk.NodeFiles": "a check reads a copied disk, outside of a world",
    "raftka.chaos.simulated.faults.nemeses.Nemesis": "tests use it alone; a life arms it",
    "raftka.client.blocking.client.Client": "users have it; the pipeline words its errors",
    "raftka.client.blocking.client.Patience": "users have it; the pipeline words its errors",
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

    assert packages - on_a_floor <= {
        "raftka." + edge for edge in ("cli", "cluster", "chaos", "pipeline", "registry", "testing")
    }


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
        ("raftka/cluster/traffic.py", "from kafka import KafkaProducer"),
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
