"""The rules of the house, as functions over syntax trees: floors, rooms, purity, sizes, flags.
Imports none of the modules that it reads; docs/architecture.md tells the reasons.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.kit.imports import OUTSIDE, OUTSIDE_OF_PURE, imports, module_name

ROOT = Path(__file__).parents[2]
SOURCES = ("raftka", "compat", "tests", "bench", "tools", "examples")
MAX_COLUMNS = 100
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 70
MAX_MODULES = 20  # of a folder, __init__.py not counted
# one file for each API or family
LARGER = {
    "raftka/broker/handlers": 75,
    "raftka/wire/messages": 40,
}

MIN_LINES = 60  # of a module that one module alone imports: with fewer it belongs into that one
FAMILIES = ("raftka/broker/handlers/", "raftka/wire/messages/")  # one file for each API
# Modules that are smaller, and the reason. Those that docs/map.md names need none.
SMALL_MODULES = {
    "raftka/broker/telemetry/turn_times.py": "the node uses telemetry, its parts do not live there",
    "raftka/metadata/controller/extensions.py": "one file for each family of commands",
    "raftka/runtime/real/allocator.py": "the C library belongs to the real runtime",
    "compat/zookeeper_bridge/machine/writes/topics.py": "one file for each kind of write",
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
    "raftka.regular_expressions": 0,
    "raftka.properties_file": 0,
    "raftka.versions": 0,
    "raftka.runtime": 0,
    "raftka.client": 1,
    "raftka.http": 1,
    "raftka.log": 1,
    "raftka.share": 1,
    "raftka.metadata": 2,
    "raftka.replication": 2,
    "raftka.coordinator": 2,
    "raftka.security": 0,
    "raftka.schemas": 0,
    "raftka.broker": 3,
    "raftka.client.blocking": 4,
    "raftka.http.thread": 4,
    "raftka.http.streams": 4,
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
    "client_metrics",
    "controller",
    "replica",
    "logs",
    "delivery",
    "coordinators",
    "produce",
    "fetch",
    "share",
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
REAL_CLIENTS = ("raftka.chaos.live.clients",)  # it shows that libraries work with a node
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
    "raftka.versions",
)
# These plant bugs and run the tests of others under them, to show that each test finds its bug.
RUN_TESTS = re.compile(r"tests/mutants/scenarios\w*\.py|tests/\w+/test_planted\w*\.py")
PIPELINE = "raftka.pipeline"
SQL = "raftka.sql"
SCHEMAS = "raftka.schemas"
SCHEMA_LIBRARIES = ("google.protobuf", "jsonschema_rs", "grpc_tools", "avro", "fastavro")
# The broker imports the rest of raftka.schemas: these two import the libraries.
FORMATS, VALUES = "raftka.schemas.formats", "raftka.schemas.values"
# It imports a library with the first value that has a schema, and says which extra has it.
DECODING = "raftka.console.decoding"
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
        within(module, each) for each in (SCHEMAS, REGISTRY, PIPELINE, SQL, DECODING)
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
    if path.startswith(("raftka/", "compat/", "tools/")):
        return f"imports {target}: tests are not installed"
    if path.startswith("bench/") and not within(target, "tests.kit"):
        return f"imports {target}: of tests, bench/ imports tests/kit/ only"
    if is_in_test(target) and not RUN_TESTS.fullmatch(path):
        return f"imports {target}: helpers belong to tests/kit/ or to a module that is no test"
    return None


def small_modules(
    sources: Mapping[str, str], named: Iterable[str], least: int = MIN_LINES
) -> dict[str, str]:
    """Return modules of fewer than `least` lines that exactly one other imports, with that one.
    `named`: modules that may be small; those of one file for each API may be, too.
    """
    paths = {module_name(path): path for path in sources}
    importers: dict[str, set[str]] = {}
    for path, source in sources.items():
        for _, target in imports(ast.parse(source), path):
            module = target if target in paths else target.rpartition(".")[0]
            if module in paths and paths[module] != path:
                importers.setdefault(paths[module], set()).add(path)
    return {
        path: next(iter(users))
        for path, users in importers.items()
        if len(users) == 1
        and len(sources[path].splitlines()) < least
        and path not in named
        and not path.endswith("__init__.py")
        and not path.startswith(FAMILIES)
    }


def check_calls(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    """Find calls that need no import of their own: open(), os.urandom through a whole module."""
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
    """Yield the nodes inside a function, without the functions inside it."""
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


QUESTIONS = {"What", "Who", "Whom", "Whose", "Which", "How", "Whether", "Where", "When", "Why"}


def check_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings that begin with a question word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
            if first and first[0].rstrip(",.:") in QUESTIONS:
                yield getattr(node, "lineno", 1), f"a docstring begins with {first[0]}"


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
    found += check_docstrings(tree)
    return [f"{path}:{line}: {said}" for line, said in sorted(found)]


def sources() -> list[Path]:
    return sorted(p for top in SOURCES for p in (ROOT / top).rglob("*.py"))
