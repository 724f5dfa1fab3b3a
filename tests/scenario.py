"""Scenarios as text: blocks of commands, below each `----` and what must come out. A new scenario
needs no code.

    heartbeat broker=1 epoch=10     # the old process wakes up
    ----
    error STALE_BROKER_EPOCH

A command is a verb, bare words, and name=value pairs; `#` begins a comment. A block whose commands
say nothing reads `ok`. A folder under tests/scripts with a stage.py takes part: its `stage()` makes
the machine that the commands are played to. Knows no machine.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol

SCRIPTS = Path(__file__).parent / "scripts"
RULE = "----"


class Words:
    """The words behind a verb. What the stage did not read is a mistake in the script."""

    def __init__(self, text: str) -> None:
        parts = text.split()
        self.bare = [part for part in parts if "=" not in part]
        self.named = dict(part.split("=", 1) for part in parts if "=" in part)
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.named

    def get(self, name: str, default: str = "") -> str:
        self._read.add(name)
        return self.named.get(name, default)

    def __getitem__(self, name: str) -> str:
        self._read.add(name)
        return self.named[name]

    def number(self, name: str, default: int | None = None) -> int:
        return int(self[name] if default is None else self.get(name, str(default)))

    def numbers(self, name: str) -> tuple[int, ...]:
        """`1,2,3`; nothing is the empty tuple."""
        return tuple(int(each) for each in self.get(name).split(",") if each)

    def flag(self, name: str) -> bool:
        """A bare word that is there or not."""
        return name in self.bare

    @property
    def unread(self) -> set[str]:
        return self.named.keys() - self._read


class Stage(Protocol):
    def do(self, verb: str, words: Words) -> Iterable[str]:
        """Play one command and say what came out, a line each."""


@dataclass
class Block:
    commands: list[str] = field(default_factory=list)  # as written, comments and all
    expected: list[str] | None = None  # None: a block of comments

    def play(self, stage: Stage) -> "Block":
        if self.expected is None:
            return self
        said = [
            line
            for command in self.commands
            for line in _do(stage, command.partition("#")[0].strip())
        ]
        return Block(self.commands, said or ["ok"])

    def __str__(self) -> str:
        return "\n".join(
            self.commands if self.expected is None else [*self.commands, RULE, *self.expected]
        )


def _do(stage: Stage, command: str) -> Iterator[str]:
    if not command:
        return
    verb, _, rest = command.partition(" ")
    words = Words(rest)
    yield from stage.do(verb, words)
    if words.unread:
        raise ValueError(f"{verb} does not know {', '.join(sorted(words.unread))}: {command}")


@dataclass
class Script:
    path: Path
    blocks: list[Block]

    @property
    def name(self) -> str:
        return f"{self.folder}/{self.path.stem}"

    @property
    def folder(self) -> str:
        return self.path.parent.name

    @property
    def expected(self) -> str:
        return _text(self.blocks)

    def play(self) -> str:
        stage: Stage = import_module(f"tests.scripts.{self.folder}.stage").stage()
        return _text(block.play(stage) for block in self.blocks)


def _text(blocks: Iterable[Block]) -> str:
    return "\n\n".join(map(str, blocks)) + "\n"


def parse(text: str) -> list[Block]:
    """Blocks are parted by empty lines. Commands without a rule get one when they are rewritten."""
    blocks = []
    for part in filter(None, (part.strip("\n") for part in text.split("\n\n"))):
        lines = part.split("\n")
        if RULE in lines:
            rule = lines.index(RULE)
            blocks.append(Block(lines[:rule], lines[rule + 1 :]))
        else:
            blocks.append(Block(lines, None if all(line.startswith("#") for line in lines) else []))
    return blocks


def scripts() -> list[Script]:
    folders = [stage.parent for stage in sorted(SCRIPTS.glob("*/stage.py"))]
    return [
        Script(path, parse(path.read_text()))
        for folder in folders
        for path in sorted(folder.glob("*.txt"))
    ]
