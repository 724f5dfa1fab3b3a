"""Blocks of code in the documents, and how each language is run: with sybil, a page at a time.

A block that cannot be run has a marker before it, with the reason:

    <!-- skip: next "needs three machines" -->
    <!-- skip: next if(no_gssapi, reason="needs raftka[gssapi]") -->

Blocks of Python on Spark's pages are parsed, and what they import from raftka is looked up: tests/
pipeline/ runs Spark, which takes minutes.
"""

import ast
import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from raftka.cluster.properties import parse
from raftka.metadata.configs.settings import NodeSettings
from raftka.security.client_properties import check_client_properties
from tests.docs.shell import Failed, Shell
from tests.docs.stand_in import parse as parse_command
from tests.docs.stand_in import pip
from tests.kit.documents import ROOT

PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
FENCE = re.compile(r"^ *```(\w*)$", re.MULTILINE)
MARKER = re.compile(r"^<!-- skip: next ?(.*) -->$", re.MULTILINE)
SPARK = ("docs/pipeline.md", "docs/pipeline/")
# Files that a page's commands read, which its reader has.
FILES = {"docs/pipeline/project.md": ("hours.sql",)}
NO_CODE = "text"  # pictures made of letters
# Blocks that another test runs: page, language.
RUN_ELSEWHERE = {
    ("docs/testing.md", "python"): "tests/testing/test_plugin.py",
    ("docs/testing-faults.md", "python"): "tests/testing/test_fault_docs.py",
    ("docs/testing-clusters.md", "python"): "tests/testing/test_plugin.py",
    ("docs/testing-waits.md", "python"): "tests/testing/test_plugin.py",
    ("docs/sql.md", "python"): "tests/sql/test_client.py",
    ("docs/bridge.md", "console"): "tests/clients/test_bridge_transcripts.py",
    ("docs/first-patch.md", "python"): "tests/docs/test_first_patch.py",
    ("docs/first-patch.md", "sh"): "tests/docs/test_first_patch.py",
    ("docs/first-patch.md", "diff"): "tests/docs/test_first_patch.py",
    ("docs/migrate.md", "properties"): "tests/clients/test_mirror_maker.py",
    ("docs/three-machines.md", "properties"): "tests/docs/test_three_machines.py",
    ("docs/three-machines.md", "sh"): "tests/docs/test_three_machines.py",
}
# What a fragment of a node's properties stands in.
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
    "advertised.listeners": "CLIENTS://localhost:9092",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "CLIENTS",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
    "log.dirs": "data",
}
CLIENT = "security.protocol"  # is in a fragment of a client's properties


def fences(text: str) -> list[str]:
    """Return the languages of a page's blocks; "" where a block names none."""
    return [match[1] for match in FENCE.finditer(text)][::2]


def console(text: str, shell: Shell) -> None:
    """Run `$ ` lines, and compare what they print: numbers may differ, blanks too. A long number
    of the page stands for what was printed in its place, in later commands too.
    """
    for session in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = session.partition("\n")
        for number, printed in shell.numbers.items():
            command = re.sub(rf"\b{number}\b", printed, command)
        out = shell.script(command)
        if _shape(out) != _shape(shown):
            raise Failed(f"$ {command}\nshown:\n{shown}\nprinted:\n{out}")
        pairs = zip(shown.split(), out.split(), strict=True)
        shell.numbers |= {here: there for here, there in pairs if re.fullmatch(r"\d{4,}", here)}


def _shape(text: str) -> list[list[str]]:
    return [re.sub(r"\d+", "N", line).split() for line in text.splitlines() if line.strip()]


def properties(text: str) -> None:
    """Check a node's properties, or a client's, with all that raftka checks in them."""
    given = parse(text)
    if CLIENT in given:
        check_client_properties(given)
    else:
        NodeSettings.from_properties(given if "process.roles" in given else {**NODE, **given})


def unit(text: str) -> None:
    """Check a unit of systemd: its form, and the command that it starts."""
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    program, *arguments = shlex.split(parser["Service"]["ExecStart"])
    assert Path(program).name == "raftka", program
    assert parser["Service"]["Type"] == "notify"
    parse_command(arguments)


def profiles(text: str) -> None:
    """Check a file of profiles: each section's properties."""
    for name, section in tomllib.loads(text).items():
        check_client_properties(dict(_flat(section)))
        assert section.get("bootstrap_server"), name


def _flat(section: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in section.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{name}.")
        elif name != "bootstrap_server":
            found.append((f"{prefix}{name}", str(value)))
    return found


def yaml(text: str) -> None:
    """Check YAML; where it declares streams or outputs, as the pipeline checks them."""
    from yaml import safe_load

    given = safe_load(text)
    if given.keys() & {"streams", "outputs"}:
        from raftka.pipeline.flows.streams import load

        with TemporaryDirectory() as folder:
            file = Path(folder, "streams.yml")
            file.write_text(text)
            load(file)


def dockerfile(text: str) -> None:
    """Check the first instruction, and what pip installs."""
    lines = [line.split() for line in text.splitlines()]
    assert lines[0][0] == "FROM"
    for words in lines:
        if words[:3] == ["RUN", "pip", "install"]:
            end = words.index("&&") if "&&" in words else len(words)
            pip([word.strip("'") for word in words[2:end]])


def imports(text: str) -> None:
    """Parse Python, and look up what it imports from raftka; run nothing."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("raftka"):
            names = (ROOT / str(node.module).replace(".", "/") / "__init__.py").read_text()
            for alias in node.names:
                assert re.search(rf"\b{alias.name}\b", names), alias.name


def jsons(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)


def ways(shell: Shell, page: str = "") -> dict[str, Callable[[str], object]]:
    """Return what runs, or checks, a block of each language; each raises where a block is wrong."""
    return {
        "sh": shell.script,
        "console": lambda text: console(text, shell),
        "python": imports if page.startswith(SPARK) else shell.python,
        "properties": properties,
        "ini": unit,
        "toml": profiles,
        "yaml": yaml,
        "json": jsons,
        "dockerfile": dockerfile,
    }


def document(page: Path, shell: Shell) -> Document:
    """Parse a page: its examples are the blocks with the languages of `ways`, and the markers."""

    def evaluator(way: Callable[[str], object]) -> Callable[[Example], None]:
        def evaluate(example: Example) -> None:
            way(example.parsed)

        return evaluate

    name = str(page.relative_to(ROOT))
    for file in FILES.get(name, ()):
        shell.touch(file)
    here = {
        language: evaluator(way)
        for language, way in ways(shell, name).items()
        if (name, language) not in RUN_ELSEWHERE
    }
    parsers = [CodeBlockParser(language, evaluate) for language, evaluate in here.items()]
    # sql: a marker stands before each block
    found = Sybil(parsers=[*parsers, CodeBlockParser("sql"), SkipParser()]).parse(page)
    found.namespace["no_gssapi"] = find_spec("gssapi") is None
    return found
