"""Functions of the sources that no source calls: each is a feature that is believed to work. Such a
function is called, deleted, or listed here.

A name counts as called where it stands in any source beside a definition. Functions with a
decorator that registers them are called by that.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("raftka", "compat")
PLAIN_DECORATORS = {
    "property",
    "cached_property",
    "staticmethod",
    "classmethod",
    "contextmanager",
    "override",
    "abstractmethod",
    "lru_cache",
    "cache",
}
WORD = re.compile(r"[A-Za-z]\w*")

SPARK = "Spark calls it"
PYSYNCOBJ = "pysyncobj calls it, or the dispatch of its messages by name"
PARSER = "httptools calls it"
TRIO = "Trio calls it"
CONFLUENT = "confluent-kafka and kafka-python call it"
SCENES = "for scenarios of mutants and tests of the simulation"
TESTING = "the interface of raftka.testing for other projects"
CODEC = "the other half of a codec, which tests and players use"
SEEN = "what tests look at"

# of the file and of the name: regular expressions; the reason
CALLED_FROM_OUTSIDE: tuple[tuple[str, str, str], ...] = (
    (r"compat/pyspark_", r".*[a-z][A-Z].*", SPARK),
    (
        r"raftka/pipeline/(flows/graph|projects/trucks/library/moves)",
        r"register_auto_cdc_flow|handle\w+",
        SPARK,
    ),
    (
        r"raftka/metadata/quorum/raft",
        r"on_\w+|_SyncObj__\w+|_checkCommandsToApply|[a-z]+[A-Z]\w+",
        PYSYNCOBJ,
    ),
    (r"raftka/http/\w+_reader", r"on_\w+", PARSER),
    (r"raftka/sql/prompt/terminal", r"get_completions", "prompt_toolkit calls it"),
    (r"raftka/sql/client", r"connect_async", "the interface for programs: docs/sql.md"),
    (
        r"raftka/runtime/simulated/tasks",
        r"start_clock|deadline_to_sleep_time|task_scheduled|before_task_step",
        TRIO,
    ),
    (r"raftka/chaos/live/clients", r"on_partitions_(revoked|assigned)", CONFLUENT),
    (
        r"raftka/chaos/simulated/scene|raftka/chaos/simulation",
        r"assert_nothing_lost|wait_whole|write_for_nobody|other_than|at_work",
        SCENES,
    ),
    (
        r"raftka/chaos/simulated/faults/moments",
        r"_isolate",
        "nemeses.py calls it by the name of the blow",
    ),
    (r"raftka/runtime/simulated/network", r"isolate", SCENES),
    (
        r"raftka/testing/",
        r"renew_certificate|fail_next|lose_requests|lose_answers|pytest_\w+"
        r"|stale_leader|hidden_node|preferred_replica",
        TESTING,
    ),
    (
        r"raftka/cli/(connection_options|tree/nodes)",
        r"value_from_envvar|format_options|format_commands",
        "click calls it",
    ),
    (
        r"raftka/testing/containers",
        r"get_\w+|with_\w+|waiting_for|maybe_emulate_amd64",
        "the interface of testcontainers",
    ),
    (r"compat/zookeeper_bridge/", r"pack_batch|encode_multi", CODEC),
    (r"compat/zookeeper_bridge/tree/quotas", r"in_force", SEEN),
    (r"raftka/broker/controller/suspects", r"holding", SEEN),
    (r"raftka/cluster/ask", r"leader_address", "bench/ asks"),
    (r"raftka/log/log", r"delete_old_segments", "a whole round of delete_oldest, for tests"),
    (r"raftka/replication/partition", r"follower_offset", SEEN),
    (r"raftka/wire/frame", r"buffer_bytes", SEEN),
)


class Names:
    """The functions that sources define, and the names that they use."""

    def __init__(self) -> None:
        self.defined: dict[str, list[str]] = defaultdict(list)  # by name: files
        self.used: Counter[str] = Counter()
        self.words: dict[str, set[str]] = {}  # in short texts, by file
        self.prefixes: dict[str, set[str]] = {}  # of names that are made with getattr, by file

    def read(self, file: str, text: str) -> None:
        words, prefixes = self.words.setdefault(file, set()), self.prefixes.setdefault(file, set())
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    if all(
                        _name_of(each) in PLAIN_DECORATORS for each in node.decorator_list
                    ) and not node.name.startswith("__"):
                        self.defined[node.name].append(file)
                case ast.Name():
                    self.used[node.id] += 1
                case ast.Attribute():
                    self.used[node.attr] += 1
                case ast.Call(
                    func=ast.Name(id="getattr"),
                    args=[_, ast.JoinedStr(values=[ast.Constant(value=str(prefix)), *_]), *_],
                ):
                    prefixes.add(prefix)
                case ast.Constant(value=str(value)) if len(value) < 80:
                    words.update(WORD.findall(value))

    def uncalled(self) -> Iterator[tuple[str, str]]:
        """Files and names."""
        for name, files in self.defined.items():
            for file in files if not self.used[name] else ():
                by_text = name in self.words[file] or any(
                    name.startswith(prefix) for prefix in self.prefixes[file]
                )
                if not by_text and name.lstrip("_") not in self.words[file]:
                    yield file, name


def _name_of(decorator: ast.expr) -> str:
    decorator = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (
        decorator.attr
        if isinstance(decorator, ast.Attribute)
        else decorator.id
        if isinstance(decorator, ast.Name)
        else ""
    )


@pytest.fixture(scope="module")
def names() -> Names:
    found = Names()
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            found.read(str(path.relative_to(ROOT)), path.read_text())
    return found


def test_every_function_is_called_or_has_a_reason(names: Names) -> None:
    known = [(re.compile(file), re.compile(name)) for file, name, _ in CALLED_FROM_OUTSIDE]
    left = [
        each
        for each in names.uncalled()
        if not any(file.match(each[0]) and name.fullmatch(each[1]) for file, name in known)
    ]

    assert not left, "call them, delete them, or give the reason why they are called from outside"


def test_every_reason_is_needed(names: Names) -> None:
    uncalled = list(names.uncalled())
    needless = [
        row
        for row in CALLED_FROM_OUTSIDE
        if not any(re.match(row[0], file) and re.fullmatch(row[1], name) for file, name in uncalled)
    ]

    assert not needless


def test_a_planted_function_is_found() -> None:
    found = Names()
    found.read(
        "a.py",
        "def called(): ...\ndef roll_if_needed(): ...\nclass A:\n    @property\n    def "
        "size(self): ...\n    def _slow(self): ...\n",
    )
    found.read("b.py", "called()\nx = 'roll_if_needed'\n")

    assert sorted(found.uncalled()) == [
        ("a.py", "_slow"),
        ("a.py", "roll_if_needed"),
        ("a.py", "size"),
    ]
